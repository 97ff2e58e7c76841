# type: ignore
"""Paths of scripted pilots: along a flow field to the zone, and around in it.

The flow fields are those of the map as generated; ``collision_avoidance`` handles terrain that has fallen since.
"""

import warp as wp

from echelon.agents.levels import Route, Skill, ZoneTactic
from echelon.agents.memory import PilotMemory
from echelon.agents.tracks import PilotState, recall
from echelon.nav import waypoints
from echelon.sim.arsenal import CHASSIS, WEAPONS, ChassisSpec
from echelon.sim.geometry import xy_length
from echelon.sim.state import Mechs, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


def _reach(chassis: ChassisSpec) -> float:
    """Return the longest range of a chassis' guns by own sight [vox], 0 without guns."""
    guns = [weapon for weapon in WEAPONS if weapon.damage > 0 and weapon.weapon in chassis.carries]
    return max((weapon.own_sight_vox or weapon.range_vox for weapon in guns), default=0.0)


STRAIGHT, BY_COVER, BY_FLANK = (wp.constant(int(r)) for r in (Route.STRAIGHT, Route.COVERED, Route.FLANKING))
REACH = wp.constant(wp.vec4(*[_reach(chassis) for chassis in CHASSIS]))
"""Longest gun range of each chassis by own sight [vox]."""
WATCH_AHEAD = wp.constant(12)
"""Distance along the shortest path at which a pilot checks whether a hostile covers it [cells]."""
FLANK_S = wp.constant(4.0)
"""Time on the flank path after the shortest path was last found covered by a hostile [s]."""
ENTERS = wp.constant(int(ZoneTactic.ENTER))
WAIT_RING = wp.constant(4.0)
"""Distance from the zone at which pilots wait that do not enter yet [vox]."""
HOLD_SHARE = wp.constant(0.8)
"""Distance from the centre within which pilots hold the zone [share of its radius]."""
PATROL_SHARE, PATROL_BAND = wp.constant(0.7), wp.constant(1.0)
"""Radius of the patrol [share of the zone radius], and the error of it that turns the course by 45 degrees [vox]."""


@wp.func
def distance_to_zone(zone: wp.vec3, p: wp.vec3) -> float:
    return xy_length(wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0))


@wp.func
def is_watched(pilot: PilotState, mechs: Mechs, perception: PilotMemory, point: wp.vec3) -> bool:
    """Return whether a known hostile stands within its gun range of a point (x, y) [vox]."""
    e = pilot.env
    for j in range(mechs.team.shape[1]):
        if mechs.team[e, j] != mechs.team[e, pilot.mech]:
            track = recall(pilot, mechs, perception, j)
            if track.age >= 0:
                offset = wp.vec3(track.pos[0] - point[0], track.pos[1] - point[1], 0.0)
                if xy_length(offset) <= REACH[mechs.chassis[e, j]]:
                    return True
    return False


@wp.func
def flank_time_left(
    rules: Rules,
    pilot: PilotState,
    flow: waypoints.FlowFields,
    world: World,
    mechs: Mechs,
    perception: PilotMemory,
    left_s: float,
    outside: bool,
) -> float:
    """Return the time left on the flank path [s]; it restarts while a hostile covers the shortest path ahead."""
    if pilot.skill.route == BY_FLANK and outside:
        e = pilot.env
        p = mechs.pos[e, pilot.mech]
        c = mechs.chassis[e, pilot.mech]
        foot = p[2] - rules.chassis[c].half[2]
        ahead = waypoints.waypoint(
            flow, waypoints.shortest_layer(world.map_slot[e], c), world.size[e], p, foot, WATCH_AHEAD
        )
        if ahead[2] == waypoints.AHEAD and is_watched(pilot, mechs, perception, ahead):
            return FLANK_S
    return wp.where(pilot.now == 0, 0.0, wp.max(0.0, left_s - rules.dt_act))


@wp.func
def path_to_zone(
    rules: Rules, skill: Skill, flow: waypoints.FlowFields, world: World, e: int, c: int, p: wp.vec3, flanks: bool
) -> wp.vec2:
    """Return the unit vector of the path of chassis c to the zone, the straight line where there is no path.

    ``flanks`` selects the flank path.
    """
    slot = world.map_slot[e]
    size = world.size[e]
    zone = world.zone[e]
    foot = p[2] - rules.chassis[c].half[2]
    straight = waypoints.unit2(zone[0] - p[0], zone[1] - p[1])
    if skill.route == STRAIGHT:
        return straight
    layer = waypoints.shortest_layer(slot, c)
    if skill.route == BY_COVER:
        layer = waypoints.lane_layer(flow, slot, c, waypoints.COVERED, size, p, foot)
    if flanks:
        layer = waypoints.lane_layer(flow, slot, c, waypoints.FLANK, size, p, foot)
    point = waypoints.waypoint(flow, layer, size, p, foot, waypoints.LOOK_AHEAD)
    if point[2] != waypoints.AHEAD:
        return straight
    return waypoints.unit2(point[0] - p[0], point[1] - p[1])


@wp.func
def walk(skill: Skill, p: wp.vec3, path: wp.vec2, zone: wp.vec3, enters: bool) -> wp.vec2:
    """Return the velocity without a target: to the zone, to its middle, or waiting outside [share of full speed]."""
    to_zone = distance_to_zone(zone, p)
    if not enters and to_zone < zone[2] + WAIT_RING:
        if to_zone < zone[2] + 0.5 * WAIT_RING:
            return -path
        return wp.vec2(0.0, 0.0)
    if to_zone > zone[2]:
        return path * skill.throttle
    if skill.zone == ENTERS or to_zone > HOLD_SHARE * zone[2]:
        return waypoints.unit2(zone[0] - p[0], zone[1] - p[1]) * (skill.throttle * to_zone / zone[2])
    return wp.vec2(0.0, 0.0)


@wp.func
def patrol(p: wp.vec3, zone: wp.vec3, team: int) -> wp.vec2:
    """Return the unit vector of a circle in the zone: blue counter-clockwise, red clockwise, so that hostiles meet."""
    out = waypoints.unit2(p[0] - zone[0], p[1] - zone[1])
    off = wp.clamp((PATROL_SHARE * zone[2] - distance_to_zone(zone, p)) / PATROL_BAND, -1.0, 1.0)
    side = wp.where(team == 0, 1.0, -1.0)
    return waypoints.unit2(out[0] * off - out[1] * side, out[1] * off + out[0] * side)
