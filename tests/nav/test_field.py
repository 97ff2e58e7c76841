"""Cost-to-zone fields: costs equal those of A*, codes descend the cost, and every mech arrives."""

from heapq import heappop, heappush

import numpy as np
import pytest
from numpy.typing import NDArray

from echelon.config import WorldConfig
from echelon.gen.generate import GeneratedMap, generate
from echelon.nav.field import FLOW_GOAL, FLOW_NONE, FLOW_STEP, cost_to, zone_field
from echelon.nav.graph import RADII, RADIUS_OF_CHASSIS, NavGraph, build_graph, snap
from echelon.sim.arsenal import ROSTER
from echelon.sim.world import Material
from tests.nav.walk import next_cell


class Planner:
    """A* between two nodes of a graph: the reference for costs."""

    def __init__(self, graph: NavGraph) -> None:
        self.graph = graph
        order = np.argsort(graph.source, kind="stable")
        self._target: list[int] = graph.target[order].tolist()
        self._cost: list[float] = graph.cost[order].tolist()
        self._first: list[int] = np.searchsorted(graph.source[order], np.arange(graph.num_nodes + 1)).tolist()

    def search(self, start: int, goal: int) -> tuple[list[int], float]:
        """Return the nodes of the cheapest route and the sum of its edge costs; without a route none, and infinity."""
        # Without heights, because climbing one cell costs less than its length in space.
        offset = self.graph.kyx[:, 1:] - self.graph.kyx[goal, 1:]
        bound: NDArray[np.float64] = np.hypot(offset[:, 0], offset[:, 1])
        best = {start: 0.0}
        parent: dict[int, int] = {}
        closed: set[int] = set()
        heap = [(float(bound[start]), start)]
        while heap:
            _, node = heappop(heap)
            if node in closed:
                continue
            closed.add(node)
            if node == goal:
                return _trace(parent, start, goal), best[goal]
            for edge in range(self._first[node], self._first[node + 1]):
                other, cost = self._target[edge], best[node] + self._cost[edge]
                if other not in closed and cost < best.get(other, np.inf):
                    best[other] = cost
                    parent[other] = node
                    heappush(heap, (cost + float(bound[other]), other))
        return [], float("inf")


def _trace(parent: dict[int, int], start: int, goal: int) -> list[int]:
    nodes = [goal]
    while nodes[-1] != start:
        nodes.append(parent[nodes[-1]])
    return nodes[::-1]


@pytest.fixture(scope="module")
def made() -> GeneratedMap:
    return generate(WorldConfig(size_x=64, size_y=56, size_z=16), 11, num_packs=1, zone_radius_vox=6.0)


@pytest.mark.parametrize("radius", RADII)
def test_planner_cost_matches_field(made: GeneratedMap, radius: int) -> None:
    graph = build_graph(made.material, radius=radius, clearance=4)
    planner, goal = Planner(graph), snap(graph, made.zone[0], made.zone[1], 0.0)
    cost = cost_to(graph, np.array([goal]))
    for start in np.random.default_rng(0).integers(0, graph.num_nodes, 40).tolist():
        nodes, found = planner.search(start, goal)
        assert found == pytest.approx(cost[start])
        assert not nodes or (nodes[0], nodes[-1]) == (start, goal)


@pytest.mark.parametrize("slot", range(len(RADII)))
def test_flow_codes_descend_cost(made: GeneratedMap, slot: int) -> None:
    field = zone_field(made.material, zone=made.zone, radius=RADII[slot], clearance=4)
    cost, flow = field.cost_grid(), made.flow[slot]
    k, y, x = np.nonzero(np.isfinite(cost) & (flow != FLOW_GOAL))
    dx, dy, dk = FLOW_STEP[flow[k, y, x]].T
    assert (cost[k + dk, y + dy, x + dx] < cost[k, y, x]).all()
    assert (cost[flow == FLOW_GOAL] == 0).all() and (flow == FLOW_GOAL).any()


@pytest.mark.parametrize("slot", range(len(RADII)))
def test_goal_cells_lie_inside_zone(made: GeneratedMap, slot: int) -> None:
    _, y, x = np.nonzero(made.flow[slot] == FLOW_GOAL)
    assert (np.hypot(x + 0.5 - made.zone[0], y + 0.5 - made.zone[1]) < made.zone[2]).all()


def test_flow_leads_every_spawn_to_zone(made: GeneratedMap) -> None:
    assert len(made.spawn) == 2 * len(ROSTER)
    for chassis, (x, y, _) in zip(ROSTER * 2, made.spawn.tolist(), strict=True):
        flow = made.flow[RADII.index(RADIUS_OF_CHASSIS[chassis])]
        cell = next_cell(flow, x, y, 0.03)
        for _ in range(300):
            assert cell is not None
            if flow[cell[2], cell[1], cell[0]] == FLOW_GOAL:
                break
            cell = next_cell(flow, cell[0] + 0.5, cell[1] + 0.5, cell[2] + 0.03)
        else:
            pytest.fail("the walk did not end")


def walled(size: int = 30) -> NDArray[np.uint8]:
    grid = np.zeros((12, size, size), dtype=np.uint8)
    grid[0] = Material.DIRT
    grid[:8, 15, :] = Material.SOLID
    grid[:8, 15, 4:9] = Material.AIR
    return grid


def test_flow_leads_narrow_cells_back_to_graph() -> None:
    field = zone_field(walled(), zone=(20.0, 24.0, 4.0), radius=2, clearance=4)
    assert field.graph.index[0, 14, 20] == -1
    cell = next_cell(field.flow, 20.5, 14.5, 0.0)
    for _ in range(2):
        assert cell is not None
        if field.graph.index[cell[2], cell[1], cell[0]] >= 0:
            break
        cell = next_cell(field.flow, cell[0] + 0.5, cell[1] + 0.5, cell[2])
    else:
        pytest.fail("two steps did not reach the graph")


def test_next_cell_of_airborne_mech_uses_ground_below() -> None:
    field = zone_field(walled(), zone=(20.0, 24.0, 4.0), radius=1, clearance=4)
    assert next_cell(field.flow, 6.5, 5.5, 6.7) == next_cell(field.flow, 6.5, 5.5, 0.0)


def test_zone_field_behind_closed_wall_is_unreachable() -> None:
    grid = walled()
    grid[:8, 15, :] = Material.SOLID
    field = zone_field(grid, zone=(20.0, 24.0, 4.0), radius=1, clearance=4)
    assert (field.flow[0, 1:12] == FLOW_NONE).all()
    assert next_cell(field.flow, 10.5, 5.5, 0.0) is None
    assert not field.reaches(10.5, 5.5, 0.0) and field.reaches(10.5, 20.5, 0.0)


def test_zone_without_nodes_uses_nearest_node() -> None:
    grid = walled()
    grid[:, 22:27, 18:23] = Material.SOLID
    field = zone_field(grid, zone=(20.0, 24.0, 1.5), radius=1, clearance=4)
    assert len(field.goals) == 1 and field.reaches(10.5, 20.5, 0.0)


def test_zone_field_of_solid_map_is_empty() -> None:
    field = zone_field(np.full((12, 20, 20), Material.SOLID, dtype=np.uint8), zone=(10, 10, 3), radius=1, clearance=4)
    assert (field.flow == FLOW_NONE).all() and not field.reaches(10.5, 10.5, 0.0)
