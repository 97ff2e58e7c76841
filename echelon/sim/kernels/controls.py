"""From action vectors to ``Controls``: the first steps of a decision, before any tick.

Actions are read, never changed: non-finite entries become 0 and are counted, the rest is clipped and quantised to
i8, so that a logged byte is the input. Focus target, electronic warfare and display settings hold for the decision.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.arsenal import Mechanic
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

LEVELS = wp.constant(127.0)
"""Positive quantisation levels of an action entry."""
PRIMARY = wp.constant(4)
VENT = wp.constant(5)
SECONDARY = wp.constant(6)
TERTIARY = wp.constant(7)
SPECIAL = wp.constant(8)
TARGET_START = wp.constant(9)
TARGET_DIM = wp.constant(5)
SORT_START = wp.constant(14)
SORT_DIM = wp.constant(3)
HOSTILE_ONLY = wp.constant(17)
COMM_START = wp.constant(18)
EWAR = wp.constant(int(Mechanic.EWAR))
ECCM_ABOVE = wp.constant(64.5 / 127.0)
"""Up to 0.5 the selector means ECM; 0.5 itself is read as 64/127, so the limit lies between that level and the next."""


@wp.func
def quantised(actions: wp.array3d(dtype=wp.float32), e: int, m: int, i: int) -> float:
    """One action entry, clipped to [-1, 1] and rounded to 1/127; 0 if it is not finite."""
    a = actions[e, m, i]
    if not wp.isfinite(a):
        return 0.0
    q = wp.rint(wp.clamp(a, -1.0, 1.0) * LEVELS) / LEVELS
    if q == 0.0:
        return 0.0  # a recorded 0 has no sign
    return q


@wp.func
def largest(actions: wp.array3d(dtype=wp.float32), e: int, m: int, start: int, count: int) -> int:
    """Offset of the largest of ``count`` entries from ``start``; ties go to the lowest."""
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
    """The trigger bit if the column is above 0."""
    if quantised(actions, e, m, column) > 0.0:
        return 1 << bit
    return 0


@wp.kernel
def clear_decision(
    # state in
    alive: wp.array2d(dtype=wp.int32),
    # events
    acting: wp.array2d(dtype=wp.int32), took: wp.array2d(dtype=wp.float32), dealt: wp.array2d(dtype=wp.float32), dealt_friendly: wp.array2d(dtype=wp.float32), kills: wp.array2d(dtype=wp.int32), assists: wp.array2d(dtype=wp.int32), died: wp.array2d(dtype=wp.int32), was_hit: wp.array2d(dtype=wp.int32), fired: wp.array2d(dtype=wp.int32), hit_dir: wp.array2d(dtype=wp.vec3), knockdowns: wp.array2d(dtype=wp.int32), shutdowns: wp.array2d(dtype=wp.int32), intercepts: wp.array2d(dtype=wp.int32),
):
    """Start a decision: note who acts and clear what the last one left."""
    e, m = wp.tid()
    acting[e, m] = alive[e, m]
    took[e, m] = 0.0
    dealt[e, m] = 0.0
    dealt_friendly[e, m] = 0.0
    kills[e, m] = 0
    assists[e, m] = 0
    died[e, m] = 0
    was_hit[e, m] = 0
    fired[e, m] = 0
    hit_dir[e, m] = wp.vec3(0.0, 0.0, 0.0)
    knockdowns[e, m] = 0
    shutdowns[e, m] = 0
    intercepts[e, m] = 0


@wp.kernel
def read_motion(
    # controls
    actions: wp.array3d(dtype=wp.float32),
    # state in
    alive: wp.array2d(dtype=wp.int32),
    # state out
    drive: wp.array2d(dtype=wp.vec4), trigger: wp.array2d(dtype=wp.int32), vent: wp.array2d(dtype=wp.int32), message: wp.array3d(dtype=wp.float32),
    # events
    bad_actions: wp.array2d(dtype=wp.int32),
    # rules
    rules: Rules,
):
    """Read throttles, triggers, vent and message, and count entries that are not finite."""
    e, m = wp.tid()
    bad = int(0)
    for i in range(actions.shape[2]):
        if not wp.isfinite(actions[e, m, i]):
            bad += 1
    bad_actions[e, m] = bad
    living = float(alive[e, m])
    drive[e, m] = living * wp.vec4(
        quantised(actions, e, m, 0), quantised(actions, e, m, 1), quantised(actions, e, m, 2), quantised(actions, e, m, 3)
    )
    bits = held_bit(actions, e, m, PRIMARY, 0) + held_bit(actions, e, m, SECONDARY, 1)
    trigger[e, m] = alive[e, m] * (bits + held_bit(actions, e, m, TERTIARY, 2) + held_bit(actions, e, m, SPECIAL, 3))
    vent[e, m] = alive[e, m] * held_bit(actions, e, m, VENT, 0)
    for i in range(rules.comm_dim):
        message[e, m, i] = living * float(rules.enable_comm) * quantised(actions, e, m, COMM_START + i)


@wp.kernel
def read_choices(
    # rules
    rules: Rules,
    # controls
    actions: wp.array3d(dtype=wp.float32), contact: wp.array3d(dtype=wp.int32),
    # state in
    withheld: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32),
    # state out
    focus: wp.array2d(dtype=wp.int32), focus_slot: wp.array2d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32), sort_mode: wp.array2d(dtype=wp.int32), hostile_only: wp.array2d(dtype=wp.int32),
):
    """Read focus target, electronic warfare and display settings."""
    e, m = wp.tid()
    focus[e, m] = -1
    focus_slot[e, m] = -1
    ecm[e, m] = 0
    eccm[e, m] = 0
    if alive[e, m] == 0:
        return
    slot = largest(actions, e, m, TARGET_START, TARGET_DIM)
    if rules.enable_target == 1 and quantised(actions, e, m, TARGET_START + slot) > 0.0:
        j = contact[e, m, slot]
        if j >= 0:
            if alive[e, j] == 1 and team[e, j] != team[e, m]:
                focus[e, m] = j
                focus_slot[e, m] = slot
    if rules.enable_ewar == 1 and rules.has_ewar[chassis[e, m]] == 1 and (withheld[e] & EWAR) == 0:
        a = quantised(actions, e, m, SECONDARY)
        if a > ECCM_ABOVE:
            eccm[e, m] = 1
        elif a > 0.0:
            ecm[e, m] = 1
    if rules.enable_obs_control == 1:
        sort_mode[e, m] = largest(actions, e, m, SORT_START, SORT_DIM)
        hostile_only[e, m] = held_bit(actions, e, m, HOSTILE_ONLY, 0)
