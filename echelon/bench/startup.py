"""Benchmark scenes of start-up: resets, map generation, and the first compilation of the kernels.

Run as a module, it compiles all kernels into an empty cache and prints the time.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import warp as wp

from echelon.bench import ON_CPU, Measure, Setting
from echelon.bench.stopwatch import Stopwatch
from echelon.config import EnvConfig, WorldConfig
from echelon.gen.generate import generate
from echelon.training.batch_options import Maps, Sides
from echelon.training.vec_env import VectorEnv

RESET_ENVS = 64
MEASURED_RESETS = 30
MEASURED_MAPS = 20
SMALL_EDGE = 40
MS = 1e3


@contextmanager
def reset(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Resets with the first observation, 5v5, 100x100x20, 64 environments from 64 maps."""
    envs = setting.envs or RESET_ENVS
    with VectorEnv(envs, EnvConfig(), sides=Sides("both"), device=setting.device) as env:

        def measure() -> dict[str, Any]:
            env.reset()
            stopwatch = Stopwatch(setting.device)
            stopwatch.start()
            for _ in range(MEASURED_RESETS):
                env.reset()
            seconds = stopwatch.stop() / (MEASURED_RESETS * envs)
            return {"per_s": 1 / seconds, "unit": "resets", "ms_each": MS * seconds}

        yield measure


@contextmanager
def maps() -> Iterator[Measure]:
    """Map generation on one core with connectivity check and flow fields, 1 pack, 100x100x20, seeds 0 to 19."""
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
    """First start on a machine: compilation of all training kernels into an empty cache, in a new process."""

    def measure() -> dict[str, Any]:
        with TemporaryDirectory(prefix="echelon-") as folder:
            command = [sys.executable, "-m", __name__, folder]
            process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(process.stdout.splitlines()[-1])
        return {"per_s": result["modules"] / result["seconds"], "unit": "modules", **result}

    yield measure


def compile_cold(folder: str) -> dict[str, Any]:
    """Compile all training kernels into the empty cache ``folder``; return number of modules and time [s]."""
    wp.config.kernel_cache_dir = folder
    times: list[float] = []
    modules = 0

    def on_progress(stage: str, done: int, total: int) -> None:
        nonlocal modules
        if stage != "maps":
            times.append(time.perf_counter())
            modules = total

    with VectorEnv(
        1, EnvConfig(world=WorldConfig(size_x=SMALL_EDGE, size_y=SMALL_EDGE)), maps=Maps(1), progress=on_progress
    ):
        return {"modules": modules, "seconds": times[-1] - times[0]}


if __name__ == "__main__":
    print(json.dumps(compile_cold(sys.argv[1])))
