"""Map bank and disk cache: stacked arrays equal generated maps, and damaged files are regenerated."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from echelon.config import WorldConfig
from echelon.gen import cache as cache_module
from echelon.gen.bank import MapBank, build_bank, stack_maps
from echelon.gen.cache import cached_map, load_map, map_path
from echelon.gen.generate import generate
from echelon.nav.field import FLOW_NONE
from echelon.nav.lanes import NUM_LAYERS
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, STOPS_SHOT

WORLD = WorldConfig(size_x=40, size_y=44, size_z=14)
RULES = {"num_packs": 1, "zone_radius_vox": 5.0}


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path))
    return tmp_path


def assert_same(one: MapBank, two: MapBank) -> None:
    for name, value in vars(one).items():
        assert np.array_equal(value, getattr(two, name)), name


def test_bank_planes_match_material_properties() -> None:
    bank = build_bank(WORLD, [3, 1, 4], **RULES)
    assert bank.count == 3 and bank.map_seed.tolist() == [3, 1, 4]
    layers = np.arange(14, dtype=np.uint64)[None, :, None, None]
    planes = {"move_plane": BLOCKS_MOVE, "sight_plane": BLOCKS_SIGHT, "shot_plane": STOPS_SHOT}
    for name, has_property in planes.items():
        bits = (getattr(bank, name)[:, None] >> layers) & np.uint64(1)
        assert np.array_equal(bits.astype(bool), has_property[bank.material])


def test_bank_rows_equal_generated_maps() -> None:
    bank = build_bank(WORLD, [8, 9], **RULES)
    for row, seed in enumerate((8, 9)):
        made = generate(WORLD, seed, num_packs=1, zone_radius_vox=5.0)
        assert np.array_equal(bank.material[row], made.material)
        assert np.array_equal(bank.flow[row], made.flow)
        assert np.array_equal(bank.spawn[row], made.spawn)
        assert np.array_equal(bank.zone[row], np.float32(made.zone))
        assert bank.size[row].tolist() == [40, 44, 14]
        assert bank.recipe_hashes[row] == made.hashes["recipe"]


def test_bank_is_equal_with_and_without_cache() -> None:
    seeds = [0, 1, 2]
    plain = build_bank(WORLD, seeds, cache=False, **RULES)
    calls: list[tuple[int, int]] = []
    for _ in ("generated", "cached"):
        assert_same(plain, build_bank(WORLD, seeds, progress=lambda *done: calls.append(done), **RULES))
    assert calls == [(1, 3), (2, 3), (3, 3)] * 2


def test_cached_map_is_read_without_generating(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cached_map(WORLD, 5, **RULES)
    monkeypatch.setattr(cache_module, "generate", lambda *a, **k: pytest.fail("generated again"))
    again = cached_map(WORLD, 5, **RULES)
    assert again.recipe == made.recipe and again.zone == made.zone and again.fixups == made.fixups
    assert (again.blue_corner, again.red_corner) == (made.blue_corner, made.red_corner)


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "flip", "other map"])
def test_damaged_cache_file_is_regenerated(damage: str) -> None:
    made = cached_map(WORLD, 5, **RULES)
    path = map_path(WORLD, 5, **RULES)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "noise":
        path.write_bytes(bytes(range(256)) * 20)
    elif damage == "flip":
        for at in range(100, len(data), 97):
            data[at] ^= 0x55
        path.write_bytes(data)
    else:
        with np.load(path) as archive:
            arrays = dict(archive)
        np.savez_compressed(path, **{**arrays, "material": arrays["material"][::-1]})
    assert load_map(path) is None
    assert np.array_equal(cached_map(WORLD, 5, **RULES).material, made.material)
    assert load_map(path) is not None


def test_unwritable_cache_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path / "file"))
    assert build_bank(WORLD, [1], **RULES).count == 1


def test_store_map_leaves_no_partial_file(cache_folder: Path) -> None:
    cached_map(WORLD, 5, **RULES)
    files = [path for path in cache_folder.rglob("*") if path.is_file()]
    assert files == [map_path(WORLD, 5, **RULES)]


def test_map_path_depends_on_every_setting() -> None:
    other = WorldConfig(size_x=40, size_y=44, size_z=15)
    paths = {
        map_path(WORLD, 5, num_packs=1, zone_radius_vox=5.0),
        map_path(WORLD, 6, num_packs=1, zone_radius_vox=5.0),
        map_path(WORLD, 5, num_packs=2, zone_radius_vox=5.0),
        map_path(WORLD, 5, num_packs=1, zone_radius_vox=5.5),
        map_path(other, 5, num_packs=1, zone_radius_vox=5.0),
        map_path(replace(WORLD, fairness="path"), 5, num_packs=1, zone_radius_vox=5.0),
    }
    assert len(paths) == 6


def test_stack_maps_pads_sizes_to_one_capacity() -> None:
    small = generate(WORLD, 1, num_packs=1, zone_radius_vox=5.0)
    large = generate(WorldConfig(size_x=60, size_y=50, size_z=16), 2, num_packs=2, zone_radius_vox=5.0)
    bank = stack_maps([small, large], capacity=(64, 64, 20), packs=3)
    assert bank.material.shape == (2, 20, 64, 64) and bank.flow.shape == (2, NUM_LAYERS, 21, 64, 64)
    assert bank.size.tolist() == [[40, 44, 14], [60, 50, 16]] and bank.num_packs.tolist() == [1, 2]
    assert np.array_equal(bank.flow[0, :, :15, :44, :40], small.flow)
    assert (bank.flow[0, :, :, 44:] == FLOW_NONE).all() and not bank.move_plane[0, :, 40:].any()
    assert bank.spawn.shape == (2, 30, 3)
    assert np.array_equal(bank.spawn[0, :5], small.spawn[:5])
    assert np.array_equal(bank.spawn[0, 15:20], small.spawn[5:])
    assert np.array_equal(bank.spawn[1, 15:25], large.spawn[10:])
    assert not bank.spawn[0, 5:15].any()
    with pytest.raises(ValueError, match="expected at most"):
        stack_maps([small, large], capacity=(40, 64, 20))


def test_build_bank_rejects_empty_seeds_and_small_world() -> None:
    with pytest.raises(ValueError, match="seeds is empty"):
        build_bank(WORLD, [], **RULES)
    with pytest.raises(ValueError, match="too small"):
        build_bank(WORLD, [1], num_packs=20, zone_radius_vox=5.0)
