"""Ways to the zone that are not the shortest: by covered cells, and off the lanes that both teams will take.

Both are cost-to-zone fields of the widest footprint whose edges cost more where a mech would rather not be, so the
detour that a pilot accepts is a factor of its table. Neither knows a side: one field serves both teams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from echelon.nav.field import FLOW_GOAL, FLOW_NONE, FLOW_STEP, ZoneField, graph_field, zone_field
from echelon.nav.graph import RADII, NavGraph, snap
from echelon.sim.world import BLOCKS_SIGHT

Grid = NDArray[np.uint8]
Points = NDArray[np.float64]


class Lane(IntEnum):
    """The further ways of a map, after those of the footprint radii."""

    COVERED = 0
    """Prefers cells that the zone does not overlook."""
    FLANK = 1
    """Keeps off the main lanes of both teams."""


NUM_LAYERS = len(RADII) + len(Lane)
"""Ways of one map: the shortest per footprint radius, then one per ``Lane``."""
EYE_VOX = 2.5
"""Height of eyes above the feet [vox]."""
SIGHT_STEP_VOX = 1.0
"""Distance between samples of a line of sight [vox]."""
BLOCK = 2
"""Columns along each axis that share one line of sight."""
EXPOSED_FACTOR = 1.3
"""What a cell in sight of the zone costs; a covered detour may be so much longer. With 1.8 pilots came too late."""
LANE_WIDTH_VOX = 14.0
"""Distance from a main lane from which on a cell costs no more [vox]."""
LANE_FACTOR = 3.0
"""What a cell of a main lane costs; it falls to 1 across ``LANE_WIDTH_VOX``."""
ARENA_VOX = 10.0
"""Within this distance of the zone all ways meet and no cell costs more [vox]."""
NAVIGATION_VERSION = (1, EYE_VOX, SIGHT_STEP_VOX, BLOCK, EXPOSED_FACTOR, LANE_WIDTH_VOX, LANE_FACTOR, ARENA_VOX)
"""What ways depend on besides the map, with a number to raise on other changes: cached maps are kept apart by it."""


def navigation_fields(
    material: Grid,
    *,
    zone: tuple[float, float, float],
    spawn: NDArray[np.float32],
    clearance: int,
    widest: ZoneField | None = None,
) -> tuple[list[ZoneField], NDArray[np.uint8]]:
    """Compute every way of a material grid [Z, Y, X] to the circle ``zone`` (cx, cy, r) [vox].

    ``spawn`` are box centres, blue in the first half, shape [M, 3] [vox]; ``widest`` is the field of the widest
    footprint if at hand. Returns the fields per radius, and the flow codes of all layers, shape [L, Z + 1, Y, X].
    """
    narrower = RADII[:-1] if widest is not None else RADII
    fields = [zone_field(material, zone=zone, radius=radius, clearance=clearance) for radius in narrower]
    fields += [widest] if widest is not None else []
    half = len(spawn) // 2
    starts = [team[:, :2].mean(axis=0) for team in (spawn[:half], spawn[half:]) if len(team)]
    shaped = [_shaped(fields[-1], LANE_COSTS[lane](material, fields[-1], zone, starts), zone).flow for lane in Lane]
    return fields, np.stack([*(field.flow for field in fields), *shaped])


def exposure_costs(
    material: Grid, field: ZoneField, zone: tuple[float, float, float], starts: Sequence[Points]
) -> NDArray[np.float64]:
    """Return what each node costs, more where it is in sight of the zone's centre at eye height, shape [N]."""
    del starts
    graph = field.graph
    blocks = np.concatenate([BLOCKS_SIGHT[material], np.zeros((ceil(EYE_VOX), *material.shape[1:]), dtype=bool)])
    # One line of sight per block of columns: its highest node stands for the block.
    k, y, x = graph.kyx.T
    rows, columns = -(-material.shape[1] // BLOCK), -(-material.shape[2] // BLOCK)
    block = (y // BLOCK) * columns + x // BLOCK
    highest = np.full(rows * columns, -1)
    np.maximum.at(highest, block, np.arange(graph.num_nodes))
    asked = highest[highest >= 0]
    centre = snap(graph, zone[0], zone[1], 0.0)
    foot = float(graph.kyx[centre, 0]) if centre >= 0 else 0.0
    eye = np.array([zone[0], zone[1], foot + EYE_VOX])
    points = graph.kyx[asked][:, ::-1].astype(np.float64) + np.array([0.5, 0.5, EYE_VOX])
    seen = np.zeros(rows * columns, dtype=bool)
    seen[block[asked]] = in_sight(blocks, points, eye)
    return np.where(seen[block], EXPOSED_FACTOR, 1.0)


def in_sight(blocks: NDArray[np.bool_], points: Points, eye: Points) -> NDArray[np.bool_]:
    """Say which points [n, 3] (x, y, z) see ``eye``, sampled along the lines; ``blocks`` [Z, Y, X] holds them all."""
    steps = max(2, ceil(float(np.abs(points - eye).max(initial=0.0)) / SIGHT_STEP_VOX))
    along = (np.arange(1, steps) / steps)[:, None]
    at = [(eye[i] + (points[:, i] - eye[i]) * along).astype(np.int32) for i in range(3)]
    hidden = np.asarray(blocks[at[2], at[1], at[0]].any(axis=0))
    return ~hidden


def lane_proximity_costs(
    material: Grid, field: ZoneField, zone: tuple[float, float, float], starts: Sequence[Points]
) -> NDArray[np.float64]:
    """Return what each node costs, more the nearer it is to a team's shortest way, shape [N]."""
    del zone
    off_lane = np.ones(material.shape[1:], dtype=bool)
    for start in starts:
        for x, y in main_lane(field, float(start[0]), float(start[1])):
            off_lane[y, x] = False
    if off_lane.all():
        return np.ones(field.graph.num_nodes)
    _, y, x = field.graph.kyx.T
    distance = np.asarray(distance_transform_edt(off_lane))[y, x]
    return 1.0 + (LANE_FACTOR - 1.0) * np.clip(1.0 - distance / LANE_WIDTH_VOX, 0.0, 1.0)


def main_lane(field: ZoneField, x: float, y: float) -> list[tuple[int, int]]:
    """List the columns (x, y) of the shortest way from a point at ground level to the zone; empty without one."""
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
] = {
    Lane.COVERED: exposure_costs,
    Lane.FLANK: lane_proximity_costs,
}
"""What a node costs on each lane, at least 1."""


def _shaped(field: ZoneField, factor: NDArray[np.float64], zone: tuple[float, float, float]) -> ZoneField:
    """Return the field again with edges that cost ``factor`` of the node they lead to, except around the zone."""
    graph: NavGraph = field.graph
    _, y, x = graph.kyx.T
    cx, cy, r = zone
    meeting = (x + 0.5 - cx) ** 2 + (y + 0.5 - cy) ** 2 < (r + ARENA_VOX) ** 2
    factor = np.where(meeting, 1.0, factor)
    return graph_field(replace(graph, cost=graph.cost * factor[graph.target]), field.goals, field.narrow)
