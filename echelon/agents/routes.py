"""Ways over the map for scripted pilots: along the cost-to-zone field to the zone, and about in it.

The field is that of the map as it was generated; what has fallen since is felt by ``footing``.
"""

# ruff: noqa: E501
import warp as wp

from echelon.agents.levels import Route, Skill, ZoneTactic
from echelon.agents.tracks import recall
from echelon.nav.waypoints import AHEAD, COVERED, FLANK, lane_layer, shortest_layer, unit2, waypoint
from echelon.sim.arsenal import CHASSIS, WEAPONS
from echelon.sim.geometry import xy_length
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

STRAIGHT, BY_COVER, FLANKING = wp.constant(int(Route.STRAIGHT)), wp.constant(int(Route.COVERED)), wp.constant(int(Route.FLANKING))
REACH = wp.constant(wp.vec4(*[max((w.own_sight_vox or w.range_vox for w in WEAPONS if w.damage > 0 and w.weapon in c.carries), default=0.0) for c in CHASSIS]))
"""How far a chassis shoots by its own sight [vox]."""
WATCH_AHEAD = wp.constant(12)
"""Cells along the shortest way at which a pilot asks whether it is watched."""
FLANK_S = wp.constant(4.0)
"""How long a pilot stays off the shortest way after it last found it watched [s]."""
WALKS_IN = wp.constant(int(ZoneTactic.ENTER))
LOOK_AHEAD = wp.constant(4)
"""Cells of the field looked ahead, so that pilots do not walk in staircases."""
WAIT_RING = wp.constant(4.0)
"""How far outside the zone those wait who do not enter yet [vox]."""
HOLD_SHARE = wp.constant(0.8)
"""Share of the zone's radius that holders keep within."""
ROUND_SHARE, ROUND_BAND = wp.constant(0.7), wp.constant(1.0)
"""Share of the zone's radius at which searchers go round, and the distance off it at which they turn back by half a right
angle [vox]."""


@wp.func
def watched(
    s: Skill, e: int, m: int, now: int, point: wp.vec3, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3),
) -> bool:
    """Whether a hostile that a pilot knows of stands within its own reach of a point (x, y)."""
    for j in range(team.shape[1]):
        if team[e, j] != team[e, m]:
            known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
            if known.age >= 0:
                if xy_length(wp.vec3(known.pos[0] - point[0], known.pos[1] - point[1], 0.0)) <= REACH[chassis[e, j]]:
                    return True
    return False


@wp.func
def flank_left(
    rules: Rules, s: Skill, left_s: float, outside: bool, bank_flow: wp.array4d(dtype=wp.uint8), flow_step: wp.array2d(dtype=wp.int32), slot: int, size: wp.vec3i, p: wp.vec3, foot: float, e: int, m: int, now: int, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3),
) -> float:
    """Time left off the shortest way [s], all of it again if what lies ahead on that way is watched."""
    if s.route == FLANKING and outside:
        ahead = waypoint(bank_flow, flow_step, shortest_layer(slot, chassis[e, m]), size, p, foot, WATCH_AHEAD)
        if ahead[2] == AHEAD and watched(s, e, m, now, ahead, team, pack, chassis, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body):
            return FLANK_S
    return wp.where(now == 0, 0.0, wp.max(0.0, left_s - rules.dt_act))


@wp.func
def way_to_zone(s: Skill, flanks: bool, bank_flow: wp.array4d(dtype=wp.uint8), flow_step: wp.array2d(dtype=wp.int32), slot: int, c: int, p: wp.vec3, foot: float, size: wp.vec3i, zone: wp.vec3) -> wp.vec2:
    """Direction toward the zone: along the field a few cells ahead, or straight where there is none.

    ``flanks`` leads off the main lanes.
    """
    straight = unit2(zone[0] - p[0], zone[1] - p[1])
    if s.route == STRAIGHT:
        return straight
    layer = shortest_layer(slot, c)
    if s.route == BY_COVER:
        layer = lane_layer(bank_flow, slot, c, COVERED, size, p, foot)
    if flanks:
        layer = lane_layer(bank_flow, slot, c, FLANK, size, p, foot)
    point = waypoint(bank_flow, flow_step, layer, size, p, foot, LOOK_AHEAD)
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


@wp.func
def go_round(p: wp.vec3, zone: wp.vec3, team: int) -> wp.vec2:
    """Unit vector of a round of the zone, blue counter-clockwise and red clockwise, so that hostiles meet."""
    out = unit2(p[0] - zone[0], p[1] - zone[1])
    off = wp.clamp((ROUND_SHARE * zone[2] - xy_length(wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0))) / ROUND_BAND, -1.0, 1.0)
    side = wp.where(team == 0, 1.0, -1.0)
    return unit2(out[0] * off - out[1] * side, out[1] * off + out[0] * side)
