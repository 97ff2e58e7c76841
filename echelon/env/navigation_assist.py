# type: ignore
"""Navigation assist (``env.nav_mode``): blends the direction of the route to the zone into the throttles.

It changes the controls read from an action, clipped and quantized, never the action itself.

The route follows the flow field of the map to the zone. The waypoint is two cells ahead of the mech, three if two are
too close for a direction.
"""

import warp as wp

from echelon.actions import ActionIndex
from echelon.nav.waypoints import AHEAD, AT_GOAL, NO_PATH, FlowFields, shortest_layer, unit2, waypoint
from echelon.sim.geometry import clamp_unit, cos_sin
from echelon.sim.state import Mechs, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

ROUTE_SHARE = {"off": 0.0, "assist": 0.3, "full": 1.0}
"""Share of the route's direction in the throttles, by mode."""
FORWARD, STRAFE = wp.constant(int(ActionIndex.FORWARD)), wp.constant(int(ActionIndex.STRAFE))
CELLS_AHEAD = wp.constant(2)
NEAR = wp.constant(1.0)
"""A waypoint within this distance is reached [vox]."""


@wp.func
def is_near(point: wp.vec3, p: wp.vec3) -> bool:
    dx = point[0] - p[0]
    dy = point[1] - p[1]
    return dx * dx + dy * dy <= NEAR * NEAR


@wp.kernel
def blend_navigation(
    rules: Rules, flow: FlowFields, world: World, mechs: Mechs, route_share: float, drive_out: wp.array2d(dtype=wp.vec4)
):
    """Blend the direction to a mech's waypoint into its forward and strafe throttles."""
    e, m = wp.tid()
    if mechs.alive[e, m] == 0 or mechs.shutdown[e, m] == 1:
        return
    p = mechs.pos[e, m]
    c = mechs.chassis[e, m]
    foot = p[2] - rules.chassis[c].half[2]
    layer = shortest_layer(world.map_slot[e], c)
    point = waypoint(flow, layer, world.size[e], p, foot, CELLS_AHEAD)
    if point[2] == AHEAD and is_near(point, p):
        point = waypoint(flow, layer, world.size[e], p, foot, CELLS_AHEAD + 1)
    if point[2] == AT_GOAL:
        point = wp.vec3(world.zone[e][0], world.zone[e][1], AT_GOAL)
    if point[2] == NO_PATH or is_near(point, p):
        return
    direction = unit2(point[0] - p[0], point[1] - p[1])
    cs = cos_sin(mechs.yaw[e, m])
    pilot_share = 1.0 - route_share
    d = drive_out[e, m]
    d[FORWARD] = clamp_unit(pilot_share * d[FORWARD] + route_share * (direction[0] * cs[0] + direction[1] * cs[1]))
    d[STRAFE] = clamp_unit(pilot_share * d[STRAFE] + route_share * (direction[1] * cs[0] - direction[0] * cs[1]))
    drive_out[e, m] = d
