"""Flow fields of paths that are not the shortest: through covered cells, and off the shortest paths of both teams.

Both are cost-to-zone fields of the widest footprint with a cost factor per cell, so the factor bounds the detour. They
do not depend on the side: one field serves both teams.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from math import ceil

import numpy as np
from numpy.typing import NDArray

from echelon.nav.field import FLOW_GOAL, FLOW_NONE, FLOW_STEP, ZoneField, graph_field, zone_field
from echelon.nav.graph import RADII, NavGraph, snap
from echelon.sim.world import BLOCKS_SIGHT

Grid = NDArray[np.uint8]
Points = NDArray[np.float64]


class Lane(IntEnum):
    """Flow fields of a map beyond the shortest paths; index after those of the footprint radii."""

    COVERED = 0
    """Prefers cells out of sight of the zone."""
    FLANK = 1
    """Avoids the shortest paths of both teams."""


NUM_LAYERS = len(RADII) + len(Lane)
"""Flow fields of one map: the shortest path per footprint radius, then one per ``Lane``."""
EYE_VOX = 2.5
"""Height of eyes above the feet [vox]."""
SIGHT_STEP_VOX = 1.0
"""Distance between samples of a line of sight [vox]."""
BLOCK = 2
"""Edge of the square of columns that share one line of sight."""
EXPOSED_FACTOR = 1.3
"""Cost factor of a cell in sight of the zone, which bounds the covered detour; at 1.8 pilots arrived too late."""
LANE_WIDTH_VOX = 14.0
"""Distance from a main lane at which the cost factor has fallen to 1 [vox]."""
LANE_FACTOR = 3.0
"""Cost factor of a cell of a main lane."""
ARENA_VOX = 10.0
"""Distance from the zone within which every cost factor is 1 [vox]."""
NAVIGATION_VERSION = (1, EYE_VOX, SIGHT_STEP_VOX, BLOCK, EXPOSED_FACTOR, LANE_WIDTH_VOX, LANE_FACTOR, ARENA_VOX)
"""Key of cached flow fields: a version to raise when the code changes, and every constant they depend on."""


def zone_fields(
    material: Grid, *, zone: tuple[float, float, float], clearance: int, known: Sequence[ZoneField] = ()
) -> tuple[ZoneField, ...]:
    """Return the zone field of each radius in ``RADII``; fields in ``known`` are not computed again."""
    found = {field.graph.radius: field for field in known}
    for radius in RADII:
        if radius not in found:
            found[radius] = zone_field(material, zone=zone, radius=radius, clearance=clearance)
    return tuple(found[radius] for radius in RADII)


def navigation_fields(
    material: Grid,
    *,
    zone: tuple[float, float, float],
    spawn: NDArray[np.float32],
    clearance: int,
    known: Sequence[ZoneField] = (),
) -> tuple[tuple[ZoneField, ...], NDArray[np.uint8]]:
    """Return the zone field per footprint radius, and the flow codes of all layers, shape [L, Z + 1, Y, X].

    ``material`` is [Z, Y, X], ``zone`` a circle (cx, cy, r) [vox], ``spawn`` the box centres of the mechs, blue in the
    first half, shape [M, 3] [vox]; ``known`` are the fields of footprint radii that are already computed.
    """
    fields = zone_fields(material, zone=zone, clearance=clearance, known=known)
    half = len(spawn) // 2
    starts = [team[:, :2].mean(axis=0) for team in (spawn[:half], spawn[half:]) if len(team)]
    lanes = [_weighted(fields[-1], LANE_COSTS[lane](material, fields[-1], zone, starts), zone).flow for lane in Lane]
    return fields, np.stack([*(field.flow for field in fields), *lanes])


def exposure_costs(
    material: Grid, field: ZoneField, zone: tuple[float, float, float], starts: Sequence[Points]
) -> NDArray[np.float64]:
    """Return the cost factor of each node: higher in sight of the zone centre at eye height, shape [N]."""
    del starts
    graph = field.graph
    blocks = np.concatenate([BLOCKS_SIGHT[material], np.zeros((ceil(EYE_VOX), *material.shape[1:]), dtype=bool)])
    # One line of sight per block of columns, from its highest node.
    k, y, x = graph.kyx.T
    rows, columns = -(-material.shape[1] // BLOCK), -(-material.shape[2] // BLOCK)
    block = (y // BLOCK) * columns + x // BLOCK
    highest = np.full(rows * columns, -1)
    np.maximum.at(highest, block, np.arange(graph.num_nodes))
    sampled = highest[highest >= 0]
    centre = snap(graph, zone[0], zone[1], 0.0)
    foot = float(graph.kyx[centre, 0]) if centre >= 0 else 0.0
    eye = np.array([zone[0], zone[1], foot + EYE_VOX])
    points = graph.kyx[sampled][:, ::-1].astype(np.float64) + np.array([0.5, 0.5, EYE_VOX])
    seen = np.zeros(rows * columns, dtype=bool)
    seen[block[sampled]] = in_sight(blocks, points, eye)
    return np.where(seen[block], EXPOSED_FACTOR, 1.0)


def in_sight(blocks: NDArray[np.bool_], points: Points, eye: Points) -> NDArray[np.bool_]:
    """Return which points [n, 3] (x, y, z) see ``eye``, by samples along the lines; ``blocks`` is [Z, Y, X]."""
    steps = max(2, ceil(float(np.abs(points - eye).max(initial=0.0)) / SIGHT_STEP_VOX))
    along = (np.arange(1, steps) / steps)[:, None]
    at = [(eye[i] + (points[:, i] - eye[i]) * along).astype(np.int32) for i in range(3)]
    hidden = np.asarray(blocks[at[2], at[1], at[0]].any(axis=0))
    return ~hidden


def lane_proximity_costs(
    material: Grid, field: ZoneField, zone: tuple[float, float, float], starts: Sequence[Points]
) -> NDArray[np.float64]:
    """Return the cost factor of each node: higher near the shortest path of a team, shape [N]."""
    del zone
    off_lane = np.ones(material.shape[1:], dtype=bool)
    for start in starts:
        for x, y in main_lane(field, float(start[0]), float(start[1])):
            off_lane[y, x] = False
    if off_lane.all():
        return np.ones(field.graph.num_nodes)
    _, y, x = field.graph.kyx.T
    from scipy.ndimage import distance_transform_edt

    distance = np.asarray(distance_transform_edt(off_lane))[y, x]
    return 1.0 + (LANE_FACTOR - 1.0) * np.clip(1.0 - distance / LANE_WIDTH_VOX, 0.0, 1.0)


def main_lane(field: ZoneField, x: float, y: float) -> list[tuple[int, int]]:
    """Return the columns (x, y) of the shortest path from a point at ground level to the zone, empty without one."""
    graph = field.graph
    node = snap(graph, x, y, 0.0)
    if node < 0 or not np.isfinite(field.cost[node]):
        return []
    k, row, column = (int(v) for v in graph.kyx[node])
    steps = FLOW_STEP.tolist()
    lane = [(column, row)]
    while (code := int(field.flow[k, row, column])) not in (FLOW_GOAL, FLOW_NONE):
        dx, dy, dk = steps[code]
        k, row, column = k + dk, row + dy, column + dx
        lane.append((column, row))
    return lane


LANE_COSTS: dict[
    Lane, Callable[[Grid, ZoneField, tuple[float, float, float], Sequence[Points]], NDArray[np.float64]]
] = {Lane.COVERED: exposure_costs, Lane.FLANK: lane_proximity_costs}
"""Function of each lane that returns the cost factors of the nodes, at least 1."""


def _weighted(field: ZoneField, factor: NDArray[np.float64], zone: tuple[float, float, float]) -> ZoneField:
    """Return the field with edge costs multiplied by the ``factor`` of their target, except around the zone."""
    graph: NavGraph = field.graph
    _, y, x = graph.kyx.T
    cx, cy, r = zone
    near_zone = (x + 0.5 - cx) ** 2 + (y + 0.5 - cy) ** 2 < (r + ARENA_VOX) ** 2
    factor = np.where(near_zone, 1.0, factor)
    return graph_field(replace(graph, cost=graph.cost * factor[graph.target]), field.goals, field.narrow)
