# type: ignore
"""Decode action vectors into ``Controls`` at the start of a decision.

Non-finite entries are read as 0 and counted, the rest are clipped and quantised to int8, so a recorded byte reproduces
the input exactly. Focus target, electronic warfare and display settings hold for the whole decision.
"""

import warp as wp

from echelon import actions as columns
from echelon.actions import ActionIndex
from echelon.sim.arsenal import Mechanic
from echelon.sim.state import Controls, Episode, Events, Mechs
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

LEVELS = wp.constant(float(columns.QUANTISATION_LEVELS))
"""Positive quantisation levels of an action entry."""
PRIMARY = wp.constant(int(ActionIndex.PRIMARY))
VENT = wp.constant(int(ActionIndex.VENT))
SECONDARY = wp.constant(int(ActionIndex.SECONDARY))
TERTIARY = wp.constant(int(ActionIndex.TERTIARY))
SPECIAL = wp.constant(int(ActionIndex.SPECIAL))
TARGET_START = wp.constant(columns.TARGET_START)
TARGET_DIM = wp.constant(columns.TARGET_DIM)
SORT_START = wp.constant(columns.OBS_CTRL_START)
SORT_DIM = wp.constant(columns.OBS_SORT_DIM)
HOSTILE_ONLY = wp.constant(columns.HOSTILE_ONLY)
EWAR = wp.constant(int(Mechanic.EWAR))
ECCM_ABOVE = wp.constant(columns.ECCM_ABOVE)


@wp.func
def quantised(actions: wp.array3d(dtype=wp.float32), e: int, m: int, i: int) -> float:
    """Return an action entry clipped to [-1, 1] and rounded to 1/127; 0 if it is not finite."""
    a = actions[e, m, i]
    if not wp.isfinite(a):
        return 0.0
    q = wp.rint(wp.clamp(a, -1.0, 1.0) * LEVELS) / LEVELS
    if q == 0.0:
        return 0.0  # int8 has no negative zero
    return q


@wp.func
def largest(actions: wp.array3d(dtype=wp.float32), e: int, m: int, start: int, count: int) -> int:
    """Return the offset of the largest of ``count`` entries from ``start``, the lowest on ties."""
    best = int(0)
    best_value = quantised(actions, e, m, start)
    for i in range(1, count):
        value = quantised(actions, e, m, start + i)
        if value > best_value:
            best = i
            best_value = value
    return best


@wp.func
def held_bit(actions: wp.array3d(dtype=wp.float32), e: int, m: int, column: int, bit: int) -> int:
    """Return trigger bit ``bit`` if the action column is above 0, else 0."""
    if quantised(actions, e, m, column) > 0.0:
        return 1 << bit
    return 0


@wp.kernel
def clear_decision(mechs: Mechs, events_out: Events):
    """Start a decision: record which mechs act and clear the events of the last decision."""
    e, m = wp.tid()
    events_out.acting[e, m] = mechs.alive[e, m]
    events_out.took[e, m] = 0.0
    events_out.dealt[e, m] = 0.0
    events_out.dealt_friendly[e, m] = 0.0
    events_out.kills[e, m] = 0
    events_out.assists[e, m] = 0
    events_out.died[e, m] = 0
    events_out.was_hit[e, m] = 0
    events_out.fired[e, m] = 0
    events_out.hit_dir[e, m] = wp.vec3(0.0, 0.0, 0.0)
    events_out.knockdowns[e, m] = 0
    events_out.shutdowns[e, m] = 0
    events_out.intercepts[e, m] = 0


@wp.kernel
def read_motion(mechs: Mechs, actions: wp.array3d(dtype=wp.float32), controls_out: Controls, events_out: Events):
    """Decode throttles, triggers and vent, and count the entries that are not finite."""
    e, m = wp.tid()
    bad = int(0)
    for i in range(actions.shape[2]):
        if not wp.isfinite(actions[e, m, i]):
            bad += 1
    events_out.bad_actions[e, m] = bad
    living = float(mechs.alive[e, m])
    controls_out.drive[e, m] = living * wp.vec4(
        quantised(actions, e, m, 0),
        quantised(actions, e, m, 1),
        quantised(actions, e, m, 2),
        quantised(actions, e, m, 3),
    )
    bits = held_bit(actions, e, m, PRIMARY, 0) + held_bit(actions, e, m, SECONDARY, 1)
    controls_out.trigger[e, m] = mechs.alive[e, m] * (
        bits + held_bit(actions, e, m, TERTIARY, 2) + held_bit(actions, e, m, SPECIAL, 3)
    )
    controls_out.vent[e, m] = mechs.alive[e, m] * held_bit(actions, e, m, VENT, 0)


@wp.kernel
def read_choices(
    rules: Rules,
    mechs: Mechs,
    episode: Episode,
    controls: Controls,
    actions: wp.array3d(dtype=wp.float32),
    controls_out: Controls,
):
    """Decode focus target, electronic warfare and display settings."""
    e, m = wp.tid()
    controls_out.focus[e, m] = -1
    controls_out.focus_slot[e, m] = -1
    controls_out.ecm[e, m] = 0
    controls_out.eccm[e, m] = 0
    if mechs.alive[e, m] == 0:
        return
    slot = largest(actions, e, m, TARGET_START, TARGET_DIM)
    if rules.enable_target == 1 and quantised(actions, e, m, TARGET_START + slot) > 0.0:
        j = controls.contact[e, m, slot]
        if j >= 0:
            if mechs.alive[e, j] == 1 and mechs.team[e, j] != mechs.team[e, m]:
                controls_out.focus[e, m] = j
                controls_out.focus_slot[e, m] = slot
    if (
        rules.enable_ewar == 1
        and rules.chassis[mechs.chassis[e, m]].has_ewar == 1
        and (episode.withheld[e] & EWAR) == 0
    ):
        a = quantised(actions, e, m, SECONDARY)
        if a > ECCM_ABOVE:
            controls_out.eccm[e, m] = 1
        elif a > 0.0:
            controls_out.ecm[e, m] = 1
    if rules.enable_obs_control == 1:
        controls_out.sort_mode[e, m] = largest(actions, e, m, SORT_START, SORT_DIM)
        controls_out.hostile_only[e, m] = held_bit(actions, e, m, HOSTILE_ONLY, 0)
