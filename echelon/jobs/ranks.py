"""Starts the processes of one job: ``python -m echelon.jobs.ranks [NODESx]N MODULE RUN [arguments]``.

Runs ``python -m MODULE RUN`` N times with torchrun's environment variables, in its own process group, so a signal to
the group reaches all. The first failure determines the exit code, and the other processes, which would wait for the
failed one, are killed. On several nodes of a SLURM job ``srun`` starts this module once a node, with the address of the
first rank: ``NODESxN@HOST:PORT``.
"""

import contextlib
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from echelon.jobs.tickets import PYTHON_MODULE

Child = subprocess.Popen[bytes]
POLL_S = 0.1
GRACE_S = 10.0
"""Time for the remaining processes to end after the first has ended [s]."""
SETTLE_S = 1.0
COUNT = re.compile(r"(?:(\d+)x)?(\d+)(?:@(.+):(\d+))?")
"""Nodes, processes on each, and the address of the first rank."""
SIGNALED = 128
"""What ``srun`` adds to the number of the signal that ended a task."""
COMPLETED, STOPPED = 0, 4
SUCCESS_CODES = (COMPLETED, STOPPED)


def start(count: int, command: Sequence[str], nodes: int = 1, host: str = "", port: str = "") -> list[Child]:
    """Start the ranks of this node; without ``host`` it is the only one."""
    rendezvous = {"MASTER_ADDR": host or "127.0.0.1", "MASTER_PORT": port or str(free_port())}
    if not host:
        rendezvous["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    first = count * int(os.environ["SLURM_NODEID"]) if host else 0
    sizes = {"WORLD_SIZE": str(nodes * count), "LOCAL_WORLD_SIZE": str(count)}
    ranks = [{"RANK": str(first + rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, **rendezvous, **sizes, **rank})
        for rank in ranks
    ]


def start_nodes(nodes: int, count: int, words: Sequence[str]) -> Child:
    """Start this module on every node of the SLURM job, the first of which is this one."""
    at = f"{nodes}x{count}@{socket.gethostname()}:{free_port()}"
    tasks = (f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--cpu-bind=none")
    cores = [f"--cpus-per-task={cpus}" for cpus in [os.environ.get("SLURM_CPUS_PER_TASK")] if cpus]
    # a stopped rank ends with a code of its own while others still save
    ends = ("--kill-on-bad-exit=0", f"--wait={GRACE_S:.0f}")
    command = ["srun", "--overlap", *tasks, *cores, *ends, *PYTHON_MODULE, "echelon.jobs.ranks", at, *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def wait(processes: Sequence[Child]) -> int:
    """Return the exit code of the first process to fail, else that of rank 0.

    A process that loses its peer fails soon after, so termination by a signal (a negative code) takes precedence. Where
    the parent process ends, all processes are killed.
    """
    parent, deadline = os.getppid(), math.inf
    codes: list[int] = []
    while len(codes) < len(processes):
        codes = [process.returncode for process in processes if process.poll() is not None]
        failed = [code for code in codes if code not in SUCCESS_CODES]
        if codes:
            deadline = min(deadline, time.monotonic() + (SETTLE_S if failed else GRACE_S))
        if time.monotonic() > deadline or os.getppid() != parent:
            break
        time.sleep(POLL_S)
    for process in processes:
        process.kill()
        process.wait()
    failed = [code for code in codes if code not in SUCCESS_CODES]
    return min(failed, default=processes[0].returncode)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(argv: Sequence[str]) -> int:
    """Run the processes and return the exit code; re-raise the signal that terminated a process."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    found, words = COUNT.fullmatch(argv[0]), argv[1:]
    assert found is not None, "a supervisor's command"
    nodes, count, host, port = int(found[1] or 1), int(found[2]), found[3] or "", found[4] or ""
    if nodes > 1 and not host:
        code = wait([start_nodes(nodes, count, words)])
        code = SIGNALED - code if code > SIGNALED else code
    else:
        code = wait(start(count, [*PYTHON_MODULE, *words], nodes, host, port))
    if code < 0:
        # some numbers below SIGRTMIN have no handler in the C library, so their effect is the default one already
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
