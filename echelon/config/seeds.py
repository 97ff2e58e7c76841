"""Ranges of episode seeds for each purpose, so that no result is reported on seeds that chose a checkpoint.

Training seeds are below ``EVAL_SEED_BASE``, held-out seeds above it. Evaluations on ``choice`` select the best
checkpoint, matches on ``rating`` rate snapshots, and ``echelon eval`` and the report at a run's end play ``report``.
Matches of the arena use all held-out seeds and choose no checkpoint.
"""

import hashlib
import reprlib
from operator import index
from typing import Any, Literal

SeedRange = Literal["training", "report", "rating", "choice"]

EVAL_SEED_BASE = 2**30
"""First held-out seed; training seeds are below it."""
HELD_OUT = 2**24
"""Seeds of each held-out range."""

SEED_RANGES: dict[SeedRange, range] = {
    "training": range(EVAL_SEED_BASE),
    "report": range(EVAL_SEED_BASE, EVAL_SEED_BASE + HELD_OUT),
    "rating": range(EVAL_SEED_BASE + HELD_OUT, EVAL_SEED_BASE + 2 * HELD_OUT),
    "choice": range(EVAL_SEED_BASE + 3 * HELD_OUT, EVAL_SEED_BASE + 4 * HELD_OUT),
}
"""Seeds of each purpose; no two ranges overlap."""


MAX_SEED = 2**64 - 1
"""Largest seed that callers may give, as in numpy."""
EPISODE_SEEDS = 2**31
"""Number of episode seeds: those that a replay records and a viewer reads."""


def folded(seed: int, limit: int = EPISODE_SEEDS) -> int:
    """Return a seed below ``limit``: a smaller one as it is, of a larger one a hash."""
    return seed if seed < limit else int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8], "big") % limit


def require_seed(seed: Any, name: str = "seed", limit: int = EPISODE_SEEDS) -> int:
    """Return a seed of 64 bits ``folded``; ``ValueError`` for anything but a Python or numpy integer of 64 bits."""
    is_integer = hasattr(seed, "__index__") and not isinstance(seed, bool)
    if not is_integer or not 0 <= (number := index(seed)) <= MAX_SEED:
        raise ValueError(f"{name} is {reprlib.repr(seed)}, expected an integer from 0 to {MAX_SEED}")
    return folded(number, limit)


def eval_seeds(count: int, purpose: SeedRange = "report") -> list[int]:
    """Return the first ``count`` seeds of a range of ``SEED_RANGES``."""
    return list(SEED_RANGES[purpose][:count])
