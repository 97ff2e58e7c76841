"""How a scripted pilot wants to move: it walks, fights at its distance, or gives way.

A wish is a horizontal velocity in world axes, a share of full speed; ``steer`` turns it into throttles.
"""

# ruff: noqa: E501
import warp as wp

from echelon.agents.collision_avoidance import CALM_S
from echelon.agents.levels import RangePolicy, Retreat, Skill, ZoneTactic
from echelon.agents.routes import HOLD_SHARE, flank_left, go_round, walk, way_to_zone
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.agents.tracks import PACK, recall
from echelon.env.referee import in_zone
from echelon.env.reward import zone_contested
from echelon.nav.waypoints import unit2
from echelon.sim.arsenal import Chassis, Cooldown
from echelon.sim.geometry import xy_length
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SCOUT, LIGHT, _MEDIUM, HEAVY = (wp.constant(int(c)) for c in Chassis)
FIXED, ADAPTIVE, KITING = wp.constant(int(RangePolicy.FIXED)), wp.constant(int(RangePolicy.ADAPTIVE)), wp.constant(int(RangePolicy.KITING))
R_ONCE, R_COOL, R_ODDS = wp.constant(int(Retreat.ONCE)), wp.constant(int(Retreat.COOL)), wp.constant(int(Retreat.ODDS))
BALANCES = wp.constant(int(ZoneTactic.BALANCED))
KINETIC = wp.constant(int(Cooldown.KINETIC))
FIXED_RANGE = wp.constant(5.5)
CLOSEST = wp.constant(3.5)
BACK_OFF = wp.constant(0.3)
"""Throttle at which the lower levels back away."""
EXPOSED = wp.constant(25.0)
"""A pilot in the sight of a hostile this near does not stand still [vox]."""
HUNT_RANGE, HUNT_NEAR = wp.constant(20.0), wp.constant(6.0)
"""Hunters go for a hostile out of sight within this range, while within that distance of the zone [vox]."""
RANGE_BAND = wp.constant(2.0)
"""Error of the fighting distance that asks for full throttle [vox]."""
FIGHT_MARGIN = wp.constant(5.0)
"""A pilot manoeuvres against a target nearer than its fighting distance and this much [vox]."""
GATHER_RING, TOGETHER = wp.constant(20.0), wp.constant(4.0)
"""Distance from the zone's edge at which packs gather, and by which a packmate may be farther from it [vox]."""
HOT, HURT, WEAK_TARGET = wp.constant(0.6), wp.constant(0.4), wp.constant(0.25)
ENTER_BALANCE = wp.constant(-20.0)
"""Tonnage in the zone, own less theirs with oneself added, at which one enters [t]."""
ZONE_PULL = wp.constant(0.6)
"""Share of full throttle toward the zone that is mixed into fighting outside it."""
RETREAT_S = wp.constant(3.0)
HURT_ONCE, HURT_COOL, COOL_AGAIN, LOST_ODDS = wp.constant(0.2), wp.constant(0.35), wp.constant(0.4), wp.constant(0.35)
ODDS_REACH = wp.constant(18.0)
"""Who is within this range counts in an exchange [vox]."""
JINK = wp.constant(0.4)
"""Share of the way back that goes sideways."""


@wp.func
def fighting_distance(rules: Rules, s: Skill, c: int, heat: float, hp: float, target_hp: float, in_zone: bool, gauss_ready: bool) -> float:
    """Distance a pilot wants to its target [vox]."""
    if s.range_policy == FIXED:
        return FIXED_RANGE
    share = heat / rules.heat_cap[c]
    d = float(7.5)
    if c == SCOUT:
        d = 9.0
    if c == LIGHT:
        d = wp.where(share < 0.5, 4.0, 7.0)
    if c == HEAVY and not in_zone:
        d = 11.0
        if s.range_policy == KITING and gauss_ready:
            d = 16.0
    if s.range_policy >= ADAPTIVE:
        if share > HOT:
            d += 3.0
        if hp < HURT * rules.max_hp[c]:
            d += 3.0
        if target_hp < WEAK_TARGET:
            d -= 2.0
    return wp.max(CLOSEST, d)


@wp.func
def side_of(s: Skill, seed: wp.uint32, m: int, seconds: float) -> float:
    """Side of the sidestep now, 1 or -1; it changes after a fixed or random time, or never."""
    block = int(0)
    if s.sidestep_s > 0.0:
        phase = uniform01(seed, STREAM_AGENT, 0, m, 8)
        block = int(seconds / s.sidestep_s + phase)
        if s.sidestep_random == 1:
            late = uniform01(seed, STREAM_AGENT, block, m, 9)
            if seconds / s.sidestep_s + phase - float(block) < 0.6 * late:
                block -= 1
    if s.sidestep_random == 0:
        return wp.where((block + m) % 2 == 0, 1.0, -1.0)
    return wp.where(uniform01(seed, STREAM_AGENT, block, m, 10) < 0.5, 1.0, -1.0)


@wp.func
def enters(s: Skill, own: float, theirs: float, tonnage: float, behind: bool) -> bool:
    """Whether a pilot goes into the zone, given who is in it."""
    if s.zone != BALANCES or behind:
        return True
    return own + tonnage - theirs >= ENTER_BALANCE


@wp.func
def fight(p: wp.vec3, spot: wp.vec3, wanted: float, sidestep: float) -> wp.vec2:
    """Throttle that keeps the fighting distance and moves sideways."""
    u = unit2(spot[0] - p[0], spot[1] - p[1])
    radial = wp.clamp((xy_length(spot - p) - wanted) / RANGE_BAND, -1.0, 1.0)
    return wp.vec2(u[0] * radial - u[1] * sidestep, u[1] * radial + u[0] * sidestep)


@wp.func
def stay_inside(wish: wp.vec2, p: wp.vec3, zone: wp.vec3, speed: float) -> wp.vec2:
    """The wish, or a step toward the centre where it would lead out of the zone within a second."""
    dx = p[0] + wish[0] * speed - zone[0]
    dy = p[1] + wish[1] * speed - zone[1]
    if dx * dx + dy * dy > HOLD_SHARE * HOLD_SHARE * zone[2] * zone[2]:
        inward = unit2(zone[0] - p[0], zone[1] - p[1])
        along = wish[0] * -inward[1] + wish[1] * inward[0]
        return wp.vec2(0.6 * inward[0] - 0.6 * along * inward[1], 0.6 * inward[1] + 0.6 * along * inward[0])
    return wish


@wp.func
def must_cool(rules: Rules, s: Skill, c: int, hp: float, heat: float) -> bool:
    """Whether a pilot is so hurt and so hot that it keeps out of sight once it has been in it."""
    return s.retreat >= R_COOL and hp / rules.max_hp[c] < HURT_COOL and heat > COOL_AGAIN * rules.heat_cap[c]


@wp.func
def gives_way(rules: Rules, s: Skill, c: int, hp: float, heat: float, outside: bool, seen: bool, odds: float) -> bool:
    """Whether a pilot breaks off now."""
    if s.retreat == R_ONCE:
        return hp / rules.max_hp[c] < HURT_ONCE and outside and seen
    if seen and must_cool(rules, s, c, hp, heat):
        return True
    return s.retreat == R_ODDS and seen and outside and odds < LOST_ODDS


@wp.func
def retreat_left(left_s: float, breaks: bool, dt_act: float) -> float:
    """Time left of the one retreat of a battle [s]: 0 before it, -1 after it."""
    if left_s == 0.0 and breaks:
        return RETREAT_S
    if left_s > 0.0:
        return wp.where(left_s <= dt_act + 1.0e-4, -1.0, left_s - dt_act)
    return left_s


@wp.func
def gathers(
    rules: Rules, s: Skill, e: int, m: int, waited_s: float, zone: wp.vec3, held: wp.vec2, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3),
) -> bool:
    """Whether a pilot waits for those of its pack who come after it, before a zone that hostiles alone hold."""
    p = pos[e, m]
    own = team[e, m]
    to_zone = xy_length(wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0))
    if waited_s >= s.gather_s or to_zone > zone[2] + GATHER_RING or held[own] > 0.0 or held[1 - own] <= 0.0:
        return False
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and alive[e, k] == 1:
            behind = xy_length(wp.vec3(zone[0] - pos[e, k][0], zone[1] - pos[e, k][1], 0.0)) - to_zone
            if behind > TOGETHER and behind <= rules.max_speed[chassis[e, k]] * (s.gather_s - waited_s):
                return True
    return False


@wp.func
def odds_of(
    rules: Rules, s: Skill, e: int, m: int, now: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), hp: wp.array2d(dtype=wp.float32), chassis: wp.array2d(dtype=wp.int32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3),
) -> float:
    """Own strength near a pilot over that of the hostiles it perceives near it, by tonnage and hit points.

    Even odds for those who do not count them.
    """
    if s.retreat != R_ODDS:
        return 1.0
    own = float(0.0)
    theirs = float(0.0)
    for j in range(team.shape[1]):
        weight = rules.tonnage[chassis[e, j]] / rules.max_hp[chassis[e, j]]
        if team[e, j] == team[e, m]:
            if alive[e, j] == 1 and wp.length(pos[e, j] - pos[e, m]) < ODDS_REACH:
                own += weight * hp[e, j]
        else:
            known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
            if known.age == 0 and wp.length(known.pos - pos[e, m]) < ODDS_REACH:
                theirs += weight * known.hp
    return own / wp.max(1.0, theirs)


@wp.func
def manoeuvre(s: Skill, p: wp.vec3, spot: wp.vec3, wanted: float, side: float, way: wp.vec2, zone: wp.vec3, go: bool, speed: float) -> wp.vec2:
    """Throttle of a pilot in combat: keeps its distance and sidesteps, inside the zone or on its way there."""
    fighting = fight(p, spot, wanted, side * s.sidestep)
    if not go:
        return fighting
    if in_zone(zone, p):
        return stay_inside(fighting, p, zone, speed)
    return fighting + way * ZONE_PULL


@wp.func
def engaged(
    rules: Rules, s: Skill, c: int, p: wp.vec3, spot: wp.vec3, sees: bool, inside: bool, to_zone: float, go: bool, wanted: float, side: float, escape_s: float, way: wp.vec2, zone: wp.vec3, wish: wp.vec2,
) -> wp.vec2:
    """Throttle of a pilot with a target at ``spot``: fights it, hunts it, or goes on as it wished to."""
    d = wp.length(spot - p)
    away = unit2(p[0] - spot[0], p[1] - spot[1])
    if s.range_policy == FIXED:
        if d < wanted and not (c == HEAVY and inside):
            return away * BACK_OFF
        return wish
    if sees and d < wanted + FIGHT_MARGIN:
        return manoeuvre(s, p, spot, wanted, side, way, zone, go, rules.max_speed[c])
    if s.pursues_unseen == 1 and not sees and go and escape_s <= -CALM_S and d < HUNT_RANGE and to_zone < zone[2] + HUNT_NEAR:
        return -away
    if sees and inside and d < EXPOSED:
        return wish + wp.vec2(-away[1], away[0]) * (side * s.sidestep)
    return wish


@wp.kernel
def plan_movement(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill), flow_step: wp.array2d(dtype=wp.int32),
    # world
    bank_flow: wp.array4d(dtype=wp.uint8), map_slot: wp.array(dtype=wp.int32), size: wp.array(dtype=wp.vec3i), zone: wp.array(dtype=wp.vec3),
    # state in
    script: wp.array2d(dtype=wp.int32), decision: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), cooldown: wp.array3d(dtype=wp.int32), score: wp.array(dtype=wp.vec2), zone_tonnage: wp.array(dtype=wp.vec2), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3), pilot_target: wp.array2d(dtype=wp.int32), pilot_age: wp.array2d(dtype=wp.int32), pilot_sees: wp.array2d(dtype=wp.int32), pilot_weak: wp.array2d(dtype=wp.float32), pilot_spot: wp.array2d(dtype=wp.vec3), pilot_escape_s: wp.array2d(dtype=wp.float32),
    # state out
    pilot_wish: wp.array2d(dtype=wp.vec2), pilot_way: wp.array2d(dtype=wp.vec2), pilot_retreat_s: wp.array2d(dtype=wp.float32), pilot_flank_s: wp.array2d(dtype=wp.float32), pilot_gather_s: wp.array2d(dtype=wp.float32),
):
    """Decide how a pilot wants to move: walk, fight or give way."""
    e, m = wp.tid()
    if script[e, m] < FIRST_LEVEL_SCRIPT or alive[e, m] == 0:
        return
    s = skills[script[e, m] - FIRST_LEVEL_SCRIPT]
    c = chassis[e, m]
    p = pos[e, m]
    own = team[e, m]
    to_zone = xy_length(wp.vec3(zone[e][0] - p[0], zone[e][1] - p[1], 0.0))
    inside = to_zone < zone[e][2]
    foot = p[2] - rules.half[c][2]
    flank_s = flank_left(rules, s, pilot_flank_s[e, m], not inside, bank_flow, flow_step, map_slot[e], size[e], p, foot, e, m, decision[e], team, pack, chassis, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
    pilot_flank_s[e, m] = flank_s
    way = way_to_zone(s, flank_s > 0.0, bank_flow, flow_step, map_slot[e], c, p, foot, size[e], zone[e])
    pilot_way[e, m] = way
    others = zone_tonnage[e][own] - wp.where(inside, rules.tonnage[c], 0.0)
    go = enters(s, others, zone_tonnage[e][1 - own], rules.tonnage[c], score[e][own] < score[e][1 - own])
    wish = walk(s, p, way, zone[e], go)
    waited_s = wp.where(decision[e] == 0, 0.0, pilot_gather_s[e, m])
    if not inside and gathers(rules, s, e, m, waited_s, zone[e], zone_tonnage[e], alive, team, chassis, pos):
        wish = wp.vec2(0.0, 0.0)
        waited_s += rules.dt_act
    pilot_gather_s[e, m] = waited_s
    j = pilot_target[e, m]
    if s.patrols_zone == 1 and go and inside and j < 0 and zone_contested(zone_tonnage[e]):
        wish = go_round(p, zone[e], own)
    if j >= 0:
        spot = pilot_spot[e, m]
        away = unit2(p[0] - spot[0], p[1] - spot[1])
        sees = pilot_sees[e, m] == 1
        side = side_of(s, seed[e], m, float(tick[e]) * rules.dt)
        weak = wp.where(pilot_age[e, m] == 0, pilot_weak[e, m], 1.0)
        wanted = fighting_distance(rules, s, c, heat[e, m], hp[e, m], weak, inside, cooldown[e, m, KINETIC] == 0 and sees)
        wish = engaged(rules, s, c, p, spot, sees, inside, to_zone, go, wanted, side, pilot_escape_s[e, m], way, zone[e], wish)
        odds = odds_of(rules, s, e, m, decision[e], alive, team, pack, pos, hp, chassis, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
        breaks = gives_way(rules, s, c, hp[e, m], heat[e, m], not inside, sees, odds)
        if s.retreat == R_ONCE:
            pilot_retreat_s[e, m] = retreat_left(pilot_retreat_s[e, m], breaks, rules.dt_act)
            breaks = pilot_retreat_s[e, m] > 0.0
        if s.retreat >= R_COOL and breaks:
            pilot_retreat_s[e, m] = RETREAT_S
        if breaks:
            wish = away + wp.vec2(-away[1], away[0]) * (JINK * side)
    if s.retreat >= R_COOL and pilot_retreat_s[e, m] > 0.0:
        if not must_cool(rules, s, c, hp[e, m], heat[e, m]):
            pilot_retreat_s[e, m] = 0.0
        elif j < 0 or pilot_sees[e, m] == 0:
            wish = wp.vec2(0.0, 0.0)
    pilot_wish[e, m] = wish / wp.max(1.0, wp.length(wish))
