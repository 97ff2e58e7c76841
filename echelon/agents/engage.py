"""What a scripted pilot fires, emits and shows: triggers under its heat plan, vent, EWAR, smoke, target preference."""

# ruff: noqa: E501
import warp as wp

from echelon.actions import HOSTILE_ONLY, OBS_CTRL_START, TARGET_START, ActionIndex
from echelon.agents.legacy import ECCM_ON, ECM_ON, TARGET_SLOTS, column_of
from echelon.agents.levels import Ewar, Missiles, Paint, Skill, Smoke
from echelon.agents.steer import aim_error
from echelon.agents.targets import LEVELLED, PAINTER
from echelon.agents.tracks import PACK, known_row
from echelon.env.observe_self import is_chased
from echelon.sim.arsenal import Chassis, Guidance, Weapon
from echelon.sim.geometry import HALF_PI, arc_tan2, cos_sin, wrap_angle, xy_length
from echelon.sim.kernels.fire import in_arc
from echelon.sim.kernels.sensing import CLEAR, own_pack_paint
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

VENT, SECONDARY, SPECIAL = (wp.constant(int(ActionIndex[n])) for n in ("VENT", "SECONDARY", "SPECIAL"))
SORT_AT, FILTER_AT, TARGET_AT = wp.constant(OBS_CTRL_START), wp.constant(HOSTILE_ONLY), wp.constant(TARGET_START)
SCOUT = wp.constant(int(Chassis.SCOUT))
HITSCAN, BALLISTIC, HOMING = (wp.constant(int(g)) for g in (Guidance.HITSCAN, Guidance.BALLISTIC, Guidance.HOMING))
MISSILE_W = wp.constant(int(Weapon.MISSILE))
BY_WORTH = wp.constant(wp.types.vector(length=7, dtype=wp.int32)(3, 4, 2, 0, 1, 5, 6))
"""Weapons by damage per heat, best first: gauss, autocannon, missile, laser, flamer, then the devices."""
_M_SIGHT, M_PAINT, M_WAITS, M_THRIFTY = (wp.constant(int(m)) for m in list(Missiles)[1:])
P_NEVER, P_FOCUS = wp.constant(int(Paint.NEVER)), wp.constant(int(Paint.FOCUS))
_E_ECM, E_COOL, E_AIDS, E_SILENT = (wp.constant(int(x)) for x in list(Ewar)[1:])
S_DEFENSIVE, S_COVERING = wp.constant(int(Smoke.DEFENSIVE)), wp.constant(int(Smoke.COVERING))
BLAST_MARGIN = wp.constant(1.0)
"""Pilots keep this far outside the blast of their own rounds [vox]."""
PAINT_WAIT_S = wp.constant(2.0)
PAINT_NEAR = wp.constant(12.0)
"""A scout this near to a target may paint it soon [vox]."""
PAINT_LEFT_S = wp.constant(1.0)
SHIELD_VOX = wp.constant(5.5)
"""Reach of a heavy's anti-missile system [vox]."""
HOT_EWAR, POOR_QUALITY = wp.constant(0.7), wp.constant(0.7)
SMOKE_HURT, SMOKE_SIGHT, SMOKE_FAR = wp.constant(0.35), wp.constant(20.0), wp.constant(8.0)


@wp.func
def shielded(s: Skill, rules: Rules, e: int, m: int, now: int, spot: wp.vec3, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), noticed: wp.array3d(dtype=wp.int32), track_since: wp.array3d(dtype=wp.int32), track_seen: wp.array3d(dtype=wp.int32)) -> bool:
    """Whether a hostile heavy that a pilot sees now stands near enough to a target to shoot missiles down."""
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] != team[e, m] and rules.has_ams[chassis[e, j]] == 1:
            if known_row(s, e, m, j, now, team, pack, noticed, track_since, track_seen)[0] == 0:
                if wp.length(pos[e, j] - spot) <= SHIELD_VOX:
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
    return sees or s.checks_sight == 0


@wp.func
def offers(rules: Rules, s: Skill, w: int, e: int, m: int, now: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), sight: wp.array3d(dtype=wp.uint8), noticed: wp.array3d(dtype=wp.int32), track_since: wp.array3d(dtype=wp.int32), track_seen: wp.array3d(dtype=wp.int32)) -> bool:
    """Whether some hostile in sight, whichever it is, stands in the range and arc of a hitscan weapon."""
    cs = cos_sin(yaw[e, m])
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] != team[e, m] and sight[e, m, j] == CLEAR:
            delta = pos[e, j] - pos[e, m]
            near = wp.length(delta) <= rules.weapon_range[w] and in_arc(delta, cs, rules.weapon_arc_cos[w])
            if near and known_row(s, e, m, j, now, team, pack, noticed, track_since, track_seen)[0] == 0:
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
def paints_now(s: Skill, rules: Rules, d: float, sees: bool, paint: bool, left_s: float) -> bool:
    """Whether a painter paints its target."""
    if s.paint == P_NEVER or not sees or d > rules.weapon_range[PAINTER]:
        return False
    return not (s.paint == P_FOCUS and paint and left_s > PAINT_LEFT_S)


@wp.func
def emits(s: Skill, rules: Rules, heat_share: float, pack_quality: float, contact: bool) -> float:
    """EWAR column of a scout."""
    if s.ewar == 0 or (s.ewar == E_SILENT and not contact):
        return 0.0
    if s.ewar == E_COOL and heat_share > HOT_EWAR:
        return ECCM_ON
    if s.ewar >= E_AIDS and pack_quality < POOR_QUALITY:
        return ECCM_ON
    return ECM_ON


@wp.func
def pack_quality(e: int, m: int, alive: wp.array2d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32)) -> float:
    """Mean sensor quality of a pilot's living packmates, 1 without any."""
    total = float(0.0)
    n = float(0.0)
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and alive[e, k] == 1:
            total += quality[e, k]
            n += 1.0
    return wp.where(n > 0.0, total / wp.max(n, 1.0), 1.0)


@wp.func
def friend_sees(e: int, m: int, j: int, alive: wp.array2d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8)) -> bool:
    """Whether a packmate has a clear line to hostile j, which smoke there would break."""
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and alive[e, k] == 1 and sight[e, k, j] == CLEAR:
            return True
    return False


@wp.func
def smokes(s: Skill, hurt: bool, hit: bool, chased: bool, is_painted: bool, d: float, to_edge: float) -> bool:
    """Whether a pilot wants smoke between itself and a target in its sight."""
    if s.smoke >= S_DEFENSIVE and ((hit and hurt) or (chased and is_painted)):
        return True
    return s.smoke >= S_COVERING and to_edge > SMOKE_FAR and d <= SMOKE_SIGHT and hit


@wp.kernel
def engage(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill),
    # state in
    script: wp.array2d(dtype=wp.int32), weapon_prob: wp.array(dtype=wp.float32), decision: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), cooldown: wp.array3d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32), sight: wp.array3d(dtype=wp.uint8), noticed: wp.array3d(dtype=wp.int32), track_since: wp.array3d(dtype=wp.int32), track_seen: wp.array3d(dtype=wp.int32), pilot_target: wp.array2d(dtype=wp.int32), pilot_age: wp.array2d(dtype=wp.int32), pilot_spot: wp.array2d(dtype=wp.vec3),
    # out
    actions: wp.array3d(dtype=wp.float32), pilot_wait_s: wp.array2d(dtype=wp.float32),
):
    """Write a pilot's triggers: each weapon on its own merit, then as many as its heat allows."""
    e, m = wp.tid()
    if script[e, m] < LEVELLED or alive[e, m] == 0:
        return
    s = skills[script[e, m] - LEVELLED]
    c = chassis[e, m]
    cap = rules.heat_cap[c]
    plan = heat[e, m]
    j = pilot_target[e, m]
    keeps = uniform01(seed[e], STREAM_AGENT, tick[e], m, 1) < weapon_prob[e] * s.trigger_prob
    hot = plan > s.vent_above * cap
    shot = bool(False)
    if j >= 0 and keeps and not hot:
        now = decision[e]
        spot = pilot_spot[e, m]
        delta = spot - pos[e, m]
        d = wp.length(delta)
        bias = aim_error(s, seed[e], m, float(tick[e]) * rules.dt)
        error = wp.abs(wrap_angle(arc_tan2(delta[1], delta[0]) + bias - yaw[e, m]))
        current = pilot_age[e, m] == 0
        sees = current and sight[e, m, j] == CLEAR
        paint = own_pack_paint(e, m, j, painted, painter, team, pack)
        awaited = bool(False)
        if s.missiles >= M_WAITS and not paint and sees and pilot_wait_s[e, m] < PAINT_WAIT_S:
            awaited = scout_near(e, m, spot, alive, chassis, pos)
        pilot_wait_s[e, m] = wp.where(awaited, pilot_wait_s[e, m] + rules.dt_act, 0.0)
        for i in range(7):
            w = int(i)
            if s.best_first == 1:
                w = BY_WORTH[i]
            t = rules.trigger_of[c, w]
            if t < 0 or rules.weapon_cloud[w] == 1:
                continue
            wants = bool(False)
            if w == PAINTER:
                wants = paints_now(s, rules, d, sees, paint, float(painted[e, j]) * rules.dt) and cos_sin(error)[0] >= rules.weapon_arc_cos[w]
            elif rules.weapon_guidance[w] == HOMING:
                wants = launches(s, rules, d, error, sees, paint, quality[e, m], awaited)
                if wants and s.missiles == M_THRIFTY:
                    wants = not shielded(s, rules, e, m, now, spot, alive, team, pack, chassis, pos, noticed, track_since, track_seen)
            else:
                wants = fires_at(rules, s, w, d, error, sees, current)
                if not wants and s.opportunist == 1 and rules.weapon_guidance[w] == HITSCAN:
                    wants = offers(rules, s, w, e, m, now, alive, team, pack, pos, yaw, sight, noticed, track_since, track_seen)
            ready = cooldown[e, m, rules.weapon_cooldown[w]] <= rules.ticks_per_decision
            if wants and ready and plan + rules.weapon_heat[w] <= s.heat_limit * cap:
                actions[e, m, column_of(t)] = 1.0
                plan += rules.weapon_heat[w]
                shot = True
    if hot or heat[e, m] > wp.where(shot, s.vents_firing, s.idle_vent) * cap:
        actions[e, m, VENT] = 1.0


@wp.kernel
def operate(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill),
    # world
    zone: wp.array(dtype=wp.vec3),
    # state in
    script: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32), sight: wp.array3d(dtype=wp.uint8), was_hit: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), contact: wp.array3d(dtype=wp.int32), pilot_target: wp.array2d(dtype=wp.int32), pilot_age: wp.array2d(dtype=wp.int32), pilot_spot: wp.array2d(dtype=wp.vec3),
    # out
    actions: wp.array3d(dtype=wp.float32),
):
    """Write what a pilot does besides shooting: EWAR, smoke, display and target preference."""
    e, m = wp.tid()
    if script[e, m] < LEVELLED or alive[e, m] == 0:
        return
    s = skills[script[e, m] - LEVELLED]
    c = chassis[e, m]
    j = pilot_target[e, m]
    actions[e, m, SORT_AT] = 1.0
    actions[e, m, FILTER_AT] = 1.0
    if rules.has_ewar[c] == 1:
        share = heat[e, m] / rules.heat_cap[c]
        actions[e, m, SECONDARY] = emits(s, rules, share, pack_quality(e, m, alive, quality), j >= 0)
    if j < 0:
        return
    if s.prefers_target == 1:
        for k in range(TARGET_SLOTS):
            if contact[e, m, k] == j:
                actions[e, m, TARGET_AT + k] = 1.0
    if s.smoke >= S_DEFENSIVE and pilot_age[e, m] == 0 and sight[e, m, j] == CLEAR:
        d = wp.length(pilot_spot[e, m] - pos[e, m])
        p = pos[e, m]
        to_edge = xy_length(wp.vec3(p[0] - zone[e][0], p[1] - zone[e][1], 0.0)) - zone[e][2]
        chased = is_chased(rules, e, m, team, round_weapon, round_target)
        hurt = hp[e, m] < SMOKE_HURT * rules.max_hp[c]
        if smokes(s, hurt, was_hit[e, m] == 1, chased, painted[e, m] > 0, d, to_edge):
            if not friend_sees(e, m, j, alive, sight):
                actions[e, m, SPECIAL] = 1.0
