"""A training process: clock, random generators, versions, memory, traces, and points at which a test kills it."""

import os
import platform
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from echelon.training.runtime.process_group import ProcessGroup

RANK_STRIDE = 1_000_003
"""Difference of the seeds of neighbouring ranks."""


def rank_seed(seed: int, rank: int) -> int:
    """Return the seed of a rank; rank 0 has the run's seed."""
    return seed + rank * RANK_STRIDE


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    version, keys, gauss = random.getstate()
    name, array, position, has_gauss, cached = cast(Any, np.random.get_state(legacy=True))
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [str(name), torch.from_numpy(array.astype(np.int64)), int(position), int(has_gauss), float(cached)],
        "python": [version, list(keys), gauss],
    }


def restore_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    name, array, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, array.numpy().astype(np.uint32), position, has_gauss, cached))
    version, keys, gauss = state["python"]
    random.setstate((version, tuple(keys), gauss))


PACKAGES = ("echelon", "torch", "warp-lang", "numpy")


def package_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def device_memory_mb(device: torch.device) -> float:
    """Return the largest allocated accelerator memory so far [MiB]; 0 on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else 0.0


WARM_UPDATES = 2


class UpdateProfiler:
    """Traces ``updates`` updates into the file ``target``; does nothing without a target."""

    def __init__(self, target: Path | None, updates: int) -> None:
        self.target, self.updates = target, updates if target is not None else 0
        self._count = 0
        self._running: profile | None = None

    def region(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that labels a region of the trace, while one is running."""
        return record_function(name) if self._running else nullcontext()

    def step(self) -> Path | None:
        """Count an update; return the trace file once the last update is in it."""
        if not self.updates or self._count > WARM_UPDATES + self.updates:
            return None
        self._count += 1
        if self._count == WARM_UPDATES:
            self._running = _profiler()
            self._running.start()
        return self.close() if self._count == WARM_UPDATES + self.updates else None

    def close(self) -> Path | None:
        """Write the trace so far and return its path; None if none is running."""
        if self._running is None or self.target is None:
            return None
        running, self._running = self._running, None
        running.stop()
        self.target.parent.mkdir(parents=True, exist_ok=True)
        running.export_chrome_trace(str(self.target))
        return self.target


def _profiler() -> profile:
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    # micro-batches run on other threads, which are traced only on request
    return profile(activities=activities, experimental_config=_ExperimentalConfig(profile_all_threads=True))


VARIABLE = "ECHELON_FAULT"
_passed: dict[str, int] = {}


def fault_point(name: str) -> None:
    """Send this process the signal (KILL by default) that ``ECHELON_FAULT`` sets for point ``name``."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return
    point, _, rest = setting.partition(":")
    count, _, signal_name = rest.partition(":")
    if point != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.Signals[f"SIG{signal_name or 'KILL'}"])


SECONDS_PER_MINUTE = 60.0

Clock = Callable[[], float]
"""Return the elapsed time of the run, earlier sessions included [s]."""


class RunClock:
    """The elapsed wall time of a run over all of its sessions, from ``start`` on, which excludes their set-up.

    It is read once per update and each reading is logged, so that a run whose ``clock`` returns the logged times is
    bit-equal.
    """

    def __init__(self, group: ProcessGroup, clock: Clock | None = None) -> None:
        self._group, self._clock = group, clock or self._wall_clock
        self._before = self._began = 0.0
        self._runs = False

    def restart(self, elapsed_s: float) -> None:
        self._before, self._began = elapsed_s, time.monotonic()

    def start(self) -> None:
        self._runs, self._began = True, time.monotonic()

    def read(self) -> float:
        """Return the elapsed time [s], rank 0's on every rank."""
        return self._group.broadcast(self._clock())

    def _wall_clock(self) -> float:
        return self._before + (time.monotonic() - self._began if self._runs else 0.0)
