"""The ``legacy`` baseline pilot, an omniscient heuristic, and the stuck detection that all scripted pilots share.

Times are in seconds of simulation, so behaviour does not depend on the tick or on ticks per decision.
"""

import warp as wp

from echelon.actions import HOSTILE_ONLY, OBS_CTRL_START, TARGET_DIM, TARGET_START, ActionIndex
from echelon.agents.memory import Assignment, MovementPlan, StuckState, Targets
from echelon.sim.arsenal import Chassis, Guidance, Trigger
from echelon.sim.geometry import HALF_PI, arc_tan2, cos_sin, wrap_angle, xy_length
from echelon.sim.kernels.fire import is_painted_for
from echelon.sim.kernels.upkeep import WATER, foot_material
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.state import Episode, Mechs, Senses, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FIGHT_RANGE = wp.constant(5.5)
"""Distance below which it backs away from a hostile [vox]."""
APPROACH_THROTTLE, BACK_OFF_THROTTLE, ZONE_THROTTLE = wp.constant(1.0), wp.constant(0.3), wp.constant(0.5)
"""Throttle toward the zone, away from a near hostile, and as a factor inside the zone."""
STRAFE_SHARE = wp.constant(0.25)
"""Share of the strafe throttle that is used while travelling."""
VENT_ABOVE, ECM_BELOW = wp.constant(0.75), wp.constant(0.7)
"""Heat above which it vents and below which ECM runs instead of ECCM [share of the cap]."""
STUCK_AFTER_S, PHASE_S = wp.constant(2.5), wp.constant(1.0)
"""Time without progress after which a mech counts as stuck, and duration of each phase of the manoeuvre [s]."""
STUCK_BELOW, STUCK_THROTTLE = wp.constant(0.25), wp.constant(0.2)
"""Share of the expected speed below which there is no progress, and the least throttle for which it is expected."""
REGROUP_GAP, REGROUP_HOSTILE = wp.constant(15.0), wp.constant(20.0)
"""Distance from the team, and least distance of the nearest hostile, at which it regroups near the zone [vox]."""
FULL_TURN_ERROR = wp.constant(1.0471975511965976)
"""Heading error that commands the full yaw rate [rad]."""
WIDE_CONE, NARROW_CONE = wp.constant(1.0471975511965976), wp.constant(0.5235987755982988)
"""Half cones within which triggers are pulled: 60 and 30 degrees [rad]."""
ECM_ON, ECCM_ON = wp.constant(0.25), wp.constant(0.75)
"""Values of a scout's SECONDARY column."""
NORMAL, BACKING_OUT, SIDESTEPPING = wp.constant(0), wp.constant(1), wp.constant(2)
"""Values of ``pilot_phase``."""

FORWARD, STRAFE, YAW_RATE, VENT, SECONDARY = (
    wp.constant(int(index))
    for index in (
        ActionIndex.FORWARD,
        ActionIndex.STRAFE,
        ActionIndex.YAW_RATE,
        ActionIndex.VENT,
        ActionIndex.SECONDARY,
    )
)
TRIGGER_COLUMN = wp.constant(wp.vec4i(*[int(ActionIndex[t.name]) for t in Trigger if t != Trigger.NONE]))
"""Action column of each trigger bit."""
TARGET_AT, SORT_AT, FILTER_AT = wp.constant(TARGET_START), wp.constant(OBS_CTRL_START), wp.constant(HOSTILE_ONLY)
"""Action columns of the first target preference, of sorting contacts by distance and of hiding friends."""
TARGET_SLOTS = wp.constant(TARGET_DIM)
HEAVY = wp.constant(int(Chassis.HEAVY))
HITSCAN, HOMING = wp.constant(int(Guidance.HITSCAN)), wp.constant(int(Guidance.HOMING))
LEGACY = wp.constant(1)
"""``script`` of the mechs that the baseline controls."""
TOLERANCE = wp.constant(1.0e-4)
"""Slack of comparisons of summed times [s]."""


@wp.kernel
def reset_pilots(episode: Episode, mechs: Mechs, stuck_out: StuckState, targets_out: Targets, plan_out: MovementPlan):
    """Reset the memory of the pilots in the first decision of an episode."""
    e, m = wp.tid()
    if episode.decision[e] > 0:
        return
    stuck_out.pilot_pos[e, m] = mechs.pos[e, m]
    stuck_out.pilot_throttle[e, m] = 0.0
    stuck_out.pilot_stuck_s[e, m] = 0.0
    stuck_out.pilot_phase[e, m] = NORMAL
    stuck_out.pilot_timer_s[e, m] = 0.0
    targets_out.pilot_target[e, m] = -1
    targets_out.pilot_wait_s[e, m] = 0.0
    plan_out.pilot_retreat_s[e, m] = 0.0


@wp.kernel
def detect_stuck(rules: Rules, world: World, episode: Episode, mechs: Mechs, stuck: StuckState, stuck_out: StuckState):
    """Compare progress with the commanded throttle, and start, continue and end the unstick manoeuvre."""
    e, m = wp.tid()
    if mechs.alive[e, m] == 0:
        return
    p = mechs.pos[e, m]
    moved = xy_length(p - stuck.pilot_pos[e, m])
    stuck_out.pilot_pos[e, m] = p
    if stuck.pilot_phase[e, m] != NORMAL:
        stuck_out.pilot_timer_s[e, m] = stuck.pilot_timer_s[e, m] - rules.dt_act
        if stuck.pilot_timer_s[e, m] <= TOLERANCE:
            stuck_out.pilot_timer_s[e, m] = PHASE_S
            stuck_out.pilot_phase[e, m] = (stuck.pilot_phase[e, m] + 1) % 3
            stuck_out.pilot_stuck_s[e, m] = 0.0
        return
    c = mechs.chassis[e, m]
    throttle = wp.min(1.0, stuck.pilot_throttle[e, m])
    expected = rules.damping * rules.chassis[c].max_speed * throttle
    if mechs.leg_hp[e, m] <= 0.0:
        expected *= rules.legged_speed
    if foot_material(world.material, e, world.size[e], p, p[2] - rules.chassis[c].half[2]) == WATER:
        expected *= rules.water_speed
    able = mechs.fallen[e, m] == 0 and mechs.shutdown[e, m] == 0 and throttle >= STUCK_THROTTLE
    if able and moved / rules.dt_act < STUCK_BELOW * expected:
        stuck_out.pilot_stuck_s[e, m] = stuck.pilot_stuck_s[e, m] + rules.dt_act
    else:
        stuck_out.pilot_stuck_s[e, m] = wp.max(0.0, stuck.pilot_stuck_s[e, m] - rules.dt_act)
    if stuck.pilot_stuck_s[e, m] >= STUCK_AFTER_S - TOLERANCE:
        stuck_out.pilot_phase[e, m] = BACKING_OUT
        stuck_out.pilot_timer_s[e, m] = PHASE_S + rules.dt_act
        stuck_out.pilot_stuck_s[e, m] = 0.0
        draw = uniform01(episode.seed[e], STREAM_AGENT, episode.tick[e], m, 0)
        stuck_out.pilot_side[e, m] = wp.sign(draw - 0.5)


@wp.func
def nearest_hostile(mechs: Mechs, e: int, m: int) -> int:
    """Return the nearest living hostile, -1 if there is none."""
    best = int(-1)
    best_d = float(1.0e30)
    for j in range(mechs.alive.shape[1]):
        if mechs.alive[e, j] == 1 and mechs.team[e, j] != mechs.team[e, m]:
            d = wp.length(mechs.pos[e, j] - mechs.pos[e, m])
            if d < best_d:
                best = j
                best_d = d
    return best


@wp.func
def team_centre(mechs: Mechs, e: int, m: int) -> wp.vec3:
    """Return the mean position of the living team [vox]."""
    total = wp.vec3(0.0, 0.0, 0.0)
    n = float(0.0)
    for j in range(mechs.alive.shape[1]):
        if mechs.alive[e, j] == 1 and mechs.team[e, j] == mechs.team[e, m]:
            total += mechs.pos[e, j]
            n += 1.0
    return total / wp.max(1.0, n)


@wp.func
def fires(rules: Rules, w: int, d: float, error: float, sees: bool, paint: bool) -> bool:
    """Return whether weapon w is fired at distance d [vox] and heading error ``error`` [rad]."""
    if rules.weapons[w].guidance == HOMING:
        in_range = (sees and d <= rules.weapons[w].sight_range_vox) or (paint and d <= rules.weapons[w].range_vox)
        return error <= HALF_PI and in_range
    cone = WIDE_CONE
    if rules.weapons[w].paints == 1 or rules.weapons[w].stability > 0.0:
        cone = NARROW_CONE
    needs_sight = rules.weapons[w].guidance == HITSCAN
    return d <= rules.weapons[w].range_vox and error <= cone and (sees or not needs_sight)


@wp.func
def travel(c: int, p: wp.vec3, cs: wp.vec2, zone: wp.vec3, centre: wp.vec3, hostile_d: float) -> wp.vec2:
    """Return forward and strafe throttle toward the zone, or toward the team when separated from it near the zone."""
    goal = wp.vec2(zone[0], zone[1])
    to_zone = xy_length(wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0))
    if to_zone < 2.0 * zone[2] and xy_length(centre - p) > REGROUP_GAP and hostile_d > REGROUP_HOSTILE:
        goal = 0.5 * (goal + wp.vec2(centre[0], centre[1]))
    dx = goal[0] - p[0]
    dy = goal[1] - p[1]
    n = wp.max(1.0e-7, wp.sqrt(dx * dx + dy * dy))
    forward = (dx * cs[0] + dy * cs[1]) / n
    strafe = (-dx * cs[1] + dy * cs[0]) / n
    inside = to_zone < zone[2]
    if hostile_d < FIGHT_RANGE and not (c == HEAVY and inside):
        forward = -BACK_OFF_THROTTLE
    else:
        strafe *= STRAFE_SHARE
    scale = APPROACH_THROTTLE
    if inside:
        scale = ZONE_THROTTLE
    return wp.vec2(forward * scale, strafe * scale)


@wp.func
def pull_triggers(
    rules: Rules,
    e: int,
    m: int,
    c: int,
    d: float,
    error: float,
    sees: bool,
    paint: bool,
    actions_out: wp.array3d[wp.float32],
):
    """Write the trigger of every weapon of chassis c that is fired; smoke never is."""
    for w in range(rules.trigger_of.shape[1]):
        trigger = rules.trigger_of[c, w]
        if trigger >= 0 and rules.weapons[w].bursts_smoke == 0:
            if fires(rules, w, d, error, sees, paint):
                actions_out[e, m, TRIGGER_COLUMN[trigger]] = 1.0


@wp.func
def manoeuvres(stuck: StuckState, e: int, m: int, actions_out: wp.array3d[wp.float32]) -> bool:
    """Return whether the unstick manoeuvre runs, and write its throttles."""
    phase = stuck.pilot_phase[e, m]
    if phase == BACKING_OUT and stuck.pilot_timer_s[e, m] <= PHASE_S:
        actions_out[e, m, FORWARD] = -1.0
    if phase == SIDESTEPPING:
        actions_out[e, m, STRAFE] = stuck.pilot_side[e, m]
    return phase != NORMAL


@wp.kernel
def control_legacy(
    rules: Rules,
    world: World,
    seed: wp.array(dtype=wp.uint32),
    tick: wp.array(dtype=wp.int32),
    mechs: Mechs,
    senses: Senses,
    contact: wp.array3d(dtype=wp.int32),
    assignment: Assignment,
    stuck: StuckState,
    actions_out: wp.array3d[wp.float32],
    stuck_out: StuckState,
):
    """Write the action of every mech that the baseline controls."""
    e, m = wp.tid()
    if assignment.script[e, m] != LEGACY:
        return
    for i in range(actions_out.shape[2]):
        actions_out[e, m, i] = 0.0
    stuck_out.pilot_throttle[e, m] = 0.0
    if mechs.alive[e, m] == 0:
        return
    if manoeuvres(stuck, e, m, actions_out):
        return
    j = nearest_hostile(mechs, e, m)
    if j < 0:
        return
    c = mechs.chassis[e, m]
    p = mechs.pos[e, m]
    yaw = mechs.yaw[e, m]
    delta = mechs.pos[e, j] - p
    d = wp.length(delta)
    error = wrap_angle(arc_tan2(delta[1], delta[0]) - yaw)
    move = travel(c, p, cos_sin(yaw), world.zone[e], team_centre(mechs, e, m), d)
    actions_out[e, m, FORWARD] = move[0]
    actions_out[e, m, STRAFE] = move[1]
    stuck_out.pilot_throttle[e, m] = wp.sqrt(move[0] * move[0] + move[1] * move[1])
    actions_out[e, m, YAW_RATE] = wp.clamp(error / FULL_TURN_ERROR, -1.0, 1.0)
    heat = mechs.heat[e, m]
    hot = heat > VENT_ABOVE * rules.chassis[c].heat_cap
    if hot:
        actions_out[e, m, VENT] = 1.0
    sees = senses.sight[e, m, j] != wp.uint8(0)
    paint = is_painted_for(mechs, e, m, j)
    pulls_trigger = uniform01(seed[e], STREAM_AGENT, tick[e], m, 1) < assignment.weapon_prob[e]
    if pulls_trigger and not hot:
        pull_triggers(rules, e, m, c, d, wp.abs(error), sees, paint, actions_out)
    if rules.chassis[c].has_ewar == 1:
        actions_out[e, m, SECONDARY] = wp.where(heat < ECM_BELOW * rules.chassis[c].heat_cap, ECM_ON, ECCM_ON)
    for k in range(TARGET_SLOTS):
        if contact[e, m, k] == j:
            actions_out[e, m, TARGET_AT + k] = 1.0
    actions_out[e, m, SORT_AT] = 1.0
    actions_out[e, m, FILTER_AT] = 1.0
