"""Heat map files of any origin: read as written, bounded, and refused in one line."""

import json
import os
import random

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from echelon.telemetry.heat_maps import KINDS, MAX_CELLS, MAX_FILE_BYTES, read_heat
from tests.hostile_values import damage


def grids(cells: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {name: rng.integers(0, 100, (cells, cells)).astype(np.float32) for name in KINDS}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "u1.safetensors"


@pytest.mark.parametrize("cells", [6, MAX_CELLS])
def test_read_heat_returns_what_was_written(path, cells):
    save_file(grids(cells), path)
    found = read_heat(path)
    assert list(found) == list(KINDS)
    assert all(np.array_equal(grid, grids(cells)[name]) for name, grid in found.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"damage": np.full((6, 6), value, np.float32)}, "has no counts") for value in (np.nan, np.inf, -1, 1e30)),
        ({"damage": np.ones((6, 6), np.float64)}, "has no counts"),
        ({"damage": np.ones((5, 5), np.float32)}, "expected square grids of one size"),
        (dict.fromkeys(KINDS, np.ones((6, 5), np.float32)), "expected square grids of one size"),
        (dict.fromkeys(KINDS, np.ones((0, 0), np.float32)), "expected square grids of one size"),
        (dict.fromkeys(KINDS, np.ones((), np.float32)), "expected square grids of one size"),
    ],
)
def test_read_heat_refuses_other_arrays(path, change, message):
    save_file(grids() | {kind: grid.copy() for kind, grid in change.items()}, path)
    with pytest.raises(ValueError, match=message):
        read_heat(path)


def test_read_heat_refuses_files_that_are_too_long_or_lie_about_their_size(path):
    whole = save(grids())
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    header["damage"]["shape"] = [2**40, 2**40]
    text = json.dumps(header).encode()
    for data in (len(text).to_bytes(8, "little") + text + whole[8 + length :], bytes(MAX_FILE_BYTES + 1)):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="cannot be read"):
            read_heat(path)


def test_read_heat_opens_regular_files_only(path, tmp_path):
    save_file(grids(), path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(path)
    for name in ("pipe", "link", ""):
        with pytest.raises(ValueError, match="is no regular file"):
            read_heat(tmp_path / name)
    with pytest.raises(ValueError, match="does not exist"):
        read_heat(tmp_path / "missing")


def test_damaged_heat_maps_raise_only_value_errors(path):
    rng, whole = random.Random(3), save(grids())
    for _ in range(200):
        path.write_bytes(damage(whole, rng))
        try:
            read_heat(path)
        except ValueError as error:
            assert "\n" not in str(error)
