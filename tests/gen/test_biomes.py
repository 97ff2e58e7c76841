"""Biomes: materials, clipping to the grid, reproducibility and connectivity."""

import numpy as np
import pytest

from echelon.config import WorldConfig
from echelon.gen.biomes import BIOMES
from echelon.gen.generate import generate
from echelon.gen.shapes import Rect
from echelon.nav.field import zone_field
from echelon.nav.graph import RADII
from echelon.sim.random import Stream, StreamId
from echelon.sim.world import BLOCKS_MOVE, Material

SIGNATURE: dict[str, set[Material]] = {
    "urban_residential": {Material.SOLID, Material.GLASS},
    "industrial_refinery": {Material.SOLID},
    "civic_government": {Material.SOLID},
    "forest_park": {Material.SOLID, Material.FOLIAGE},
    "barrens": {Material.SOLID},
    "arcology_spire": {Material.SOLID},
    "sunken_canal": {Material.SOLID, Material.WATER},
    "geo_front": {Material.SOLID, Material.LAVA},
    "glass_desert": {Material.GLASS},
    "command_outpost": {Material.SOLID, Material.REINFORCED},
    "dense_jungle": {Material.SOLID, Material.FOLIAGE},
    "mining_pit": {Material.SOLID},
    "volcanic_ridge": {Material.SOLID, Material.LAVA},
    "hydroponic_lab": {Material.GLASS, Material.REINFORCED, Material.FOLIAGE},
    "server_farm": {Material.GLASS, Material.REINFORCED},
    "orbital_relay": {Material.SOLID, Material.REINFORCED},
}


def drawn(name: str, size: tuple[int, int, int] = (20, 60, 60), rect: Rect | None = None, seed: int = 1) -> np.ndarray:
    grid = np.zeros(size, dtype=np.uint8)
    BIOMES[name](grid, rect or Rect(0, 0, size[2], size[1]), Stream(seed, StreamId.TERRAIN))
    return grid


def test_signature_lists_every_biome() -> None:
    assert list(SIGNATURE) == list(BIOMES)


@pytest.mark.parametrize("name", BIOMES)
def test_biome_draws_exactly_its_listed_materials(name: str) -> None:
    seen = {Material(m) for seed in range(4) for m in np.unique(drawn(name, seed=seed))}
    assert seen - {Material.AIR} == SIGNATURE[name]


@pytest.mark.parametrize("name", BIOMES)
def test_biome_is_reproducible_per_seed(name: str) -> None:
    assert np.array_equal(drawn(name, seed=5), drawn(name, seed=5))
    if name not in ("command_outpost", "mining_pit"):
        assert not np.array_equal(drawn(name, seed=5), drawn(name, seed=6))


@pytest.mark.parametrize("name", BIOMES)
@pytest.mark.parametrize("rect", [Rect(0, 0, 8, 8), Rect(12, 0, 20, 12), Rect(8, 8, 20, 20), Rect(0, 12, 12, 20)])
def test_biome_fits_smallest_quadrants(name: str, rect: Rect) -> None:
    for seed in range(3):
        grid = drawn(name, (12, 20, 20), rect, seed)
        assert grid.shape == (12, 20, 20) and grid.max() <= max(Material)


@pytest.mark.parametrize("name", BIOMES)
def test_biome_stays_within_16_voxels_of_quadrant(name: str) -> None:
    reach = 16
    grid = drawn(name, (20, 100, 100), Rect(30, 30, 70, 70))
    grid[:, 30 - reach : 70 + reach, 30 - reach : 70 + reach] = Material.AIR
    assert not grid.any()


@pytest.mark.parametrize("name", BIOMES)
def test_single_biome_map_connects_all_spawns(name: str) -> None:
    made = generate(WorldConfig(size_x=72, size_y=72), 1, num_packs=1, zone_radius_vox=7.5, biome=name)
    assert not made.open_map and set(made.recipe["variant"]["biomes"].values()) == {name}
    assert BLOCKS_MOVE[made.material].any()
    field = zone_field(made.material, zone=made.zone, radius=RADII[-1], clearance=4)
    team = len(made.spawn) // 2
    for mechs in (made.spawn[:team], made.spawn[team:]):
        assert all(field.reaches(float(x), float(y), 0.0) for x, y, _ in mechs)


def test_greenhouse_is_hollow_and_outpost_has_perimeter_ring() -> None:
    lab = drawn("hydroponic_lab")
    under_roof = (lab[4] == Material.AIR) & (lab[5:7] == Material.GLASS).any(axis=0)
    assert under_roof.any()
    outpost = drawn("command_outpost")
    assert (outpost[0, 16] == Material.REINFORCED).sum() == 28
    assert (outpost[1, 16] == Material.REINFORCED).sum() == 0
    assert (outpost[0:3, 30, 24:27] == Material.AIR).all()


def test_mining_pit_stairs_connect_floor_and_rim() -> None:
    grid = drawn("mining_pit")
    grid[0][grid[0] == Material.AIR] = Material.DIRT
    field = zone_field(grid, zone=(30.5, 30.5, 3.0), radius=1, clearance=4)
    assert field.reaches(58.5, 30.5, 10.0)


def test_canal_is_open_water_except_bridges() -> None:
    grid = drawn("sunken_canal")
    wet = grid[0] == Material.WATER
    bridges = BLOCKS_MOVE[grid[:, wet]].sum(axis=0)
    assert wet.sum() >= 8 * 60 and bridges.max() <= 3 and (bridges == 0).mean() > 0.7
