"""What a scripted pilot fires: each weapon on its own merit, as many as its heat plan allows, and when it vents."""

# ruff: noqa: E501
import warp as wp

from echelon.actions import ActionIndex
from echelon.agents.legacy import column_of
from echelon.agents.levels import MissileUse, PaintUse, Skill
from echelon.agents.steering import aim_error
from echelon.agents.targets import FIRST_LEVEL_SCRIPT, PAINTER
from echelon.agents.tracks import PACK, SHUT_DOWN, recall
from echelon.sim.arsenal import Chassis, Guidance, Weapon
from echelon.sim.geometry import HALF_PI, arc_tan2, cos_sin, unit3, wrap_angle
from echelon.sim.kernels.fire import in_arc, muzzle_height
from echelon.sim.raycast import cast_ray
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

VENT = wp.constant(int(ActionIndex.VENT))
SCOUT = wp.constant(int(Chassis.SCOUT))
HITSCAN, BALLISTIC, HOMING = (wp.constant(int(g)) for g in (Guidance.HITSCAN, Guidance.BALLISTIC, Guidance.HOMING))
MISSILE_W = wp.constant(int(Weapon.MISSILE))
BY_WORTH = wp.constant(wp.types.vector(length=7, dtype=wp.int32)(3, 4, 2, 0, 1, 5, 6))
"""Weapons by damage per heat, best first: gauss, autocannon, missile, laser, flamer, then the devices."""
_M_SIGHT, M_PAINT, M_WAITS, M_THRIFTY = (wp.constant(int(m)) for m in list(MissileUse)[1:])
P_NEVER, P_FOCUS = wp.constant(int(PaintUse.NEVER)), wp.constant(int(PaintUse.FOCUS))
BLAST_MARGIN = wp.constant(1.0)
"""Pilots keep this far outside the blast of their own rounds [vox]."""
PAINT_WAIT_S = wp.constant(2.0)
PAINT_NEAR = wp.constant(12.0)
"""A scout this near to a target may paint it soon [vox]."""
PAINT_LEFT_S = wp.constant(1.0)
SHIELD_VOX = wp.constant(5.5)
"""Reach of a heavy's anti-missile system [vox]."""


@wp.func
def drawn(rules: Rules, e: int, m: int, spot: wp.vec3, arrives_s: float, team: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3)) -> bool:
    """Whether a missile of the own side draws the fire of a shield at ``spot`` less than its cooldown before ``arrives_s``."""
    for k in range(team.shape[1]):
        if team[e, k] == team[e, m]:
            for i in range(round_weapon.shape[2]):
                if round_weapon[e, k, i] == MISSILE_W:
                    there_s = wp.max(0.0, wp.length(round_pos[e, k, i] - spot) - SHIELD_VOX) / rules.weapon_speed[MISSILE_W]
                    if there_s <= arrives_s and arrives_s < there_s + float(rules.ams_ticks) * rules.dt:
                        return True
    return False


@wp.func
def shielded(rules: Rules, s: Skill, e: int, m: int, now: int, spot: wp.vec3, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3), round_weapon: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3)) -> bool:
    """Whether a hostile heavy that a pilot perceives stands near enough to a target to shoot a missile down, and is
    likely to be ready to when it comes.
    """
    for j in range(team.shape[1]):
        if team[e, j] != team[e, m] and rules.has_ams[chassis[e, j]] == 1:
            known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
            if known.age == 0 and (known.marks & SHUT_DOWN) == 0 and wp.length(known.pos - spot) <= SHIELD_VOX:
                arrives_s = wp.max(0.0, wp.length(known.pos - pos[e, m]) - SHIELD_VOX) / rules.weapon_speed[MISSILE_W]
                if not drawn(rules, e, m, known.pos, arrives_s, team, round_weapon, round_pos):
                    return True
    return False


@wp.func
def scout_near(e: int, m: int, spot: wp.vec3, alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3)) -> bool:
    """Whether a scout of the own pack is near enough to a target to paint it soon."""
    first = m - m % PACK
    for k in range(first, first + PACK):
        if alive[e, k] == 1 and chassis[e, k] == SCOUT:
            if wp.length(pos[e, k] - spot) <= PAINT_NEAR:
                return True
    return False


@wp.func
def off_aim(p: wp.vec3, spot: wp.vec3, yaw: float, bias: float) -> float:
    """Angle between a heading and where a pilot with such a bias believes a spot to lie [rad]."""
    return wp.abs(wrap_angle(arc_tan2(spot[1] - p[1], spot[0] - p[0]) + bias - yaw))


@wp.func
def fires_at(rules: Rules, s: Skill, w: int, d: float, error: float, sees: bool, now: bool) -> bool:
    """Whether a pilot pulls the trigger of a gun, flamer or laser at its target."""
    if d > rules.weapon_range[w] or (rules.weapon_splash[w] > 0.0 and d < rules.weapon_splash[w] + BLAST_MARGIN):
        return False
    if rules.weapon_guidance[w] == HITSCAN:
        return sees and cos_sin(error)[0] >= rules.weapon_arc_cos[w]
    if error > s.cone or not now:
        return False
    if rules.weapon_guidance[w] != BALLISTIC:
        return True
    return sees or s.needs_sight == 0


@wp.func
def barred(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, rules: Rules, s: Skill, w: int, c: int, p: wp.vec3, spot: wp.vec3) -> bool:
    """Whether something right before its muzzle would stop a round that a mech of class c at ``p`` fires at ``spot``."""
    muzzle = p + wp.vec3(0.0, 0.0, muzzle_height(rules, w, rules.half[c][2]))
    way = unit3(spot - muzzle)
    if rules.weapon_guidance[w] == HOMING:
        way = unit3(unit3(spot - p) + wp.vec3(0.0, 0.0, rules.loft))
    return cast_ray(plane, e, size, muzzle, muzzle + way * s.muzzle_clearance_vox, True)[0] >= 0.0


@wp.func
def offers(rules: Rules, s: Skill, w: int, e: int, m: int, now: int, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3)) -> bool:
    """Whether some hostile in sight, whichever it is, stands in the range and arc of a hitscan weapon."""
    cs = cos_sin(yaw[e, m])
    for j in range(team.shape[1]):
        if team[e, j] != team[e, m]:
            known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
            delta = known.pos - pos[e, m]
            if known.sees == 1 and wp.length(delta) <= rules.weapon_range[w] and in_arc(delta, cs, rules.weapon_arc_cos[w]):
                return True
    return False


@wp.func
def launches(s: Skill, rules: Rules, d: float, error: float, sees: bool, paint: bool, quality: float, awaited: bool) -> bool:
    """Whether a heavy launches a missile at its target."""
    if s.missiles == 0 or error > HALF_PI or d < rules.weapon_splash[MISSILE_W] + BLAST_MARGIN:
        return False
    if s.missiles >= M_PAINT and paint and quality >= rules.paint_quality and d <= rules.weapon_range[MISSILE_W]:
        return True
    return sees and d <= rules.weapon_sight_range[MISSILE_W] and not awaited


@wp.func
def waited(waits: bool, before_s: float, loaded: bool, dt_act: float) -> float:
    """How long a launch has waited for paint [s]: no longer than patience lasts, and only while it could be made."""
    if not waits:
        return 0.0
    return wp.where(loaded and before_s < PAINT_WAIT_S, before_s + dt_act, before_s)


@wp.func
def paints_now(s: Skill, rules: Rules, d: float, sees: bool, paint: bool, left_s: float) -> bool:
    """Whether a painter paints its target."""
    if s.paint == P_NEVER or not sees or d > rules.weapon_range[PAINTER]:
        return False
    return not (s.paint == P_FOCUS and paint and left_s > PAINT_LEFT_S)


@wp.kernel
def control_weapons(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill),
    # world
    shot_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    script: wp.array2d(dtype=wp.int32), weapon_prob: wp.array(dtype=wp.float32), decision: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), cooldown: wp.array3d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3), round_weapon: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3), pilot_target: wp.array2d(dtype=wp.int32), pilot_target_since: wp.array2d(dtype=wp.int32), pilot_age: wp.array2d(dtype=wp.int32), pilot_sees: wp.array2d(dtype=wp.int32), pilot_paint: wp.array2d(dtype=wp.float32), pilot_spot: wp.array2d(dtype=wp.vec3),
    # out
    actions: wp.array3d(dtype=wp.float32), pilot_wait_s: wp.array2d(dtype=wp.float32),
):
    """Write a pilot's triggers: each weapon on its own merit, then as many as its heat allows."""
    e, m = wp.tid()
    if script[e, m] < FIRST_LEVEL_SCRIPT or alive[e, m] == 0:
        return
    s = skills[script[e, m] - FIRST_LEVEL_SCRIPT]
    c = chassis[e, m]
    cap = rules.heat_cap[c]
    plan_movement = heat[e, m]
    j = pilot_target[e, m]
    keeps = uniform01(seed[e], STREAM_AGENT, tick[e], m, 1) < weapon_prob[e] * s.trigger_prob
    hot = plan_movement > s.vent_above * cap
    shot = bool(False)
    if j >= 0 and keeps and not hot:
        now = decision[e]
        spot = pilot_spot[e, m]
        d = wp.length(spot - pos[e, m])
        error = off_aim(pos[e, m], spot, yaw[e, m], aim_error(s, seed[e], m, float(tick[e]) * rules.dt))
        sees = pilot_sees[e, m] == 1
        paint = pilot_paint[e, m] > 0.0
        waits = s.missiles >= M_WAITS and not paint and sees and scout_near(e, m, spot, alive, chassis, pos)
        waited_s = wp.where(pilot_target_since[e, m] < now, pilot_wait_s[e, m], 0.0)
        awaited = waits and waited_s < PAINT_WAIT_S
        pilot_wait_s[e, m] = waited(waits, waited_s, cooldown[e, m, rules.weapon_cooldown[MISSILE_W]] <= rules.ticks_per_decision, rules.dt_act)
        for i in range(7):
            w = wp.where(s.best_damage_per_heat_first == 1, BY_WORTH[i], i)
            t = rules.trigger_of[c, w]
            if t < 0 or rules.weapon_cloud[w] == 1:
                continue
            wants = bool(False)
            if w == PAINTER:
                wants = paints_now(s, rules, d, sees, paint, pilot_paint[e, m] * rules.dt) and cos_sin(error)[0] >= rules.weapon_arc_cos[w]
            elif rules.weapon_guidance[w] == HOMING:
                wants = launches(s, rules, d, error, sees, paint, quality[e, m], awaited)
                if wants and s.missiles == M_THRIFTY:
                    wants = not shielded(rules, s, e, m, now, spot, team, pack, chassis, pos, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body, round_weapon, round_pos)
            else:
                wants = fires_at(rules, s, w, d, error, sees, pilot_age[e, m] == 0)
                if not wants and s.fires_at_any_target == 1 and rules.weapon_guidance[w] == HITSCAN:
                    wants = offers(rules, s, w, e, m, now, team, pack, pos, yaw, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
            if wants and s.muzzle_clearance_vox > 0.0 and rules.weapon_guidance[w] != HITSCAN:
                wants = not barred(shot_plane, e, size[e], rules, s, w, c, pos[e, m], spot)
            ready = cooldown[e, m, rules.weapon_cooldown[w]] <= rules.ticks_per_decision
            if wants and ready and plan_movement + rules.weapon_heat[w] <= s.heat_limit * cap:
                actions[e, m, column_of(t)] = 1.0
                plan_movement += rules.weapon_heat[w]
                shot = True
                if rules.weapon_guidance[w] == HOMING:
                    pilot_wait_s[e, m] = 0.0
    if hot or heat[e, m] > wp.where(shot, s.vent_firing_above, s.vent_idle_above) * cap:
        actions[e, m, VENT] = 1.0
