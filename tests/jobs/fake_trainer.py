"""Fake trainer without torch: reports, writes progress and stops like the real one, in the scenario of its spec."""

from __future__ import annotations

import sys
import time

from echelon.jobs import worker
from echelon.jobs.spec import read_spec
from echelon.telemetry.events import EventCheckpoint, EventEnd, EventResume, EventStart, EventUpdate

UPDATE_S = 0.02


def work(paths, link, resume):
    """Run the scenario ``config.part`` until the updates are done or a stop is requested."""
    part = read_spec(paths).config.get("part", "steady")
    if part == "bug":
        raise RuntimeError("the same\nexplosion")
    first = 1
    if resume:
        link.emit(EventResume(update=2, global_step=200, checkpoint=resume))
        first = 3
    link.emit(EventStart(device="cpu", total_steps=1000, start_update=first - 1, preset="fake"))
    last = 5 if part == "short" else 10_000
    for update in range(first, last + 1):
        time.sleep(UPDATE_S)
        link.emit(EventUpdate(update=update, global_step=update * 100, elapsed_s=update * UPDATE_S))
        level = link.should_stop()
        if level >= (2 if part == "stubborn" else 1):
            return finish(link, update, "stopped")
    return finish(link, last, "completed")


def finish(link, update, reason):
    if link.should_stop() < 2:
        link.emit(EventCheckpoint(update=update, global_step=update * 100, path=f"checkpoints/step-{update * 100}"))
    link.emit(EventEnd(reason=reason, update=update, global_step=update * 100))


if __name__ == "__main__":
    worker.PROGRESS_S = 0.0
    sys.exit(worker.main(work=work))
