"""A saved map is read back as it was made, and nothing else is taken for one."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.atlas.world_file import MAGIC, WorldFileError, is_world_file, load_world, save_world
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
    made, found = generated(), load_world(saved)
    assert is_world_file(saved)
    assert found.recipe == made.recipe and found.zone == made.zone and found.map_seed == made.map_seed
    assert (found.blue_corner, found.red_corner) == (made.blue_corner, made.red_corner)
    for name in ("material", "spawn", "flow"):
        assert np.array_equal(getattr(found, name), getattr(made, name)), name


def test_world_file_with_flipped_byte_is_rejected(saved):
    data = saved.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 60)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        saved.write_bytes(broken)
        try:
            found = load_world(saved)
        except WorldFileError as error:
            assert "map.ecw" in str(error) and "\n" not in str(error)
        else:
            # padding between records carries nothing
            assert np.array_equal(found.material, generated().material)


def test_truncated_world_file_is_rejected(saved):
    data = saved.read_bytes()
    for length in (0, 4, 8, 20, len(data) // 2, len(data) - 9):
        saved.write_bytes(data[:length])
        with pytest.raises(WorldFileError, match="map.ecw"):
            load_world(saved)


def packed(path, recipe, material):
    header = codec.pack_record(RecordType.HEADER, codec.pack_map(recipe))
    path.write_bytes(MAGIC + header + codec.pack_record(RecordType.WORLD, world_payload(material)))
    return path


def test_world_file_with_changed_recipe_is_rejected(tmp_path):
    made = generated()
    for change in ({"seed": 99}, {"hashes": {}}, {"regions": {}}):
        path = packed(tmp_path / "other.ecw", {**made.recipe, **change}, made.material)
        with pytest.raises(WorldFileError, match="other.ecw"):
            load_world(path)


def test_world_file_with_changed_voxels_is_rejected(tmp_path):
    material = generated().material.copy()
    material[0, 0, 0] = 1
    with pytest.raises(WorldFileError, match="hashes"):
        load_world(packed(tmp_path / "other.ecw", generated().recipe, material))
