"""Trace of a few updates: every operation of every thread, for Perfetto or chrome://tracing.

The first updates, which compile and allocate, are not traced.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

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
