"""Nodes and edges of navigation graphs: against an oracle of loops, on ramps, under bridges, at the map edge."""

import numpy as np
import pytest
from numpy.typing import NDArray

from echelon.nav.field import cost_to
from echelon.nav.graph import DIRECTIONS, RADII, RADIUS_OF_CHASSIS, RISES, NavGraph, build_graph, snap, statistics
from echelon.sim.world import BLOCKS_MOVE, Material

CLEARANCE = 4


def flat(size_z: int = 12, size_y: int = 20, size_x: int = 30) -> NDArray[np.uint8]:
    grid = np.zeros((size_z, size_y, size_x), dtype=np.uint8)
    grid[0] = Material.DIRT
    return grid


def graph_of(grid: NDArray[np.uint8], radius: int = 1) -> NavGraph:
    return build_graph(grid, radius=radius, clearance=CLEARANCE)


def position(graph: NavGraph, node: int) -> tuple[float, float, float]:
    """Return the foot position (x, y, z) of a mech at a node [vox]."""
    k, y, x = graph.kyx[node]
    return float(x) + 0.5, float(y) + 0.5, float(k)


def oracle_fits(grid: NDArray[np.uint8], k: int, y: int, x: int, radius: int, clearance: int) -> bool:
    """Return by loops whether a footprint has ``clearance`` free layers, with a step of one tolerated."""
    size_z, size_y, size_x = grid.shape
    columns = [(y + j, x + i) for j in range(-radius, radius + 1) for i in range(-radius, radius + 1)]
    if any(not (0 <= j < size_y and 0 <= i < size_x) for j, i in columns):
        return False

    def solid(z: int, j: int, i: int) -> bool:
        return z < size_z and bool(BLOCKS_MOVE[grid[z, j, i]])

    foot = k + 1 if any(solid(k, j, i) for j, i in columns) else k
    return not any(solid(z, j, i) for j, i in columns for z in range(foot, foot + clearance))


def oracle_is_node(grid: NDArray[np.uint8], k: int, y: int, x: int, radius: int) -> bool:
    size_z = grid.shape[0]
    if not 0 <= k < size_z or (k > 0 and not BLOCKS_MOVE[grid[k - 1, y, x]]):
        return False
    if any(BLOCKS_MOVE[grid[z, y, x]] for z in range(k, min(k + CLEARANCE, size_z))):
        return False
    return oracle_fits(grid, k, y, x, radius, CLEARANCE)


def oracle_edges(grid: NDArray[np.uint8], nodes: set[tuple[int, int, int]], radius: int) -> set[tuple]:
    edges = set()
    for k, y, x in nodes:
        for d, (dx, dy) in enumerate(DIRECTIONS):
            if d % 2 and not ((k, y, x + dx) in nodes and (k, y + dy, x) in nodes):
                continue
            for rise in RISES:
                other = (k + rise, y + dy, x + dx)
                if other not in nodes:
                    continue
                if rise and not oracle_fits(grid, *other, radius, CLEARANCE + abs(rise)):
                    continue
                if rise > 0 and not oracle_fits(grid, k, y, x, radius, CLEARANCE + 1):
                    continue
                edges.add(((k, y, x), other))
    return edges


@pytest.mark.parametrize("radius", [0, *RADII])
@pytest.mark.parametrize("seed", range(3))
def test_graph_matches_oracle_on_rough_ground(radius: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = flat(size_y=16, size_x=16)
    for _ in range(14):
        x, y, w, d = rng.integers(0, 14, 2).tolist() + rng.integers(1, 7, 2).tolist()
        low, high = sorted(rng.integers(0, 12, 2).tolist())
        grid[0 if rng.random() < 0.6 else low : min(high, 3), y : y + d, x : x + w] = Material.SOLID
        if rng.random() < 0.3:
            grid[high, y : y + d, x : x + w] = Material.GLASS
    graph = graph_of(grid, radius)
    nodes = {tuple(node) for node in graph.kyx.tolist()}
    cells = np.ndindex(grid.shape[0] + 1, *grid.shape[1:])
    assert nodes == {cell for cell in cells if oracle_is_node(grid, *cell, radius)}
    kyx = [tuple(node) for node in graph.kyx.tolist()]
    edges = {(kyx[s], kyx[t]) for s, t in zip(graph.source.tolist(), graph.target.tolist(), strict=True)}
    assert edges == oracle_edges(grid, nodes, radius)
    assert all(graph.index[cell] == i for i, cell in enumerate(kyx))


def test_step_up_needs_one_more_free_layer() -> None:
    grid = flat()
    grid[:1, :, 15:] = Material.SOLID
    grid[CLEARANCE + 1, :, 15:] = Material.SOLID
    blocked = graph_of(grid)
    grid[CLEARANCE + 1] = Material.AIR
    grid[CLEARANCE + 2, :, 15:] = Material.SOLID
    open_ = graph_of(grid)
    for graph, climbs in ((blocked, False), (open_, True)):
        top = snap(graph, 20.5, 10.5, 1.0)
        assert position(graph, top)[2] == 1.0
        assert bool(np.isfinite(cost_to(graph, np.array([top]))[snap(graph, 5.5, 10.5, 0.0)])) is climbs


def test_narrow_gap_blocks_wide_footprint() -> None:
    grid = flat()
    grid[:6, :, 15] = Material.SOLID
    grid[:6, 9:12, 15] = Material.AIR
    for radius, passes in ((1, True), (2, False)):
        graph = graph_of(grid, radius)
        cost = cost_to(graph, np.array([snap(graph, 5.5, 10.5, 0.0)]))
        assert bool(np.isfinite(cost[snap(graph, 25.5, 10.5, 0.0)])) is passes


def test_heavy_footprint_radius_is_larger() -> None:
    assert RADIUS_OF_CHASSIS == (1, 1, 1, 2)
    assert RADII == (1, 2)


def test_nodes_exclude_top_layer_and_map_edge() -> None:
    grid = flat(size_z=12)
    grid[:, 5:15, 5:15] = Material.SOLID
    graph = graph_of(grid, 1)
    assert graph.kyx[:, 0].max() == 0
    assert graph.kyx[:, 1].min() == 1 and graph.kyx[:, 1].max() == grid.shape[1] - 2


def test_hazards_cost_more() -> None:
    grid = flat()
    grid[0, :, 10:13] = Material.WATER
    grid[0, :, 20:23] = Material.LAVA
    graph = graph_of(grid)
    start, goal = snap(graph, 5.5, 10.5, 0.0), snap(graph, 25.5, 10.5, 0.0)
    assert cost_to(graph, np.array([goal]))[start] == pytest.approx(20.0 + 3 * 0.67 + 3 * 4.0)


def test_snap_prefers_same_height_within_reach() -> None:
    grid = flat()
    grid[:3, :, 10:] = Material.SOLID
    graph = graph_of(grid)
    assert position(graph, snap(graph, 10.2, 10.5, 0.0)) == (8.5, 10.5, 0.0)
    assert position(graph, snap(graph, 9.8, 10.5, 3.0)) == (10.5, 10.5, 3.0)
    grid[:, :, 10:] = Material.SOLID
    graph = graph_of(grid)
    assert snap(graph, 16.5, 10.5, 0.0) >= 0
    assert snap(graph, 17.5, 10.5, 0.0) == -1


def test_statistics_report_largest_component_share() -> None:
    grid = flat(size_y=20, size_x=30)
    grid[:, :, 10] = Material.SOLID
    report = statistics(graph_of(grid))
    rows = 18
    assert report.nodes == rows * (8 + 17)
    assert report.connectivity == pytest.approx(17 / 25)
    assert report.edges_per_node == pytest.approx(report.edges / report.nodes)
    assert statistics(graph_of(np.full((12, 8, 8), Material.SOLID, dtype=np.uint8))).nodes == 0
