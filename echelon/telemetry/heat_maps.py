"""Heat map files of a run: one per evaluated update, with a square grid of counts per kind; row 0 is the smallest y.

``training.spatial`` fills them. numpy is imported only when a file is read.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.files import reason_of
from echelon.state_files import read_bounded

if TYPE_CHECKING:
    import numpy as np

KINDS = ("movement", "damage", "deaths")
SUFFIX = ".npz"
PREFIX = "u"
NAME = re.compile(rf"{PREFIX}([0-9]{{1,18}}){re.escape(SUFFIX)}")

MAX_CELLS = 512
MAX_ARRAY_BYTES = MAX_CELLS * MAX_CELLS * 8 + 4096
"""Largest array of an archive with its header, of 8 bytes a cell."""
MAX_FILE_BYTES = 8 << 20
"""Largest file: arrays that cannot be compressed."""
MAX_ENTRIES = 16
ENTRY_SIGNATURE = b"PK\x01\x02"
MAX_VALUE = 1e15
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<kind>[<|](?:f[248]|[iu][1248])|\|b1)', "
    rb"'fortran_order': (?P<fortran>False|True), 'shape': \((?P<rows>[0-9]{1,5}), (?P<columns>[0-9]{1,5})\), \} *\n",
    re.DOTALL,
)
"""Header of an array as ``numpy.save`` writes it; nothing in it is evaluated."""
HEADER_START = 10
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ZIP_ERRORS = (OSError, ValueError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error)
"""Errors of ``zipfile`` for archives that are damaged, encrypted or of a later version."""


def heat_files(folder: Path) -> dict[int, Path]:
    found = ((NAME.fullmatch(path.name), path) for path in folder.glob(f"{PREFIX}*{SUFFIX}"))
    return dict(sorted((int(name[1]), path) for name, path in found if name))


def read_heat(path: Path) -> dict[str, np.ndarray]:
    """Return the grid ``[y, x]`` float32 of each kind; ``ValueError`` where the file is not valid.

    The file's origin is unknown: file, archive and arrays are bounded before they are read, links are not followed.
    """
    try:
        grids = _grids(read_bounded(path, MAX_FILE_BYTES, follow_links=False))
    except FileNotFoundError:
        raise ValueError(f"heat map file {str(path)!r} does not exist") from None
    except ZIP_ERRORS as error:
        raise ValueError(f"heat map file {str(path)!r} cannot be read: {reason_of(error)}") from None
    shape = grids[KINDS[0]].shape
    if any(grid.shape != shape for grid in grids.values()) or shape[0] != shape[1]:
        raise ValueError(f"heat map file {str(path)!r} has grids of shape {shape}, expected square grids of one size")
    return grids


def _grids(data: bytes) -> dict[str, np.ndarray]:
    """Return the grids of an archive as ``numpy.savez`` writes it."""
    if data.count(ENTRY_SIGNATURE) > MAX_ENTRIES:
        raise ValueError(f"it has more than {MAX_ENTRIES} arrays")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {part.filename: part for part in archive.infolist()}
        return {kind: _grid(archive, parts, f"{kind}.npy") for kind in KINDS}


def _grid(archive: zipfile.ZipFile, parts: Mapping[str, zipfile.ZipInfo], name: str) -> np.ndarray:
    """Return one grid of an archive; its size is known to fit before it is inflated."""
    import numpy as np

    part = parts.get(name)
    if part is None:
        raise ValueError(f"it has no {name}")
    if part.compress_type not in COMPRESSIONS:
        raise ValueError(f"{name} is compressed in another way than numpy does")
    if part.file_size > MAX_ARRAY_BYTES:
        raise ValueError(f"{name} has {part.file_size} bytes, expected at most {MAX_ARRAY_BYTES}")
    with archive.open(part) as file:
        # a read without a size inflates up to 2 GiB, whatever the archive says
        raw = file.read(part.file_size)
    header = HEADER.match(raw)
    if header is None:
        raise ValueError(f"{name} is no array of two axes of numbers")
    kind, rows, columns = np.dtype(header["kind"].decode()), int(header["rows"]), int(header["columns"])
    # the header ends where its length, the two bytes after magic and version, says
    start = HEADER_START + int.from_bytes(raw[HEADER_START - 2 : HEADER_START], "little")
    size = start + rows * columns * kind.itemsize
    if not (0 < rows <= MAX_CELLS and 0 < columns <= MAX_CELLS and start == header.end() and len(raw) == size):
        raise ValueError(f"{name} has the shape ({rows}, {columns}), expected at most {MAX_CELLS} and its data")
    order = "F" if header["fortran"] == b"True" else "C"
    with np.errstate(over="ignore"):
        grid = np.frombuffer(raw, kind, offset=start).reshape((rows, columns), order=order).astype(np.float32)
    if not (grid.min() >= 0.0 and grid.max() <= MAX_VALUE):
        raise ValueError(f"{name} has values that are no counts, expected 0 to {MAX_VALUE:g}")
    return grid
