"""Whom a scripted pilot fights: the pack's focus and mark, then each pilot's own choice among those it knows of."""

# ruff: noqa: E501
import warp as wp

from echelon.agents.levels import FIRST_LEVEL, PaintUse, Skill, TargetChoice
from echelon.agents.tracks import FALLEN, PACK, SHUT_DOWN, UNKNOWN, Track, recall
from echelon.env.referee import in_zone
from echelon.sim.arsenal import Chassis, Weapon
from echelon.sim.geometry import arc_tan2, wrap_angle
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FIRST_LEVEL_SCRIPT = wp.constant(FIRST_LEVEL)
RANDOM, NEAREST, PAINTED = (wp.constant(int(TargetChoice.RANDOM)), wp.constant(int(TargetChoice.NEAREST)), wp.constant(int(TargetChoice.PAINTED)))
THREAT, FOCUS = wp.constant(int(TargetChoice.THREAT)), wp.constant(int(TargetChoice.FOCUS))
PAINT_MARK = wp.constant(int(PaintUse.MARK))
PAINT_FOCUS = wp.constant(int(PaintUse.FOCUS))
HEAVY, MEDIUM = wp.constant(int(Chassis.HEAVY)), wp.constant(int(Chassis.MEDIUM))
PAINTER = wp.constant(int(Weapon.PAINTER))
CLASS_WORTH = wp.constant(wp.vec4(0.6, 0.7, 0.9, 1.0))
"""Worth of a scout, light, medium and heavy as targets."""
HURT_COUNTS, PAINT_COUNTS, DOWN_COUNTS, AIMS_COUNTS, ZONE_COUNTS = (wp.constant(x) for x in (0.6, 0.5, 0.4, 0.6, 0.5))
FADES_VOX = wp.constant(20.0)
"""Distance that costs a target one point of its score [vox]."""
AIMS_ANGLE = wp.constant(0.35)
AIMS_RANGE = wp.constant(20.0)
"""Within this angle [rad] and range [vox] a hostile that faces a pilot is taken to aim at it."""
RANDOM_KEPT_S = wp.constant(3.0)
FOCUS_KEPT_S = wp.constant(2.0)
FOCUS_RANGE = wp.constant(20.0)
"""Members within this range of a hostile can fight it [vox]."""
FOCUS_REACH = wp.constant(14.0)
FOCUS_COUNTS = wp.constant(0.25)
"""What being its pack's focus adds to a hostile's score within that range [vox]."""
PAINT_DETOUR = wp.constant(16.0)
"""A painter takes its pack's mark when it is within this range [vox]."""
PAINTED_GAIN = wp.constant(1.0)
"""Distance that paint is worth to those who choose the nearest [vox]."""
FAR = wp.constant(1.0e9)


@wp.func
def threat(rules: Rules, p: wp.vec3, c: int, known: Track, zone: wp.vec3) -> float:
    """How much a hostile of class c is worth fighting from p; what it does counts only while it is perceived."""
    away = p - known.pos
    d = wp.length(away)
    score = CLASS_WORTH[c] * (1.0 - HURT_COUNTS * known.hp / rules.max_hp[c]) - d / FADES_VOX
    if known.paint > 0.0:
        score += PAINT_COUNTS
    if in_zone(zone, known.pos):
        score += ZONE_COUNTS
    if known.marks & (FALLEN + SHUT_DOWN) != 0:
        score += DOWN_COUNTS
    if known.sees == 1 and d < AIMS_RANGE and wp.abs(wrap_angle(arc_tan2(away[1], away[0]) - known.yaw)) < AIMS_ANGLE:
        score += AIMS_COUNTS
    return score


@wp.kernel
def choose_pack_targets(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill),
    # world
    zone: wp.array(dtype=wp.vec3),
    # state in
    crew: wp.array2d(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3), pilot_target: wp.array2d(dtype=wp.int32),
    # state out
    pack_mark: wp.array2d(dtype=wp.int32), pack_focus: wp.array2d(dtype=wp.int32), pack_focus_since: wp.array2d(dtype=wp.int32),
):
    """Set a pack's mark, what its heavy fought last, and its focus: most threat to two members or more, kept a while."""
    e, p = wp.tid()
    now = decision[e]
    side = p / (watch_since.shape[1] / 2)
    mark = int(-1)
    expert = int(-1)
    for m in range(p * PACK, (p + 1) * PACK):
        if alive[e, m] == 1 and crew[e, m] >= FIRST_LEVEL_SCRIPT:
            if chassis[e, m] == HEAVY and mark < 0 and now > 0:
                mark = pilot_target[e, m]
            if skills[crew[e, m] - FIRST_LEVEL_SCRIPT].choice == FOCUS:
                expert = m
    pack_mark[e, p] = mark
    kept = pack_focus[e, p]
    if expert < 0 or now == 0:
        kept = -1
    if kept >= 0:
        s = skills[crew[e, expert] - FIRST_LEVEL_SCRIPT]
        if recall(s, e, expert, kept, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body).age < 0:
            kept = -1
        elif float(now - pack_focus_since[e, p]) * rules.dt_act >= FOCUS_KEPT_S:
            kept = -1
    if expert < 0 or kept >= 0:
        pack_focus[e, p] = kept
        return
    best = int(-1)
    best_score = float(-FAR)
    for j in range(alive.shape[1]):
        if team[e, j] == side:
            continue
        total = float(0.0)
        members = int(0)
        for m in range(p * PACK, (p + 1) * PACK):
            if alive[e, m] == 1 and crew[e, m] >= FIRST_LEVEL_SCRIPT:
                s = skills[crew[e, m] - FIRST_LEVEL_SCRIPT]
                known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
                if known.age >= 0 and wp.length(known.pos - pos[e, m]) <= FOCUS_RANGE:
                    members += 1
                    total += threat(rules, pos[e, m], chassis[e, j], known, zone[e])
        if members >= 2 and total > best_score:
            best = j
            best_score = total
    pack_focus[e, p] = best
    pack_focus_since[e, p] = now


@wp.func
def appeal(rules: Rules, s: Skill, d: float, paint: bool, draw: float, score: float) -> float:
    """How much a pilot of this skill wants a target, more is better."""
    if s.choice == RANDOM:
        return draw
    if s.choice == NEAREST:
        return -d
    if s.choice == PAINTED:
        return -d + wp.where(paint, PAINTED_GAIN, 0.0)
    return score


@wp.kernel
def choose_target(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill),
    # world
    zone: wp.array(dtype=wp.vec3),
    # state in
    script: wp.array2d(dtype=wp.int32), decision: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3), pack_mark: wp.array2d(dtype=wp.int32), pack_focus: wp.array2d(dtype=wp.int32),
    # state out
    pilot_target: wp.array2d(dtype=wp.int32), pilot_target_since: wp.array2d(dtype=wp.int32), pilot_age: wp.array2d(dtype=wp.int32), pilot_spot: wp.array2d(dtype=wp.vec3), pilot_drift: wp.array2d(dtype=wp.vec3), pilot_sees: wp.array2d(dtype=wp.int32), pilot_weak: wp.array2d(dtype=wp.float32), pilot_paint: wp.array2d(dtype=wp.float32),
):
    """Choose a pilot's target, and say what it believes of it."""
    e, m = wp.tid()
    if script[e, m] < FIRST_LEVEL_SCRIPT:
        return
    s = skills[script[e, m] - FIRST_LEVEL_SCRIPT]
    now = decision[e]
    row = team[e, m] * (watch_since.shape[1] / 2) + pack[e, m]
    paints = rules.trigger_of[chassis[e, m], PAINTER] >= 0 and chassis[e, m] != MEDIUM
    before = pilot_target[e, m]
    best = int(-1)
    best_appeal = float(-FAR)
    fought = Track()
    fought.age = UNKNOWN
    for j in range(alive.shape[1]):
        if alive[e, m] == 0 or team[e, j] == team[e, m]:
            continue
        known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
        if known.age < 0:
            continue
        d = wp.length(known.pos - pos[e, m])
        score = float(0.0)
        if s.choice >= THREAT:
            score = threat(rules, pos[e, m], chassis[e, j], known, zone[e])
        wish = appeal(rules, s, d, known.paint > 0.0, uniform01(seed[e], STREAM_AGENT, tick[e], m, 16 + j), score)
        kept = s.choice == RANDOM and j == before and float(now - pilot_target_since[e, m]) * rules.dt_act < RANDOM_KEPT_S
        if s.choice == FOCUS and j == pack_focus[e, row] and d <= FOCUS_REACH:
            wish += FOCUS_COUNTS
        packs = int(-1)
        if s.paint == PAINT_MARK:
            packs = pack_mark[e, row]
        elif s.paint == PAINT_FOCUS:
            packs = pack_focus[e, row]
        marked = paints and j == packs and d <= PAINT_DETOUR
        if kept or marked:
            wish = FAR
        if wish > best_appeal:
            best = j
            best_appeal = wish
            fought = known
    drawn = s.choice == RANDOM and float(now - pilot_target_since[e, m]) * rules.dt_act >= RANDOM_KEPT_S
    if best != before or now == 0 or drawn:
        pilot_target_since[e, m] = now
    pilot_target[e, m] = best
    pilot_age[e, m] = fought.age
    pilot_sees[e, m] = fought.sees
    pilot_paint[e, m] = fought.paint
    if best >= 0:
        pilot_spot[e, m] = fought.pos
        pilot_drift[e, m] = fought.vel
        pilot_weak[e, m] = fought.hp / rules.max_hp[chassis[e, best]]
