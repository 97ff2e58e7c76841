"""Benchmark scenes of ``echelon bench`` and their runner.

A scene is a line of ``SCENES``: a context manager that sets up once and returns a function that runs one measurement.
Agent-steps count mechs alive at the start of an environment step. Simulator scenes use ``medium`` pilots on both sides
and 64 maps, fewer for large battles, and report the fraction of dead mechs. ``run_scenes`` repeats each measurement and
reports the median.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

from echelon.agents.levels import script_of
from echelon.bench import Measure, dashboard, league, learner, serving, startup
from echelon.config import EnvConfig, WorldConfig
from echelon.sim import step
from echelon.sim.backend import default_threads
from echelon.training.vec_env import VectorEnv

WARM_STEPS = 120
MEASURED_STEPS = 240
WARM_UP_EDGE = 40
PILOTS = "medium"
TIMED_STEPS = 12


@contextmanager
def battle(num_packs: int, *, envs: int, observe: bool, edge: int = 100, maps: int = 64) -> Iterator[VectorEnv]:
    """Return an environment with scripted pilots on both sides, warmed up past the first contact."""
    cfg = EnvConfig(num_packs=num_packs, world=WorldConfig(size_x=edge, size_y=edge))
    with VectorEnv(envs, cfg, initial_weapon_prob=1.0, learners="both", bank_maps=maps) as env:
        batch = env.engine.batch
        batch["script"].fill_(script_of(PILOTS))
        if not observe:
            batch["row_of"].fill_(-1)
        env.reset()
        for _ in range(WARM_STEPS):
            env.step()
        yield env


def play(env: VectorEnv) -> dict[str, Any]:
    """Run the measured environment steps; return agent-steps per second and the fraction of dead mechs."""
    began = time.perf_counter()
    acted = 0
    for _ in range(MEASURED_STEPS):
        env.step()
        acted += int(env.acting.sum())
    seconds = time.perf_counter() - began
    return {
        "per_s": acted / seconds,
        "unit": "agent-steps",
        "dead_share": 1 - acted / (MEASURED_STEPS * env.num_envs * env.mechs),
    }


def phase_tree(env: VectorEnv) -> dict[str, float]:
    """Return the time of each phase per environment step [ms], measured per launch on one thread, largest first."""
    seconds: dict[str, float] = {}
    program = env.engine.program("decision")
    for _ in range(TIMED_STEPS):
        env.engine.batch.backend.timed(program, seconds)
    scaled = {name: 1e3 * value / TIMED_STEPS for name, value in seconds.items()}
    return dict(sorted(scaled.items(), key=lambda item: -item[1]))


@contextmanager
def sim_5v5() -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 5v5, 100x100x20, 64 environments."""
    with battle(1, envs=64, observe=True) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_10v10() -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 10v10, 100x100x20, 32 environments."""
    with battle(2, envs=32, observe=True) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_20v20() -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 20v20, 100x100x20, 16 environments."""
    with battle(4, envs=16, observe=True, maps=16) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_100v100() -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 100v100, 200x200x20, 4 environments."""
    with battle(20, envs=4, observe=True, edge=200, maps=4) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_blind() -> Iterator[Measure]:
    """Environment steps as in sim-5v5, without writing observations."""
    with battle(1, envs=64, observe=False) as env:
        yield lambda: play(env)


@contextmanager
def rays() -> Iterator[Measure]:
    """Line-of-sight rays between all pairs of 10v10 mechs at random positions on generated maps."""
    with battle(2, envs=64, observe=False) as env:
        batch = env.engine.batch
        rng = np.random.default_rng(0)
        size = batch.numpy("size")[:, None, :]
        positions = rng.uniform(0.05, 0.95, (env.num_envs, env.mechs, 3)) * size
        batch.set("pos", positions.astype(np.float32))
        batch["alive"].fill_(1)
        run = batch.capture(step.sense("every")[1:2])
        pairs = env.num_envs * env.mechs * (env.mechs - 1) // 2
        yield lambda: {"per_s": pairs / _seconds(run), "unit": "rays"}


@contextmanager
def observation() -> Iterator[Measure]:
    """Sensing and observation alone, 5v5, 100x100x20, 64 environments."""
    with battle(1, envs=64, observe=True) as env:
        run = env.engine.batch.capture(env.engine.program("observe"))
        alive = int(env.alive_now.sum())
        yield lambda: {"per_s": alive / _seconds(run), "unit": "observations"}


def _seconds(run: Callable[[], None], count: int = 100) -> float:
    """Return the mean time of a call over ``count`` calls [s]."""
    run()
    began = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - began) / count


SCENES: dict[str, Callable[[], Any]] = {
    "sim-5v5": sim_5v5,
    "sim-10v10": sim_10v10,
    "sim-20v20": sim_20v20,
    "sim-100v100": sim_100v100,
    "sim-blind": sim_blind,
    "rays": rays,
    "observation": observation,
    "reset": startup.reset,
    "maps": startup.maps,
    "compile": startup.compile_kernels,
    "update": learner.update,
    "train": learner.train,
    "chunk": learner.chunk,
    "crowded": learner.crowded,
    "league-scripted": league.scripted,
    "league-4": league.four,
    "league-20": league.twenty,
    "league-opponents": league.opponents,
    "league-history": league.history,
    "dash-first": dashboard.first_paint,
    "dash-live": dashboard.live,
    "dash-four": dashboard.four,
    "dash-long": dashboard.long_run,
    "server-load": serving.server_load,
}


def warm_up(report: Callable[[str], None]) -> None:
    """Compile the kernels of most scenes, and report progress."""
    small = EnvConfig(world=WorldConfig(size_x=WARM_UP_EDGE, size_y=WARM_UP_EDGE))
    with VectorEnv(
        1, small, bank_maps=1, progress=lambda _, done, total: report(f"compiling kernels, {done} of {total}")
    ):
        pass


def run_scenes(
    names: list[str], repeats: int = 3, report: Callable[[str], None] = lambda text: None
) -> list[dict[str, Any]]:
    """Measure each scene ``repeats`` times; return median, minimum, maximum and the last details per scene."""
    results = []
    warm_up(report)
    for name in names:
        report(f"{name}: preparing")
        with SCENES[name]() as measure:
            measured = []
            for i in range(repeats):
                report(f"{name}: measurement {i + 1} of {repeats}")
                measured.append(measure())
        speeds = [m["per_s"] for m in measured]
        row = {"scene": name, "median_per_s": median(speeds), "min_per_s": min(speeds), "max_per_s": max(speeds)}
        details = {key: value for key, value in measured[-1].items() if key != "per_s"}
        results.append({**row, "threads": default_threads(), "repeats": repeats, **details})
    return results
