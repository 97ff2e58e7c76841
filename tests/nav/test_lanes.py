"""Lanes: the covered lane prefers cover, the flank lane avoids main lanes, and both reach the zone."""

from math import hypot

import numpy as np
import pytest
from numpy.typing import NDArray

from echelon.config import WorldConfig
from echelon.gen.generate import GeneratedMap, generate
from echelon.nav.field import FLOW_GOAL, FLOW_NONE, FLOW_STEP, zone_field
from echelon.nav.graph import RADII
from echelon.nav.lanes import NUM_LAYERS, Lane, in_sight, main_lane, navigation_fields
from echelon.sim.world import BLOCKS_SIGHT, Material

ZONE = (50.5, 20.5, 6.0)
STARTS = np.array([[8.5, 20.5, 1.5], [8.5, 20.5, 1.5]], np.float32)


@pytest.fixture(scope="module")
def made() -> GeneratedMap:
    return generate(WorldConfig(), 11, num_packs=1, zone_radius_vox=6.0)


def path_cells(flow: NDArray[np.uint8], x: int, y: int, k: int = 0) -> list[tuple[int, int, int]]:
    """Return the cells of a path, the last one inside the zone."""
    path = [(x, y, k)]
    for _ in range(400):
        code = int(flow[k, y, x])
        assert code != FLOW_NONE, f"the path ends at {(x, y, k)}"
        if code == FLOW_GOAL:
            return path
        x, y, k = (int(a + b) for a, b in zip((x, y, k), FLOW_STEP[code], strict=True))
        path.append((x, y, k))
    raise AssertionError("the path does not end")


def flat_map(**walls: tuple[slice, slice]) -> NDArray[np.uint8]:
    grid = np.zeros((12, 64, 64), np.uint8)
    for rows, columns in walls.values():
        grid[:8, rows, columns] = Material.SOLID
    return grid


def test_lanes_cover_cells_of_shortest_path(made: GeneratedMap) -> None:
    shortest = made.flow[len(RADII) - 1]
    assert len(made.flow) == NUM_LAYERS
    for lane in Lane:
        flow = made.flow[len(RADII) + lane]
        assert np.array_equal(flow == FLOW_NONE, shortest == FLOW_NONE)
        assert np.array_equal(flow == FLOW_GOAL, shortest == FLOW_GOAL)
        assert (flow != shortest)[shortest != FLOW_NONE].mean() > 0.05, "the lane equals the shortest path"
        k, y, x = np.nonzero((shortest != FLOW_NONE) & (np.arange(len(flow)) < 2)[:, None, None])
        for i in np.random.default_rng(0).integers(0, len(k), 60).tolist():
            path_cells(flow, int(x[i]), int(y[i]), int(k[i]))


def test_in_sight_matches_dense_sampling(made: GeneratedMap) -> None:
    blocks = np.concatenate([BLOCKS_SIGHT[made.material], np.zeros((3, *made.material.shape[1:]), bool)])
    rng = np.random.default_rng(3)
    points = rng.uniform([3, 3, 2.5], [97, 97, 6], (400, 3))
    eye = np.array([made.zone[0], made.zone[1], 2.5])
    found = in_sight(blocks, points, eye)
    dense = np.empty(len(points), bool)
    for i, p in enumerate(points):
        line = p + (eye - p) * np.linspace(0.01, 0.99, 4000)[:, None]
        x, y, z = line.astype(int).T
        dense[i] = not blocks[z, y, x].any()
    assert (found == dense).mean() > 0.93 and found.any() and not found.all()
    assert found[dense].all(), "a free line must be free however it is sampled"


def test_covered_lane_prefers_wall_cover_within_detour_limit() -> None:
    # The wall beside the straight path hides one side of it from the zone; the path on the other side is shorter.
    grid = flat_map(wall=(slice(26, 28), slice(12, 34)))
    fields, flow = navigation_fields(grid, zone=ZONE, spawn=STARTS, clearance=4)
    points = np.array([[x + 0.5, y + 0.5, 2.5] for y in range(64) for x in range(64)])
    blocks = np.concatenate([BLOCKS_SIGHT[grid], np.zeros((3, 64, 64), bool)])
    seen = in_sight(blocks, points, np.array([50.5, 20.5, 2.5])).reshape(64, 64)
    straight = path_cells(fields[-1].flow, 8, 27)
    covered = path_cells(flow[len(RADII) + Lane.COVERED], 8, 27)
    shown = [sum(bool(seen[y, x]) for x, y, _ in path) for path in (straight, covered)]
    assert shown[1] < shown[0], shown
    assert len(covered) < 1.3 * len(straight)


def test_flank_lane_avoids_main_lane() -> None:
    fields, flow = navigation_fields(flat_map(), zone=ZONE, spawn=STARTS, clearance=4)
    lane = main_lane(fields[-1], 8.5, 20.5)
    assert lane[0] == (8, 20) and hypot(lane[-1][0] + 0.5 - ZONE[0], lane[-1][1] + 0.5 - ZONE[1]) < ZONE[2]
    flank = path_cells(flow[len(RADII) + Lane.FLANK], 8, 20)
    off = max(min(hypot(x - a, y - b) for a, b in lane) for x, y, _ in flank)
    assert off > 5, "the flank stays on the lane"
    assert len(flank) < 2 * len(lane)


def test_unreachable_zone_has_no_lane() -> None:
    grid = flat_map(wall=(slice(0, 64), slice(24, 26)))
    fields, flow = navigation_fields(grid, zone=ZONE, spawn=STARTS, clearance=4)
    assert main_lane(fields[-1], 8.5, 20.5) == []
    assert (flow[:, 0, :, :20] == FLOW_NONE).all()


def test_navigation_fields_reuse_given_widest_field(made: GeneratedMap) -> None:
    widest = zone_field(made.material, zone=made.zone, radius=RADII[-1], clearance=4)
    fields, flow = navigation_fields(made.material, zone=made.zone, spawn=made.spawn, clearance=4, known=[widest])
    assert fields[-1] is widest and np.array_equal(flow, made.flow)
