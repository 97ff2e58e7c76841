"""Steps of map generation: flips, quadrants, zone, corridors and digging."""

import numpy as np
import pytest

from echelon.config import ConnectivityConfig, WorldConfig
from echelon.gen.corridors import carve_corridors, lane_width, plan_corridors
from echelon.gen.generate import choose_biomes, lay_ground, split_quadrants
from echelon.gen.objective import Zone, clear_zone, distance_ratio, place_zone
from echelon.gen.shapes import TRANSFORMS, Corner, Rect, Transform, carve_line
from echelon.gen.validator import connect, dig
from echelon.nav.field import zone_field
from echelon.nav.graph import RADII
from echelon.sim.random import Stream, StreamId
from echelon.sim.world import BLOCKS_MOVE, Material

FLIPPED_CORNERS = {
    "identity": (Corner.BL, Corner.BR, Corner.TL, Corner.TR),
    "flip_x": (Corner.BR, Corner.BL, Corner.TR, Corner.TL),
    "flip_y": (Corner.TL, Corner.TR, Corner.BL, Corner.BR),
    "flip_xy": (Corner.TR, Corner.TL, Corner.BR, Corner.BL),
}


def stream(seed: int = 0) -> Stream:
    return Stream(seed, StreamId.VARIANT)


def corner_cell(corner: Corner, size: int) -> tuple[int, int]:
    """Return (y, x) of the outermost cell of a corner."""
    return (size - 1) * corner.is_top, (size - 1) * corner.is_right


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.name)
def test_transform_flips_grid_and_corners(transform: Transform) -> None:
    assert tuple(transform.corner(corner) for corner in Corner) == FLIPPED_CORNERS[transform.name]
    for corner in Corner:
        grid = np.zeros((2, 9, 9), dtype=np.uint8)
        grid[0][corner_cell(corner, 9)] = Material.LAVA
        flipped = transform.grid(grid)
        assert flipped.flags.c_contiguous
        assert flipped[0][corner_cell(transform.corner(corner), 9)] == Material.LAVA
        assert (flipped == Material.LAVA).sum() == 1


def test_opposite_corner_is_across_the_diagonal() -> None:
    assert [corner.opposite for corner in Corner] == [Corner.TR, Corner.TL, Corner.BR, Corner.BL]


@pytest.mark.parametrize("seed", range(5))
def test_quadrants_tile_map_around_jittered_centre(seed: int) -> None:
    quadrants = split_quadrants(101, 60, stream(seed))
    count = np.zeros((60, 101), dtype=int)
    for rect in quadrants:
        count[rect.y0 : rect.y1, rect.x0 : rect.x1] += 1
    assert (count == 1).all()
    assert abs(quadrants[0].x1 - 50) <= 10 and abs(quadrants[0].y1 - 30) <= 6
    assert len(set(choose_biomes(stream(seed)))) == 4


def test_lay_ground_replaces_only_air() -> None:
    grid = np.zeros((2, 3, 3), dtype=np.uint8)
    grid[0, 0, 0], grid[0, 1, 1] = Material.WATER, Material.SOLID
    lay_ground(grid)
    assert (grid[0] == Material.DIRT).sum() == 7 and not grid[1].any()


SPAWNS = (Rect(0, 0, 25, 25), Rect(75, 75, 100, 100))
STARTS = ((12, 12), (87, 87))


def sample_zone(grid: np.ndarray, seed: int, world: WorldConfig | None = None) -> tuple[Zone, Corner]:
    world = world or WorldConfig()
    return place_zone(world, grid, mean_radius=7.5, spawns=SPAWNS, starts=STARTS, stream=stream(seed))


def test_zones_cover_radii_and_quadrants_off_spawns_and_edges() -> None:
    grid = np.zeros((20, 100, 100), dtype=np.uint8)
    seen = [sample_zone(grid, seed) for seed in range(60)]
    for zone, quadrant in seen:
        assert 3.75 <= zone.r <= 11.25
        assert zone.r + 2 <= zone.cx <= 98 - zone.r and zone.r + 2 <= zone.cy <= 98 - zone.r
        assert (zone.cx >= 50) == quadrant.is_right and (zone.cy >= 50) == quadrant.is_top
        for square in SPAWNS:
            nearest = (np.clip(zone.cx, square.x0, square.x1), np.clip(zone.cy, square.y0, square.y1))
            assert np.hypot(zone.cx - nearest[0], zone.cy - nearest[1]) > zone.r
    assert {quadrant for _, quadrant in seen} == set(Corner)


def test_zones_avoid_blocked_ground() -> None:
    grid = np.zeros((20, 100, 100), dtype=np.uint8)
    grid[0] = Material.SOLID
    grid[0, 30:70, 30:70] = Material.DIRT
    for seed in range(20):
        zone, _ = sample_zone(grid, seed)
        assert 30 <= zone.cx <= 70 and 30 <= zone.cy <= 70


def test_zone_is_placed_even_without_open_ground() -> None:
    grid = np.full((20, 100, 100), Material.SOLID, dtype=np.uint8)
    zone, _ = sample_zone(grid, 0)
    clear_zone(grid, zone)
    y, x = np.nonzero((grid == Material.AIR).all(axis=0))
    assert np.hypot(x + 0.5 - zone.cx, y + 0.5 - zone.cy).max() <= zone.r + 0.7072
    assert len(x) > 3.1 * zone.r**2


def test_place_zone_respects_max_distance_ratio() -> None:
    grid = np.zeros((20, 100, 100), dtype=np.uint8)
    world = WorldConfig(max_distance_ratio=1.5)
    ratios = [distance_ratio(sample_zone(grid, seed, world)[0], STARTS) for seed in range(30)]
    unlimited = [distance_ratio(sample_zone(grid, seed)[0], STARTS) for seed in range(30)]
    assert max(ratios) <= 1.5 < max(unlimited)


def test_place_zone_rejects_zero_radius() -> None:
    with pytest.raises(ValueError, match="zone radius"):
        place_zone(WorldConfig(), np.zeros((20, 100, 100), np.uint8), mean_radius=0.0, spawns=SPAWNS, starts=STARTS,
                   stream=stream())  # fmt: skip


@pytest.mark.parametrize(("size", "width"), [((20, 20), 4), ((100, 100), 6), ((100, 60), 4), ((400, 300), 8)])
def test_lane_width_follows_smaller_map_side(size: tuple[int, int], width: int) -> None:
    assert lane_width(*size) == width


def test_carve_line_clips_at_map_edge() -> None:
    grid = np.full((8, 30, 30), Material.SOLID, dtype=np.uint8)
    carve_line(grid, (1, 1), (28, 1), 6, 5)
    assert not grid[:5, :5, :].any()
    assert (grid[5:] == Material.SOLID).all() and (grid[:5, 5:] == Material.SOLID).all()


@pytest.mark.parametrize("seed", range(8))
def test_corridors_stay_on_map_and_connect_widest_footprint(seed: int) -> None:
    grid = np.full((20, 100, 100), Material.REINFORCED, dtype=np.uint8)
    zone = Zone(8.0 + 12 * seed, 90.0 - 11 * seed, 4.0)
    clear_zone(grid, zone)
    corridors = plan_corridors((100, 100), zone, STARTS, stream(seed))
    assert [c.kind for c in corridors] == ["objective_ring", "blue_main", "blue_flank", "red_main", "red_flank"]
    assert all(1 <= v <= 98 for c in corridors for point in c.points for v in point)
    above = grid[5:].copy()
    carve_corridors(grid, corridors, 5)
    assert np.array_equal(grid[5:], above)
    field = zone_field(grid, zone=zone, radius=RADII[-1], clearance=4)
    assert all(field.reaches(x + 0.5, y + 0.5, 0.0) for x, y in STARTS)


def walled() -> np.ndarray:
    grid = np.zeros((20, 60, 60), dtype=np.uint8)
    grid[0] = Material.DIRT
    for row, material in enumerate(np.nonzero(BLOCKS_MOVE)[0]):
        grid[:15, 20 + row] = material
        grid[:15, 40 + row] = material
    return grid


ZONE = Zone(30.0, 32.0, 4.0)
ENDS = ((10, 8), (50, 52))


def test_connect_digs_through_every_material() -> None:
    grid = walled()
    result = connect(grid, zone=ZONE, starts=ENDS, rules=ConnectivityConfig())
    assert result.connected
    assert [f["label"] for f in result.fixups] == ["blue_to_objective", "red_to_objective"]
    assert all(f["attempt"] == 1 and f["blocked_cells"] == 7 for f in result.fixups)
    assert [a["found"] for a in result.attempts] == [False, True, False, True]
    field = zone_field(grid, zone=ZONE, radius=RADII[-1], clearance=4)
    assert all(field.reaches(x + 0.5, y + 0.5, 0.0) for x, y in ENDS)
    assert (grid[5:15, 20] != Material.AIR).all()


def test_dig_uses_existing_gap() -> None:
    grid = walled()
    grid[:15, 18:28, 50:54] = Material.AIR
    crossed = dig(grid, ENDS[0], (30, 32), ConnectivityConfig())
    assert crossed == 0
    widened = ~BLOCKS_MOVE[grid[:4, 20:24]].any(axis=(0, 1))
    assert widened.sum() == 5 and widened[50:54].all()


def test_connect_digs_from_start_at_map_edge() -> None:
    grid = np.full((20, 60, 60), Material.SOLID, dtype=np.uint8)
    clear_zone(grid, ZONE)
    assert connect(grid, zone=ZONE, starts=((0, 0), (59, 59)), rules=ConnectivityConfig()).connected


def test_connect_without_digs_reports_closed_map() -> None:
    grid = walled()
    before = grid.copy()
    result = connect(grid, zone=ZONE, starts=ENDS, rules=ConnectivityConfig(max_digs=0))
    assert not result.connected and result.fixups == () and np.array_equal(grid, before)
