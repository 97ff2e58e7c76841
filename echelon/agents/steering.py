"""Turns what a scripted pilot wants into throttles: where it looks, its wish on its heading, unsticking, jets."""

# ruff: noqa: E501
import warp as wp

from echelon.actions import ActionIndex
from echelon.agents.collision_avoidance import HOP_VOX
from echelon.agents.legacy import BACKING, MANOEUVRE_S, NORMAL
from echelon.agents.levels import JetUse, Skill, StuckRecovery
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.env.observe.ego import missile_inbound
from echelon.sim.geometry import arc_tan2, cos_sin, wrap_angle
from echelon.sim.raycast import column_bit
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FORWARD, STRAFE, VERTICAL, YAW = (wp.constant(int(ActionIndex[n])) for n in ("FORWARD", "STRAFE", "VERTICAL", "YAW_RATE"))
JET_OBSTACLES, JET_TACTICAL = wp.constant(int(JetUse.OBSTACLES)), wp.constant(int(JetUse.TACTICAL))
BACK_OUT, FREE_DIRECTION = wp.constant(int(StuckRecovery.BACK_OUT)), wp.constant(int(StuckRecovery.FREE_DIRECTION))
MELEE = wp.constant(3.0)
REAR_FIRST = wp.constant(8.0)
"""Distance from which on a target waits for an attacker behind [vox]."""
STUCK_SOON = wp.constant(0.5)
"""Time without progress after which jets are tried [s]."""


@wp.func
def aim_error(s: Skill, seed: wp.uint32, m: int, seconds: float) -> float:
    """Bias of a pilot's aim [rad], drawn anew each second; near normal."""
    t = int(seconds)
    u = (uniform01(seed, STREAM_AGENT, t, m, 11) + uniform01(seed, STREAM_AGENT, t, m, 12) + uniform01(seed, STREAM_AGENT, t, m, 13))
    return s.aim_sigma * 2.0 * (u - 1.5)


@wp.func
def height(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, p: wp.vec3, foot: float) -> int:
    """Free cells below a foot, as far as pilots fly [vox]."""
    x = wp.clamp(int(p[0]), 0, size[0] - 1)
    y = wp.clamp(int(p[1]), 0, size[1] - 1)
    k = wp.min(int(foot + 0.01), size[2]) - 1
    for i in range(HOP_VOX):
        if k - i < 0:
            return i
        if column_bit(plane, e, x, y, k - i):
            return i
    return HOP_VOX


@wp.func
def coasts(rules: Rules, vz: float) -> float:
    """How much farther a mech rises without jets [vox]."""
    up = wp.max(0.0, vz)
    return up * up / (2.0 * rules.gravity)


@wp.func
def lifts(s: Skill, escapes: bool, hops: bool, inbound: bool, near: float, stuck: bool) -> bool:
    """Whether a pilot wants to rise."""
    if s.jets >= JET_TACTICAL and (inbound or near < MELEE):
        return True
    if s.jets >= JET_OBSTACLES and (hops or stuck):
        return True
    return s.jets > 0 and escapes


@wp.func
def facing(s: Skill, target: int, p: wp.vec3, spot: wp.vec3, way: wp.vec2, bias: float, hit: bool, hit_dir: wp.vec3, cs: wp.vec2) -> float:
    """Where a pilot wants to look [rad]: at its target when near, at an attacker behind it, else where it goes.

    Who strikes from behind comes before a target that is not close by.
    """
    d = wp.length(spot - p)
    from_behind = s.faces_rear_attacker == 1 and hit and hit_dir[0] * cs[0] + hit_dir[1] * cs[1] < 0.0
    if target >= 0 and d < wp.where(from_behind, REAR_FIRST, s.face_within_vox):
        return arc_tan2(spot[1] - p[1], spot[0] - p[0]) + bias
    if from_behind:
        return arc_tan2(hit_dir[1], hit_dir[0])
    return arc_tan2(way[1], way[0])


@wp.kernel
def steer(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill), pilot_dials: wp.array(dtype=wp.float32),
    # world
    move_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    script: wp.array2d(dtype=wp.int32), tick: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), was_hit: wp.array2d(dtype=wp.int32), hit_dir: wp.array2d(dtype=wp.vec3), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), pilot_target: wp.array2d(dtype=wp.int32), pilot_spot: wp.array2d(dtype=wp.vec3), pilot_drift: wp.array2d(dtype=wp.vec3), pilot_move: wp.array2d(dtype=wp.vec2), pilot_way: wp.array2d(dtype=wp.vec2), pilot_phase: wp.array2d(dtype=wp.int32), pilot_timer_s: wp.array2d(dtype=wp.float32), pilot_side: wp.array2d(dtype=wp.float32), pilot_stuck_s: wp.array2d(dtype=wp.float32), pilot_escape_s: wp.array2d(dtype=wp.float32), pilot_hops: wp.array2d(dtype=wp.int32),
    # out
    actions: wp.array3d(dtype=wp.float32), pilot_throttle: wp.array2d(dtype=wp.float32),
):
    """Write how a mech moves and turns; every other column is cleared."""
    e, m = wp.tid()
    if script[e, m] < FIRST_LEVEL_SCRIPT:
        return
    for i in range(actions.shape[2]):
        actions[e, m, i] = 0.0
    pilot_throttle[e, m] = 0.0
    if alive[e, m] == 0:
        return
    s = skills[script[e, m] - FIRST_LEVEL_SCRIPT]
    c = chassis[e, m]
    cs = cos_sin(yaw[e, m])
    spot = pilot_spot[e, m]
    near = float(1.0e9)
    if pilot_target[e, m] >= 0:
        near = wp.length(spot - pos[e, m])
    if s.leads_target == 1:
        spot = spot + (pilot_drift[e, m] * (1.0 + float(s.delay)) - vel[e, m]) * rules.dt_act
    bias = aim_error(s, seed[e], m, float(tick[e]) * rules.dt)
    bearing = facing(s, pilot_target[e, m], pos[e, m], spot, pilot_way[e, m], bias, was_hit[e, m] == 1, hit_dir[e, m], cs)
    wish = pilot_move[e, m]
    forward = wish[0] * cs[0] + wish[1] * cs[1]
    strafe = -wish[0] * cs[1] + wish[1] * cs[0]
    phase = int(NORMAL)
    if s.stuck_recovery == BACK_OUT:
        phase = pilot_phase[e, m]
    inbound = bool(False)
    if s.jets >= JET_TACTICAL:
        inbound = missile_inbound(rules, e, m, team, round_weapon, round_target)
    jump = float(0.0)
    escapes = phase != NORMAL or (s.stuck_recovery == FREE_DIRECTION and pilot_escape_s[e, m] > 0.0)
    if rules.max_jet[c] > 0.0 and lifts(s, escapes, pilot_hops[e, m] == 1, inbound, near, pilot_stuck_s[e, m] > STUCK_SOON):
        free = float(height(move_plane, e, size[e], pos[e, m], pos[e, m][2] - rules.half[c][2]))
        if free + coasts(rules, vel[e, m][2]) < float(HOP_VOX):
            jump = 1.0
    if phase != NORMAL and (jump == 0.0 or vel[e, m][2] <= 0.0):
        forward = 0.0
        strafe = 0.0
        if phase != BACKING:
            strafe = pilot_side[e, m]
        elif pilot_timer_s[e, m] <= pilot_dials[MANOEUVRE_S]:
            forward = -1.0
    actions[e, m, FORWARD] = forward
    actions[e, m, STRAFE] = strafe
    actions[e, m, VERTICAL] = jump
    actions[e, m, YAW] = wp.clamp(wrap_angle(bearing - yaw[e, m]) / (rules.max_yaw_rate[c] * rules.dt_act), -1.0, 1.0)
    pilot_throttle[e, m] = wp.sqrt(forward * forward + strafe * strafe)
