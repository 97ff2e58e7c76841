"""Versions and memory of a training process."""

from __future__ import annotations

import platform
import resource
import sys
from importlib.metadata import PackageNotFoundError, version

import torch

PACKAGES = ("echelon", "torch", "warp-lang", "numpy")


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed ``PACKAGES``."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def peak_memory_mb() -> float:
    """Return the largest resident memory of this process [MiB]."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def device_memory_mb(device: torch.device) -> float:
    """Return the largest allocated accelerator memory so far [MiB]; 0 on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else 0.0
