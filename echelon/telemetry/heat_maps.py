"""Heat maps of a run as files: one a rated update, with a square grid of counts for each kind; row 0 is the smallest y.

What they count is decided where they are filled (``training.spatial``). numpy is loaded once there is a map to read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

KINDS = ("movement", "damage", "deaths")
"""Names of the maps, the fullest first."""
SUFFIX = ".npz"
PREFIX = "u"
"""Before the number of the update in a file's name."""


def heat_files(folder: Path) -> dict[int, Path]:
    """Return the files of a run's folder of heat maps by update, ascending."""
    found = {path.stem.removeprefix(PREFIX): path for path in folder.glob(f"{PREFIX}*{SUFFIX}")}
    return dict(sorted((int(number), path) for number, path in found.items() if number.isdigit()))


def read_heat(path: Path) -> dict[str, np.ndarray]:
    """Return each kind's grid ``[y, x]``, float32; ``ValueError`` names a file that is none."""
    from zipfile import BadZipFile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            grids = {kind: np.asarray(stored[kind], np.float32) for kind in KINDS}
    except (OSError, KeyError, ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{str(path)!r} holds no heat maps: {error}") from None
    shape = grids[KINDS[0]].shape
    edge = shape[0] if shape else 0
    if edge == 0 or any(grid.shape != (edge, edge) for grid in grids.values()):
        raise ValueError(f"{str(path)!r} holds maps of shape {shape}, wanted square ones of one size")
    return grids
