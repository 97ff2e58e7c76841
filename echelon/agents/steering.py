# type: ignore
"""Steering: turns a pilot's commanded velocity into throttles, and sets heading, unstick manoeuvre and jets."""

import warp as wp

from echelon.actions import ActionIndex
from echelon.agents.collision_avoidance import JUMP_HEIGHT
from echelon.agents.levels import JetUse, Skill, StuckRecovery
from echelon.agents.memory import Assignment, Avoidance, MovementPlan, StuckState, Targets
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.env.observe.ego import missile_inbound
from echelon.sim.geometry import arc_tan2, cos_sin, wrap_angle, xy_length
from echelon.sim.kernels.upkeep import WATER, foot_material
from echelon.sim.raycast import column_bit
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.state import Episode, Events, Mechs, Rounds, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


STUCK_AFTER_S, PHASE_S = wp.constant(2.5), wp.constant(1.0)
"""Time without progress after which a mech counts as stuck, and duration of each phase of the manoeuvre [s]."""
STUCK_BELOW, STUCK_THROTTLE = wp.constant(0.25), wp.constant(0.2)
"""Share of the expected speed below which there is no progress, and the least throttle for which it is expected."""
NORMAL, BACKING_OUT = wp.constant(0), wp.constant(1)
"""Values of ``pilot_phase``; 2 is sidestepping."""
TOLERANCE = wp.constant(1.0e-4)
"""Slack of comparisons of summed times [s]."""


@wp.kernel
def reset_pilots(episode: Episode, mechs: Mechs, stuck_out: StuckState, targets_out: Targets, plan_out: MovementPlan):
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


FORWARD, STRAFE, VERTICAL, YAW_RATE = (
    wp.constant(int(index))
    for index in (ActionIndex.FORWARD, ActionIndex.STRAFE, ActionIndex.VERTICAL, ActionIndex.YAW_RATE)
)
JET_NEVER, _UNSTICK, JET_OBSTACLES, JET_TACTICAL = (wp.constant(int(use)) for use in JetUse)
_NEVER, BACK_OUT, FREE_DIRECTION = (wp.constant(int(recovery)) for recovery in StuckRecovery)
CLOSE_RANGE = wp.constant(3.0)
"""Distance of a target below which jets are used to get away [vox]."""
REAR_FIRST_RANGE = wp.constant(8.0)
"""Distance of a target above which a pilot faces an attacker behind it first [vox]."""
STUCK_JET_S = wp.constant(0.5)
"""Time without progress after which jets are used [s]."""


@wp.func
def aim_error(skill: Skill, seed: wp.uint32, m: int, seconds: float) -> float:
    """Return the aiming bias of a pilot [rad], nearly normal and redrawn every second."""
    t = int(seconds)
    u = (
        uniform01(seed, STREAM_AGENT, t, m, 11)
        + uniform01(seed, STREAM_AGENT, t, m, 12)
        + uniform01(seed, STREAM_AGENT, t, m, 13)
    )
    return skill.aim_sigma * 2.0 * (u - 1.5)


@wp.func
def height(world: World, e: int, p: wp.vec3, foot: float) -> int:
    """Return the free cells below a foot, at most JUMP_HEIGHT [vox]."""
    size = world.size[e]
    x = wp.clamp(int(p[0]), 0, size[0] - 1)
    y = wp.clamp(int(p[1]), 0, size[1] - 1)
    k = wp.min(int(foot + 0.01), size[2]) - 1
    for i in range(JUMP_HEIGHT):
        if k - i < 0:
            return i
        if column_bit(world.move_plane, e, x, y, k - i):
            return i
    return JUMP_HEIGHT


@wp.func
def coasting_rise(rules: Rules, vz: float) -> float:
    """Return how much farther a mech rises without jets [vox]."""
    up = wp.max(0.0, vz)
    return up * up / (2.0 * rules.gravity)


@wp.func
def wants_jets(
    rules: Rules,
    skill: Skill,
    mechs: Mechs,
    rounds: Rounds,
    e: int,
    m: int,
    distance: float,
    blocked: bool,
    escapes: bool,
) -> bool:
    """Return whether a pilot uses its jets, at ``distance`` from its target [vox]."""
    if skill.jets >= JET_TACTICAL:
        if distance < CLOSE_RANGE or missile_inbound(rules, e, m, mechs.team, rounds.round_weapon, rounds.round_target):
            return True
    if skill.jets >= JET_OBSTACLES and blocked:
        return True
    return skill.jets > JET_NEVER and escapes


@wp.func
def desired_heading(
    skill: Skill,
    target: int,
    p: wp.vec3,
    spot: wp.vec3,
    path: wp.vec2,
    bias: float,
    hit: bool,
    hit_dir: wp.vec3,
    cs: wp.vec2,
) -> float:
    """Return the desired heading [rad]: at a near target, at an attacker behind the mech, else along its path.

    An attacker behind the mech takes precedence over a target that is not close.
    """
    d = wp.length(spot - p)
    from_behind = skill.faces_rear_attacker == 1 and hit and hit_dir[0] * cs[0] + hit_dir[1] * cs[1] < 0.0
    if target >= 0 and d < wp.where(from_behind, REAR_FIRST_RANGE, skill.face_within_vox):
        return arc_tan2(spot[1] - p[1], spot[0] - p[0]) + bias
    if from_behind:
        return arc_tan2(hit_dir[1], hit_dir[0])
    return arc_tan2(path[1], path[0])


@wp.kernel
def steer(
    rules: Rules,
    skills: wp.array[Skill],
    world: World,
    episode: Episode,
    mechs: Mechs,
    events: Events,
    rounds: Rounds,
    assignment: Assignment,
    stuck: StuckState,
    targets: Targets,
    plan: MovementPlan,
    avoidance: Avoidance,
    actions_out: wp.array3d[wp.float32],
    stuck_out: StuckState,
):
    """Write the throttles and the yaw rate of a mech, and clear all other action columns."""
    e, m = wp.tid()
    if assignment.script[e, m] < FIRST_LEVEL_SCRIPT:
        return
    for i in range(actions_out.shape[2]):
        actions_out[e, m, i] = 0.0
    stuck_out.pilot_throttle[e, m] = 0.0
    if mechs.alive[e, m] == 0:
        return
    skill = skills[assignment.script[e, m] - FIRST_LEVEL_SCRIPT]
    c = mechs.chassis[e, m]
    p = mechs.pos[e, m]
    vz = mechs.vel[e, m][2]
    target = targets.pilot_target[e, m]
    cs = cos_sin(mechs.yaw[e, m])
    spot = targets.pilot_spot[e, m]
    distance = float(1.0e9)
    if target >= 0:
        distance = wp.length(spot - p)
    if skill.leads_target == 1:
        drift = targets.pilot_drift[e, m] * (1.0 + float(skill.delay)) - mechs.vel[e, m]
        spot = spot + drift * rules.dt_act
    bias = aim_error(skill, episode.seed[e], m, float(episode.tick[e]) * rules.dt)
    hit = events.was_hit[e, m] == 1
    heading = desired_heading(skill, target, p, spot, plan.pilot_way[e, m], bias, hit, events.hit_dir[e, m], cs)
    velocity = avoidance.pilot_move[e, m]
    forward = velocity[0] * cs[0] + velocity[1] * cs[1]
    strafe = -velocity[0] * cs[1] + velocity[1] * cs[0]
    phase = int(NORMAL)
    if skill.stuck_recovery == BACK_OUT:
        phase = stuck.pilot_phase[e, m]
    jets = float(0.0)
    escapes = phase != NORMAL or (skill.stuck_recovery == FREE_DIRECTION and avoidance.pilot_escape_s[e, m] > 0.0)
    blocked = avoidance.pilot_hops[e, m] == 1 or stuck.pilot_stuck_s[e, m] > STUCK_JET_S
    if rules.chassis[c].max_jet > 0.0 and wants_jets(rules, skill, mechs, rounds, e, m, distance, blocked, escapes):
        free = float(height(world, e, p, p[2] - rules.chassis[c].half[2]))
        if free + coasting_rise(rules, vz) < float(JUMP_HEIGHT):
            jets = 1.0
    if phase != NORMAL and (jets == 0.0 or vz <= 0.0):
        forward = wp.where(phase == BACKING_OUT and stuck.pilot_timer_s[e, m] <= PHASE_S, -1.0, 0.0)
        strafe = wp.where(phase == BACKING_OUT, 0.0, stuck.pilot_side[e, m])
    turn = wrap_angle(heading - mechs.yaw[e, m]) / (rules.chassis[c].max_yaw_rate * rules.dt_act)
    actions_out[e, m, FORWARD] = forward
    actions_out[e, m, STRAFE] = strafe
    actions_out[e, m, VERTICAL] = jets
    actions_out[e, m, YAW_RATE] = wp.clamp(turn, -1.0, 1.0)
    stuck_out.pilot_throttle[e, m] = wp.sqrt(forward * forward + strafe * strafe)
