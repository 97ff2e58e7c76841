"""The random generators of a process: seeded together, saved and restored as tensors and plain values."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np
import torch

RANK_STRIDE = 1_000_003
"""Difference of the seeds of neighbouring ranks."""


def rank_seed(seed: int, rank: int) -> int:
    """Return the seed of a rank; rank 0 has the run's seed."""
    return seed + rank * RANK_STRIDE


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Return the state of every generator, as tensors and plain values."""
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
