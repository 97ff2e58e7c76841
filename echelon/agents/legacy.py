"""The baseline pilot as kernels: stuck detection and one decision of flying, a thread per mech.

Times are in seconds of simulation, so behaviour does not depend on the tick or on ticks per decision. The dials are
a row of numbers (``CONSTANTS``), read from the array ``pilot_dials``.
"""

# ruff: noqa: E501
import warp as wp

from echelon.actions import HOSTILE_ONLY, OBS_CTRL_START, TARGET_START, ActionIndex
from echelon.sim.geometry import HALF_PI, arc_tan2, cos_sin, wrap_angle, xy_length
from echelon.sim.kernels.sensing import own_pack_paint
from echelon.sim.kernels.upkeep import WATER, foot_material
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CONSTANTS = (5.5, 1.0, 0.75, 0.7, 2.5, 1.0, 0.25, 0.2, 15.0, 20.0, 0.25, 0.3, 0.5)
"""Dials in order: desired range [vox], approach throttle, vent above (share of the cap), ECM below (share of the cap),
stuck after [s], manoeuvre time [s], stuck below (share of the expected speed), least throttle that can be stuck,
regroup distance [vox], regroup when the enemy is farther than [vox], strafe share in travel, back-off throttle, and
throttle share inside the zone."""
RANGE, APPROACH, VENT_AT, ECM_AT, STUCK_S, MANOEUVRE_S, STUCK_SHARE, LEAST_THROTTLE = (wp.constant(i) for i in range(8))
REGROUP, REGROUP_ENEMY, STRAFE_SHARE, BACK_OFF, ZONE_SHARE = (wp.constant(i) for i in range(8, 13))

FORWARD = wp.constant(int(ActionIndex.FORWARD))
STRAFE = wp.constant(int(ActionIndex.STRAFE))
YAW = wp.constant(int(ActionIndex.YAW_RATE))
VENT = wp.constant(int(ActionIndex.VENT))
SECONDARY = wp.constant(int(ActionIndex.SECONDARY))
TARGET_AT = wp.constant(TARGET_START)
SORT_AT = wp.constant(OBS_CTRL_START)
FILTER_AT = wp.constant(HOSTILE_ONLY)
TARGET_SLOTS = wp.constant(5)
YAW_GAIN = wp.constant(1.0471975511965976)
"""Yaw error that asks for the full turning rate [rad]."""
ECM_ON = wp.constant(0.25)
ECCM_ON = wp.constant(0.75)
WIDE = wp.constant(1.0471975511965976)
NARROW = wp.constant(0.5235987755982988)
"""Half cones within which the baseline pulls a trigger: 60 and 30 degrees [rad]."""
NORMAL, BACKING, SIDESTEP = wp.constant(0), wp.constant(1), wp.constant(2)
HEAVY = wp.constant(3)
PAINTER, MISSILE = wp.constant(5), wp.constant(2)
NEEDS_NO_SIGHT = wp.constant(0)
LEGACY = wp.constant(1)
"""``script`` of the mechs that the baseline flies."""


@wp.kernel
def reset_pilots(
    # state in
    decision: wp.array(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3),
    # state out
    pilot_pos: wp.array2d(dtype=wp.vec3), pilot_throttle: wp.array2d(dtype=wp.float32), pilot_stuck_s: wp.array2d(dtype=wp.float32), pilot_phase: wp.array2d(dtype=wp.int32), pilot_timer_s: wp.array2d(dtype=wp.float32), pilot_target: wp.array2d(dtype=wp.int32), pilot_retreat_s: wp.array2d(dtype=wp.float32), pilot_wait_s: wp.array2d(dtype=wp.float32),
):
    """Start afresh with an episode."""
    e, m = wp.tid()
    if decision[e] > 0:
        return
    pilot_pos[e, m] = pos[e, m]
    pilot_throttle[e, m] = 0.0
    pilot_stuck_s[e, m] = 0.0
    pilot_phase[e, m] = NORMAL
    pilot_timer_s[e, m] = 0.0
    pilot_target[e, m] = -1
    pilot_retreat_s[e, m] = 0.0
    pilot_wait_s[e, m] = 0.0


@wp.kernel
def detect_stuck(
    # rules
    rules: Rules, pilot_dials: wp.array(dtype=wp.float32),
    # world
    material: wp.array4d(dtype=wp.uint8), size: wp.array(dtype=wp.vec3i),
    # state in
    alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), leg_hp: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), tick: wp.array(dtype=wp.int32), pilot_throttle: wp.array2d(dtype=wp.float32),
    # state out
    pilot_pos: wp.array2d(dtype=wp.vec3), pilot_stuck_s: wp.array2d(dtype=wp.float32), pilot_phase: wp.array2d(dtype=wp.int32), pilot_timer_s: wp.array2d(dtype=wp.float32), pilot_side: wp.array2d(dtype=wp.float32),
):
    """Measure progress against the throttle asked for; start, run and end the unstick manoeuvre."""
    e, m = wp.tid()
    if alive[e, m] == 0:
        return
    moved = xy_length(pos[e, m] - pilot_pos[e, m])
    pilot_pos[e, m] = pos[e, m]
    if pilot_phase[e, m] != NORMAL:
        pilot_timer_s[e, m] = pilot_timer_s[e, m] - rules.dt_act
        if pilot_timer_s[e, m] <= 1.0e-4:
            pilot_timer_s[e, m] = pilot_dials[MANOEUVRE_S]
            pilot_phase[e, m] = (pilot_phase[e, m] + 1) % 3
            pilot_stuck_s[e, m] = 0.0
        return
    c = chassis[e, m]
    asked = wp.min(1.0, pilot_throttle[e, m])
    expected = rules.damping * rules.max_speed[c] * asked
    if leg_hp[e, m] <= 0.0:
        expected *= rules.legged_speed
    if foot_material(material, e, size[e], pos[e, m], pos[e, m][2] - rules.half[c][2]) == WATER:
        expected *= rules.water_speed
    able = fallen[e, m] == 0 and shutdown[e, m] == 0 and asked >= pilot_dials[LEAST_THROTTLE]
    if able and moved / rules.dt_act < pilot_dials[STUCK_SHARE] * expected:
        pilot_stuck_s[e, m] = pilot_stuck_s[e, m] + rules.dt_act
    else:
        pilot_stuck_s[e, m] = wp.max(0.0, pilot_stuck_s[e, m] - rules.dt_act)
    if pilot_stuck_s[e, m] >= pilot_dials[STUCK_S] - 1.0e-4:
        pilot_phase[e, m] = BACKING
        pilot_timer_s[e, m] = pilot_dials[MANOEUVRE_S] + rules.dt_act
        pilot_stuck_s[e, m] = 0.0
        pilot_side[e, m] = wp.sign(uniform01(seed[e], STREAM_AGENT, tick[e], m, 0) - 0.5)


@wp.func
def nearest_hostile(e: int, m: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3)) -> int:
    """Nearest living hostile, -1 if none."""
    best = int(-1)
    best_d = float(1.0e30)
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] != team[e, m]:
            d = wp.length(pos[e, j] - pos[e, m])
            if d < best_d:
                best = j
                best_d = d
    return best


@wp.func
def centroid(e: int, m: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3)) -> wp.vec3:
    """Mean position of the living team."""
    total = wp.vec3(0.0, 0.0, 0.0)
    n = float(0.0)
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] == team[e, m]:
            total += pos[e, j]
            n += 1.0
    return total / wp.max(1.0, n)


@wp.func
def wants_shot(rules: Rules, w: int, d: float, error: float, sees: bool, paint: bool) -> bool:
    """Whether the baseline pulls the trigger of weapon w at distance d and yaw error ``error`` [rad]."""
    cone = WIDE
    if w == PAINTER or rules.weapon_stability[w] > 0.0:
        cone = NARROW
    if w == MISSILE:
        return error <= HALF_PI and ((sees and d <= rules.weapon_sight_range[w]) or (paint and d <= rules.weapon_range[w]))
    needs_sight = rules.weapon_guidance[w] == NEEDS_NO_SIGHT
    return d <= rules.weapon_range[w] and error <= cone and (sees or not needs_sight)


@wp.func
def travel(
    rules: Rules, dials: wp.array(dtype=wp.float32), c: int, p: wp.vec3, cs: wp.vec2, zone: wp.vec3, mid: wp.vec3, enemy_d: float
) -> wp.vec2:
    """Forward and strafe throttle toward the zone, or toward the team when strung out near it."""
    goal = wp.vec2(zone[0], zone[1])
    to_zone = xy_length(wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0))
    if to_zone < 2.0 * zone[2] and xy_length(mid - p) > dials[REGROUP] and enemy_d > dials[REGROUP_ENEMY]:
        goal = 0.5 * (goal + wp.vec2(mid[0], mid[1]))
    dx = goal[0] - p[0]
    dy = goal[1] - p[1]
    n = wp.max(1.0e-7, wp.sqrt(dx * dx + dy * dy))
    forward = (dx * cs[0] + dy * cs[1]) / n
    strafe = (-dx * cs[1] + dy * cs[0]) / n
    inside = to_zone < zone[2]
    if enemy_d < dials[RANGE] and not (c == HEAVY and inside):
        forward = -dials[BACK_OFF]
    else:
        strafe *= dials[STRAFE_SHARE]
    scale = dials[APPROACH]
    if inside:
        scale = dials[ZONE_SHARE]
    return wp.vec2(forward * scale, strafe * scale)


@wp.func
def column_of(trigger: int) -> int:
    """Action column of a trigger bit."""
    if trigger == 0:
        return 4
    return 5 + trigger


@wp.kernel
def fly_legacy(
    # rules
    rules: Rules, pilot_dials: wp.array(dtype=wp.float32),
    # world
    zone: wp.array(dtype=wp.vec3),
    # state in
    script: wp.array2d(dtype=wp.int32), weapon_prob: wp.array(dtype=wp.float32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), contact: wp.array3d(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), tick: wp.array(dtype=wp.int32), pilot_phase: wp.array2d(dtype=wp.int32), pilot_timer_s: wp.array2d(dtype=wp.float32), pilot_side: wp.array2d(dtype=wp.float32),
    # out
    actions: wp.array3d(dtype=wp.float32), pilot_throttle: wp.array2d(dtype=wp.float32),
):
    """Write the baseline's action for every mech it flies."""
    e, m = wp.tid()
    if script[e, m] != LEGACY:
        return
    for i in range(actions.shape[2]):
        actions[e, m, i] = 0.0
    pilot_throttle[e, m] = 0.0
    if alive[e, m] == 0:
        return
    if pilot_phase[e, m] == BACKING:
        if pilot_timer_s[e, m] <= pilot_dials[MANOEUVRE_S]:
            actions[e, m, FORWARD] = -1.0
        return
    if pilot_phase[e, m] == SIDESTEP:
        actions[e, m, STRAFE] = pilot_side[e, m]
        return
    j = nearest_hostile(e, m, alive, team, pos)
    if j < 0:
        return
    c = chassis[e, m]
    p = pos[e, m]
    delta = pos[e, j] - p
    d = wp.length(delta)
    signed = wrap_angle(arc_tan2(delta[1], delta[0]) - yaw[e, m])
    move = travel(rules, pilot_dials, c, p, cos_sin(yaw[e, m]), zone[e], centroid(e, m, alive, team, pos), d)
    actions[e, m, FORWARD] = move[0]
    actions[e, m, STRAFE] = move[1]
    pilot_throttle[e, m] = wp.sqrt(move[0] * move[0] + move[1] * move[1])
    actions[e, m, YAW] = wp.clamp(signed / YAW_GAIN, -1.0, 1.0)
    hot = heat[e, m] > pilot_dials[VENT_AT] * rules.heat_cap[c]
    if hot:
        actions[e, m, VENT] = 1.0
    sees = sight[e, m, j] != wp.uint8(0)
    paint = own_pack_paint(e, m, j, painted, painter, team, pack)
    keeps = uniform01(seed[e], STREAM_AGENT, tick[e], m, 1) < weapon_prob[e]
    for w in range(rules.trigger_of.shape[1]):
        t = rules.trigger_of[c, w]
        if t >= 0 and not hot and keeps and wants_shot(rules, w, d, wp.abs(signed), sees, paint) and rules.weapon_cloud[w] == 0:
            actions[e, m, column_of(t)] = 1.0
    if rules.has_ewar[c] == 1:
        actions[e, m, SECONDARY] = wp.where(heat[e, m] < pilot_dials[ECM_AT] * rules.heat_cap[c], ECM_ON, ECCM_ON)
    for k in range(TARGET_SLOTS):
        if contact[e, m, k] == j:
            actions[e, m, TARGET_AT + k] = 1.0
    actions[e, m, SORT_AT] = 1.0
    actions[e, m, FILTER_AT] = 1.0
