"""Ways over the map for scripted pilots: along the cost-to-zone field, past obstacles, out of each other's way.

The field is that of the map as it was generated; what has fallen since is felt only by bumping into it.
"""

# ruff: noqa: E501
import warp as wp

from echelon.agents.levels import Skill, Zone
from echelon.nav.steering import AHEAD, WAY_NONE, unit2, way_layer, waypoint
from echelon.sim.geometry import cos_sin, xy_length
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

WALKS_IN = wp.constant(int(Zone.WALK_IN))
FEELER = wp.constant(1.0)
"""How far beyond its own box a pilot feels for room [vox]."""
TURN_ASIDE = wp.constant(0.7853981633974483)
LOOK_AHEAD = wp.constant(4)
"""Cells of the field looked ahead, so that pilots do not walk in staircases."""
WAIT_RING = wp.constant(4.0)
"""How far outside the zone those wait who do not enter yet [vox]."""
HOLD_SHARE = wp.constant(0.8)
"""Share of the zone's radius that holders keep within."""
ELBOWS = wp.constant(1.5)
"""Room that pilots leave between their mech and the next [vox]."""


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
def is_open(bank_flow: wp.array4d(dtype=wp.uint8), layer: int, size: wp.vec3i, x: float, y: float, foot: float) -> bool:
    """Whether a mech can stand at a point of the map, give or take a step up or down."""
    if x < 0.0 or y < 0.0 or x >= float(size[0]) or y >= float(size[1]):
        return False
    k = int(foot + 0.01)
    for level in range(wp.max(0, k - 2), wp.min(bank_flow.shape[1], k + 2)):
        if int(bank_flow[layer, level, int(y), int(x)]) != WAY_NONE:
            return True
    return False


@wp.func
def around(wish: wp.vec2, side: float, bank_flow: wp.array4d(dtype=wp.uint8), layer: int, size: wp.vec3i, p: wp.vec3, foot: float, half_x: float, way: wp.vec2) -> wp.vec2:
    """The wish, turned aside by as little as leads it past what stands in its way; the way to the zone if nothing does."""
    n = wp.sqrt(wish[0] * wish[0] + wish[1] * wish[1])
    if n < 0.1:
        return wish
    reach = (half_x + FEELER) / n
    for i in range(5):
        turn = float((i + 1) / 2) * TURN_ASIDE * side
        if i % 2 == 0:
            turn = -turn
        cs = cos_sin(turn)
        x = wish[0] * cs[0] - wish[1] * cs[1]
        y = wish[0] * cs[1] + wish[1] * cs[0]
        if is_open(bank_flow, layer, size, p[0] + x * reach, p[1] + y * reach, foot):
            return wp.vec2(x, y)
    return way


@wp.func
def elbow_room(rules: Rules, e: int, m: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3)) -> wp.vec2:
    """Push away from friends that stand too near, up to full throttle."""
    push = wp.vec2(0.0, 0.0)
    reach = rules.half[chassis[e, m]][0] + ELBOWS
    for k in range(alive.shape[1]):
        if k != m and alive[e, k] == 1 and team[e, k] == team[e, m]:
            dx = pos[e, m][0] - pos[e, k][0]
            dy = pos[e, m][1] - pos[e, k][1]
            near = 1.0 - wp.sqrt(dx * dx + dy * dy) / (reach + rules.half[chassis[e, k]][0])
            if near > 0.0:
                push += unit2(dx, dy) * near
    return push


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
