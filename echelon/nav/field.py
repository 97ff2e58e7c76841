"""The cost-to-zone field of a map and the next step from every place, as one byte.

A flow code says which neighbour to walk to: ``direction * 4 + rise + 2`` for the eight directions and the
rises -2 .. 1 of ``echelon.nav.graph``, ``FLOW_GOAL`` inside the zone, ``FLOW_NONE`` where there is no way. Decode
with ``FLOW_STEP``. Standable places next to the graph, too narrow for the whole footprint, carry a code that
leads back onto it, because a mech that hugs a wall is often centred there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from echelon.nav.graph import (
    CLIMB_COST,
    DIRECTIONS,
    RISES,
    NavGraph,
    build_graph,
    snap,
    standing_plane,
    unpack,
)
from echelon.sim.world import BLOCKS_MOVE, bit_plane

FLOW_GOAL = len(DIRECTIONS) * len(RISES)
"""Code of places inside the zone: steer straight to its centre."""
FLOW_NONE = 255
"""Code of places that are no node or have no way to the zone."""
FLOW_STEP: NDArray[np.int8] = np.array(
    [(dx, dy, rise) for dx, dy in DIRECTIONS for rise in RISES] + [(0, 0, 0)], dtype=np.int8
)
"""(dx, dy, dk) of each code, shape [33, 3]; the last row is ``FLOW_GOAL``."""


@dataclass(frozen=True, kw_only=True)
class ZoneField:
    """How to get to the zone with one footprint radius."""

    graph: NavGraph
    cost: NDArray[np.float64]
    """Cost to the zone of each node, infinite if there is no way, shape [N]."""
    goals: NDArray[np.int64]
    """Nodes inside the zone."""
    narrow: NDArray[np.bool_]
    """Standable places that are no nodes, shape [Z, Y, X]."""
    flow: NDArray[np.uint8]
    """Flow codes, shape [Z + 1, Y, X], first axis the foot layer."""

    def reaches(self, x: float, y: float, foot_z: float) -> bool:
        """Say whether a mech with its feet near this point can walk to the zone."""
        node = snap(self.graph, x, y, foot_z)
        return node >= 0 and bool(np.isfinite(self.cost[node]))

    def cost_grid(self) -> NDArray[np.float32]:
        """Return the costs of the nodes as a grid [Z + 1, Y, X], infinite elsewhere."""
        grid = np.full(self.flow.shape, np.inf, dtype=np.float32)
        grid[tuple(self.graph.kyx.T)] = self.cost
        return grid


def zone_field(
    material: NDArray[np.uint8], *, zone: tuple[float, float, float], radius: int, clearance: int
) -> ZoneField:
    """Compute the field of a material grid [Z, Y, X] toward the circle ``zone`` (cx, cy, r) [vox]."""
    move = bit_plane(material, BLOCKS_MOVE)
    graph = build_graph(material, radius=radius, clearance=clearance, move=move)
    narrow = unpack(standing_plane(move, material.shape[0], clearance), material.shape[0]) & (graph.index[:-1] < 0)
    return graph_field(graph, zone_nodes(graph, zone), narrow)


def graph_field(graph: NavGraph, goals: NDArray[np.int64], narrow: NDArray[np.bool_]) -> ZoneField:
    """Compute the field of a graph toward ``goals``; ``narrow`` [Z, Y, X] are standable places that are no nodes."""
    cost = cost_to(graph, goals)
    place_cost, flow = _flow(graph, cost, goals)
    _rejoin(place_cost, flow, narrow, graph.radius)
    flow = np.ascontiguousarray(flow[2:-1, 1:-1, 1:-1])
    return ZoneField(graph=graph, cost=cost, goals=goals, narrow=narrow, flow=flow)


def zone_nodes(graph: NavGraph, zone: tuple[float, float, float]) -> NDArray[np.int64]:
    """List the nodes inside the circle, or the one nearest to its centre where there are none."""
    cx, cy, r = zone
    inside = (graph.kyx[:, 2] + 0.5 - cx) ** 2 + (graph.kyx[:, 1] + 0.5 - cy) ** 2 < r * r
    goals = np.nonzero(inside)[0]
    if len(goals):
        return goals
    nearest = snap(graph, cx, cy, 0.0)
    return np.array([nearest] if nearest >= 0 else [], dtype=np.int64)


def cost_to(graph: NavGraph, goals: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cost of walking from each node to the nearest goal, infinite without a way, shape [N]."""
    if not len(goals):
        return np.full(graph.num_nodes, np.inf)
    return np.asarray(dijkstra(graph.matrix(reverse=True), indices=goals, min_only=True), dtype=np.float64)


def _flow(
    graph: NavGraph, cost: NDArray[np.float64], goals: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Choose each node's best edge; return costs and codes on grids with two layers and one column of margin.

    The choice is made from the costs, lowest code first among equals, not from the search's parents, whose
    order is an accident of its heap.
    """
    best = np.full(graph.num_nodes, np.inf)
    code = np.full(graph.num_nodes, FLOW_NONE, dtype=np.uint8)
    bounds = np.searchsorted(graph.code, np.arange(FLOW_GOAL + 1))
    for c in range(FLOW_GOAL):
        edges = slice(bounds[c], bounds[c + 1])
        source = graph.source[edges]
        through = cost[graph.target[edges]] + graph.cost[edges]
        better = through < best[source]
        best[source[better]] = through[better]
        code[source[better]] = c
    code[goals] = FLOW_GOAL
    size_x, size_y, size_z = graph.size
    shape = (size_z + 4, size_y + 2, size_x + 2)
    k, y, x = graph.kyx.T
    place_cost = np.full(shape, np.inf)
    flow = np.full(shape, FLOW_NONE, dtype=np.uint8)
    place_cost[k + 2, y + 1, x + 1] = cost
    flow[k + 2, y + 1, x + 1] = code
    return place_cost, flow


def _rejoin(place_cost: NDArray[np.float64], flow: NDArray[np.uint8], narrow: NDArray[np.bool_], radius: int) -> None:
    """Give the ``narrow`` places [Z, Y, X] within ``radius`` of the graph the code of the best neighbour, in place."""
    k, y, x = np.nonzero(narrow)
    layer, row = flow.shape[1] * flow.shape[2], flow.shape[2]
    at = (k + 2) * layer + (y + 1) * row + (x + 1)
    flat_cost, flat_flow = place_cost.reshape(-1), flow.reshape(-1)
    for _ in range(radius):
        at = at[flat_flow[at] == FLOW_NONE]
        best = np.full(len(at), np.inf)
        code = np.full(len(at), FLOW_NONE, dtype=np.uint8)
        for c, (dx, dy, rise) in enumerate(FLOW_STEP[:FLOW_GOAL].tolist()):
            step = (dx * dx + dy * dy) ** 0.5 * (CLIMB_COST if rise > 0 else 1.0)
            through = flat_cost[at + rise * layer + dy * row + dx] + step
            better = through < best
            best[better] = through[better]
            code[better] = c
        flat_cost[at] = best
        flat_flow[at] = code


def next_cell(flow: NDArray[np.uint8], x: float, y: float, foot_z: float) -> tuple[int, int, int] | None:
    """Return the place (x, y, k) to walk to from a mech's foot position, or None without a way.

    ``flow`` is [Z + 1, Y, X]. A mech in the air, or on an edge with its centre over the lower side, has no
    code at its own height; the first code below it counts. Inside the zone the answer is the place itself.
    """
    top, size_y, size_x = flow.shape
    ix, iy = min(max(int(x), 0), size_x - 1), min(max(int(y), 0), size_y - 1)
    for k in range(min(int(max(foot_z, 0.0)), top - 1), -1, -1):
        code = int(flow[k, iy, ix])
        if code != FLOW_NONE:
            dx, dy, dk = FLOW_STEP[code].tolist()
            return ix + dx, iy + dy, k + dk
    return None
