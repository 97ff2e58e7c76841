"""Durable protocols: ``python -m tests.reliability.protocols FOLDER NAME...`` writes, and marks what is safe.

A mark is recorded when the code under test has returned, that is when a user may rely on what it wrote. Each protocol
has a subfolder of its name, which exists.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from echelon import runs
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store
from echelon.config import RunConfig
from echelon.files import atomic_write, make_folder
from echelon.jobs import queue as queues
from echelon.jobs import worker
from echelon.jobs.evaluations import append_evaluation
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.tickets import Queue, Settings
from echelon.runs import RunPaths
from echelon.telemetry.events import EventCheckpoint, EventEval, EventEvalBatch, EventMatch
from echelon.telemetry.log import EventLog
from tests.reliability.recorder import mark

PROTOCOLS: dict[str, Callable[[Path], None]] = {}
WORLD_SEEDS = (0, 0, 1)
"""World of each replay of the protocol ``replay``."""


def protocol(function: Callable[[Path], None]) -> Callable[[Path], None]:
    PROTOCOLS[function.__name__] = function
    return function


@protocol
def checkpoint(root: Path) -> None:
    """Save three steps, one of them twice, point to the best, and prune."""
    import numpy as np
    import torch

    from echelon.training import checkpoint as checkpoints

    for value, step in enumerate((1, 2, 2, 3)):
        saved = checkpoints.save_checkpoint(
            root / "checkpoints",
            weights={"w": torch.full((3,), float(value))},
            state={"counters": {"update": step}},
            environment={"hp": np.arange(3)},
            carry={"h": torch.ones(2)},
            manifest={"global_step": step},
        )
        mark(f"saved {step} {saved.id}")
        if value == 1:
            checkpoints.mark_best(root / "checkpoints", saved, {"win_rate": 0.5})
            mark(f"best {step}")
    checkpoints.prune(root / "checkpoints", 1)
    mark("pruned")


@protocol
def records(root: Path) -> None:
    """Train on the fake environment as a job does: records and the checkpoints that acknowledge them."""
    from tests.training.conftest import make_small_run
    from tests.training.fakes import FakeEnv

    train(root, make_small_run(total_steps=10**6, max_updates=5, save_every=2, num_envs=2), FakeEnv)


def train(root: Path, config: RunConfig, make_env: Any = None) -> None:
    """Train in the folder ``run`` as a job does, from its newest checkpoint; mark checkpoints, replays and the end."""
    from echelon.training import loop

    paths = RunPaths(root / "run")
    make_folder(paths.checkpoints)

    def work(paths: RunPaths, link: worker.RunLink, resume: str | None) -> None:
        def emit(event):
            link.emit(event)
            if isinstance(event, EventCheckpoint):
                mark(f"saved {event.global_step} {event.id}")
            elif isinstance(event, EventMatch):
                mark(f"replay {Path(event.path).name}")

        loop.run(
            config, emit, link.should_stop, run_dir=paths.root, make_env=make_env, resume=resume,
            want_checkpoint=link.want_checkpoint, sync_records=link.sync_records,
        )  # fmt: skip

    if worker.main([str(paths.root), "--resume", "latest"], work=work) != worker.COMPLETED:
        raise SystemExit(worker.FAILED)
    mark("ended")


@protocol
def replay(root: Path) -> None:
    """Record matches on two worlds, one of which is shared."""
    from tests.replay import synthetic

    keep = synthetic.material
    for number, seed in enumerate(WORLD_SEEDS):
        synthetic.material = lambda seed=seed: keep(seed)
        synthetic.write_match(root / "replays" / f"m{number}.ecr", 2, worlds=root / "replays" / "worlds")
        mark(f"replay m{number}.ecr")


@protocol
def queue(root: Path) -> None:
    """Queue three runs, move the last one to the front, remove one, and set the slots."""
    for name in ("first", "second", "third"):
        paths = RunPaths(root / "home" / name)
        make_folder(paths.root)
        queues.enqueue(paths, JobSpec(kind="train", config={"device": "cpu"}))
        mark(f"queued {name}")
    found = Queue(root / "home")
    with found.editing():
        found.move("third", 0)
    mark("moved third")
    queues.remove_waiting(found, "second")
    mark("removed second")
    with found.editing():
        found.set(Settings(slots={"cpu": 2}))
    mark("slots 2")


@protocol
def league(root: Path) -> None:
    """Plan a round, store its matches, rate it, and close the file."""
    with Store(root / "home" / "league.db") as store:
        with store.editing() as entries:
            for level in ("easy", "medium"):
                entries.add_scripted(level)
        mark("entries")
        names = "heuristic:easy", "heuristic:medium"
        period = store.open_period("job", 1, [Fixture(number, *names, number) for number in range(3)])
        mark("planned")
        for number, winner in enumerate(("blue", "blue", "draw")):
            store.record(period, number, MatchRecord(winner=winner, reason="elimination"))
            mark(f"match {number} {winner}")
        store.close_period(period)
        ratings = {i: entry.rating.rating for i, entry in store.league().entries.items()}
        mark(f"rated {json.dumps(ratings, sort_keys=True)}")
    mark("closed")


@protocol
def job(root: Path) -> None:
    """Create a run, write its spec, a new spec of a resume, and how it ended."""
    runs.new_run_id = lambda preset: f"20260101-000000-{preset}-calm-otter"  # cases write the same files
    paths = runs.create_run("quickstart", root / "new" / "home")
    for number in range(2):
        write_spec(paths, JobSpec(kind="train", config={"number": number}))
        mark(f"spec {number}")
        atomic_write(paths.exit, json.dumps({"code": number}))
        mark(f"exit {number}")


@protocol
def evaluation(root: Path) -> None:
    """Record the batches of an evaluation and append its results to the run, after those of another job."""
    make_folder(root / "job")
    with EventLog(root / "job" / "matches.jsonl") as log:
        for number in range(2):
            log.append(EventEvalBatch(batch=number, opponent="hard", results=[{"seed": number}]))
            log.sync()
            mark(f"batch {number}")
    make_folder(root / "run")
    for job in ("first", "second"):
        result = EventEval(update=1, global_step=1, opponent="hard", episodes=2, win_rate=0.5, job=job)
        append_evaluation(root / "run" / "evals.jsonl", result)
        mark(f"result {job}")


@protocol
def policy(root: Path) -> None:
    """Export a policy, as a submission to the league does, twice to one file."""
    import torch

    from echelon.training.weights import write_export

    make_folder(root / "league")
    for number in range(2):
        write_export({"number": number}, {"w": torch.ones(2)}, root / "league" / "policy.safetensors")
        mark(f"policy {number}")


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names:
        mark(f"protocol {name}")
        PROTOCOLS[name](Path(folder, name))
