"""Heat map files of any origin: read as written, bounded, and refused in one line."""

from __future__ import annotations

import io
import os
import random
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from echelon.telemetry.heat_maps import KINDS, MAX_CELLS, read_heat
from tests.hostile_values import damage

MIB = 2**20
MEMORY_BYTES = 16 * MIB
"""Most memory that reading one file may take."""
BOMB_BYTES = 40 * MIB
CELLS = 6


def grids(cells: int = CELLS, kind: str = "f4") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {name: rng.integers(0, 100, (cells, cells)).astype(kind) for name in KINDS}


def npy(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def archive(path: Path, parts: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in parts.items():
            file.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i8", "u1", "?"])
def test_read_heat_returns_what_numpy_wrote(tmp_path, save, kind):
    written = grids(kind=kind)
    written["deaths"] = np.asfortranarray(written["deaths"])
    save(tmp_path / "u1.npz", **written)
    found = read_heat(tmp_path / "u1.npz")
    assert list(found) == list(KINDS)
    for name, grid in found.items():
        assert grid.dtype == np.float32 and np.array_equal(grid, written[name].astype(np.float32))


def test_read_heat_reads_the_largest_map(tmp_path):
    np.savez(tmp_path / "u1.npz", **grids(MAX_CELLS, "f8"))
    assert read_heat(tmp_path / "u1.npz")["damage"].shape == (MAX_CELLS, MAX_CELLS)


FIRST = KINDS[0]
HEADERS = {
    "a billion rows": b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999, 99999), }",
    "no axes": b"{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
    "one axis": b"{'descr': '<f4', 'fortran_order': False, 'shape': (36,), }",
    "no cells": b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 0), }",
    "negative": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-6, -6), }",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (6, 6), }",
    "records": b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6, 6), }",
    "no type": b"{'descr': '<f1', 'fortran_order': False, 'shape': (6, 6), }",
    "no dictionary": b"(" * 60,
    "operators": b"{'descr': '<f4', 'fortran_order': False, 'shape': (6+" + b"-" * 2000 + b"6, 6), }",
    "nothing": b"",
}


def with_header(header: bytes) -> bytes:
    text = header.ljust(2200) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(CELLS * CELLS * 4)


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_read_heat_refuses_odd_arrays(tmp_path, header):
    path = archive(tmp_path / "u1.npz", {**{k: npy(g) for k, g in grids().items()}, FIRST: with_header(header)})
    with pytest.raises(ValueError, match=rf"heat map file .*u1.npz' cannot be read: {FIRST}\.npy"):
        read_heat(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e300])
def test_read_heat_refuses_values_that_are_no_counts(tmp_path, value):
    maps = grids(kind="f8")
    maps["damage"][2, 3] = value
    np.savez(tmp_path / "u1.npz", **maps)
    with pytest.raises(ValueError, match=r"damage\.npy has values that are no counts"):
        read_heat(tmp_path / "u1.npz")


@pytest.mark.parametrize("shapes", [((6, 6), (6, 6), (5, 5)), ((6, 5),) * 3])
def test_read_heat_refuses_grids_of_other_shapes(tmp_path, shapes):
    np.savez(tmp_path / "u1.npz", **{k: np.zeros(shape) for k, shape in zip(KINDS, shapes, strict=True)})
    with pytest.raises(ValueError, match="expected square grids of one size"):
        read_heat(tmp_path / "u1.npz")


def test_read_heat_opens_regular_files_only(tmp_path):
    np.savez(tmp_path / "real.npz", **grids())
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "real.npz")
    for name in ("pipe", "link"):
        with pytest.raises(ValueError, match="is no regular file"):
            read_heat(tmp_path / name)
    with pytest.raises(ValueError, match="is no regular file"):
        read_heat(tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        read_heat(tmp_path / "missing")


def bomb(path: Path, *, declared: int | None = None, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write an archive whose first array has ``BOMB_BYTES`` zeros, of which its directory declares ``declared``."""
    size = BOMB_BYTES
    archive(path, {FIRST: bytes(size), **{k: npy(g) for k, g in grids().items() if k != FIRST}}, compression)
    if declared is not None:
        path.write_bytes(path.read_bytes().replace(size.to_bytes(4, "little"), declared.to_bytes(4, "little")))
    return path


@pytest.mark.parametrize(
    "options", [{}, {"declared": 272}, {"compression": zipfile.ZIP_LZMA, "declared": 272}], ids=["bomb", "liar", "lzma"]
)
def test_read_heat_refuses_archives_that_inflate_without_bound(tmp_path, options):
    path = bomb(tmp_path / "u1.npz", **options)
    assert path.stat().st_size < MIB
    assert peak_of_refusal(path) < MEMORY_BYTES


def test_read_heat_refuses_archives_of_many_names(tmp_path):
    path = archive(tmp_path / "u1.npz", {f"a{number}": b"" for number in range(17)})
    with pytest.raises(ValueError, match="more than 16 arrays"):
        read_heat(path)


def peak_of_refusal(path: Path) -> int:
    """Return the most memory that is allocated while a file is refused [bytes]."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="cannot be read"):
            read_heat(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_damaged_heat_maps_raise_only_value_errors(tmp_path):
    rng = random.Random(3)
    np.savez_compressed(tmp_path / "u1.npz", **grids())
    whole = (tmp_path / "u1.npz").read_bytes()
    for _ in range(200):
        (tmp_path / "u1.npz").write_bytes(damage(whole, rng))
        try:
            read_heat(tmp_path / "u1.npz")
        except ValueError as error:
            assert "\n" not in str(error)
