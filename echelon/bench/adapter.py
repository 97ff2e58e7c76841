"""Benchmark scene of the Gymnasium interface: its cost over the batch that it adapts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from echelon.bench import Measure
from echelon.tasks import find_task
from echelon.training.batch_options import Maps, Pilots
from echelon.training.task_env import TaskVectorEnv
from echelon.training.vec_env import VectorEnv

TASK = "5v5-easy-v1"
BATTLES = 64
MAPS = 16
WARM_STEPS = 60
BLOCKS, BLOCK_STEPS = 40, 10
"""Blocks of steps that the two play in turns, and steps of a block."""


@contextmanager
def gym_vec() -> Iterator[Measure]:
    """Steps of ``make_vec`` and of the plain ``VectorEnv`` in turns, 64 battles of 5v5, with the overhead."""
    task = find_task(TASK)
    config, rng = task.config(), np.random.default_rng(0)
    with VectorEnv(BATTLES, config, maps=Maps(MAPS), pilots=Pilots(task.opponent, weapon_prob=1.0)) as plain:
        envs = TaskVectorEnv(BATTLES, config, opponent=task.opponent, maps=MAPS)
        plain.reset()
        envs.reset()
        actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)  # pyright: ignore
        given = torch.from_numpy(actions)

        def step_plain() -> None:
            plain.rows.act(given)
            plain.step()
            results = plain.results
            _ = plain.rows.of_mechs(results.rewards), results.terminated, results.truncated, results.alive, results.over

        steps: list[Callable[[], object]] = [step_plain, lambda: envs.step(actions)]
        for step in steps:
            for _ in range(WARM_STEPS):
                step()

        def measure() -> dict[str, Any]:
            blocks = np.array([[_seconds(step) for step in steps] for _ in range(BLOCKS)])
            base, adapted = np.median(blocks, axis=0)
            overhead = float(np.median(blocks[:, 1] / blocks[:, 0]) - 1.0)
            return {"per_s": BATTLES / adapted, "unit": "battle-steps", "plain_ms": 1e3 * base, "overhead": overhead}

        yield measure
        envs.close()


def _seconds(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(BLOCK_STEPS):
        step()
    return (time.perf_counter() - began) / BLOCK_STEPS
