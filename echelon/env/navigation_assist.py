"""Navigation assist: blends the way to the zone into the throttles that a pilot's action gave (``env.nav_mode``).

It acts on what was read of an action, clipped and quantised, never on the action itself.

The route is the cost-to-zone field, so it is always fresh; the waypoint lies two cells ahead of the mech, or three where
two are too near to give a direction.
"""

# ruff: noqa: E501
import warp as wp

from echelon.actions import ActionIndex
from echelon.nav.waypoints import AHEAD, AT_GOAL, NO_PATH, FlowFields, shortest_layer, unit2, waypoint
from echelon.sim.geometry import clamp_unit, cos_sin
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

WEIGHT = {"off": 0.0, "assist": 0.3, "full": 1.0}
"""Share of the way in the throttles, by mode."""
FORWARD, STRAFE = wp.constant(int(ActionIndex.FORWARD)), wp.constant(int(ActionIndex.STRAFE))
CELLS_AHEAD = wp.constant(2)
NEAR = wp.constant(1.0)
"""A waypoint nearer than this is reached [vox]."""


@wp.func
def is_near(point: wp.vec3, p: wp.vec3) -> bool:
    """Whether a mech has reached a waypoint."""
    dx = point[0] - p[0]
    dy = point[1] - p[1]
    return dx * dx + dy * dy <= NEAR * NEAR


@wp.kernel
def blend_navigation(
    # rules
    rules: Rules, flow: FlowFields,
    # world
    map_slot: wp.array(dtype=wp.int32), size: wp.array(dtype=wp.vec3i), zone: wp.array(dtype=wp.vec3),
    # state in
    alive: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), weight: float,
    # out
    drive: wp.array2d(dtype=wp.vec4),
):
    """Blend the direction to a mech's waypoint into its forward and strafe throttles."""
    e, m = wp.tid()
    if alive[e, m] == 0 or shutdown[e, m] == 1:
        return
    p = pos[e, m]
    c = chassis[e, m]
    foot = p[2] - rules.half[c][2]
    layer = shortest_layer(map_slot[e], c)
    point = waypoint(flow, layer, size[e], p, foot, CELLS_AHEAD)
    if point[2] == AHEAD and is_near(point, p):
        point = waypoint(flow, layer, size[e], p, foot, CELLS_AHEAD + 1)
    if point[2] == AT_GOAL:
        point = wp.vec3(zone[e][0], zone[e][1], AT_GOAL)
    if point[2] == NO_PATH or is_near(point, p):
        return
    way = unit2(point[0] - p[0], point[1] - p[1])
    cs = cos_sin(yaw[e, m])
    own = 1.0 - weight
    d = drive[e, m]
    d[FORWARD] = clamp_unit(own * d[FORWARD] + weight * (way[0] * cs[0] + way[1] * cs[1]))
    d[STRAFE] = clamp_unit(own * d[STRAFE] + weight * (way[1] * cs[0] - way[0] * cs[1]))
    drive[e, m] = d
