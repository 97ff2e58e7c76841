"""Heat map files of a run: one per evaluated update, with a square grid of counts per kind; row 0 is the smallest y.

``training.spatial`` fills them. A file is safetensors, whose reader checks sizes before it allocates; it and numpy are
imported only when a file is read.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.files import reason_of
from echelon.state_files import read_bounded

if TYPE_CHECKING:
    import numpy as np

KINDS = ("movement", "damage", "deaths")
SUFFIX = ".safetensors"
PREFIX = "u"
NAME = re.compile(rf"{PREFIX}([0-9]{{1,18}}){re.escape(SUFFIX)}")
MAX_CELLS = 512
MAX_FILE_BYTES = len(KINDS) * MAX_CELLS * MAX_CELLS * 4 + 4096
MAX_VALUE = 1e15


def heat_files(folder: Path) -> dict[int, Path]:
    found = ((NAME.fullmatch(path.name), path) for path in folder.glob(f"{PREFIX}*{SUFFIX}"))
    return dict(sorted((int(name[1]), path) for name, path in found if name))


def read_heat(path: Path) -> "dict[str, np.ndarray]":
    """Return the grid ``[y, x]`` float32 of each kind; ``ValueError`` where the file, of any origin, is not valid."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(read_bounded(path, MAX_FILE_BYTES, follow_links=False))
        grids = {kind: arrays[kind] for kind in KINDS}
    except FileNotFoundError:
        raise ValueError(f"heat map file {str(path)!r} does not exist") from None
    except KeyError as missing:
        raise ValueError(f"heat map file {str(path)!r} cannot be read: it has no {missing}") from None
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(f"heat map file {str(path)!r} cannot be read: {reason_of(error)}") from None
    shape, *others = (grid.shape for grid in grids.values())
    is_square = len(shape) == 2 and shape[0] == shape[1] > 0
    if not is_square or any(other != shape for other in others):
        raise ValueError(f"heat map file {str(path)!r} has grids of shape {shape}, expected square grids of one size")
    for kind, grid in grids.items():
        if grid.dtype != np.float32 or not (grid.min() >= 0.0 and grid.max() <= MAX_VALUE):
            raise ValueError(f"{kind} of heat map file {str(path)!r} has no counts, expected 0 to {MAX_VALUE:g}")
    return grids
