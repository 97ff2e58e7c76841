# type: ignore
"""Desired velocity of a scripted pilot: it walks to the zone, fights at its fighting distance, or retreats.

The goal of an order takes the place of the zone; a pilot with a goal neither waits for others nor retreats by itself.
Velocities are horizontal, in world axes, in shares of full speed. ``collision_avoidance`` turns the desired velocity
into the commanded one, ``steering`` that into throttles.
"""

import warp as wp

from echelon.agents.collision_avoidance import CALM_S
from echelon.agents.levels import RangePolicy, Retreat, Skill, ZoneTactic
from echelon.agents.memory import Assignment, Avoidance, MovementPlan, PilotMemory, Targets
from echelon.agents.routes import HOLD_SHARE, distance_to_zone, flank_time_left, path_to_zone, patrol, walk
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.agents.tracks import PACK, PilotState, pilot_of, recall
from echelon.env.observe.orders import ADVANCE, FOCUS, REACH, RETREAT, Orders, circle
from echelon.env.referee import in_zone
from echelon.env.reward import zone_contested
from echelon.nav.waypoints import FlowFields, unit2
from echelon.sim.arsenal import CHASSIS, WEAPONS, Chassis, ChassisSpec
from echelon.sim.geometry import xy_length
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.state import Episode, Mechs, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


def _long_gun_timer(chassis: ChassisSpec) -> int:
    """Return the cooldown timer of a chassis' gun of the longest range by own sight, -1 without guns."""
    guns = [weapon for weapon in WEAPONS if weapon.damage > 0 and weapon.weapon in chassis.carries]
    longest = max(guns, key=lambda weapon: weapon.own_sight_vox or weapon.range_vox, default=None)
    return int(longest.cooldown) if longest else -1


LONG_GUN_TIMER = wp.constant(wp.vec4i(*[_long_gun_timer(chassis) for chassis in CHASSIS]))
"""Cooldown timer of the gun of the longest range of each chassis, -1 without guns."""
SCOUT, LIGHT, HEAVY = (wp.constant(int(c)) for c in (Chassis.SCOUT, Chassis.LIGHT, Chassis.HEAVY))
FIXED, _CLASS, ADAPTIVE, KITING = (wp.constant(int(policy)) for policy in RangePolicy)
R_ONCE, R_COOL, R_ODDS = (wp.constant(int(retreat)) for retreat in (Retreat.ONCE, Retreat.COOL, Retreat.ODDS))
BALANCED = wp.constant(int(ZoneTactic.BALANCED))
FIXED_RANGE, LEAST_RANGE = wp.constant(5.5), wp.constant(3.5)
"""Fighting distance of ``RangePolicy.FIXED``, and the least of the others [vox]."""
BACK_OFF = wp.constant(0.3)
"""Throttle at which ``RangePolicy.FIXED`` backs away from a near target."""
EXPOSED_RANGE = wp.constant(25.0)
"""Range of a visible target within which a pilot that holds the zone keeps sidestepping [vox]."""
PURSUIT_RANGE, PURSUIT_ZONE_DISTANCE = wp.constant(20.0), wp.constant(6.0)
"""Range of a target out of sight, and distance of the pilot from the zone, up to which it pursues [vox]."""
RANGE_BAND = wp.constant(2.0)
"""Error of the fighting distance that commands full throttle [vox]."""
FIGHT_MARGIN = wp.constant(5.0)
"""Distance beyond the fighting distance up to which a pilot manoeuvres against its target [vox]."""
GATHER_RING, GATHER_GAP = wp.constant(20.0), wp.constant(4.0)
"""Distance from the edge of the zone at which packs gather, and the lag of a packmate that is not waited for [vox]."""
HOT, HURT, WEAK_TARGET = wp.constant(0.6), wp.constant(0.4), wp.constant(0.25)
"""Heat [share of the cap] and hit points [share] above and below which the fighting distance changes."""
ENTER_BALANCE = wp.constant(-20.0)
"""Least balance of tonnage in the zone, own side with the pilot less hostile side, to enter it [t]."""
ZONE_PULL = wp.constant(0.6)
"""Velocity toward the zone that is added while fighting outside it [share of full speed]."""
FOUND = wp.constant(1.0)
"""Radius of the place of a hostile that a pilot is ordered to focus, out of its sight or reach [vox]."""
ORDER_PULL = wp.constant(1.5)
"""Velocity toward the goal of an order that is added while fighting outside it [share of full speed]."""
RETREAT_S = wp.constant(3.0)
"""Duration of a retreat [s]."""
HURT_ONCE, HURT_COOL, COOL_BELOW, BAD_ODDS = wp.constant(0.2), wp.constant(0.35), wp.constant(0.4), wp.constant(0.35)
"""Hit points for ``Retreat.ONCE`` and ``COOL``, heat at which hiding ends [shares], and odds for ``ODDS``."""
ODDS_RANGE = wp.constant(18.0)
"""Range within which mechs count in the odds [vox]."""
JINK = wp.constant(0.4)
"""Sideways velocity of a retreat [share of full speed]."""


@wp.struct
class Situation:
    """What a pilot's movement depends on, besides its target."""

    p: wp.vec3
    """Position [vox]."""
    zone: wp.vec3
    """Zone: centre x, centre y, radius [vox]."""
    to_zone: wp.float32
    """Horizontal distance to the centre of the zone [vox]."""
    inside: wp.bool
    """Whether it is in the zone."""
    enters: wp.bool
    """Whether it may enter or stay in the zone."""
    path: wp.vec2
    """Unit vector of the path to the zone."""
    pull: wp.float32
    """Velocity along the path that is added while fighting outside the zone [share of full speed]."""
    side: wp.float32
    """Current side of the sidestep, 1 or -1; 0 without a target."""


@wp.func
def fighting_distance(
    rules: Rules, skill: Skill, c: int, heat: float, hp: float, target_hp: float, in_zone: bool, long_gun_ready: bool
) -> float:
    """Return the desired distance to the target [vox]; ``target_hp`` is a share of the maximum."""
    if skill.range_policy == FIXED:
        return FIXED_RANGE
    share = heat / rules.chassis[c].heat_cap
    d = float(7.5)
    if c == SCOUT:
        d = 9.0
    if c == LIGHT:
        d = wp.where(share < 0.5, 4.0, 7.0)
    if c == HEAVY and not in_zone:
        d = 11.0
        if skill.range_policy == KITING and long_gun_ready:
            d = 16.0
    if skill.range_policy >= ADAPTIVE:
        if share > HOT:
            d += 3.0
        if hp < HURT * rules.chassis[c].hp:
            d += 3.0
        if target_hp < WEAK_TARGET:
            d -= 2.0
    return wp.max(LEAST_RANGE, d)


@wp.func
def sidestep_side(skill: Skill, seed: wp.uint32, m: int, seconds: float) -> float:
    block = int(0)
    if skill.sidestep_s > 0.0:
        phase = uniform01(seed, STREAM_AGENT, 0, m, 8)
        block = int(seconds / skill.sidestep_s + phase)
        if skill.sidestep_random == 1:
            late = uniform01(seed, STREAM_AGENT, block, m, 9)
            if seconds / skill.sidestep_s + phase - float(block) < 0.6 * late:
                block -= 1
    if skill.sidestep_random == 0:
        return wp.where((block + m) % 2 == 0, 1.0, -1.0)
    return wp.where(uniform01(seed, STREAM_AGENT, block, m, 10) < 0.5, 1.0, -1.0)


@wp.func
def may_enter(skill: Skill, friendly: float, hostile: float, tonnage: float, behind: bool) -> bool:
    """Return whether a pilot of this tonnage goes into the zone, given the tonnage of the others in it [t]."""
    if skill.zone != BALANCED or behind:
        return True
    return friendly + tonnage - hostile >= ENTER_BALANCE


@wp.func
def fight(p: wp.vec3, spot: wp.vec3, distance: float, sidestep: float) -> wp.vec2:
    """Return the velocity that keeps ``distance`` [vox] to ``spot`` and moves sideways."""
    u = unit2(spot[0] - p[0], spot[1] - p[1])
    radial = wp.clamp((xy_length(spot - p) - distance) / RANGE_BAND, -1.0, 1.0)
    return wp.vec2(u[0] * radial - u[1] * sidestep, u[1] * radial + u[0] * sidestep)


@wp.func
def stay_inside(velocity: wp.vec2, p: wp.vec3, zone: wp.vec3, speed: float) -> wp.vec2:
    """Return the velocity, turned toward the centre where it would lead out of the zone within a second."""
    dx = p[0] + velocity[0] * speed - zone[0]
    dy = p[1] + velocity[1] * speed - zone[1]
    if dx * dx + dy * dy > HOLD_SHARE * HOLD_SHARE * zone[2] * zone[2]:
        inward = unit2(zone[0] - p[0], zone[1] - p[1])
        along = velocity[0] * -inward[1] + velocity[1] * inward[0]
        return wp.vec2(0.6 * inward[0] - 0.6 * along * inward[1], 0.6 * inward[1] + 0.6 * along * inward[0])
    return velocity


@wp.func
def must_cool(rules: Rules, skill: Skill, c: int, hp: float, heat: float) -> bool:
    """Return whether a pilot is so damaged and hot that it stays out of sight."""
    return (
        skill.retreat >= R_COOL
        and hp / rules.chassis[c].hp < HURT_COOL
        and heat > COOL_BELOW * rules.chassis[c].heat_cap
    )


@wp.func
def begins_retreat(
    rules: Rules, skill: Skill, c: int, hp: float, heat: float, outside: bool, seen: bool, odds: float
) -> bool:
    """Return whether a pilot breaks off the fight now."""
    if skill.retreat == R_ONCE:
        return hp / rules.chassis[c].hp < HURT_ONCE and outside and seen
    if seen and must_cool(rules, skill, c, hp, heat):
        return True
    return skill.retreat == R_ODDS and seen and outside and odds < BAD_ODDS


@wp.func
def retreat_time_left(left_s: float, begins: bool, dt_act: float) -> float:
    """Return the time left of the only retreat of a battle [s]: 0 before it, -1 after it."""
    if left_s == 0.0 and begins:
        return RETREAT_S
    if left_s > 0.0:
        return wp.where(left_s <= dt_act + 1.0e-4, -1.0, left_s - dt_act)
    return left_s


@wp.func
def gathers(
    rules: Rules, skill: Skill, episode: Episode, mechs: Mechs, e: int, m: int, zone: wp.vec3, waited_s: float
) -> bool:
    """Return whether a pilot waits for packmates behind it, in front of a zone that only hostiles hold."""
    p = mechs.pos[e, m]
    team = mechs.team[e, m]
    held = episode.zone_tonnage[e]
    to_zone = distance_to_zone(zone, p)
    if waited_s >= skill.gather_s or to_zone > zone[2] + GATHER_RING or held[team] > 0.0 or held[1 - team] <= 0.0:
        return False
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and mechs.alive[e, k] == 1:
            behind = distance_to_zone(zone, mechs.pos[e, k]) - to_zone
            if behind > GATHER_GAP and behind <= rules.chassis[mechs.chassis[e, k]].max_speed * (
                skill.gather_s - waited_s
            ):
                return True
    return False


@wp.func
def local_odds(rules: Rules, pilot: PilotState, mechs: Mechs, perception: PilotMemory) -> float:
    """Return the strength of friends near a pilot over that of perceived hostiles near it, by tonnage and hit points.

    1 for levels that do not use the odds.
    """
    if pilot.skill.retreat != R_ODDS:
        return 1.0
    e = pilot.env
    m = pilot.mech
    friendly = float(0.0)
    hostile = float(0.0)
    for j in range(mechs.team.shape[1]):
        weight = rules.chassis[mechs.chassis[e, j]].tonnage / rules.chassis[mechs.chassis[e, j]].hp
        if mechs.team[e, j] == mechs.team[e, m]:
            if mechs.alive[e, j] == 1 and wp.length(mechs.pos[e, j] - mechs.pos[e, m]) < ODDS_RANGE:
                friendly += weight * mechs.hp[e, j]
        else:
            track = recall(pilot, mechs, perception, j)
            if track.age == 0 and wp.length(track.pos - mechs.pos[e, m]) < ODDS_RANGE:
                hostile += weight * track.hp
    return friendly / wp.max(1.0, hostile)


@wp.func
def manoeuvre(skill: Skill, at: Situation, spot: wp.vec3, distance: float, speed: float) -> wp.vec2:
    """Return the velocity in combat at ``distance`` [vox]: fights inside the zone or on the path to it."""
    fighting = fight(at.p, spot, distance, at.side * skill.sidestep)
    if not at.enters:
        return fighting
    if in_zone(at.zone, at.p):
        return stay_inside(fighting, at.p, at.zone, speed)
    return fighting + at.path * at.pull


@wp.func
def engage(
    rules: Rules,
    skill: Skill,
    at: Situation,
    c: int,
    spot: wp.vec3,
    sees: bool,
    distance: float,
    escape_s: float,
    walking: wp.vec2,
) -> wp.vec2:
    """Return the velocity with a target at ``spot``: fight at ``distance`` [vox], pursuit, or ``walking``."""
    d = wp.length(spot - at.p)
    away = unit2(at.p[0] - spot[0], at.p[1] - spot[1])
    if skill.range_policy == FIXED:
        if d < distance and not (c == HEAVY and at.inside):
            return away * BACK_OFF
        return walking
    if sees and d < distance + FIGHT_MARGIN:
        return manoeuvre(skill, at, spot, distance, rules.chassis[c].max_speed)
    pursues = skill.pursues_unseen == 1 and not sees and at.enters and at.pull < ORDER_PULL and escape_s <= -CALM_S
    if pursues and d < PURSUIT_RANGE and at.to_zone < at.zone[2] + PURSUIT_ZONE_DISTANCE:
        return -away
    if sees and at.inside and d < EXPOSED_RANGE:
        return walking + wp.vec2(-away[1], away[0]) * (at.side * skill.sidestep)
    return walking


@wp.func
def situation(
    rules: Rules, skill: Skill, world: World, episode: Episode, mechs: Mechs, e: int, m: int, path: wp.vec2
) -> Situation:
    at = Situation()
    c = mechs.chassis[e, m]
    team = mechs.team[e, m]
    tonnage = episode.zone_tonnage[e]
    score = episode.score[e]
    at.p = mechs.pos[e, m]
    at.zone = world.zone[e]
    at.to_zone = distance_to_zone(at.zone, at.p)
    at.inside = at.to_zone < at.zone[2]
    at.path = path
    at.pull = ZONE_PULL
    friendly = tonnage[team] - wp.where(at.inside, rules.chassis[c].tonnage, 0.0)
    at.enters = may_enter(skill, friendly, tonnage[1 - team], rules.chassis[c].tonnage, score[team] < score[1 - team])
    return at


@wp.func
def ordered_place(orders: Orders, mechs: Mechs, targets: Targets, e: int, m: int) -> wp.vec3:
    """Return the circle that a pilot's order leads to: x, y, radius [vox]; radius 0 for none, or one unknown to it.

    A hostile to focus that it sees within reach is no place to go to, only its target.
    """
    if orders.order_kind[e, m] != FOCUS:
        return orders.order_goal[e, m]
    spot = targets.pilot_spot[e, m]
    reached = targets.pilot_sees[e, m] == 1 and wp.length(spot - mechs.pos[e, m]) < REACH
    if targets.pilot_target[e, m] == orders.order_mech[e, m] and not reached:
        return circle(spot, FOUND)
    return wp.vec3(0.0, 0.0, 0.0)


@wp.func
def obeying(at: Situation, place: wp.vec3) -> Situation:
    """Return the situation with the circle of an order for the zone, unchanged for radius 0."""
    if place[2] > 0.0:
        at.zone = place
        at.to_zone = distance_to_zone(place, at.p)
        at.inside = at.to_zone < place[2]
        at.enters = True
        at.pull = ORDER_PULL
    return at


@wp.kernel
def plan_movement(
    rules: Rules,
    skills: wp.array[Skill],
    flow: FlowFields,
    world: World,
    episode: Episode,
    mechs: Mechs,
    assignment: Assignment,
    perception: PilotMemory,
    targets: Targets,
    avoidance: Avoidance,
    orders: Orders,
    plan: MovementPlan,
    plan_out: MovementPlan,
):
    """Set the desired velocity of a pilot: walk, fight or retreat."""
    e, m = wp.tid()
    if assignment.script[e, m] < FIRST_LEVEL_SCRIPT or mechs.alive[e, m] == 0:
        return
    skill = skills[assignment.script[e, m] - FIRST_LEVEL_SCRIPT]
    c = mechs.chassis[e, m]
    p = mechs.pos[e, m]
    hp = mechs.hp[e, m]
    heat = mechs.heat[e, m]
    zone = world.zone[e]
    now = episode.decision[e]
    outside = not (distance_to_zone(zone, p) < zone[2])
    pilot = pilot_of(skill, mechs, perception, e, m, now)
    flank_s = flank_time_left(rules, pilot, flow, world, mechs, perception, plan.pilot_flank_s[e, m], outside)
    plan_out.pilot_flank_s[e, m] = flank_s
    path = path_to_zone(rules, skill, flow, world, e, c, p, flank_s > 0.0)
    order = orders.order_kind[e, m]
    place = ordered_place(orders, mechs, targets, e, m)
    ordered = place[2] > 0.0
    if order != ADVANCE:
        path = wp.where(ordered, unit2(place[0] - p[0], place[1] - p[1]), path)
    plan_out.pilot_way[e, m] = path
    at = obeying(situation(rules, skill, world, episode, mechs, e, m, path), place)
    walking = walk(skill, p, path, at.zone, at.enters)
    velocity = walking
    waited_s = wp.where(now == 0, 0.0, plan.pilot_gather_s[e, m])
    if outside and not ordered and gathers(rules, skill, episode, mechs, e, m, zone, waited_s):
        velocity = wp.vec2(0.0, 0.0)
        waited_s += rules.dt_act
    plan_out.pilot_gather_s[e, m] = waited_s
    j = targets.pilot_target[e, m]
    sees = j >= 0 and targets.pilot_sees[e, m] == 1
    contested = zone_contested(episode.zone_tonnage[e]) and not ordered
    if skill.patrols_zone == 1 and at.enters and at.inside and j < 0 and contested:
        velocity = patrol(p, zone, mechs.team[e, m])
    if j >= 0:
        spot = targets.pilot_spot[e, m]
        away = unit2(p[0] - spot[0], p[1] - spot[1])
        at.side = sidestep_side(skill, episode.seed[e], m, float(episode.tick[e]) * rules.dt)
        target_hp = wp.where(targets.pilot_age[e, m] == 0, targets.pilot_weak[e, m], 1.0)
        ready = LONG_GUN_TIMER[c] >= 0 and mechs.cooldown[e, m, wp.max(0, LONG_GUN_TIMER[c])] == 0 and sees
        distance = fighting_distance(rules, skill, c, heat, hp, target_hp, at.inside, ready)
        velocity = engage(rules, skill, at, c, spot, sees, distance, avoidance.pilot_escape_s[e, m], velocity)
        odds = local_odds(rules, pilot, mechs, perception)
        retreats = begins_retreat(rules, skill, c, hp, heat, not at.inside, sees, odds)
        if skill.retreat == R_ONCE:
            left_s = retreat_time_left(plan.pilot_retreat_s[e, m], retreats, rules.dt_act)
            plan_out.pilot_retreat_s[e, m] = left_s
            retreats = left_s > 0.0
        if skill.retreat >= R_COOL and retreats:
            plan_out.pilot_retreat_s[e, m] = RETREAT_S
        if retreats and not ordered:
            velocity = away + wp.vec2(-away[1], away[0]) * (JINK * at.side)
    if skill.retreat >= R_COOL and plan.pilot_retreat_s[e, m] > 0.0:
        if not must_cool(rules, skill, c, hp, heat):
            plan_out.pilot_retreat_s[e, m] = 0.0
        elif not sees and not ordered:
            velocity = wp.vec2(0.0, 0.0)
    velocity = wp.where(order == RETREAT and not at.inside, walking, velocity)
    plan_out.pilot_desired[e, m] = velocity / wp.max(1.0, wp.length(velocity))
