"""Fair maps: path costs of both teams per mech class, and zones at which they are equal.

The zone is placed on the front where the straight path costs of both teams are equal, before the lanes to it are
carved. The path costs of the finished map differ from them by the walk cost of the ground and by detours; this
difference is the ``bias`` with which the zone is placed again.

The *imbalance* of two costs is their difference over their sum, positive where blue's is larger. It grows with their
ratio, and unlike a logarithm it is the same on every platform.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import WorldConfig
from echelon.gen.objective import Zone, centre_span, distance_ratio, ground_is_open, round_to_grain, touches
from echelon.gen.shapes import Grid, Rect
from echelon.nav.field import ZoneField
from echelon.nav.graph import RADII, RADIUS_OF_CHASSIS, snap
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.sim.random import Stream
from echelon.sim.world import BLOCKS_MOVE

MAX_RATIO = 1.1
"""Maximum ratio of the teams' mean path costs for each class on a fair map."""
AIM_RATIO = 1.06
"""Maximum ratio of the straight path costs at a zone, which leaves room for the detours of the finished map."""
CANDIDATES = 64
"""Sampled positions of the zone, each moved to the front."""
BISECTIONS = 12
"""Halvings of the line on which a position is moved to the front."""
LEAST_COST = 1.0
"""Path costs below this count as this [vox]."""

CLASSES = tuple(sorted(set(ROSTER)))
"""Classes of a pack, ascending; first axis of costs."""
_PACK_SLOTS = [[slot for slot, chassis in enumerate(ROSTER) if chassis == member] for member in CLASSES]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PathCosts:
    """Mean path costs of both teams; C classes."""

    mean: Floats
    """Mean path cost to the zone [vox], infinite where a mech has no path, shape [C, 2]."""

    @property
    def complete(self) -> bool:
        return bool(np.isfinite(self.mean).all())

    @property
    def ratio(self) -> float:
        """Return the largest ratio of the teams' costs over the classes, infinite where a mech has no path."""
        if not self.complete:
            return float("inf")
        cost = np.maximum(self.mean, LEAST_COST)
        return float((cost.max(axis=1) / cost.min(axis=1)).max())

    def record(self) -> dict[str, Any]:
        """Return costs per class and their ratio as JSON values, None for infinite ones."""
        rounded = [[_number(cost) for cost in row] for row in self.mean.tolist()]
        names = [CHASSIS[chassis].chassis.name.lower() for chassis in CLASSES]
        return {"ratio": _number(self.ratio), "costs": dict(zip(names, rounded, strict=True))}


def path_costs(fields: Sequence[ZoneField], spawn: Floats) -> PathCosts:
    """Return the path costs from the box centres ``spawn`` [M, 3] [vox], blue first; ``fields`` has one per radius."""
    cost = np.full(len(spawn), np.inf)
    for slot, (x, y, _) in enumerate(spawn.tolist()):
        field = fields[RADII.index(RADIUS_OF_CHASSIS[ROSTER[slot % len(ROSTER)]])]
        node = int(field.graph.index[0, int(y), int(x)])
        node = snap(field.graph, x, y, 0.0) if node < 0 else node
        cost[slot] = field.cost[node] if node >= 0 else np.inf
    return PathCosts(_class_means(cost[:, None])[:, :, 0])


def straight_costs(points: Floats, radius: float, spawn: Floats) -> Floats:
    """Return the mean path costs on empty ground to zones at ``points`` [P, 2], shape [C, 2, P] [vox]."""
    apart = np.abs(points[None] - spawn[:, None, :2])
    diagonal = apart.min(axis=2)
    return _class_means(np.maximum(apart.max(axis=2) + (sqrt(2.0) - 1.0) * diagonal - radius, 0.0))


def imbalance(costs: Floats) -> Floats:
    """Return the imbalance of costs [C, 2, ...] per class, shape [C, ...]."""
    cost = np.maximum(costs, LEAST_COST)
    return (cost[:, 0] - cost[:, 1]) / (cost[:, 0] + cost[:, 1])


def balanced_zone(
    world: WorldConfig,
    grid: Grid,
    *,
    radius: float,
    spawn: Floats,
    squares: tuple[Rect, Rect],
    starts: tuple[tuple[int, int], tuple[int, int]],
    bias: Floats,
    stream: Stream,
) -> Zone:
    """Return a zone of ``radius`` [vox] at which straight costs plus ``bias`` are equal for both teams.

    ``bias`` is an imbalance per class, shape [C]; ``spawn`` holds the box centres [M, 3] [vox], ``squares`` and
    ``starts`` are the spawn squares and columns of both teams. Fair zones are preferred to zones off the squares, and
    these to zones on open ground. The same stream gives the same positions before they are moved to the front, so a
    changed bias moves the zone no further than necessary.
    """
    size = (world.size_x, world.size_y)
    spans = [centre_span(edge, radius) for edge in size]
    points = np.array([[stream.uniform(*span) for span in spans] for _ in range(CANDIDATES)])
    towards_red = np.sign(spawn[len(spawn) // 2, :2] - spawn[0, :2]) * np.array(size)

    def expected(points: Floats) -> Floats:
        return imbalance(straight_costs(points, radius, spawn)) + bias[:, None]

    points = _on_front(points, towards_red, spans, expected)
    zones = [Zone(round_to_grain(x), round_to_grain(y), radius) for x, y in points.tolist()]
    worst = np.abs(expected(np.array(zones)[:, :2])).max(axis=0).tolist()
    limit, aim = world.max_distance_ratio, (AIM_RATIO - 1.0) / (AIM_RATIO + 1.0)
    blocked = BLOCKS_MOVE[grid[0]]

    def rank(index: int) -> tuple[Any, ...]:
        zone, unfair = zones[index], worst[index] > aim
        far = bool(limit) and distance_ratio(zone, starts) > limit
        touching = any(touches(zone, square) for square in squares)
        return far, unfair, worst[index] if unfair else 0.0, touching, not ground_is_open(blocked, zone), index

    return zones[min(range(CANDIDATES), key=rank)]


def _on_front(
    points: Floats, towards_red: Floats, spans: Sequence[tuple[float, float]], expected: Callable[[Floats], Floats]
) -> Floats:
    """Return points [P, 2] moved along ``towards_red`` to where the extremes of ``expected`` cancel out."""
    ends = np.sort([(np.array(spans)[:, side] - points) / towards_red for side in (0, 1)], axis=0)
    low, high = ends[0].max(axis=1), ends[1].min(axis=1)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        at_middle = expected(points + middle[:, None] * towards_red)
        beyond = at_middle.max(axis=0) + at_middle.min(axis=0) > 0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return points + ((low + high) / 2)[:, None] * towards_red


def _class_means(cost: Floats) -> Floats:
    """Return the means of costs [M, P] over the mechs of each class and team, shape [C, 2, P]."""
    packs = cost.reshape(2, -1, len(ROSTER), cost.shape[1])
    return np.stack([packs[:, :, slots].mean(axis=(1, 2)) for slots in _PACK_SLOTS])


def _number(value: float) -> float | None:
    return round(value, 3) if np.isfinite(value) else None
