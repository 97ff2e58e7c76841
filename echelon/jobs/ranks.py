"""Starts the processes of one job on one machine: ``python -m echelon.jobs.ranks N MODULE RUN [arguments]``.

Runs ``python -m MODULE RUN`` N times with torchrun's environment variables, in its own process group, so a signal to
the group reaches all. The first failure determines the exit code, and the other processes, which would wait for the
failed one, are killed. On several machines torchrun starts the same module.
"""

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from echelon.jobs.tickets import PYTHON_MODULE

POLL_S = 0.1
GRACE_S = 10.0
"""Time for the remaining processes to end after the first has ended [s]."""
SETTLE_S = 1.0
COMPLETED, STOPPED = 0, 4
SUCCESS_CODES = (COMPLETED, STOPPED)


def start(count: int, command: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    if sys.platform == "darwin":
        rendezvous["GLOO_SOCKET_IFNAME"] = "lo0"
    sizes = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, **rendezvous, **sizes, **rank})
        for rank in ranks
    ]


def wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
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
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = wait(start(int(argv[0]), [*PYTHON_MODULE, *argv[1:]]))
    if code < 0:
        # some numbers below SIGRTMIN have no handler in the C library, so their effect is the default one already
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
