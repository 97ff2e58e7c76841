"""How sure a share of wins is."""

from __future__ import annotations

import math

WILSON_Z = 1.959963984540054
"""Standard normal quantile of a 95 % interval."""


def wilson_interval(wins: int, episodes: int, z: float = WILSON_Z) -> tuple[float, float]:
    """Return the score interval of a share (Wilson, 1927)."""
    if episodes == 0:
        return 0.0, 1.0
    share, z2 = wins / episodes, z * z
    centre = share + z2 / (2 * episodes)
    half = z * math.sqrt(share * (1 - share) / episodes + z2 / (4 * episodes * episodes))
    return max(0.0, (centre - half) / (1 + z2 / episodes)), min(1.0, (centre + half) / (1 + z2 / episodes))
