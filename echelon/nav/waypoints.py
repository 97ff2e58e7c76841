"""Following the cost-to-zone field on the device: where a mech is led from where it stands.

The field is that of the map as it was generated (``field``); what falls during a battle is not in it.
"""

# ruff: noqa: E501
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from echelon.nav.field import FLOW_GOAL, FLOW_NONE, FLOW_STEP
from echelon.nav.graph import RADII, RADIUS_OF_CHASSIS
from echelon.nav.lanes import NUM_LAYERS, Lane

if TYPE_CHECKING:
    from echelon.sim.batch import Batch

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CODE_NONE, CODE_GOAL, LAYERS = wp.constant(FLOW_NONE), wp.constant(FLOW_GOAL), wp.constant(NUM_LAYERS)
RADIUS_ROW = wp.constant(wp.vec4i(*[RADII.index(r) for r in RADIUS_OF_CHASSIS]))
"""Row of the flow field for each chassis."""
FIRST_LANE = wp.constant(len(RADII))
COVERED, FLANK = wp.constant(int(Lane.COVERED)), wp.constant(int(Lane.FLANK))
NO_PATH, AHEAD, AT_GOAL = wp.constant(0.0), wp.constant(1.0), wp.constant(2.0)


def install_flow_fields(batch: Batch) -> None:
    """Put the maps' ways and the steps behind their codes on the batch's device, once."""
    if "flow_step" not in batch.backend.arrays:
        batch.add_ways()
        batch.add_constant("flow_step", FLOW_STEP.astype(np.int32), wp.int32)


@wp.func
def unit2(x: float, y: float) -> wp.vec2:
    """Unit vector of a horizontal direction, zero for none."""
    n = wp.sqrt(x * x + y * y)
    if n < 1.0e-6:
        return wp.vec2(0.0, 0.0)
    return wp.vec2(x / n, y / n)


@wp.func
def shortest_layer(slot: int, c: int) -> int:
    """First index into ``bank_flow`` of a map's shortest ways for a chassis."""
    return slot * LAYERS + RADIUS_ROW[c]


@wp.func
def cell_below(bank_flow: wp.array4d(dtype=wp.uint8), layer: int, x: int, y: int, foot: float) -> int:
    """Foot layer of the first place at or below a foot, 0 where there is none."""
    k = wp.clamp(int(foot + 0.01), 0, bank_flow.shape[1] - 1)
    while k > 0 and int(bank_flow[layer, k, y, x]) == CODE_NONE:
        k -= 1
    return k


@wp.func
def lane_layer(bank_flow: wp.array4d(dtype=wp.uint8), slot: int, c: int, lane: int, size: wp.vec3i, p: wp.vec3, foot: float) -> int:
    """First index into ``bank_flow`` of a map's ``Lane``, or of the shortest way where that is too wide for the place."""
    own = shortest_layer(slot, c)
    shaped = slot * LAYERS + FIRST_LANE + lane
    x = wp.clamp(int(p[0]), 0, size[0] - 1)
    y = wp.clamp(int(p[1]), 0, size[1] - 1)
    k = cell_below(bank_flow, own, x, y, foot)
    return wp.where(int(bank_flow[shaped, k, y, x]) == CODE_NONE, own, shaped)


@wp.func
def waypoint(bank_flow: wp.array4d(dtype=wp.uint8), flow_step: wp.array2d(dtype=wp.int32), layer: int, size: wp.vec3i, p: wp.vec3, foot: float, cells: int) -> wp.vec3:
    """Point (x, y) so many cells ahead on the way to the zone [vox], and NO_PATH, AHEAD or AT_GOAL.

    In the air, or with the centre over an edge, the first place below counts. Inside the zone there is no way to go.
    """
    x = wp.clamp(int(p[0]), 0, size[0] - 1)
    y = wp.clamp(int(p[1]), 0, size[1] - 1)
    k = cell_below(bank_flow, layer, x, y, foot)
    for _ in range(cells):
        code = int(bank_flow[layer, k, y, x])
        if code == CODE_NONE:
            return wp.vec3(p[0], p[1], NO_PATH)
        if code != CODE_GOAL:
            x += flow_step[code, 0]
            y += flow_step[code, 1]
            k += flow_step[code, 2]
    if int(bank_flow[layer, k, y, x]) == CODE_GOAL:
        return wp.vec3(p[0], p[1], AT_GOAL)
    return wp.vec3(float(x) + 0.5, float(y) + 0.5, AHEAD)
