"""Ranges of episode seeds for each purpose, so that no result is reported on seeds that chose a checkpoint.

Training seeds are below ``EVAL_SEED_BASE``, held-out seeds above it. Evaluations on ``choice`` select the best
checkpoint, matches on ``rating`` rate snapshots, and ``echelon eval`` and the report at a run's end play ``report``.
Matches of the arena use all held-out seeds and choose no checkpoint.
"""

from __future__ import annotations

from typing import Literal

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


def eval_seeds(count: int, purpose: SeedRange = "report") -> list[int]:
    """Return the first ``count`` seeds of a range of ``SEED_RANGES``."""
    return list(SEED_RANGES[purpose][:count])
