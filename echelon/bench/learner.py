"""Benchmark scenes of training: the update alone, training end to end, and training beside a busy process.

All scenes run the training session of the preset ``quickstart``, on CUDA that of the preset ``gpu``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from echelon.bench import ON_CPU, Measure, Setting
from echelon.bench.stopwatch import Stopwatch
from echelon.config import RunConfig
from echelon.config.presets import gpu, quickstart
from echelon.training.rollout import chunk_length
from echelon.training.session import Session

WARM_UPDATES = 3
MEASURED_UPDATES = 6
CHUNK_ROWS = 20
"""Sequences in parallel on a CPU, as in a micro-batch of the preset quickstart; on CUDA the rows of a minibatch."""
CHUNK_REPEATS = 8
BUSY_LOOP = "while True: pass"


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
        times = session.collector.collect()
        collected = time.perf_counter()
        session.collector.bootstrap(session.config.ppo.gae_lambda)
        session.trainer.update(session.buffer, session.collector.start_state, session.collector.chunk_states)
        seconds["env"] += times.env_s
        seconds["forward"] += times.forward_s
        seconds["update"] += time.perf_counter() - collected
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
        session.collector.collect()
        session.collector.bootstrap(session.config.ppo.gae_lambda)
        steps = int(session.buffer.alive.sum())

        def measure() -> dict[str, Any]:
            stopwatch = Stopwatch(setting.device)
            stopwatch.start()
            for _ in range(MEASURED_UPDATES):
                session.buffer.gae_computed = True
                session.trainer.update(session.buffer, session.collector.start_state, session.collector.chunk_states)
            return {"per_s": MEASURED_UPDATES * steps / stopwatch.stop(), "unit": "learner agent-steps"}

        yield measure


@contextmanager
def chunk(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Evaluation of a 32-step chunk with gradients, and its speedup over step-by-step evaluation."""
    with start_session(threads=1, setting=setting) as session:
        learn(session, 1)
        policy, buffer, device = session.policy, session.buffer, session.device
        length = chunk_length(buffer.num_steps, session.config.ppo.tbptt_chunk_length, 1)
        rows = CHUNK_ROWS if setting.on_cpu else session.env.rows.count // session.config.ppo.num_minibatches
        obs, actions = buffer.obs[:length, :rows], buffer.actions[:length, :rows]
        dones, start = torch.zeros(length, rows, device=device), policy.initial_state(rows, device)

        def whole() -> None:
            scores = policy.score_sequence(obs, actions, dones, start)
            (scores.logprobs.mean() + scores.values.mean()).backward()

        def stepwise() -> None:
            state, total = start, torch.zeros((), device=device)
            for t in range(length):
                _, logprob, _, value, state = policy.get_action_and_value(obs[t], state, dones[t], actions[t])
                total = total + logprob.mean() + value.mean()
            (total / length).backward()

        def measure() -> dict[str, Any]:
            seconds = {whole: 0.0, stepwise: 0.0}
            for _ in range(CHUNK_REPEATS):
                for function in seconds:
                    stopwatch = Stopwatch(setting.device)
                    stopwatch.start()
                    function()
                    seconds[function] += stopwatch.stop()
            policy.zero_grad(set_to_none=True)
            per_s = CHUNK_REPEATS * length * rows / seconds[whole]
            return {"per_s": per_s, "unit": "agent-steps scored", "speedup": seconds[stepwise] / seconds[whole]}

        yield measure


@contextmanager
def crowded() -> Iterator[Measure]:
    """Training beside a process that occupies one core, relative to the speed on one free core."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        raise ValueError(f"scene 'crowded' has {len(cores)} cores, expected at least 2")

    def measure() -> dict[str, Any]:
        os.sched_setaffinity(0, {cores[0]})
        try:
            with start_session(threads=1) as alone:
                learn(alone, WARM_UPDATES)
                free = learn(alone, MEASURED_UPDATES)["per_s"]
        finally:
            os.sched_setaffinity(0, set(cores))
        neighbour = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
        try:
            with start_session(threads=len(cores)) as session:
                learn(session, WARM_UPDATES)
                beside = learn(session, MEASURED_UPDATES)["per_s"]
        finally:
            neighbour.kill()
            neighbour.wait()
        return {"per_s": beside, "unit": "learner agent-steps", "one_free_core": free, "share": beside / free}

    yield measure
