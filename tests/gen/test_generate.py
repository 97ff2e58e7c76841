"""Generated maps: reproducible per seed, sound for every size, and always connected or flagged."""

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.config import Fairness, WorldConfig
from echelon.gen.generate import GeneratedMap, check_world_fits, generate
from echelon.gen.objective import CLEAR_MARGIN
from echelon.gen.recipe import FAIR_GENERATOR_VERSION, GENERATOR_VERSION, materials_hash, seal, sha256_json, solid_hash
from echelon.gen.shapes import Corner
from echelon.gen.spawn import SPAWN_JITTER, corner_square, spawn_clear
from echelon.gen.validator import Connectivity, connect
from echelon.nav.field import FLOW_GOAL, FLOW_NONE, zone_field
from echelon.nav.graph import RADII
from echelon.nav.lanes import NUM_LAYERS
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.sim.world import BLOCKS_MOVE, Material
from tests.golden import FOLDER, assert_golden_json

generate_module = import_module("echelon.gen.generate")

GOLDEN = FOLDER / "maps.json"
"""Hashes of the reference maps."""

CASES = {
    "100x100x20 1 pack seed 0": (WorldConfig(), 0, 1),
    "100x100x20 1 pack seed 7": (WorldConfig(), 7, 1),
    "100x100x20 2 packs seed 1073741824": (WorldConfig(), 2**30, 2),
    "64x48x16 1 pack seed 3": (WorldConfig(size_x=64, size_y=48, size_z=16), 3, 1),
    "20x20x12 1 pack seed 1": (WorldConfig(size_x=20, size_y=20, size_z=12), 1, 1),
    "120x90x32 3 packs seed 12": (WorldConfig(size_x=120, size_y=90, size_z=32), 12, 3),
}

FAIR_CASES = {name: (replace(world, fairness="path"), seed, packs) for name, (world, seed, packs) in CASES.items()}
"""The same maps with fair path costs."""


def make(world: WorldConfig, seed: int = 0, packs: int = 1, radius: float = 7.5) -> GeneratedMap:
    return generate(world, seed, num_packs=packs, zone_radius_vox=radius)


@pytest.mark.golden
def test_golden_map_hashes() -> None:
    hashes = {name: make(*case).hashes for name, case in CASES.items()}
    current = {"version": GENERATOR_VERSION, "maps": hashes}
    assert_golden_json(GOLDEN, current, section="any", note="and raise GENERATOR_VERSION in echelon/gen/recipe.py")


@pytest.mark.golden
def test_golden_fair_map_hashes() -> None:
    hashes = {name: make(*case).hashes for name, case in FAIR_CASES.items()}
    current = {"version": FAIR_GENERATOR_VERSION, "maps": hashes}
    note = "and raise FAIR_GENERATOR_VERSION in echelon/gen/recipe.py"
    assert_golden_json(GOLDEN, current, section="path", note=note)


@pytest.mark.parametrize("fairness", ["any", "path"])
def test_map_bytes_depend_only_on_seed(fairness: Fairness) -> None:
    world = WorldConfig(size_x=60, size_y=60, fairness=fairness)
    one, two, other = make(world, 5), make(world, 5), make(world, 6)
    assert one.recipe == two.recipe
    for name in ("material", "spawn", "flow"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert one.hashes["materials"] != other.hashes["materials"]


def test_hashes_cover_recipe_and_grid() -> None:
    made = make(WorldConfig(), 2)
    plain = {key: value for key, value in made.recipe.items() if key != "hashes"}
    assert made.hashes["recipe"] == sha256_json(plain)
    assert made.hashes["solid"] == solid_hash(made.material)
    assert made.hashes["materials"] == materials_hash(made.material)
    assert seal(json.loads(json.dumps(plain)), made.material) == made.recipe


def test_solid_hash_ignores_materials_without_collision() -> None:
    grid = make(WorldConfig(), 2).material.copy()
    before = solid_hash(grid), materials_hash(grid)
    grid[0][grid[0] == Material.DIRT] = Material.WATER
    assert solid_hash(grid) == before[0] and materials_hash(grid) != before[1]


def check_soundness(made: GeneratedMap, world: WorldConfig, packs: int) -> None:
    colliding = BLOCKS_MOVE[made.material]
    assert made.material.shape == (world.size_z, world.size_y, world.size_x)
    assert not (made.material[0] == Material.AIR).any()
    assert made.red_corner == Corner(made.blue_corner).opposite
    for corner in (made.blue_corner, made.red_corner):
        square = corner_square(world, Corner(corner), spawn_clear(world, packs))
        assert not made.material[1:, square.y0 : square.y1, square.x0 : square.x1].any()
        assert (made.material[0, square.y0 : square.y1, square.x0 : square.x1] == Material.DIRT).all()
    cx, cy, r = made.zone
    assert r > 0 and r <= cx <= world.size_x - r and r <= cy <= world.size_y - r
    assert all(np.float32(v) == v for v in made.zone)
    y, x = np.ogrid[: world.size_y, : world.size_x]
    assert not colliding[:, np.hypot(x + 0.5 - cx, y + 0.5 - cy) <= r + CLEAR_MARGIN].any()
    check_spawns(made, packs)
    assert made.flow.shape == (NUM_LAYERS, world.size_z + 1, world.size_y, world.size_x)
    assert ((made.flow <= FLOW_GOAL) | (made.flow == FLOW_NONE)).all()
    widest = zone_field(made.material, zone=made.zone, radius=RADII[-1], clearance=world.connectivity.clearance_z)
    assert np.array_equal(widest.flow, made.flow[len(RADII) - 1])
    assert all(widest.reaches(float(px), float(py), 0.0) for px, py, _ in made.spawn)


def check_spawns(made: GeneratedMap, packs: int) -> None:
    """Assert that with maximum jitter no box touches another box, a blocking cell or the map's edge."""
    size = np.array(made.size)
    half = np.array([CHASSIS[c].size for c in ROSTER] * 2 * packs) / 2
    reach = half + [SPAWN_JITTER, SPAWN_JITTER, 0]
    assert np.allclose(made.spawn[:, 2], half[:, 2])
    low, high = made.spawn - reach, made.spawn + reach
    assert (low >= -1e-6).all() and (high <= size).all()
    for i in range(len(half)):
        cells = tuple(slice(int(np.floor(low[i, a])), int(np.ceil(high[i, a]))) for a in (2, 1, 0))
        assert not BLOCKS_MOVE[made.material[cells]].any()
    apart = (low[:, None] >= high[None]) | (high[:, None] <= low[None])
    assert (apart.any(axis=-1) | np.eye(len(half), dtype=bool)).all()


@settings(max_examples=16, deadline=None, derandomize=True)
@given(
    size_x=st.integers(20, 120),
    size_y=st.integers(20, 120),
    size_z=st.integers(12, 32),
    packs=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    radius=st.floats(2.0, 12.0),
)
def test_random_maps_are_sound(size_x: int, size_y: int, size_z: int, packs: int, seed: int, radius: float) -> None:
    world = WorldConfig(size_x=size_x, size_y=size_y, size_z=size_z)
    try:
        check_world_fits(world, packs)
    except ValueError:
        with pytest.raises(ValueError, match="spawn"):
            make(world, seed, packs, radius)
        return
    check_soundness(make(world, seed, packs, radius), world, packs)


@pytest.mark.parametrize("packs", [1, 3, 5])
def test_spawns_of_one_to_five_packs_are_free(packs: int) -> None:
    seen = set()
    for seed in range(4):
        made = make(WorldConfig(), seed, packs)
        check_spawns(made, packs)
        seen.add(made.blue_corner)
    assert len(seen) >= 2


def test_formation_positions() -> None:
    made = next(m for m in (make(WorldConfig(), seed, 2) for seed in range(40)) if m.blue_corner == Corner.BL)
    assert np.allclose(made.spawn[:5, 0], [3.75, 7.75, 11.25, 14.25, 16.6])
    assert np.allclose(made.spawn[:5, 1], [3.75, 3.25, 3.25, 2.75, 2.6])
    assert np.allclose(made.spawn[5:10, 1], made.spawn[:5, 1] + 4.5)
    assert np.allclose(made.spawn[10:, :2], 100 - made.spawn[:10, :2])


@pytest.mark.parametrize(("size", "packs"), [((18 + 2, 20), 3), ((100, 30), 7), ((20, 20), 4)])
def test_generate_rejects_world_too_small_for_spawns(size: tuple[int, int], packs: int) -> None:
    world = WorldConfig(size_x=size[0], size_y=size[1])
    with pytest.raises(ValueError, match=rf"{size[0]}x{size[1]} .*{packs} packs.*expected") as error:
        make(world, 0, packs)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_generate_rejects_seed_beyond_64_bits(seed: int) -> None:
    with pytest.raises(ValueError, match="map_seed"):
        make(WorldConfig(), seed)


def unconnected(*args: object, **kwargs: object) -> Connectivity:
    """Replacement of ``connect`` that never finds a path."""
    found = connect(*args, **kwargs)  # type: ignore[arg-type]
    return Connectivity(connected=False, attempts=found.attempts, fixups=found.fixups, field=found.field)


def test_unconnectable_map_becomes_flagged_open_map(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(generate_module, "connect", lambda *a, **k: (calls.append(a), unconnected(*a, **k))[1])
    made = make(WorldConfig(size_x=48, size_y=48), 4)
    assert len(calls) == WorldConfig().connectivity.max_regenerations + 2
    assert made.open_map and made.recipe["variant"]["open_map"]
    assert not BLOCKS_MOVE[made.material].any()
    check_soundness(made, WorldConfig(size_x=48, size_y=48), 1)


def test_second_attempt_is_different_and_reproducible(monkeypatch: pytest.MonkeyPatch) -> None:
    world = WorldConfig(size_x=48, size_y=48)
    first = make(world, 4)

    def second_attempt() -> GeneratedMap:
        answers = [unconnected, connect, connect]
        with monkeypatch.context() as patch:
            patch.setattr(generate_module, "connect", lambda *a, **k: answers.pop(0)(*a, **k))
            return make(world, 4)

    again = second_attempt()
    assert again.recipe["variant"]["attempt"] == 1 and not again.open_map
    assert again.hashes["materials"] != first.hashes["materials"]
    assert second_attempt().hashes == again.hashes


def test_disabled_connectivity_check_still_computes_flow() -> None:
    made = make(WorldConfig(ensure_connectivity=False), 3)
    assert made.recipe["stats"]["checks"] == [] and made.fixups == ()
    assert (made.flow == FLOW_GOAL).any(axis=(1, 2, 3)).all()


def test_generate_respects_max_distance_ratio() -> None:
    for seed in range(12):
        made = make(WorldConfig(size_x=60, size_y=60, max_distance_ratio=1.4), seed)
        blue, red = made.spawn[:5, :2].mean(axis=0), made.spawn[5:, :2].mean(axis=0)
        distances = [float(np.hypot(*(p - made.zone[:2]))) for p in (blue, red)]
        assert max(distances) / min(distances) < 1.6
