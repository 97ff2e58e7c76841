"""World files: round trip, and rejection of damaged or changed files."""

from __future__ import annotations

import os

import numpy as np
import pytest

from echelon.atlas.world_file import MAGIC, WorldFileError, is_world_file, load_world, save_world
from echelon.config import WorldConfig
from echelon.gen.generate import generate
from echelon.gen.recipe import sha256_json
from echelon.replay import codec
from echelon.replay.schema import RecordType
from echelon.replay.writer import world_payload
from tests.atlas.worlds import generated


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "map.ecw"
    save_world(path, generated())
    return path


def test_world_file_round_trip(saved):
    original, loaded = generated(), load_world(saved)
    assert is_world_file(saved)
    assert loaded.recipe == original.recipe and loaded.zone == original.zone
    assert loaded.map_seed == original.map_seed
    assert (loaded.blue_corner, loaded.red_corner) == (original.blue_corner, original.red_corner)
    for name in ("material", "spawn", "flow"):
        assert np.array_equal(getattr(loaded, name), getattr(original, name)), name


def test_world_file_of_fair_map_keeps_spawns(tmp_path):
    world = WorldConfig(size_x=60, size_y=60, size_z=12, fairness="path")
    original = generate(world, 3, num_packs=1, zone_radius_vox=5.0)
    save_world(tmp_path / "fair.ecw", original)
    loaded = load_world(tmp_path / "fair.ecw")
    assert loaded.recipe == original.recipe
    assert np.array_equal(loaded.spawn, original.spawn) and np.array_equal(loaded.flow, original.flow)


def test_world_file_with_flipped_byte_is_rejected(saved):
    data = saved.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 60)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        saved.write_bytes(broken)
        try:
            loaded = load_world(saved)
        except WorldFileError as error:
            assert "map.ecw" in str(error) and "\n" not in str(error)
        else:
            # the byte was padding between records
            assert np.array_equal(loaded.material, generated().material)


def test_world_file_of_large_holes_is_rejected(saved):
    os.truncate(saved, 1 << 40)
    with pytest.raises(WorldFileError, match=r"'map\.ecw' cannot be read: .* has more than 256 MiB of holes"):
        load_world(saved)


def test_truncated_world_file_is_rejected(saved):
    data = saved.read_bytes()
    for length in (0, 4, 8, 20, len(data) // 2, len(data) - 9):
        saved.write_bytes(data[:length])
        with pytest.raises(WorldFileError, match="map.ecw"):
            load_world(saved)


def write_world(path, recipe, material):
    header = codec.pack_record(RecordType.HEADER, codec.pack_map(recipe))
    path.write_bytes(MAGIC + header + codec.pack_record(RecordType.WORLD, world_payload(material)))
    return path


def test_world_file_with_changed_recipe_is_rejected(tmp_path):
    original = generated()
    for change in ({"seed": 99}, {"hashes": {}}, {"regions": {}}):
        path = write_world(tmp_path / "other.ecw", {**original.recipe, **change}, original.material)
        with pytest.raises(WorldFileError, match="other.ecw"):
            load_world(path)


def test_world_file_with_zone_outside_the_map_is_rejected(tmp_path):
    original = generated()
    for centre in ([255.0, 5.0], [5.0, 255.0]):
        objective = {**original.recipe["regions"]["objective"], "centre": centre}
        recipe = {**original.recipe, "regions": {**original.recipe["regions"], "objective": objective}}
        hashed = {key: value for key, value in recipe.items() if key != "hashes"}
        recipe["hashes"] = {**recipe["hashes"], "recipe": sha256_json(hashed)}
        with pytest.raises(WorldFileError, match="zone lies outside the map"):
            load_world(write_world(tmp_path / "other.ecw", recipe, original.material))


def test_world_file_with_changed_voxels_is_rejected(tmp_path):
    material = generated().material.copy()
    material[0, 0, 0] = 1
    with pytest.raises(WorldFileError, match="hashes"):
        load_world(write_world(tmp_path / "other.ecw", generated().recipe, material))
