"""The cost-to-zone field of a map and its flow field: one byte per cell that encodes the next step to the zone.

A flow code is ``direction * 4 + rise + 2`` for the eight directions and the rises -2 .. 1 of ``echelon.nav.graph``,
``FLOW_GOAL`` inside the zone, or ``FLOW_NONE`` where no path exists. ``FLOW_STEP`` decodes it. Standable cells next to
the graph that are too narrow for the whole footprint have a code that leads back onto the graph, because the centre of
a mech close to a wall is often there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echelon.nav.graph import CLIMB_COST, DIRECTIONS, RISES, NavGraph, build_graph, snap, standing_plane, unpack
from echelon.sim.world import BLOCKS_MOVE, bit_plane

FLOW_GOAL = len(DIRECTIONS) * len(RISES)
"""Code of cells inside the zone, where the path is the straight line to its centre."""
FLOW_NONE = 255
"""Code of cells that are no node or have no path to the zone."""
FLOW_STEP: NDArray[np.int8] = np.array(
    [(dx, dy, rise) for dx, dy in DIRECTIONS for rise in RISES] + [(0, 0, 0)], dtype=np.int8
)
"""(dx, dy, dk) of each code, shape [33, 3]; the last row is ``FLOW_GOAL``."""


@dataclass(frozen=True, kw_only=True)
class ZoneField:
    """Costs and flow codes toward the zone for one footprint radius; N nodes."""

    graph: NavGraph
    cost: NDArray[np.float64]
    """Cost to the zone of each node, infinite without a path, shape [N]."""
    goals: NDArray[np.int64]
    """Nodes inside the zone."""
    narrow: NDArray[np.bool_]
    """Standable cells that are no nodes, shape [Z, Y, X]."""
    flow: NDArray[np.uint8]
    """Flow codes, shape [Z + 1, Y, X], first axis the foot layer."""

    def reaches(self, x: float, y: float, foot_z: float) -> bool:
        """Return whether a mech with its feet near this point [vox] can walk to the zone."""
        node = snap(self.graph, x, y, foot_z)
        return node >= 0 and bool(np.isfinite(self.cost[node]))

    def cost_grid(self) -> NDArray[np.float32]:
        """Return the costs of the nodes as a grid, infinite elsewhere, shape [Z + 1, Y, X]."""
        grid = np.full(self.flow.shape, np.inf, dtype=np.float32)
        grid[tuple(self.graph.kyx.T)] = self.cost
        return grid


def zone_field(
    material: NDArray[np.uint8], *, zone: tuple[float, float, float], radius: int, clearance: int
) -> ZoneField:
    """Return the field of a material grid [Z, Y, X] toward the circle ``zone`` (cx, cy, r) [vox]."""
    move = bit_plane(material, BLOCKS_MOVE)
    graph = build_graph(material, radius=radius, clearance=clearance, move=move)
    narrow = unpack(standing_plane(move, material.shape[0], clearance), material.shape[0]) & (graph.index[:-1] < 0)
    return graph_field(graph, zone_nodes(graph, zone), narrow)


def graph_field(graph: NavGraph, goals: NDArray[np.int64], narrow: NDArray[np.bool_]) -> ZoneField:
    """Return the field of a graph toward ``goals``; ``narrow`` [Z, Y, X] marks standable cells that are no nodes."""
    cost = cost_to(graph, goals)
    cell_cost, flow = _flow(graph, cost, goals)
    _fill_narrow_cells(cell_cost, flow, narrow, graph.radius)
    flow = np.ascontiguousarray(flow[2:-1, 1:-1, 1:-1])
    return ZoneField(graph=graph, cost=cost, goals=goals, narrow=narrow, flow=flow)


def zone_nodes(graph: NavGraph, zone: tuple[float, float, float]) -> NDArray[np.int64]:
    """Return the nodes inside the circle, or the one nearest to its centre if there are none, shape [n]."""
    cx, cy, r = zone
    inside = (graph.kyx[:, 2] + 0.5 - cx) ** 2 + (graph.kyx[:, 1] + 0.5 - cy) ** 2 < r * r
    goals = np.nonzero(inside)[0]
    if len(goals):
        return goals
    nearest = snap(graph, cx, cy, 0.0)
    return np.array([nearest] if nearest >= 0 else [], dtype=np.int64)


def cost_to(graph: NavGraph, goals: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cost of walking from each node to the nearest goal, infinite without a path, shape [N]."""
    if not len(goals):
        return np.full(graph.num_nodes, np.inf)
    from scipy.sparse.csgraph import dijkstra

    return np.asarray(dijkstra(graph.matrix(reverse=True), indices=goals, min_only=True), dtype=np.float64)


def _flow(
    graph: NavGraph, cost: NDArray[np.float64], goals: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return costs and flow codes on grids [Z + 4, Y + 2, X + 2], with a margin of two layers and one column.

    The best edge of a node is chosen by cost, lowest code first among equals. The parents of the search are not used,
    because their order depends on its heap.
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
    cell_cost = np.full(shape, np.inf)
    flow = np.full(shape, FLOW_NONE, dtype=np.uint8)
    cell_cost[k + 2, y + 1, x + 1] = cost
    flow[k + 2, y + 1, x + 1] = code
    return cell_cost, flow


def _fill_narrow_cells(
    cell_cost: NDArray[np.float64], flow: NDArray[np.uint8], narrow: NDArray[np.bool_], radius: int
) -> None:
    """Set the codes of the ``narrow`` cells [Z, Y, X] within ``radius`` of the graph to lead to the best neighbour."""
    k, y, x = np.nonzero(narrow)
    layer, row = flow.shape[1] * flow.shape[2], flow.shape[2]
    at = (k + 2) * layer + (y + 1) * row + (x + 1)
    flat_cost, flat_flow = cell_cost.reshape(-1), flow.reshape(-1)
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
