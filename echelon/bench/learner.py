"""Benchmark scenes of training: the update alone, and training end to end.

All scenes run the training session of the preset ``quickstart``, on CUDA that of the preset ``gpu``.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from echelon.bench import ON_CPU, Measure, Setting
from echelon.bench.stopwatch import Stopwatch
from echelon.config import RunConfig
from echelon.config.presets import gpu, quickstart
from echelon.training.session import Session

WARM_UPDATES = 3
MEASURED_UPDATES = 6
MAPS = 64
"""Maps of a session on CUDA: generating the 512 of the preset takes longer than the measurement."""


def config_of(setting: Setting) -> RunConfig:
    """Return the configuration of a session: quickstart on the CPU, gpu on CUDA."""
    if setting.on_cpu:
        return replace(quickstart(), num_envs=setting.envs or quickstart().num_envs)
    return replace(gpu(), device=setting.device, num_envs=setting.envs or gpu().num_envs, bank_maps=MAPS)


@contextmanager
def start_session(threads: int = 0, setting: Setting = ON_CPU) -> Iterator[Session]:
    config = config_of(setting)
    with Session(replace(config, threads=threads)) as session:
        if config.opponents.mix.past:
            for update in range(config.opponents.past_keep):  # a full pool, as in all but the beginning of a run
                session.source.add(session.policy, update)
        session.env.set_curriculum(weapon_prob=config.opponents.weapon_prob_start)
        session.collector.reset()
        yield session


def learn(session: Session, updates: int) -> dict[str, Any]:
    """Run ``updates`` updates; return learner agent-steps per second and the fraction of time of each phase."""
    steps, seconds = 0, {"env": 0.0, "forward": 0.0, "update": 0.0}
    stopwatch = Stopwatch(str(session.device))
    stopwatch.start()
    for _ in range(updates):
        began = time.perf_counter()
        _, times = session.rollouts.advance(session.config.ppo.overlap)
        seconds["env"] += times.env_s
        seconds["forward"] += times.forward_s
        seconds["update"] += time.perf_counter() - began - times.all_s
        steps += int(session.buffer.alive.sum())
    total = stopwatch.stop()
    shares = {f"{name}_share": value / total for name, value in seconds.items()}
    return {"per_s": steps / total, "unit": "learner agent-steps", **shares}


@contextmanager
def train(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Training end to end with quickstart: 5v5, 60x60x20, 64 environments, recurrent suite policy."""
    with start_session(setting=setting) as session:
        learn(session, WARM_UPDATES)
        ppo = session.config.ppo
        settings = {"rollout": ppo.rollout_steps, "minibatches": ppo.num_minibatches, "epochs": ppo.update_epochs}
        yield lambda: {**learn(session, MEASURED_UPDATES), **settings}


@contextmanager
def update(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """The update alone on one rollout of quickstart."""
    with start_session(setting=setting) as session:
        learn(session, 1)
        steps = int(session.buffer.alive.sum())

        def measure() -> dict[str, Any]:
            stopwatch = Stopwatch(setting.device)
            stopwatch.start()
            for _ in range(MEASURED_UPDATES):
                session.buffer.gae_computed = True
                rollouts = session.rollouts
                session.trainer.update(rollouts.buffer, rollouts.start_state, rollouts.chunk_states)
            return {"per_s": MEASURED_UPDATES * steps / stopwatch.stop(), "unit": "learner agent-steps"}

        yield measure
