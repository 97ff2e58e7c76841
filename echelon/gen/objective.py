"""Capture zone: position, radius, and clearing of its columns."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from echelon.config import WorldConfig
from echelon.gen.shapes import Corner, Grid, Rect, distance
from echelon.sim.random import Stream
from echelon.sim.world import BLOCKS_MOVE, Material

RADIUS_SPREAD = (0.5, 1.5)
"""Range of the zone's radius as a factor of the mean radius."""
EDGE_MARGIN = 2.0
"""Minimum distance between zone and map edge [vox]."""
MAX_TRIES = 256
"""Sampled positions before the best of them is used."""
APART_TRIES = 200
"""Sampled positions that must not touch a spawn square; later ones may."""
CLEAR_MARGIN = sqrt(2.0) / 2.0
"""Width of the ring around the zone that is also cleared [vox]."""
_GRAIN = 256
"""Zones are rounded to 1 / this, so that float32 and the recipe store the same numbers."""


class Zone(NamedTuple):
    """A circle in the plane [vox]."""

    cx: float
    cy: float
    r: float


def place_zone(
    world: WorldConfig,
    grid: Grid,
    *,
    mean_radius: float,
    spawns: tuple[Rect, Rect],
    starts: tuple[tuple[int, int], tuple[int, int]],
    stream: Stream,
) -> tuple[Zone, Corner]:
    """Return a sampled zone and its quadrant.

    The zone avoids blocked ground and the ``spawns``, and respects ``world.max_distance_ratio`` for the teams'
    ``starts`` if set. If no sample satisfies all conditions, the one with the smallest distance ratio is returned, or
    the last one without a limit; the caller checks the limit. Raises ``ValueError`` if the zone does not fit the map.
    """
    size = (world.size_x, world.size_y)
    radius = sample_radius(world, mean_radius, stream)
    quadrant = Corner(int(stream.coin()) + 2 * int(stream.coin()))
    blocked = BLOCKS_MOVE[grid[0]]
    zone, best_ratio = Zone(0.0, 0.0, radius), float("inf")
    for attempt in range(MAX_TRIES):
        cx = _coordinate(size[0], radius, quadrant.is_right, stream)
        cy = _coordinate(size[1], radius, quadrant.is_top, stream)
        candidate = Zone(cx, cy, radius)
        ratio = distance_ratio(candidate, starts)
        fair = not world.max_distance_ratio or ratio <= world.max_distance_ratio
        apart = attempt >= APART_TRIES or not any(touches(candidate, square) for square in spawns)
        if fair and apart and ground_is_open(blocked, candidate):
            return candidate, quadrant
        if not world.max_distance_ratio or ratio < best_ratio:
            zone, best_ratio = candidate, ratio
    return zone, quadrant


def sample_radius(world: WorldConfig, mean_radius: float, stream: Stream) -> float:
    """Return a sampled radius of the zone [vox]; raise ``ValueError`` if the zone does not fit the map."""
    smaller = min(world.size_x, world.size_y)
    radius = mean_radius * stream.uniform(*RADIUS_SPREAD)
    radius = round_to_grain(min(radius, max(1.0, smaller / 2 - EDGE_MARGIN)))
    if not (radius > 0 and 2 * radius <= smaller):
        raise ValueError(f"zone radius is {radius}, expected more than 0 and at most half of {smaller} vox")
    return radius


def distance_ratio(zone: Zone, starts: tuple[tuple[int, int], tuple[int, int]]) -> float:
    near, far = sorted(distance((x + 0.5, y + 0.5), zone[:2]) for x, y in starts)
    return far / max(near, 1.0)


def quadrant_of(zone: Zone, world: WorldConfig) -> Corner:
    return Corner(int(zone.cx >= world.size_x / 2) + 2 * int(zone.cy >= world.size_y / 2))


def clear_zone(grid: Grid, zone: Zone) -> None:
    y, x = np.ogrid[: grid.shape[1], : grid.shape[2]]
    reach = zone.r + CLEAR_MARGIN
    grid[:, (x + 0.5 - zone.cx) ** 2 + (y + 0.5 - zone.cy) ** 2 <= reach * reach] = Material.AIR


def round_to_grain(value: float) -> float:
    """Return the nearest number that float32 and the recipe store alike."""
    return round(value * _GRAIN) / _GRAIN


def centre_span(size: int, radius: float) -> tuple[float, float]:
    low, high = radius + EDGE_MARGIN, size - radius - EDGE_MARGIN
    return (low, high) if low <= high else (size / 2, size / 2)


def _coordinate(size: int, radius: float, high_half: bool, stream: Stream) -> float:
    low, high = centre_span(size, radius)
    half_low, half_high = (max(low, size / 2), high) if high_half else (low, min(high, size / 2))
    if half_low <= half_high:
        low, high = half_low, half_high
    return round_to_grain(stream.uniform(low, high))


def touches(zone: Zone, square: Rect) -> bool:
    dx = max(square.x0 - zone.cx, zone.cx - square.x1, 0.0)
    dy = max(square.y0 - zone.cy, zone.cy - square.y1, 0.0)
    return dx * dx + dy * dy <= zone.r * zone.r


def ground_is_open(blocked: np.ndarray, zone: Zone) -> bool:
    """Return whether the 3x3 ground cells around the rounded centre are on the map and not blocked."""
    x, y = round(zone.cx), round(zone.cy)
    if not (1 <= x < blocked.shape[1] - 1 and 1 <= y < blocked.shape[0] - 1):
        return False
    return not blocked[y - 1 : y + 2, x - 1 : x + 2].any()
