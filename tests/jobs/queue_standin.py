"""Stand-in of the queue whose training jobs are cheap.

``python -m tests.jobs.queue_standin wait RUN`` is a waiting supervisor, ``python -m tests.jobs.queue_standin RUN`` a
job. A job works for a moment under a lock of its own, saves that it is done, and writes a line per session into the
file ``sessions`` of its run: the number of the session, or ``overlap`` where another session of the run works.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

from echelon.files import atomic_write
from echelon.jobs import queue, tickets, waiter, worker
from echelon.jobs.kinds import KINDS, JobKind
from echelon.jobs.spec import read_spec
from echelon.jobs.tickets import PYTHON_MODULE
from echelon.telemetry.events import EventEnd, EventStart, EventUpdate
from tests.jobs.clusters import ask_often

WAITER = (*PYTHON_MODULE, "tests.jobs.queue_standin", "wait")
STAND_IN = JobKind(module="tests.jobs.queue_standin", summary="work for a moment")
UPDATE_S = 0.02
POLL_S = 0.05


def append(path: Path, line: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def job(paths, link, resume):
    config = read_spec(paths).config
    with open(paths.root / "work.lock", "w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            append(paths.root / "sessions", "overlap")
        append(paths.root / "sessions", "resumed" if resume else "first")
        link.emit(EventStart(device="cpu", preset="fake"))
        for update in range(1, config.get("updates", 3) + 1):
            time.sleep(UPDATE_S)
            link.emit(EventUpdate(update=update, global_step=update * 100))
            if link.should_stop():
                return link.emit(EventEnd(reason="stopped"))
        checkpoint = paths.checkpoints / "done"
        if not checkpoint.exists():
            atomic_write(checkpoint, "done")
            append(paths.root / "results", "done")
        link.emit(EventEnd(reason="completed"))


def wait(argv: list[str]) -> int:
    ask_often()
    tickets.WAITER = waiter.WAITER = WAITER
    waiter.POLL_S, queue.FOLLOW_S, queue.RETRY_S = POLL_S, POLL_S, 0.2
    KINDS["train"] = STAND_IN
    return waiter.main(argv)


if __name__ == "__main__":
    sys.exit(wait(sys.argv[2:]) if sys.argv[1] == "wait" else worker.main(work=job, phase="working"))
