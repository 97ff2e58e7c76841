"""CPU cores and memory that this process may use: those of the machine, within its affinity and its control groups.

A control group limits a container, a service or a job of a cluster; the limits of the groups above it hold too.
"""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux mounts control groups, and the file that names those of this process."""
MEMORY_FILES = (
    ("", "memory.max", "memory.current", "inactive_file", "memory.swap.max"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.memsw.limit_in_bytes"),
)
"""Controller, limit, usage, page cache that can be dropped, and limit of swap: of version 2, and of version 1."""


class Memory(NamedTuple):
    """Memory that this process may use [B]."""

    total: int
    available: int
    swap: int


def cores() -> int:
    """Return the number of cores; a quota is rounded down, since threads wait for the slowest."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [_words(folder / "cpu.max") for folder in _folders("")]
    for folder in _folders("cpu"):
        quotas.append(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us"))
    return max(1, int(min([allowed, *(_value(words[0]) / _value(words[1]) for words in quotas if len(words) == 2)])))


def memory() -> Memory:
    """Return the memory of the machine, or that of the narrowest control group."""
    import psutil

    machine, swap = psutil.virtual_memory(), float(psutil.swap_memory().total)
    total, available = float(machine.total), float(machine.available)
    for controller, limit_name, usage_name, cache_name, swap_name in MEMORY_FILES:
        for folder in _folders(controller):
            limit, usage, swaps = (
                _value((_words(folder / name) or ["max"])[0]) for name in (limit_name, usage_name, swap_name)
            )
            if limit >= machine.total:
                continue
            stat = _words(folder / "memory.stat")
            cache = dict(zip(stat[::2], stat[1::2], strict=False)).get(cache_name, "0")
            total = min(total, limit)
            available = min(available, max(0.0, limit - (usage if usage < math.inf else 0.0) + _value(cache)))
            swap = min(swap, swaps - limit if controller else swaps)
    return Memory(int(total), int(available), int(swap))


def _folders(controller: str) -> Iterator[Path]:
    """Yield the folders of the groups of this process, from its own to the root; ``""`` is version 2."""
    root = GROUPS / controller
    for line in _lines(OWN_GROUPS):
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controller in controllers.split(","):
            own = root / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(root))


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError, ValueError):
        return path.read_text().splitlines()
    return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _value(word: str) -> float:
    """Return a number; infinity for ``max`` and for the -1 of version 1."""
    return float(word) if word.isdecimal() else math.inf
