"""Benchmark scenes of what play waits for: resets, generated maps, and the first compilation of the kernels.

Run as a module it compiles every kernel into a fresh cache and prints how long that took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import warp as wp

from echelon.config import EnvConfig, WorldConfig
from echelon.gen.generate import generate
from echelon.training.vec_env import VectorEnv

RESET_ENVS = 64
MEASURED_RESETS = 30
MEASURED_MAPS = 20
SMALL_EDGE = 40
MS = 1e3
Measure = Callable[[], dict[str, Any]]


@contextmanager
def reset() -> Iterator[Measure]:
    """Resets with the first observation, 5v5, 100x100x20, 64 environments at once from 64 maps."""
    with VectorEnv(RESET_ENVS, EnvConfig(), learners="both") as env:

        def measure() -> dict[str, Any]:
            env.reset()
            began = time.perf_counter()
            for _ in range(MEASURED_RESETS):
                env.reset()
            seconds = (time.perf_counter() - began) / (MEASURED_RESETS * RESET_ENVS)
            return {"per_s": 1 / seconds, "unit": "resets", "ms_each": MS * seconds}

        yield measure


@contextmanager
def maps() -> Iterator[Measure]:
    """Maps generated on one core, checks and ways to the zone included, 1 pack, 100x100x20, seeds 0 to 19."""
    cfg = EnvConfig()

    def measure() -> dict[str, Any]:
        began = time.perf_counter()
        for seed in range(MEASURED_MAPS):
            generate(cfg.world, seed, num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox)
        seconds = (time.perf_counter() - began) / MEASURED_MAPS
        return {"per_s": 1 / seconds, "unit": "maps", "ms_each": MS * seconds}

    yield measure


@contextmanager
def compile_kernels() -> Iterator[Measure]:
    """The first start on a machine: every kernel of training compiled into an empty cache, in a fresh process."""

    def measure() -> dict[str, Any]:
        with TemporaryDirectory(prefix="echelon-") as folder:
            command = [sys.executable, "-m", __name__, folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        return {"per_s": found["modules"] / found["seconds"], "unit": "modules", **found}

    yield measure


def compile_cold(folder: str) -> dict[str, Any]:
    """Compile into an empty ``folder``; return how many modules there were and the seconds they took."""
    wp.config.kernel_cache_dir = folder
    times: list[float] = []
    modules = 0

    def note(what: str, done: int, total: int) -> None:
        nonlocal modules
        if what != "maps":
            times.append(time.perf_counter())
            modules = total

    with VectorEnv(1, EnvConfig(world=WorldConfig(size_x=SMALL_EDGE, size_y=SMALL_EDGE)), bank_maps=1, progress=note):
        return {"modules": modules, "seconds": times[-1] - times[0]}


if __name__ == "__main__":
    print(json.dumps(compile_cold(sys.argv[1])))
