"""Benchmark scenes of ``echelon bench`` and their runner.

A scene is a line of ``SCENES``: a context manager that sets up once and returns a function that runs one measurement.
Scenes named in ``CUDA_ENVS`` take a ``Setting``: they run on CUDA too, with those numbers of environments.
Agent-steps count mechs alive at the start of an environment step. Simulator scenes use ``medium`` pilots on both sides
and 64 maps, fewer for large battles, and report the fraction of dead mechs. ``run_scenes`` repeats each measurement and
reports the median.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from statistics import median
from typing import Any

import numpy as np
import torch

from echelon.agents.levels import script_of
from echelon.bench import ON_CPU, Measure, Setting, learner, startup
from echelon.bench.stopwatch import Stopwatch
from echelon.config import EnvConfig, WorldConfig
from echelon.machine import cores
from echelon.sim import step
from echelon.sim.backend import resolve_device
from echelon.training.batch_options import Maps, Pilots, Sides
from echelon.training.vec_env import VectorEnv

WARM_STEPS = 120
MEASURED_STEPS = 240
WARM_UP_EDGE = 40
PILOTS = "medium"
TIMED_STEPS = 12
PREPARATION_S = 600.0
"""Longest time until all processes of the scene ``scaling`` are ready [s]."""


@contextmanager
def battle(
    num_packs: int, *, envs: int, observe: bool, edge: int = 100, maps: int = 64, setting: Setting = ON_CPU
) -> Iterator[VectorEnv]:
    """Return an environment with scripted pilots on both sides, warmed up past the first contact.

    ``envs`` is the number of environments where the setting has none.
    """
    cfg = EnvConfig(num_packs=num_packs, world=WorldConfig(size_x=edge, size_y=edge))
    parts = {"sides": Sides("both"), "maps": Maps(maps), "pilots": Pilots(weapon_prob=1.0)}
    with VectorEnv(setting.envs or envs, cfg, **parts, device=setting.device) as env:
        batch = env.engine.batch
        batch["script"].fill_(script_of(PILOTS))
        if not observe:
            batch["row_of"].fill_(-1)
        env.reset()
        for _ in range(WARM_STEPS):
            env.step()
        yield env


def play(env: VectorEnv, steps: int = 0) -> dict[str, Any]:
    """Run ``steps`` environment steps, ``MEASURED_STEPS`` if 0; return agent-steps per second and the dead fraction."""
    stopwatch = Stopwatch(env.engine.batch.device)
    total = torch.zeros((), dtype=torch.int64, device=env.device)
    stopwatch.start()
    steps = steps or MEASURED_STEPS
    for _ in range(steps):
        env.step()
        total += env.results.acting.sum()
    seconds, acted = stopwatch.stop(), int(total)
    return {
        "per_s": acted / seconds,
        "unit": "agent-steps",
        "dead_share": 1 - acted / (steps * env.num_envs * env.num_mechs),
    }


def phase_tree(env: VectorEnv) -> dict[str, float]:
    """Return the time of each phase per environment step [ms], measured per launch, on a CPU on one thread."""
    seconds: dict[str, float] = {}
    program = env.engine.program("decision")
    for _ in range(TIMED_STEPS):
        env.engine.batch.backend.timed(program, seconds)
    scaled = {name: 1e3 * value / TIMED_STEPS for name, value in seconds.items()}
    return dict(sorted(scaled.items(), key=lambda item: -item[1]))


@contextmanager
def sim_5v5(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 5v5, 100x100x20, 64 environments."""
    with battle(1, envs=64, observe=True, setting=setting) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_10v10(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 10v10, 100x100x20, 32 environments."""
    with battle(2, envs=32, observe=True, setting=setting) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_20v20(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 20v20, 100x100x20, 16 environments."""
    with battle(4, envs=16, observe=True, maps=16, setting=setting) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_100v100(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Environment steps with observations of all mechs, 100v100, 200x200x20, 4 environments."""
    with battle(20, envs=4, observe=True, edge=200, maps=4, setting=setting) as env:
        yield lambda: {**play(env), "phases_ms": phase_tree(env)}


@contextmanager
def sim_blind(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Environment steps as in sim-5v5, without writing observations."""
    with battle(1, envs=64, observe=False, setting=setting) as env:
        yield lambda: play(env)


@contextmanager
def rays(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Line-of-sight rays between all pairs of 10v10 mechs at random positions on generated maps."""
    with battle(2, envs=64, observe=False, setting=setting) as env:
        batch = env.engine.batch
        rng = np.random.default_rng(0)
        size = batch.numpy("size")[:, None, :]
        positions = rng.uniform(0.05, 0.95, (env.num_envs, env.num_mechs, 3)) * size
        batch.set("pos", positions.astype(np.float32))
        batch["alive"].fill_(1)
        run = batch.capture(step.sense("every")[1:2])
        pairs = env.num_envs * env.num_mechs * (env.num_mechs - 1) // 2
        yield lambda: {"per_s": pairs / _seconds(run, setting.device), "unit": "rays"}


@contextmanager
def observation(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Sensing and observation alone, 5v5, 100x100x20, 64 environments."""
    with battle(1, envs=64, observe=True, setting=setting) as env:
        run = env.engine.batch.capture(env.engine.program("observe"))
        alive = int(env.results.alive.sum())
        yield lambda: {"per_s": alive / _seconds(run, setting.device), "unit": "observations"}


def _seconds(run: Callable[[], None], device: str, count: int = 100) -> float:
    """Return the mean time of a call over ``count`` calls [s]."""
    run()
    stopwatch = Stopwatch(device)
    stopwatch.start()
    for _ in range(count):
        run()
    return stopwatch.stop() / count


def process_counts(available: int) -> list[int]:
    """Return the numbers of processes to measure: powers of two up to the number of cores, and that number."""
    return sorted({2**n for n in range(available.bit_length()) if 2**n <= available} | {available})


def rate_of(pinned: Sequence[int]) -> float:
    """Return the sum of the rates of processes that run at the same time, one per core of ``pinned``."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(len(pinned), context) as pool:
        return sum(pool.map(_rate_on, pinned, repeat(manager.Barrier(len(pinned)))))


def _rate_on(core: int, ready: Any) -> float:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    with battle(1, envs=32, observe=True, maps=8) as env:
        ready.wait(PREPARATION_S)
        return play(env)["per_s"]


@contextmanager
def scaling() -> Iterator[Measure]:
    """Simulation by 1, 2, 4 and more processes, each pinned to a core with 32 environments, 5v5 with observations."""

    def measure() -> dict[str, Any]:
        available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(cores()))
        rates = {count: rate_of(available[:count]) for count in process_counts(len(available))}
        most = max(rates)
        by_count = {f"processes_{count}": rate for count, rate in rates.items()}
        return {"per_s": rates[most], "unit": "agent-steps", **by_count, "efficiency": rates[most] / (most * rates[1])}

    yield measure


SCENES: dict[str, Callable[..., Any]] = {
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
    "scaling": scaling,
}
CUDA_ENVS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("sim-5v5", "sim-10v10", "sim-blind", "rays", "observation", "reset"), (4096, 16384)),
    "sim-20v20": (1024, 4096),
    "sim-100v100": (256, 1024),
    **dict.fromkeys(("train", "update"), (2048, 4096)),
}
"""Scenes that run on CUDA, and their numbers of environments there."""
LADDER = {"cpu": (16, 64, 256), "cuda": (1024, 4096, 16384)}
"""Numbers of environments of the short measurement, by type of device."""
LADDER_STEPS = 40


def scenes_on(device: str) -> list[str]:
    """Return the scenes that can run on a device."""
    return [name for name in SCENES if device == "cpu" or name in CUDA_ENVS]


def ladder(device: str) -> Iterator[tuple[int, float]]:
    """Yield numbers of environments and agent-steps per second of 5v5 with observations, a short measurement each."""
    device = resolve_device(device)
    for envs in LADDER[device.partition(":")[0]]:
        with battle(1, envs=envs, observe=True, maps=4, setting=Setting(device)) as env:
            yield envs, play(env, LADDER_STEPS)["per_s"]


def warm_up(report: Callable[[str], None], device: str = "cpu") -> None:
    """Compile the kernels of most scenes, and report progress."""
    small = EnvConfig(world=WorldConfig(size_x=WARM_UP_EDGE, size_y=WARM_UP_EDGE))

    def progress(_: str, done: int, total: int) -> None:
        report(f"compiling kernels, {done} of {total}")

    with VectorEnv(1, small, maps=Maps(1), device=device, progress=progress):
        pass


def settings_of(name: str, device: str, envs: Sequence[int] = ()) -> list[Setting]:
    """Return the settings of a scene: one per number of environments; ``ValueError`` for one that it cannot have."""
    if name not in CUDA_ENVS and (device != "cpu" or envs):
        option = f"device {device!r}" if device != "cpu" else "envs"
        raise ValueError(f"scene {name!r} takes no {option}, expected one of: {', '.join(CUDA_ENVS)}")
    counts = envs or (CUDA_ENVS[name] if device != "cpu" else (0,))
    return [Setting(device, count) for count in counts]


def run_scenes(
    names: Sequence[str],
    repeats: int = 3,
    report: Callable[[str], None] = lambda text: None,
    *,
    device: str = "cpu",
    envs: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """Measure each scene ``repeats`` times; return median, minimum, maximum and the last details per scene.

    ``envs`` are numbers of environments to measure, one after the other, in place of those of the scene.
    """
    device = resolve_device(device)
    planned = [(name, setting) for name in names for setting in settings_of(name, device, envs)]
    results = []
    warm_up(report, device)
    for name, setting in planned:
        label = f"{name}, {setting.envs} environments" if setting.envs else name
        report(f"{label}: preparing")
        with SCENES[name](setting) if name in CUDA_ENVS else SCENES[name]() as measure:
            measured = []
            for i in range(repeats):
                report(f"{label}: measurement {i + 1} of {repeats}")
                measured.append(measure())
        speeds = [m["per_s"] for m in measured]
        row = {"scene": name, "median_per_s": median(speeds), "min_per_s": min(speeds), "max_per_s": max(speeds)}
        details = {key: value for key, value in measured[-1].items() if key != "per_s"}
        where = {"threads": cores()} if setting.on_cpu else {"device": device}
        sized = {"envs": setting.envs} if setting.envs else {}
        results.append({**row, **where, **sized, "repeats": repeats, **details})
    return results
