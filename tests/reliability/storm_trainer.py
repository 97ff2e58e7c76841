"""Training process of the storm: the real worker, loop and checkpoints on the fake environment, slowed to be hit."""

from __future__ import annotations

import sys
import time

from echelon.jobs import worker
from echelon.jobs.spec import read_spec
from echelon.runs import RunPaths
from echelon.telemetry.events import EventUpdate

KEEP = 10**6


def work(paths: RunPaths, link: worker.RunLink, resume: str | None) -> None:
    from echelon.training import loop
    from tests.training.conftest import make_small_run
    from tests.training.fakes import FakeEnv

    plan = read_spec(paths).config
    config = make_small_run(
        total_steps=10**9, max_updates=plan["updates"], save_every=2, num_envs=2, keep_checkpoints=KEEP
    )

    def emit(event):
        link.emit(event)
        if isinstance(event, EventUpdate):
            time.sleep(plan["pause_s"])

    loop.run(
        config, emit, link.should_stop, run_dir=paths.root, resume=resume, make_env=FakeEnv,
        want_checkpoint=link.want_checkpoint, sync_records=link.sync_records,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(worker.main(work=work))
