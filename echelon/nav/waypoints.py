# type: ignore
"""Lookups in the flow fields of the map bank on the device: which way a mech walks from where it stands.

The fields are those of the map as generated (``echelon.nav.field``); terrain that falls during a battle is not in them.
"""

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from echelon.nav.field import FLOW_GOAL, FLOW_NONE, FLOW_STEP
from echelon.nav.graph import RADII, RADIUS_OF_CHASSIS
from echelon.nav.lanes import NUM_LAYERS, Lane
from echelon.sim.structs import Field, array_struct

if TYPE_CHECKING:
    from echelon.sim.batch import Batch

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CODE_NONE, CODE_GOAL, LAYERS = wp.constant(FLOW_NONE), wp.constant(FLOW_GOAL), wp.constant(NUM_LAYERS)
LAYER_OF_CHASSIS = wp.constant(wp.vec4i(*[RADII.index(r) for r in RADIUS_OF_CHASSIS]))
"""Layer of the shortest path of each chassis."""
FIRST_LANE = wp.constant(len(RADII))
COVERED, FLANK = wp.constant(int(Lane.COVERED)), wp.constant(int(Lane.FLANK))
LOOK_AHEAD = wp.constant(4)
"""Distance of the waypoint along the path by which pilots steer, so that they do not walk in staircases [cells]."""
NO_PATH, AHEAD, AT_GOAL = wp.constant(0.0), wp.constant(1.0), wp.constant(2.0)
"""Third component of a waypoint."""


@array_struct
class FlowFields:
    """Flow fields of all maps of the bank, shared by all environments."""

    bank_flow = Field(wp.uint8, "LZYX", "flow code of each cell; the layers of a map are consecutive")
    flow_step = Field(wp.int32, "FV", "step (dx, dy, dk) of each flow code [cells]")


def install_flow_fields(batch: "Batch") -> None:
    """Add the arrays of ``FlowFields`` to the batch, unless it has them."""
    if "flow_step" not in batch.backend.arrays:
        batch.add_flow_fields()
        batch.add_constant("flow_step", FLOW_STEP.astype(np.int32), wp.int32)


@wp.func
def unit2(x: float, y: float) -> wp.vec2:
    """Return the unit vector of a horizontal direction, zero for a zero vector."""
    n = wp.sqrt(x * x + y * y)
    if n < 1.0e-6:
        return wp.vec2(0.0, 0.0)
    return wp.vec2(x / n, y / n)


@wp.func
def shortest_layer(slot: int, c: int) -> int:
    """Return the layer of the shortest paths of chassis c on the map in bank row ``slot``."""
    return slot * LAYERS + LAYER_OF_CHASSIS[c]


@wp.func
def cell_below(flow: FlowFields, layer: int, x: int, y: int, foot: float) -> int:
    """Return the foot layer of the first cell with a code at or below height ``foot`` [vox], 0 without one."""
    k = wp.clamp(int(foot + 0.01), 0, flow.bank_flow.shape[1] - 1)
    while k > 0 and int(flow.bank_flow[layer, k, y, x]) == CODE_NONE:
        k -= 1
    return k


@wp.func
def lane_layer(flow: FlowFields, slot: int, c: int, lane: int, size: wp.vec3i, p: wp.vec3, foot: float) -> int:
    """Return the layer of a ``Lane``, or of the shortest path where the cell is too narrow for the lane."""
    shortest = shortest_layer(slot, c)
    layer = slot * LAYERS + FIRST_LANE + lane
    x = wp.clamp(int(p[0]), 0, size[0] - 1)
    y = wp.clamp(int(p[1]), 0, size[1] - 1)
    k = cell_below(flow, shortest, x, y, foot)
    return wp.where(int(flow.bank_flow[layer, k, y, x]) == CODE_NONE, shortest, layer)


@wp.func
def waypoint(flow: FlowFields, layer: int, size: wp.vec3i, p: wp.vec3, foot: float, cells: int) -> wp.vec3:
    """Return the point (x, y) ``cells`` steps ahead on the path to the zone [vox], and NO_PATH, AHEAD or AT_GOAL.

    For a mech in the air, or with its centre over an edge, the first cell below is used. Without a path and inside the
    zone the point is the mech's own.
    """
    x = wp.clamp(int(p[0]), 0, size[0] - 1)
    y = wp.clamp(int(p[1]), 0, size[1] - 1)
    k = cell_below(flow, layer, x, y, foot)
    for _ in range(cells):
        code = int(flow.bank_flow[layer, k, y, x])
        if code == CODE_NONE:
            return wp.vec3(p[0], p[1], NO_PATH)
        if code != CODE_GOAL:
            x += flow.flow_step[code, 0]
            y += flow.flow_step[code, 1]
            k += flow.flow_step[code, 2]
    if int(flow.bank_flow[layer, k, y, x]) == CODE_GOAL:
        return wp.vec3(p[0], p[1], AT_GOAL)
    return wp.vec3(float(x) + 0.5, float(y) + 0.5, AHEAD)
