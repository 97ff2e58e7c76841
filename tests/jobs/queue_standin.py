"""Stand-in of the queue's process whose training jobs are cheap: ``python -m tests.jobs.queue_standin RUN``.

A job works for a moment under a lock of its own, saves that it is done, and writes a line per session into the file
``sessions`` of its run: the number of the session, or ``overlap`` where another session of the run works.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

from echelon.files import atomic_write
from echelon.jobs import queue_worker, worker
from echelon.jobs.kinds import KINDS, JobKind
from echelon.jobs.queue_worker import Dispatcher, serve
from echelon.jobs.spec import read_spec
from echelon.telemetry.events import EventEnd, EventStart, EventUpdate
from tests.jobs.clusters import ask_often

QUEUE = JobKind(module="tests.jobs.queue_standin", summary="start stand-ins")
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


def queue(paths, link, resume):
    ask_often()
    queue_worker.RETRY_S, queue_worker.MIN_FREE_MB = 0.2, 0.2
    serve(Dispatcher(paths.root.parent, {**KINDS, "train": STAND_IN}), link, POLL_S)


if __name__ == "__main__":
    is_queue = Path(sys.argv[1]).name == ".queue"
    sys.exit(worker.main(work=queue if is_queue else job, phase="working"))
