"""Several processes that train together on one machine: ``python -m echelon.jobs.ranks N MODULE RUN [arguments]``.

Starts N times ``python -m MODULE RUN`` with torchrun's environment variables, in its own process group, so that what
kills the group kills them all. The first to fail decides how it ends; the others, who would wait for it for ever, are
killed. Where several machines train together, torchrun starts the same module there.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from echelon.jobs.process import PYTHON_MODULE

POLL_S = 0.1
GRACE_S = 10.0
"""How long the others may take to end by themselves once one has."""
SETTLE_S = 1.0
"""The same once one has failed."""

COMPLETED, STOPPED = 0, 4
ENDED_WELL = (COMPLETED, STOPPED)
"""Exit codes of a worker that ended as it should."""

UNCATCHABLE = (signal.SIGKILL, signal.SIGSTOP)


def start(count: int, command: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    """Start ``command`` ``count`` times; each is told its rank, and where the first one can be met."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    if sys.platform == "darwin":
        meeting["GLOO_SOCKET_IFNAME"] = "lo0"
    sizes = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, **meeting, **sizes, **rank})
        for rank in ranks
    ]


def wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Return the code of the first process to fail, else that of the first rank.

    A process that loses another fails soon after it, so a death by signal (a negative code) counts before a failure.
    An orphan kills what it started and leaves: nobody would notice the end of it.
    """
    parent, deadline = os.getppid(), math.inf
    codes: list[int] = []
    while len(codes) < len(processes):
        codes = [process.returncode for process in processes if process.poll() is not None]
        failed = [code for code in codes if code not in ENDED_WELL]
        if codes:
            deadline = min(deadline, time.monotonic() + (SETTLE_S if failed else GRACE_S))
        if time.monotonic() > deadline or os.getppid() != parent:
            break
        time.sleep(POLL_S)
    for process in processes:
        process.kill()
        process.wait()
    failed = [code for code in codes if code not in ENDED_WELL]
    return min(failed, default=processes[0].returncode)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(argv: Sequence[str]) -> int:
    """Run the processes to their end; die of the signal that the failed one died of."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = wait(start(int(argv[0]), [*PYTHON_MODULE, *argv[1:]]))
    if code < 0:
        if -code not in UNCATCHABLE:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
