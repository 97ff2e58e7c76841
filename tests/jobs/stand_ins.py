"""Stand-ins for processes of jobs, of which only ``slow`` loads torch: ``python -m tests.jobs.stand_ins ROLE RUN``.

Roles are functions of ``ROLES``, and ``wait``, a waiting supervisor of the queue whose runs have the role ``queue``.
"""

import fcntl
import json
import math
import os
import sys
import time
from pathlib import Path

from echelon.files import atomic_write
from echelon.jobs import worker
from echelon.jobs.config_layers import flatten
from echelon.jobs.kinds import KINDS, JobKind
from echelon.jobs.spec import read_spec
from echelon.jobs.tickets import PYTHON_MODULE
from echelon.runs import read_json
from echelon.telemetry.events import EventCheckpoint, EventEnd, EventEval, EventResume, EventStart, EventUpdate

MODULE = "tests.jobs.stand_ins"
WAITER = (*PYTHON_MODULE, MODULE, "wait")
UPDATE_S, SLOW_UPDATE_S = 0.02, 60.0
UPDATE_S_VARIABLE = "ECHELON_TEST_UPDATE_S"
REAL_VARIABLE = "ECHELON_TEST_REAL"
"""Where it is set, queued runs have the role ``slow``."""
POLL_S, ASK_S = 0.05, 0.3
UPDATE_STEPS, SAVE_EVERY = 100, 3


class StandIn(JobKind):
    """A kind whose module gets its role, which is its summary, as the first argument."""

    def command(self, run, *options):
        words = super().command(run, *options)
        at = words.index(self.module) + 1
        return [*words[:at], self.summary, *words[at:]]


ROLE_NAMES = ("fake", "queue", "trial", "sweep", "slow")
FAKE, QUEUED, TRIAL, SWEEP, SLOW = (StandIn(module=MODULE, summary=role) for role in ROLE_NAMES)


def ask_often() -> None:
    from echelon.jobs import launchers

    launchers.SLURM_ASK_S = ASK_S


def fake(paths, link, resume):
    """Run the scenario ``config.part`` until its updates are done or a stop is requested."""
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
        time.sleep(UPDATE_S if part != "slow" else SLOW_UPDATE_S)
        link.emit(EventUpdate(update=update, global_step=update * 100, elapsed_s=update * UPDATE_S))
        level = link.should_stop()
        if level >= (2 if part == "stubborn" else 1):
            return finish(link, update, "stopped")
    return finish(link, last, "completed")


def finish(link, update: int, reason: str) -> None:
    if link.should_stop() < 2:
        link.emit(EventCheckpoint(update=update, global_step=update * 100, path=f"checkpoints/step-{update * 100}"))
    link.emit(EventEnd(reason=reason, update=update, global_step=update * 100))


def queue(paths, link, resume):
    """Work for a moment under a lock of its own, and record that it is done.

    A session writes a line into the file ``sessions`` of its run, and ``overlap`` where another session works.
    """
    with open(paths.root / "work.lock", "w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            append(paths.root / "sessions", "overlap")
        append(paths.root / "sessions", "resumed" if resume else "first")
        link.emit(EventStart(device="cpu", preset="fake"))
        for update in range(1, read_spec(paths).config.get("updates", 3) + 1):
            time.sleep(UPDATE_S)
            link.emit(EventUpdate(update=update, global_step=update * 100))
            if link.should_stop():
                return link.emit(EventEnd(reason="stopped"))
        checkpoint = paths.checkpoints / "done"
        if not checkpoint.exists():
            atomic_write(checkpoint, "done")
            append(paths.root / "results", "done")
        link.emit(EventEnd(reason="completed"))


def append(path: Path, line: str) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def learned(lr: float, seed: int, steps: float) -> float:
    """Return the win rate of a trial: best at lr = 1e-3, rising with steps, with noise of the seed."""
    quality = math.exp(-((math.log10(lr) + 3.0) ** 2))
    noise = ((seed * 7919 + round(lr * 1e8)) % 97) / 970
    return min(1.0, quality * (1.0 - math.exp(-steps / 1000)) + noise)


def trial(paths, link, resume):
    """Train from the saved state to the pause or the end, and save every ``SAVE_EVERY`` updates."""
    config = flatten(read_spec(paths).config)
    state, saved = paths.checkpoints / "state.json", None
    if resume and (saved := read_json(state)):
        link.emit(EventResume(update=saved["update"], global_step=saved["update"] * UPDATE_STEPS))
    update = saved["update"] if saved else 0
    link.emit(EventStart(device="cpu", total_steps=config["total_steps"], start_update=update, preset="fake"))
    reason = "completed"
    while update * UPDATE_STEPS < config["total_steps"]:
        if link.should_stop() or 0 < config["pause_steps"] <= update * UPDATE_STEPS:
            reason = "stopped"
            break
        time.sleep(float(os.environ.get(UPDATE_S_VARIABLE, UPDATE_S)))
        update += 1
        link.emit(EventUpdate(update=update, global_step=update * UPDATE_STEPS, elapsed_s=update * 1.0))
        if update % SAVE_EVERY == 0:
            save(state, update)
    step = update * UPDATE_STEPS
    if reason == "completed" or 0 < config["pause_steps"] <= step:
        value = learned(config["ppo.lr"], config["seed"], step)
        link.emit(
            EventEval(update=update, global_step=step, opponent="easy", episodes=8, win_rate=value, mean_hp_margin=0.0)
        )
    save(state, update)
    link.emit(EventCheckpoint(update=update, global_step=step, path=f"checkpoints/step-{step}"))
    link.emit(EventEnd(reason=reason, update=update, global_step=step))


def save(state: Path, update: int) -> None:
    """Write the state of training, and a folder as checkpoints have them."""
    (state.parent / f"step-{update * UPDATE_STEPS:09d}").mkdir(exist_ok=True)
    atomic_write(state, json.dumps({"update": update}))


def sweep(paths, link, resume):
    """Run a sweep whose trials have the role ``trial``."""
    from echelon.jobs.sweeps import worker as sweeps

    ask_often()
    KINDS["train"] = TRIAL
    sweeps.POLL_S = POLL_S
    return sweeps.work(paths, link, resume)


def slow(paths, link, resume):
    """Train on the fake environment with the real loop and checkpoints, slowed to be hit."""
    from echelon.training import loop
    from tests.training.conftest import make_small_run
    from tests.training.fakes import FakeEnv

    plan = read_spec(paths).config
    loop.SLOW_UPDATE_S = plan.get("slow_update_s", loop.SLOW_UPDATE_S)

    def emit(event):
        link.emit(event)
        if isinstance(event, EventUpdate):
            time.sleep(plan["pause_s"])

    loop.run(
        make_small_run(
            total_steps=10**9, max_updates=plan["updates"], save_every=plan.get("save_every", 2), num_envs=2,
            keep_checkpoints=10**6,
        ),
        emit, link.should_stop, run_dir=paths.root, resume=resume, make_env=FakeEnv,
        want_checkpoint=link.want_checkpoint, sync_records=link.sync_records,
    )  # fmt: skip


def wait(argv: list[str]) -> int:
    from echelon.jobs import queue, tickets, waiter

    ask_often()
    tickets.WAITER = waiter.WAITER = WAITER
    waiter.POLL_S, queue.FOLLOW_S, queue.RETRY_S = POLL_S, POLL_S, 0.2
    KINDS["train"] = SLOW if os.environ.get(REAL_VARIABLE) else QUEUED
    return waiter.main(argv)


ROLES = {
    "fake": (fake, worker.TRAINING), "queue": (queue, "working"), "trial": (trial, worker.TRAINING),
    "sweep": (sweep, "sweeping"), "slow": (slow, worker.TRAINING),
}  # fmt: skip
"""Work and phase of each role."""


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "wait":
        sys.exit(wait(rest))
    if role == "fake":
        worker.PROGRESS_S = 0.0
    work, phase = ROLES[role]
    sys.exit(worker.main(rest, work=work, phase=phase))
