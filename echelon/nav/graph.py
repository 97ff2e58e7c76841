"""Where mechs can stand and walk: nodes and edges of a map, found by bit-plane stencils.

A node ``(k, y, x)`` is a mech with its feet at height k over the centre of column (x, y): it stands on cell k - 1, or
on bedrock for k = 0. Edges lead to the eight neighbours, one cell up or up to two down. The graph depends on the
footprint radius, so there is one per radius in ``RADII``. ``echelon.nav.field`` searches it.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.sim.arsenal import CHASSIS
from echelon.sim.world import BLOCKS_MOVE, WALK_COST, bit_plane

DIRECTIONS: tuple[tuple[int, int], ...] = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
"""(dx, dy) of the eight neighbours, counter-clockwise from +x; odd entries are diagonal."""
RISES: tuple[int, ...] = (-2, -1, 0, 1)
"""Height changes of edges [vox]; the step-up of the movement rules climbs one."""
CLIMB_COST = 1.2
"""Cost factor of an upward edge."""
SNAP_REACH = 8
"""Distance in columns within which a point is snapped to a node."""
SNAP_HEIGHT = 1.5
"""Height difference to a point beyond which a node is a poor match [vox]."""
SNAP_PENALTY = 1000.0
"""Added to the squared distance of a node at a poorly matching height."""

RADIUS_OF_CHASSIS: tuple[int, ...] = tuple(ceil(max(c.size[0], c.size[1]) / 2 - 0.5) for c in CHASSIS)
"""Footprint radius of each chassis [columns], in the order of ``CHASSIS``."""
RADII: tuple[int, ...] = tuple(sorted(set(RADIUS_OF_CHASSIS)))
"""Distinct footprint radii, ascending; first axis of navigation fields."""

Words = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class NavGraph:
    """Nodes sorted by (k, y, x) and directed edges grouped by code; N nodes, L edges."""

    size: tuple[int, int, int]
    """Size of the map (x, y, z) [vox]."""
    radius: int
    """Footprint radius [columns]."""
    kyx: NDArray[np.int32]
    """Foot layer, row and column of each node, shape [N, 3]."""
    index: NDArray[np.int32]
    """Node of each cell, -1 for none, shape [Z + 1, Y, X]."""
    source: NDArray[np.int32]
    """Node an edge starts at, shape [L]."""
    target: NDArray[np.int32]
    """Node an edge ends at, shape [L]."""
    cost: NDArray[np.float64]
    """Cost of each edge, about its length [vox], shape [L]."""
    code: NDArray[np.uint8]
    """Edge code, ``direction * 4 + rise + 2``, ascending, shape [L]."""

    @property
    def num_nodes(self) -> int:
        return len(self.kyx)

    def matrix(self, *, reverse: bool = False) -> Any:
        """Return the edge costs as a sparse matrix [N, N] from row to column, or from column to row if ``reverse``."""
        from scipy.sparse import csr_matrix

        ends = (self.target, self.source) if reverse else (self.source, self.target)
        return csr_matrix((self.cost, ends), shape=(self.num_nodes, self.num_nodes))


@dataclass(frozen=True, kw_only=True)
class GraphStatistics:
    """Size and connectivity of a navigation graph."""

    nodes: int
    edges: int
    edges_per_node: float
    connectivity: float
    """Share of the nodes in the largest component."""


def window(words: Words, count: int) -> Words:
    """Return words with bit k set where any of the bits k .. k + count - 1 is set, uint64 [Y, X]."""
    out = words.copy()
    for shift in range(1, count):
        out |= words >> np.uint64(shift)
    return out


def dilate(words: Words, radius: int) -> Words:
    """Return each column ORed with the columns of the surrounding square of ``radius``; outside the map is empty."""
    rows = words.copy()
    for shift in range(1, radius + 1):
        rows[shift:] |= words[:-shift]
        rows[:-shift] |= words[shift:]
    out = rows.copy()
    for shift in range(1, radius + 1):
        out[:, shift:] |= rows[:, :-shift]
        out[:, :-shift] |= rows[:, shift:]
    return out


def standing_plane(move: Words, size_z: int, clearance: int) -> Words:
    """Return bit k where a column has support under layer k and ``clearance`` free layers from k on, uint64 [Y, X].

    Layers above the map are free, but nothing stands on the topmost cell.
    """
    support = (move << np.uint64(1)) | np.uint64(1)
    inside = np.uint64((1 << size_z) - 1)
    return support & ~window(move, clearance) & inside


def footprint_plane(move: Words, radius: int, clearance: int) -> Words:
    """Return bit k where a footprint at foot layer k has ``clearance`` free layers, uint64 [Y, X].

    Where a column of the footprint collides at layer k itself, a step of one is tolerated and the free layers are
    counted from k + 1. Footprints that leave the map have no bits.
    """
    any_blocked = dilate(move, radius)
    blocked = window(any_blocked, clearance)
    fits = ~blocked | (any_blocked & ~(blocked >> np.uint64(1)))
    if radius:
        fits[:radius] = 0
        fits[-radius:] = 0
        fits[:, :radius] = 0
        fits[:, -radius:] = 0
    return fits


def unpack(plane: Words, layers: int) -> NDArray[np.bool_]:
    layer_bit = np.uint64(1) << np.arange(layers, dtype=np.uint64)
    return (plane[None] & layer_bit[:, None, None]) != 0


def build_graph(material: NDArray[np.uint8], *, radius: int, clearance: int, move: Words | None = None) -> NavGraph:
    """Return the graph of a material grid [Z, Y, X] for one footprint radius [columns].

    Costs are multiplied by the walk cost of the ground. An upward edge needs one more free layer above both
    footprints, because the step raises the box; a downward edge needs the headroom of the higher end above the lower
    one, because the box passes there before it drops. ``move`` is the movement plane if already computed.
    """
    size_z, size_y, size_x = material.shape
    move = bit_plane(material, BLOCKS_MOVE) if move is None else move
    nodes = standing_plane(move, size_z, clearance) & footprint_plane(move, radius, clearance)
    grid = unpack(nodes, size_z)
    k, y, x = (axis.astype(np.int32) for axis in np.nonzero(grid))
    # A margin of one step beyond every face, so that neighbour look-ups need no bounds checks.
    padded = np.full((size_z + 4, size_y + 2, size_x + 2), -1, dtype=np.int32)
    padded[k + 2, y + 1, x + 1] = np.arange(len(k), dtype=np.int32)
    higher = {rise: footprint_plane(move, radius, clearance + abs(rise))[y, x] for rise in RISES if rise}
    headroom = {rise: (free >> k.astype(np.uint64)) & np.uint64(1) != 0 for rise, free in higher.items()}
    source, target, code = _edges(padded, k, y, x, headroom)
    direction, rise = np.divmod(code.astype(np.int64), len(RISES))
    cost = np.where(direction % 2 == 1, sqrt(2.0), 1.0) * np.where(rise == RISES.index(1), CLIMB_COST, 1.0)
    cost = cost * WALK_COST[material[k, y, x]][target]
    return NavGraph(
        size=(size_x, size_y, size_z),
        radius=radius,
        kyx=np.stack([k, y, x], axis=1),
        index=np.ascontiguousarray(padded[2:-1, 1:-1, 1:-1]),
        source=source,
        target=target,
        cost=cost,
        code=code,
    )


def _edges(
    padded: NDArray[np.int32],
    k: NDArray[np.int32],
    y: NDArray[np.int32],
    x: NDArray[np.int32],
    headroom: dict[int, NDArray[np.bool_]],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
    """List the edges as source, target and code, ordered by code and then by source."""
    flat = padded.ravel()
    layer, row = padded.shape[1] * padded.shape[2], padded.shape[2]
    at = (k.astype(np.int64) + 2) * layer + (y + 1) * row + (x + 1)
    level = [flat[at + dy * row + dx] >= 0 for dx, dy in DIRECTIONS]
    sources, targets, codes = [], [], []
    for d, (dx, dy) in enumerate(DIRECTIONS):
        allowed = level[d - 1] & level[(d + 1) % len(DIRECTIONS)] if d % 2 else None
        for r, rise in enumerate(RISES):
            other = flat[at + rise * layer + dy * row + dx]
            ok = other >= 0
            if allowed is not None:
                ok &= allowed
            if rise:
                ok &= headroom[rise][other]
            if rise > 0:
                ok &= headroom[rise]
            found = np.nonzero(ok)[0].astype(np.int32)
            sources.append(found)
            targets.append(other[found])
            codes.append(np.full(len(found), d * len(RISES) + r, dtype=np.uint8))
    return np.concatenate(sources), np.concatenate(targets), np.concatenate(codes)


def snap(graph: NavGraph, x: float, y: float, foot_z: float, *, reach: int = SNAP_REACH) -> int:
    """Return the node nearest to a point with the given foot height [vox], or -1 if none is within reach.

    Nodes at another height lose to every node at the point's own height within reach.
    """
    column, row = int(np.floor(x)), int(np.floor(y))
    k, node_y, node_x = graph.kyx.T
    near = np.nonzero((np.abs(node_x - column) <= reach) & (np.abs(node_y - row) <= reach))[0]
    if not len(near):
        return -1
    rise = k[near] - foot_z
    score = (node_x[near] + 0.5 - x) ** 2 + (node_y[near] + 0.5 - y) ** 2 + rise**2
    score = score + np.where(np.abs(rise) > SNAP_HEIGHT, SNAP_PENALTY, 0.0)
    return int(near[np.argmin(score)])


def statistics(graph: NavGraph) -> GraphStatistics:
    """Return the counts of nodes and edges, and the share of nodes in the largest component."""
    nodes, edges = graph.num_nodes, len(graph.source)
    if not nodes:
        return GraphStatistics(nodes=0, edges=0, edges_per_node=0.0, connectivity=0.0)
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(graph.matrix(), directed=True, connection="weak")
    largest = int(np.bincount(label).max())
    return GraphStatistics(nodes=nodes, edges=edges, edges_per_node=edges / nodes, connectivity=largest / nodes)
