"""Detection of a stuck pilot, and the phases of the manoeuvre by which it backs out and sidesteps.

Times are in seconds of simulation, so behaviour does not depend on the tick or on ticks per decision.
"""

import warp as wp

from echelon.agents.memory import MovementPlan, StuckState, Targets
from echelon.sim.geometry import xy_length
from echelon.sim.kernels.upkeep import WATER, foot_material
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.state import Episode, Mechs, World
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
