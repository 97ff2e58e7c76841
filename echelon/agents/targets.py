# type: ignore
"""Target selection: the mark and focus of a pack, then the target of each pilot among the hostiles it knows of."""

import warp as wp

from echelon.agents.levels import FIRST_LEVEL, PaintUse, Skill, TargetChoice
from echelon.agents.memory import Assignment, PackTargets, PilotMemory, Targets
from echelon.agents.tracks import FALLEN, PACK, SHUT_DOWN, UNKNOWN, Track, pack_row, pilot_of, recall
from echelon.env.observe.orders import FOCUS as ORDER_FOCUS
from echelon.env.observe.orders import Orders
from echelon.env.referee import in_zone
from echelon.sim.arsenal import CHASSIS, WEAPONS, Chassis, ChassisSpec
from echelon.sim.geometry import arc_tan2, wrap_angle
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.state import Mechs, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FIRST_LEVEL_SCRIPT = wp.constant(FIRST_LEVEL)
RANDOM, NEAREST, PAINTED, THREAT, FOCUS = (wp.constant(int(choice)) for choice in TargetChoice)
PAINT_MARK, PAINT_FOCUS = wp.constant(int(PaintUse.MARK)), wp.constant(int(PaintUse.FOCUS))
HEAVY = wp.constant(int(Chassis.HEAVY))


def _paints(chassis: ChassisSpec) -> bool:
    """Return whether a chassis carries a painter whose trigger fires no gun as well."""
    carried = {weapon: chassis.carries[weapon.weapon] for weapon in WEAPONS if weapon.weapon in chassis.carries}
    guns = {trigger for weapon, trigger in carried.items() if weapon.damage > 0}
    return any(weapon.paints and trigger not in guns for weapon, trigger in carried.items())


IS_PAINTER = wp.constant(wp.vec4i(*[int(_paints(chassis)) for chassis in CHASSIS]))
"""1 for each chassis that paints for its pack."""
CLASS_WORTH = wp.constant(wp.vec4(0.6, 0.7, 0.9, 1.0))
"""Threat score of an undamaged scout, light, medium and heavy."""
DAMAGE_WEIGHT, PAINT_BONUS, DOWN_BONUS, AIM_BONUS, ZONE_BONUS = (wp.constant(x) for x in (0.6, 0.5, 0.4, 0.6, 0.5))
"""Threat score of damage [share of the class worth], paint, being down, aiming at the pilot, and being in the zone."""
DISTANCE_PER_POINT = wp.constant(20.0)
"""Distance that costs one point of threat score [vox]."""
AIM_ANGLE, AIM_RANGE = wp.constant(0.35), wp.constant(20.0)
"""Heading error [rad] and range [vox] within which a hostile counts as aiming at the pilot."""
RANDOM_HOLD_S, FOCUS_HOLD_S = wp.constant(3.0), wp.constant(2.0)
"""Time for which a random target and a focus target are kept [s]."""
FOCUS_MEMBER_RANGE = wp.constant(20.0)
"""Range within which a member counts toward a focus target [vox]."""
FOCUS_RANGE, FOCUS_BONUS = wp.constant(14.0), wp.constant(0.25)
"""Range within which the focus target of the pack has a higher threat score [vox], and by how much."""
PAINT_RANGE = wp.constant(16.0)
"""Range within which a painter takes the mark or focus of its pack as its target [vox]."""
PAINTED_GAIN = wp.constant(1.0)
"""Distance by which a painted hostile counts as nearer [vox]."""
INFINITE = wp.constant(1.0e9)
DIRECTIONS = wp.constant(8)
"""Directions of an escape, each with a random number."""
TARGET_DRAW, ESCAPE_DRAW = wp.constant(16), wp.constant(48)
"""Number of the first random draw for targets and for escapes."""


@wp.func
def target_draw(j: int) -> int:
    """Return the number of the random draw for target j; those of targets from 32 on follow those of an escape."""
    draw = TARGET_DRAW + j
    if draw >= ESCAPE_DRAW:
        draw += DIRECTIONS
    return draw


@wp.func
def threat(rules: Rules, p: wp.vec3, c: int, track: Track, zone: wp.vec3) -> float:
    """Return the threat score of a hostile of class c seen from p [vox]; its behaviour counts only while perceived."""
    away = p - track.pos
    d = wp.length(away)
    score = CLASS_WORTH[c] * (1.0 - DAMAGE_WEIGHT * track.hp / rules.chassis[c].hp) - d / DISTANCE_PER_POINT
    if track.paint > 0.0:
        score += PAINT_BONUS
    if in_zone(zone, track.pos):
        score += ZONE_BONUS
    if track.marks & (FALLEN + SHUT_DOWN) != 0:
        score += DOWN_BONUS
    if track.sees == 1 and d < AIM_RANGE and wp.abs(wrap_angle(arc_tan2(away[1], away[0]) - track.yaw)) < AIM_ANGLE:
        score += AIM_BONUS
    return score


@wp.func
def is_member(mechs: Mechs, assignment: Assignment, e: int, m: int) -> bool:
    """Return whether mech m lives and a skill level controls it."""
    return mechs.alive[e, m] == 1 and assignment.crew[e, m] >= FIRST_LEVEL_SCRIPT


@wp.func
def held_focus(
    rules: Rules,
    skills: wp.array[Skill],
    mechs: Mechs,
    assignment: Assignment,
    perception: PilotMemory,
    packs: PackTargets,
    e: int,
    p: int,
    leader: int,
    now: int,
) -> int:
    """Return the focus of a pack if it is kept, -1 else: for ``FOCUS_HOLD_S``, and while the leader knows of it."""
    held = packs.pack_focus[e, p]
    if held < 0 or now == 0:
        return -1
    skill = skills[assignment.crew[e, leader] - FIRST_LEVEL_SCRIPT]
    if recall(pilot_of(skill, mechs, perception, e, leader, now), mechs, perception, held).age < 0:
        return -1
    if float(now - packs.pack_focus_since[e, p]) * rules.dt_act >= FOCUS_HOLD_S:
        return -1
    return held


@wp.func
def greatest_threat(
    rules: Rules,
    skills: wp.array[Skill],
    zone: wp.vec3,
    mechs: Mechs,
    assignment: Assignment,
    perception: PilotMemory,
    e: int,
    p: int,
    now: int,
) -> int:
    """Return the hostile with the highest sum of threat scores among those near two or more members, -1 without one."""
    side = p / (perception.watch_since.shape[1] / 2)
    best = int(-1)
    best_score = float(-INFINITE)
    for j in range(mechs.alive.shape[1]):
        if mechs.team[e, j] == side:
            continue
        total = float(0.0)
        members = int(0)
        for m in range(p * PACK, (p + 1) * PACK):
            if is_member(mechs, assignment, e, m):
                skill = skills[assignment.crew[e, m] - FIRST_LEVEL_SCRIPT]
                track = recall(pilot_of(skill, mechs, perception, e, m, now), mechs, perception, j)
                if track.age >= 0 and wp.length(track.pos - mechs.pos[e, m]) <= FOCUS_MEMBER_RANGE:
                    members += 1
                    total += threat(rules, mechs.pos[e, m], mechs.chassis[e, j], track, zone)
        if members >= 2 and total > best_score:
            best = j
            best_score = total
    return best


@wp.kernel
def choose_pack_targets(
    rules: Rules,
    skills: wp.array[Skill],
    world: World,
    decision: wp.array(dtype=wp.int32),
    mechs: Mechs,
    assignment: Assignment,
    perception: PilotMemory,
    targets: Targets,
    packs: PackTargets,
    packs_out: PackTargets,
):
    """Set the mark of a pack, the last target of its heavy, and its focus, the greatest threat to its members.

    Packs without a pilot that chooses targets by focus have none.
    """
    e, p = wp.tid()
    now = decision[e]
    mark = int(-1)
    leader = int(-1)
    for m in range(p * PACK, (p + 1) * PACK):
        if is_member(mechs, assignment, e, m):
            if mechs.chassis[e, m] == HEAVY and mark < 0 and now > 0:
                mark = targets.pilot_target[e, m]
            if skills[assignment.crew[e, m] - FIRST_LEVEL_SCRIPT].choice == FOCUS:
                leader = m
    packs_out.pack_mark[e, p] = mark
    focus = int(-1)
    if leader >= 0:
        focus = held_focus(rules, skills, mechs, assignment, perception, packs, e, p, leader, now)
        if focus < 0:
            focus = greatest_threat(rules, skills, world.zone[e], mechs, assignment, perception, e, p, now)
            packs_out.pack_focus_since[e, p] = now
    packs_out.pack_focus[e, p] = focus


@wp.func
def preference(skill: Skill, d: float, paint: bool, random: float, score: float) -> float:
    """Return how much a pilot prefers a hostile at distance d [vox] as its target; the highest value is chosen."""
    if skill.choice == RANDOM:
        return random
    if skill.choice == NEAREST:
        return -d
    if skill.choice == PAINTED:
        return -d + wp.where(paint, PAINTED_GAIN, 0.0)
    return score


@wp.func
def pack_target(skill: Skill, packs: PackTargets, e: int, row: int) -> int:
    """Return the hostile that a painter paints for its pack, -1 none."""
    if skill.paint == PAINT_MARK:
        return packs.pack_mark[e, row]
    if skill.paint == PAINT_FOCUS:
        return packs.pack_focus[e, row]
    return -1


@wp.kernel
def choose_target(
    rules: Rules,
    skills: wp.array[Skill],
    zone: wp.array(dtype=wp.vec3),
    decision: wp.array(dtype=wp.int32),
    seed: wp.array(dtype=wp.uint32),
    tick: wp.array(dtype=wp.int32),
    mechs: Mechs,
    assignment: Assignment,
    perception: PilotMemory,
    packs: PackTargets,
    orders: Orders,
    targets: Targets,
    targets_out: Targets,
):
    """Set a pilot's target, a known one that it is ordered to focus first, and what the pilot knows of it."""
    e, m = wp.tid()
    if assignment.script[e, m] < FIRST_LEVEL_SCRIPT:
        return
    skill = skills[assignment.script[e, m] - FIRST_LEVEL_SCRIPT]
    now = decision[e]
    row = pack_row(mechs, perception, e, m)
    before = targets.pilot_target[e, m]
    held_s = float(now - targets.pilot_target_since[e, m]) * rules.dt_act
    best = int(-1)
    best_preference = float(-INFINITE)
    chosen = Track()
    chosen.age = UNKNOWN
    last = wp.where(mechs.alive[e, m] == 1, mechs.alive.shape[1], 0)
    team = mechs.team[e, m]
    ordered = wp.where(orders.order_kind[e, m] == ORDER_FOCUS, orders.order_mech[e, m], -1)
    pilot = pilot_of(skill, mechs, perception, e, m, now)
    for j in range(last):
        if mechs.team[e, j] == team:
            continue
        track = recall(pilot, mechs, perception, j)
        if track.age < 0:
            continue
        d = wp.length(track.pos - mechs.pos[e, m])
        score = float(0.0)
        if skill.choice >= THREAT:
            score = threat(rules, mechs.pos[e, m], mechs.chassis[e, j], track, zone[e])
        random = float(0.0)
        if skill.choice == RANDOM:
            random = uniform01(seed[e], STREAM_AGENT, tick[e], m, target_draw(j))
        value = preference(skill, d, track.paint > 0.0, random, score)
        if skill.choice == FOCUS and j == packs.pack_focus[e, row] and d <= FOCUS_RANGE:
            value += FOCUS_BONUS
        held = skill.choice == RANDOM and j == before and held_s < RANDOM_HOLD_S
        painter = IS_PAINTER[mechs.chassis[e, m]] == 1
        if held or (painter and j == pack_target(skill, packs, e, row) and d <= PAINT_RANGE):
            value = INFINITE
        value += wp.where(j == ordered, 2.0 * INFINITE, 0.0)
        if value > best_preference:
            best = j
            best_preference = value
            chosen = track
    redrawn = skill.choice == RANDOM and held_s >= RANDOM_HOLD_S
    if best != before or now == 0 or redrawn:
        targets_out.pilot_target_since[e, m] = now
    targets_out.pilot_target[e, m] = best
    targets_out.pilot_age[e, m] = chosen.age
    targets_out.pilot_sees[e, m] = chosen.sees
    targets_out.pilot_paint[e, m] = chosen.paint
    if best >= 0:
        targets_out.pilot_spot[e, m] = chosen.pos
        targets_out.pilot_drift[e, m] = chosen.vel
        targets_out.pilot_weak[e, m] = chosen.hp / rules.chassis[mechs.chassis[e, best]].hp
