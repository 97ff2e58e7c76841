"""Heat map files of a run: one per evaluated update, with a square grid of counts per kind; row 0 is the smallest y.

``training.spatial`` fills them. numpy is imported only when a file is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

KINDS = ("movement", "damage", "deaths")
"""Names of the grids, densest first."""
SUFFIX = ".npz"
PREFIX = "u"
"""Prefix of the update number in a file name."""
NAME = re.compile(rf"{PREFIX}([0-9]{{1,18}}){re.escape(SUFFIX)}")


def heat_files(folder: Path) -> dict[int, Path]:
    """Return the heat map files of a folder by update, ascending."""
    found = ((NAME.fullmatch(path.name), path) for path in folder.glob(f"{PREFIX}*{SUFFIX}"))
    return dict(sorted((int(name[1]), path) for name, path in found if name))


def read_heat(path: Path) -> dict[str, np.ndarray]:
    """Return the grid ``[y, x]`` float32 of each kind; ``ValueError`` where the file is not valid."""
    from zipfile import BadZipFile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            grids = {kind: np.asarray(stored[kind], np.float32) for kind in KINDS}
    except (OSError, KeyError, ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"heat map file {str(path)!r} cannot be read: {error}") from None
    shape = grids[KINDS[0]].shape
    edge = shape[0] if shape else 0
    if edge == 0 or any(grid.shape != (edge, edge) for grid in grids.values()):
        raise ValueError(f"heat map file {str(path)!r} has grids of shape {shape}, expected square grids of one size")
    return grids
