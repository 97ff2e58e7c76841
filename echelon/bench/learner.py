"""Benchmark scenes of the learner: the update alone, training end to end, and training beside a busy neighbour.

All of them run the ``quickstart`` preset's own session, so the figures are those a user gets.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from echelon.config.presets import quickstart
from echelon.training.rollout import chunk_length
from echelon.training.session import Session

Measure = Callable[[], dict[str, Any]]
WARM_UPDATES = 3
MEASURED_UPDATES = 6
CHUNK_ROWS = 20
"""Sequences side by side, as in a micro-batch of the quickstart preset."""
CHUNK_REPEATS = 8
SPIN = "while True: pass"


@contextmanager
def session(threads: int = 0) -> Iterator[Session]:
    """Give a fresh quickstart session whose first rollout is under way."""
    with Session(replace(quickstart(), threads=threads)) as made:
        made.env.set_curriculum(weapon_prob=quickstart().opponents.weapon_prob_start)
        made.collector.reset()
        yield made


def learn(made: Session, updates: int) -> dict[str, Any]:
    """Run whole updates; return learner agent-steps per second and the share of time of each phase."""
    steps, seconds = 0, {"env": 0.0, "forward": 0.0, "update": 0.0}
    began = time.perf_counter()
    for _ in range(updates):
        times = made.collector.collect()
        collected = time.perf_counter()
        made.collector.bootstrap(made.config.ppo.gae_lambda)
        made.trainer.update(made.buffer, made.collector.start_state, made.collector.chunk_states)
        seconds["env"] += times.env_s
        seconds["forward"] += times.forward_s
        seconds["update"] += time.perf_counter() - collected
        steps += int(made.buffer.alive.sum())
    total = time.perf_counter() - began
    shares = {f"{name}_share": value / total for name, value in seconds.items()}
    return {"per_s": steps / total, "unit": "learner agent-steps", **shares}


@contextmanager
def train() -> Iterator[Measure]:
    """Training end to end, quickstart: 5v5, 60x60x20, 64 environments, recurrent suite policy."""
    with session() as made:
        learn(made, WARM_UPDATES)
        ppo = made.config.ppo
        settings = {"rollout": ppo.rollout_steps, "minibatches": ppo.num_minibatches, "epochs": ppo.update_epochs}
        yield lambda: {**learn(made, MEASURED_UPDATES), **settings}


@contextmanager
def update() -> Iterator[Measure]:
    """The update alone on one rollout of the quickstart preset."""
    with session() as made:
        learn(made, 1)
        made.collector.collect()
        made.collector.bootstrap(made.config.ppo.gae_lambda)
        steps = int(made.buffer.alive.sum())

        def measure() -> dict[str, Any]:
            began = time.perf_counter()
            for _ in range(MEASURED_UPDATES):
                made.buffer.gae_computed = True
                made.trainer.update(made.buffer, made.collector.start_state, made.collector.chunk_states)
            return {"per_s": MEASURED_UPDATES * steps / (time.perf_counter() - began), "unit": "learner agent-steps"}

        yield measure


@contextmanager
def chunk() -> Iterator[Measure]:
    """A chunk of 32 steps scored whole, with gradients, and how many times faster that is than step by step."""
    with session(threads=1) as made:
        learn(made, 1)
        policy, buffer = made.policy, made.buffer
        length, rows = chunk_length(buffer.num_steps, made.config.ppo.tbptt_chunk_length, 1), CHUNK_ROWS
        obs, actions = buffer.obs[:length, :rows], buffer.actions[:length, :rows]
        dones, start = torch.zeros(length, rows), policy.initial_state(rows)

        def whole() -> None:
            scores = policy.score_sequence(obs, actions, dones, start)
            (scores.logprobs.mean() + scores.values.mean()).backward()

        def stepwise() -> None:
            state, total = start, torch.zeros(())
            for t in range(length):
                _, logprob, _, value, state = policy.get_action_and_value(obs[t], state, dones[t], actions[t])
                total = total + logprob.mean() + value.mean()
            (total / length).backward()

        def measure() -> dict[str, Any]:
            seconds = {whole: 0.0, stepwise: 0.0}
            for _ in range(CHUNK_REPEATS):
                for way in seconds:
                    began = time.perf_counter()
                    way()
                    seconds[way] += time.perf_counter() - began
            policy.zero_grad(set_to_none=True)
            per_s = CHUNK_REPEATS * length * rows / seconds[whole]
            return {"per_s": per_s, "unit": "agent-steps scored", "speedup": seconds[stepwise] / seconds[whole]}

        yield measure


@contextmanager
def crowded() -> Iterator[Measure]:
    """Training beside a process that holds one core, as a share of its speed on one free core."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        raise ValueError(f"scene 'crowded' has {len(cores)} cores to itself, wanted at least 2")

    def measure() -> dict[str, Any]:
        os.sched_setaffinity(0, {cores[0]})
        try:
            with session(threads=1) as alone:
                learn(alone, WARM_UPDATES)
                free = learn(alone, MEASURED_UPDATES)["per_s"]
        finally:
            os.sched_setaffinity(0, set(cores))
        neighbour = subprocess.Popen([sys.executable, "-c", SPIN])
        try:
            with session(threads=len(cores)) as made:
                learn(made, WARM_UPDATES)
                beside = learn(made, MEASURED_UPDATES)["per_s"]
        finally:
            neighbour.kill()
            neighbour.wait()
        return {"per_s": beside, "unit": "learner agent-steps", "one_free_core": free, "share": beside / free}

    yield measure
