"""Connectivity check: both teams must reach the zone on foot; blocked ground routes are dug open.

The check uses the widest footprint. Routes are dug at ground level only. ``echelon.gen.generate`` handles maps that
remain unconnected.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import ConnectivityConfig
from echelon.gen.objective import Zone
from echelon.gen.shapes import Grid
from echelon.nav.field import ZoneField, zone_field
from echelon.nav.graph import RADII, dilate
from echelon.sim.world import BLOCKS_MOVE, Material

Column = tuple[int, int]

_STEPS: tuple[Column, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))


@dataclass(frozen=True, kw_only=True)
class Connectivity:
    """Result of the connectivity check."""

    connected: bool
    attempts: tuple[dict[str, Any], ...]
    """Record of each check: label, attempt, found."""
    fixups: tuple[dict[str, Any], ...]
    """Record of each dug route."""
    field: ZoneField
    """Path costs to the zone with the widest footprint, on the final grid."""


def connect(grid: Grid, *, zone: Zone, starts: tuple[Column, Column], rules: ConnectivityConfig) -> Connectivity:
    """Check the path of blue, then of red, to the zone on a grid [Z, Y, X]; dig it open in place where needed."""
    field = _field(grid, zone, rules)
    attempts: list[dict[str, Any]] = []
    fixups: list[dict[str, Any]] = []
    connected = True
    for team, start in zip(("blue", "red"), starts, strict=True):
        label = f"{team}_to_objective"
        for attempt in range(rules.max_digs + 1):
            found = field.reaches(start[0] + 0.5, start[1] + 0.5, 0.0)
            attempts.append({"label": label, "attempt": attempt, "found": found})
            if found or attempt == rules.max_digs:
                break
            crossed = dig(grid, start, (int(zone.cx), int(zone.cy)), rules)
            fixups.append({"label": label, "attempt": attempt + 1, "blocked_cells": crossed})
            field = _field(grid, zone, rules)
        connected = connected and found
    return Connectivity(connected=connected, attempts=tuple(attempts), fixups=tuple(fixups), field=field)


def _field(grid: Grid, zone: Zone, rules: ConnectivityConfig) -> ZoneField:
    return zone_field(grid, zone=zone, radius=RADII[-1], clearance=rules.clearance_z)


def dig(grid: Grid, start: Column, goal: Column, rules: ConnectivityConfig) -> int:
    """Clear the cheapest ground route between two columns in place; return the number of blocked cells on it.

    The route avoids a border as wide as the widest footprint, which is not walkable.
    """
    blocked = _blocked(grid, rules)
    path = _route(blocked, start, goal, border=max(rules.obstacle_inflate_radius, RADII[-1]), cost=rules.wall_cost)
    half = max(1, rules.carve_width // 2)
    crossed = sum(int(blocked[y, x]) for x, y in path)
    for x, y in path:
        rows, columns = slice(max(y - half, 0), y + half + 1), slice(max(x - half, 0), x + half + 1)
        grid[: rules.clearance_z, rows, columns] = Material.AIR
    return crossed


def _blocked(grid: Grid, rules: ConnectivityConfig) -> NDArray[np.bool_]:
    """Return the columns [Y, X] that are blocked within the headroom, dilated by the inflate radius."""
    solid = BLOCKS_MOVE[grid[: rules.clearance_z]].any(axis=0)
    return dilate(np.asarray(solid, dtype=np.uint64), rules.obstacle_inflate_radius) != 0


def _route(blocked: NDArray[np.bool_], start: Column, goal: Column, *, border: int, cost: int) -> list[Column]:
    """Return the cheapest 4-neighbour path of columns (x, y); entering a cell costs 1, plus ``cost`` if blocked.

    Costs are integers and ties are resolved by a fixed order of steps, so the path is the same on every platform.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    inner = blocked[border:-border, border:-border]
    rows, columns = inner.shape
    index = np.arange(inner.size).reshape(inner.shape)
    enter = (1 + cost * inner.ravel()).astype(np.float64)
    pairs = [(index[:, :-1], index[:, 1:]), (index[:-1], index[1:])]
    one = np.concatenate([a.ravel() for a, _ in pairs])
    two = np.concatenate([b.ravel() for _, b in pairs])
    # edges point from the entered cell to the previous one, so that one search from the goal serves every start
    source, target = np.concatenate([two, one]), np.concatenate([one, two])
    matrix = csr_matrix((enter[source], (source, target)), shape=(inner.size, inner.size))
    x, y = _clamp(start, border, rows, columns)
    goal_x, goal_y = _clamp(goal, border, rows, columns)
    to_goal = np.asarray(dijkstra(matrix, indices=int(index[goal_y, goal_x]))).reshape(inner.shape)
    path = [(x, y)]
    while (x, y) != (goal_x, goal_y):
        near = [(x + dx, y + dy) for dx, dy in _STEPS if 0 <= x + dx < columns and 0 <= y + dy < rows]
        x, y = min(near, key=lambda c: to_goal[c[1], c[0]] + enter[index[c[1], c[0]]])
        path.append((x, y))
    return [(x + border, y + border) for x, y in path]


def _clamp(column: Column, border: int, rows: int, columns: int) -> Column:
    return min(max(column[0] - border, 0), columns - 1), min(max(column[1] - border, 0), rows - 1)
