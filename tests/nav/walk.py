"""A walk along a flow field in plain Python, by which tests follow its codes."""

import numpy as np
from numpy.typing import NDArray

from echelon.nav.field import FLOW_NONE, FLOW_STEP


def next_cell(flow: NDArray[np.uint8], x: float, y: float, foot_z: float) -> tuple[int, int, int] | None:
    """Return the cell (x, y, k) to walk to from a foot position [vox], or None without a path.

    ``flow`` is [Z + 1, Y, X]. A mech in the air, or on an edge with its centre over the lower side, has no code at its
    own height, so the first code below it is used. Inside the zone the result is the cell itself.
    """
    top, size_y, size_x = flow.shape
    ix, iy = min(max(int(x), 0), size_x - 1), min(max(int(y), 0), size_y - 1)
    for k in range(min(int(max(foot_z, 0.0)), top - 1), -1, -1):
        code = int(flow[k, iy, ix])
        if code != FLOW_NONE:
            dx, dy, dk = FLOW_STEP[code].tolist()
            return ix + dx, iy + dy, k + dk
    return None
