"""Ways over the map for scripted pilots: along the cost-to-zone field to the zone, and about in it.

The field is that of the map as it was generated; what has fallen since is felt by ``footing``.
"""

# ruff: noqa: E501
import warp as wp

from echelon.agents.levels import Skill, Zone
from echelon.nav.steering import AHEAD, unit2, way_layer, waypoint
from echelon.sim.geometry import xy_length

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

WALKS_IN = wp.constant(int(Zone.WALK_IN))
LOOK_AHEAD = wp.constant(4)
"""Cells of the field looked ahead, so that pilots do not walk in staircases."""
WAIT_RING = wp.constant(4.0)
"""How far outside the zone those wait who do not enter yet [vox]."""
HOLD_SHARE = wp.constant(0.8)
"""Share of the zone's radius that holders keep within."""


@wp.func
def way_to_zone(s: Skill, bank_flow: wp.array4d(dtype=wp.uint8), flow_step: wp.array2d(dtype=wp.int32), slot: int, c: int, p: wp.vec3, foot: float, size: wp.vec3i, zone: wp.vec3) -> wp.vec2:
    """Direction toward the zone: along the field a few cells ahead, or straight where there is none."""
    straight = unit2(zone[0] - p[0], zone[1] - p[1])
    if s.follows_field == 0:
        return straight
    point = waypoint(bank_flow, flow_step, way_layer(slot, c), size, p, foot, LOOK_AHEAD)
    if point[2] != AHEAD:
        return straight
    return unit2(point[0] - p[0], point[1] - p[1])


@wp.func
def walk(s: Skill, p: wp.vec3, way: wp.vec2, zone: wp.vec3, go: bool) -> wp.vec2:
    """Throttle of a pilot that nobody bothers: to the zone, to its middle, or waiting outside it."""
    to_zone = xy_length(wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0))
    if not go and to_zone < zone[2] + WAIT_RING:
        if to_zone < zone[2] + 0.5 * WAIT_RING:
            return -way
        return wp.vec2(0.0, 0.0)
    if to_zone > zone[2]:
        return way * s.throttle
    if s.zone == WALKS_IN or to_zone > HOLD_SHARE * zone[2]:
        return unit2(zone[0] - p[0], zone[1] - p[1]) * (s.throttle * to_zone / zone[2])
    return wp.vec2(0.0, 0.0)
