"""Stand-ins for tests of sweeps: a training process that learns a formula, and a sweep whose trials are such runs.

``python -m tests.jobs.sweep_stand_ins train RUN``, ``python -m tests.jobs.sweep_stand_ins sweep RUN``.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time

from echelon.files import atomic_write
from echelon.jobs import worker
from echelon.jobs.config_layers import flatten
from echelon.jobs.kinds import KINDS, JobKind
from echelon.jobs.spec import read_spec
from echelon.runs import read_json
from echelon.telemetry.events import EventCheckpoint, EventEnd, EventEval, EventResume, EventStart, EventUpdate
from tests.jobs.clusters import ask_often

UPDATE_STEPS, SAVE_EVERY = 100, 3
UPDATE_S_VARIABLE = "ECHELON_TEST_UPDATE_S"


def learned(lr: float, seed: int, steps: float) -> float:
    """Return the win rate of the stand-in: best at lr = 1e-3, rising with steps, with noise of the seed."""
    quality = math.exp(-((math.log10(lr) + 3.0) ** 2))
    noise = ((seed * 7919 + round(lr * 1e8)) % 97) / 970
    return min(1.0, quality * (1.0 - math.exp(-steps / 1000)) + noise)


def train(paths, link, resume):
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
        time.sleep(float(os.environ.get(UPDATE_S_VARIABLE, "0.02")))
        update += 1
        link.emit(EventUpdate(update=update, global_step=update * UPDATE_STEPS, elapsed_s=update * 1.0))
        if update % SAVE_EVERY == 0:
            save(state, update)
    step = update * UPDATE_STEPS
    if config["ppo.lr"] > 0.5:
        raise RuntimeError("the loss is not finite")
    if reason == "completed" or 0 < config["pause_steps"] <= step:
        value = learned(config["ppo.lr"], config["seed"], step)
        link.emit(
            EventEval(update=update, global_step=step, opponent="easy", episodes=8, win_rate=value, mean_hp_margin=0.0)
        )
    save(state, update)
    link.emit(EventCheckpoint(update=update, global_step=step, path=f"checkpoints/step-{step}"))
    link.emit(EventEnd(reason=reason, update=update, global_step=step))


def save(state, update: int) -> None:
    """Write the state of training, and a folder as checkpoints have them."""
    (state.parent / f"step-{update * UPDATE_STEPS:09d}").mkdir(exist_ok=True)
    atomic_write(state, json.dumps({"update": update}))


class _Kind(JobKind):
    """A kind whose module takes the role as its first argument."""

    def command(self, run, arguments=(), processes=1):
        words = super().command(run, arguments, processes)
        at = words.index(self.module) + 1
        return [*words[:at], self.summary, *words[at:]]


FAKE_TRAIN = _Kind(module="tests.jobs.sweep_stand_ins", summary="train")
FAKE_SWEEP = _Kind(module="tests.jobs.sweep_stand_ins", summary="sweep")


def main() -> int:
    """Run the role named first on the run named second."""
    role, *rest = sys.argv[1:]
    if role == "train":
        return worker.main(rest, work=train)
    from echelon.jobs.sweeps import worker as sweep_worker

    ask_often()
    KINDS["train"] = FAKE_TRAIN
    sweep_worker.POLL_S = 0.05
    return worker.main(rest, work=sweep_worker.work, phase="sweeping")


if __name__ == "__main__":
    sys.exit(main())
