"""A trace of a few updates: every operation of every thread, for Perfetto or chrome://tracing.

The first updates are left out: they compile, allocate and warm up, and say nothing about those that follow.
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
    """Traces ``updates`` updates of a session into ``target``; nothing without a target or updates."""

    def __init__(self, target: Path | None, updates: int) -> None:
        self.target, self.updates = target, updates if target is not None else 0
        self._done = 0
        self._running: profile | None = None

    def part(self, name: str) -> AbstractContextManager[Any]:
        """Name what happens inside, while a trace is taken."""
        return record_function(name) if self._running else nullcontext()

    def step(self) -> Path | None:
        """Count an update; return the trace once the last one is in it."""
        if not self.updates or self._done > WARM_UPDATES + self.updates:
            return None
        self._done += 1
        if self._done == WARM_UPDATES:
            self._running = _profiler()
            self._running.start()
        return self.close() if self._done == WARM_UPDATES + self.updates else None

    def close(self) -> Path | None:
        """Write what was traced so far and return where it lies; None without a running trace."""
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
    # shards run on threads of their own, which a trace leaves out unless told
    return profile(activities=activities, experimental_config=_ExperimentalConfig(profile_all_threads=True))
