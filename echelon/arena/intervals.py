"""Confidence intervals of win rates."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""Standard normal quantile of a 95 % interval."""


def wilson_interval(wins: int, episodes: int, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson score interval (1927) of a win rate; [0, 1] without episodes."""
    if episodes == 0:
        return 0.0, 1.0
    rate, z2 = wins / episodes, z * z
    centre = rate + z2 / (2 * episodes)
    half = z * math.sqrt(rate * (1 - rate) / episodes + z2 / (4 * episodes * episodes))
    return max(0.0, (centre - half) / (1 + z2 / episodes)), min(1.0, (centre + half) / (1 + z2 / episodes))
