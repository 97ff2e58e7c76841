"""Device code of recording: writes a frame of each recorded environment as the integers that a chunk stores.

It runs once per decision, after the referee and before any reset, so the last frame of an episode is its end. Frames
lie in a ring until the host fetches them. Quantising here keeps the host's share of recording small; columns, their
steps and bounds come from ``schema``.
"""

# ruff: noqa: E501
from collections.abc import Sequence

import numpy as np
import warp as wp

from echelon.replay.columns import Layout, bounds
from echelon.replay.schema import CLOUDS, COLUMNS, ROUNDS, EventKind, FrameColumn, MechFlag
from echelon.sim.backend import Launch, in_phase
from echelon.sim.batch import Batch
from echelon.sim.geometry import arc_tan2, xy_length
from echelon.sim.kernels.journal import write
from echelon.sim.rng import mix
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH
from echelon.sim.tables import NUM_COOLDOWNS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

PLACES = {column.name: i for i, column in enumerate(COLUMNS)}
ROUND_PLACES = {column.name: i for i, column in enumerate(ROUNDS.columns)}
CLOUD_PLACES = {column.name: i for i, column in enumerate(CLOUDS.columns)}
FIRST_MECH = wp.constant(PLACES["x"])
"""First column with a value per mech; those before it are per frame and per team."""
FRONT = wp.constant(5)
"""Values of a frame before the first mech's: tick, and score and tonnage of both teams."""
ROUND_ROWS_PER_FRAME = 2 * ROUNDS_PER_MECH
"""Rows of the log of rounds for each mech and frame of half a ring."""
CLOUD_ROWS = 4 * CLOUDS_PER_MECH
"""Rows of the log of clouds for each mech."""

SCORE, TONNAGE = wp.constant(PLACES["score"]), wp.constant(PLACES["tonnage"])
X, VX, YAW = wp.constant(PLACES["x"]), wp.constant(PLACES["vx"]), wp.constant(PLACES["yaw"])
HP, LEG_HP, HEAT = wp.constant(PLACES["hp"]), wp.constant(PLACES["leg_hp"]), wp.constant(PLACES["heat"])
STABILITY, COOLDOWN = wp.constant(PLACES["stability"]), wp.constant(PLACES["cooldown"])
FLAGS, FOCUS, PAINTER = wp.constant(PLACES["flags"]), wp.constant(PLACES["focus"]), wp.constant(PLACES["painter"])
ROUND_X = wp.constant(ROUND_PLACES["x"])
CLOUD_X = wp.constant(CLOUD_PLACES["x"])
CLOUD_STEPS = wp.constant(1.0 / CLOUDS.columns[CLOUD_PLACES["x"]].scale)
FARTHEST = wp.constant(float(bounds(CLOUDS.columns[CLOUD_PLACES["x"]].dtype)[1]))
"""Largest coordinate of a cloud that can be written down, in its steps."""
ROUND_YAW, ROUND_PITCH = wp.constant(ROUND_PLACES["yaw"]), wp.constant(ROUND_PLACES["pitch"])
ALIVE, FALLEN, IS_DOWN = (wp.constant(int(f)) for f in (MechFlag.ALIVE, MechFlag.FALLEN, MechFlag.SHUTDOWN))
LEGGED, PAINTED, VENT = (wp.constant(int(f)) for f in (MechFlag.LEGGED, MechFlag.PAINTED, MechFlag.VENT))
ECM, ECCM, SUPPRESSED = (wp.constant(int(f)) for f in (MechFlag.ECM, MechFlag.ECCM, MechFlag.SUPPRESSED))
SEEN = wp.constant(int(MechFlag.SEEN))
FALL, SHUTDOWN = wp.constant(int(EventKind.FALL)), wp.constant(int(EventKind.SHUTDOWN))
NOBODY = wp.constant(-1)
NOWHERE = wp.constant(wp.vec3(0.0, 0.0, 0.0))
HALF_TURN = wp.constant(-bounds(ROUNDS.columns[ROUND_PLACES["yaw"]].dtype)[0])
"""Steps of half a turn of a round's direction."""


# fmt: off
@wp.func
def quantized(value: float, c: int, column_step: wp.array(dtype=wp.float32), column_low: wp.array(dtype=wp.int32), column_high: wp.array(dtype=wp.int32)) -> int:
    """A value in the steps of column c, held within its bounds; 0 where it is no number."""
    if not wp.isfinite(value):
        return 0
    return int(wp.clamp(wp.rint(value * column_step[c]), float(column_low[c]), float(column_high[c])))


@wp.func
def quantized_angle(angle: float, step: float, half: int) -> int:
    """An angle in steps, wrapped into half a turn either way."""
    turn = 2 * half
    return (((int(wp.rint(angle * step)) + half) % turn) + turn) % turn - half


@wp.func
def mixed_float(h: wp.uint32, value: float) -> wp.uint32:
    """A digest with one more float in it, bit for bit."""
    return mix(h ^ wp.cast(value, wp.uint32))


@wp.func
def frame_offset(c: int, m: int, count: int) -> int:
    """Where a frame keeps the value of a mech in column c."""
    return FRONT + (c - FIRST_MECH) * count + m


@wp.kernel
def record_motion(
    # rules
    column_step: wp.array(dtype=wp.float32), column_low: wp.array(dtype=wp.int32), column_high: wp.array(dtype=wp.int32),
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), frame_count: wp.array(dtype=wp.int32), present: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), leg_hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32),
    # out
    frames: wp.array3d(dtype=wp.int32), digests: wp.array3d(dtype=wp.uint32),
):
    """Write where a mech is and how it fares, and a digest of just that, bit for bit."""
    i, m = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    row = frame_count[page] % frames.shape[1]
    count = pos.shape[1]
    here = float(present[e, m])
    living = float(alive[e, m])
    p = pos[e, m] * here
    v = vel[e, m] * living
    h = mixed_float(mixed_float(mix(wp.uint32(alive[e, m])), yaw[e, m]), stability[e, m])
    for a in range(3):
        frames[page, row, frame_offset(X + a, m, count)] = quantized(p[a], X + a, column_step, column_low, column_high)
        frames[page, row, frame_offset(VX + a, m, count)] = quantized(v[a], VX + a, column_step, column_low, column_high)
        h = mixed_float(mixed_float(h, pos[e, m][a]), vel[e, m][a])
    frames[page, row, frame_offset(YAW, m, count)] = quantized_angle(yaw[e, m] * here, column_step[YAW], -column_low[YAW])
    # who lives on less than half a point is not shown with none
    frames[page, row, frame_offset(HP, m, count)] = wp.max(quantized(hp[e, m] * living, HP, column_step, column_low, column_high), alive[e, m])
    frames[page, row, frame_offset(LEG_HP, m, count)] = quantized(leg_hp[e, m] * living, LEG_HP, column_step, column_low, column_high)
    frames[page, row, frame_offset(HEAT, m, count)] = quantized(heat[e, m] * living, HEAT, column_step, column_low, column_high)
    frames[page, row, frame_offset(STABILITY, m, count)] = quantized(stability[e, m] * living, STABILITY, column_step, column_low, column_high)
    digests[page, row, m] = mixed_float(mixed_float(mixed_float(h, hp[e, m]), leg_hp[e, m]), heat[e, m])


@wp.kernel
def record_condition(
    # rules
    column_step: wp.array(dtype=wp.float32), column_low: wp.array(dtype=wp.int32), column_high: wp.array(dtype=wp.int32),
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), frame_count: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), leg_hp: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), suppressed: wp.array2d(dtype=wp.int32), cooldown: wp.array3d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), visible: wp.array3d(dtype=wp.uint8),
    # controls
    vent: wp.array2d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32),
    # out
    frames: wp.array3d(dtype=wp.int32), digests: wp.array3d(dtype=wp.uint32),
):
    """Write what state a mech is in and whom it minds, and stir its timers into the digest."""
    i, m = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    row = frame_count[page] % frames.shape[1]
    count = alive.shape[1]
    flags = int(0)
    target = NOBODY
    marker = NOBODY
    if alive[e, m] == 1:
        flags = ALIVE + wp.min(fallen[e, m], 1) * FALLEN + shutdown[e, m] * IS_DOWN + wp.min(painted[e, m], 1) * PAINTED
        flags += ecm[e, m] * ECM + eccm[e, m] * ECCM + wp.min(suppressed[e, m], 1) * SUPPRESSED + vent[e, m] * VENT * wp.min(frame_count[page], 1)  # a switch of the episode before is nobody's
        if leg_hp[e, m] <= 0.0:
            flags += LEGGED
        known = int(0)
        for j in range(count):
            if team[e, j] != team[e, m] and visible[e, j, m] == wp.uint8(1):
                known = 1
                break
        flags += known * SEEN
        target = focus[e, m]
        if painted[e, m] > 0:
            marker = painter[e, m]
    frames[page, row, frame_offset(FLAGS, m, count)] = flags
    frames[page, row, frame_offset(FOCUS, m, count)] = target
    frames[page, row, frame_offset(PAINTER, m, count)] = marker
    h = digests[page, row, m] ^ wp.uint32(flags)
    h = mix(mix(mix(h) ^ wp.uint32(fallen[e, m])) ^ wp.uint32(painted[e, m]))
    h = mix(mix(h ^ wp.uint32(suppressed[e, m])) ^ wp.uint32(target))
    for k in range(NUM_COOLDOWNS):
        left = cooldown[e, m, k]
        h = mix(h ^ wp.uint32(left))
        at = frame_offset(COOLDOWN, m * NUM_COOLDOWNS + k, count)
        frames[page, row, at] = quantized(float(left * alive[e, m]), COOLDOWN, column_step, column_low, column_high)
    digests[page, row, m] = h


@wp.func
def append_round(
    round_step: wp.array(dtype=wp.float32), round_log: wp.array3d(dtype=wp.int32), round_count: wp.array(dtype=wp.int32),
    page: int, number: int, m: int, s: int, w: int, age: int, p: wp.vec3, v: wp.vec3,
):
    """Append a round in flight, or only count it where the log is full."""
    n = round_count[page]
    round_count[page] = n + 1
    if n >= round_log.shape[1]:
        return
    round_log[page, n, 0] = number
    round_log[page, n, 1] = m
    round_log[page, n, 2] = s
    round_log[page, n, 3] = w
    round_log[page, n, 4] = age
    for a in range(3):
        round_log[page, n, ROUND_X + a] = int(wp.rint(p[a] * round_step[ROUND_X + a]))
    round_log[page, n, ROUND_YAW] = quantized_angle(arc_tan2(v[1], v[0]), round_step[ROUND_YAW], HALF_TURN)
    round_log[page, n, ROUND_PITCH] = quantized_angle(arc_tan2(v[2], xy_length(v)), round_step[ROUND_PITCH], HALF_TURN)


@wp.func
def append_cloud(cloud_log: wp.array3d(dtype=wp.int32), cloud_count: wp.array(dtype=wp.int32), page: int, burst: int, m: int, p: wp.vec3):
    """Append a cloud, or only count it where the log is full."""
    n = cloud_count[page]
    cloud_count[page] = n + 1
    if n >= cloud_log.shape[1]:
        return
    cloud_log[page, n, 0] = burst
    cloud_log[page, n, 1] = m
    for a in range(3):
        cloud_log[page, n, CLOUD_X + a] = int(wp.clamp(wp.rint(p[a] * CLOUD_STEPS), 0.0, FARTHEST))


@wp.kernel
def record_clouds(
    # rules
    rules: Rules,
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), frames: wp.array3d(dtype=wp.int32), frame_count: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), clouds: wp.array(dtype=wp.int32), cloud_ticks: wp.array3d(dtype=wp.int32), cloud_pos: wp.array3d(dtype=wp.vec3),
    # out
    cloud_log: wp.array3d(dtype=wp.int32), cloud_count: wp.array(dtype=wp.int32),
):
    """Log the clouds that burst since the frame before, and at the first frame all that live."""
    i = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0 or clouds[e] == 0:
        return
    number = frame_count[page]
    until = tick[e] - rules.smoke_ticks - 1
    if number > 0:
        until = frames[page, (number - 1) % frames.shape[1], 0]
    for m in range(cloud_ticks.shape[1]):
        for q in range(CLOUDS_PER_MECH):
            left = cloud_ticks[e, m, q]
            burst = tick[e] - rules.smoke_ticks + left
            if left > 0 and burst > until:
                append_cloud(cloud_log, cloud_count, page, burst, m, cloud_pos[e, m, q])


@wp.kernel
def finish_frame(
    # rules
    column_step: wp.array(dtype=wp.float32), round_step: wp.array(dtype=wp.float32),
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), ended: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), score: wp.array(dtype=wp.vec2), zone_tonnage: wp.array(dtype=wp.vec2), knockdowns: wp.array2d(dtype=wp.int32), shutdowns: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3), round_vel: wp.array3d(dtype=wp.vec3), round_age: wp.array3d(dtype=wp.int32),
    # out
    page_open: wp.array(dtype=wp.int32), frames: wp.array3d(dtype=wp.int32), frame_count: wp.array(dtype=wp.int32), round_log: wp.array3d(dtype=wp.int32), round_count: wp.array(dtype=wp.int32),
    # events
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32),
):
    """Finish the frame with what is not a mech's own: clock, scores, mishaps, rounds in flight; at the end, stop."""
    i = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    number = frame_count[page]
    row = number % frames.shape[1]
    frames[page, row, 0] = tick[e]
    for t in range(2):
        frames[page, row, 1 + t] = int(wp.rint(score[e][t] * column_step[SCORE]))
        frames[page, row, 3 + t] = int(wp.rint(zone_tonnage[e][t] * column_step[TONNAGE]))
    for m in range(knockdowns.shape[1]):
        if tick[e] > 0 and knockdowns[e, m] > 0:
            write(journal, journal_count, page, tick[e], FALL, m, NOBODY, NOBODY, 0.0, 0, NOWHERE)
        if tick[e] > 0 and shutdowns[e, m] > 0:
            write(journal, journal_count, page, tick[e], SHUTDOWN, m, NOBODY, NOBODY, 0.0, 0, NOWHERE)
        for s in range(ROUNDS_PER_MECH):
            w = round_weapon[e, m, s]
            if w >= 0:
                append_round(round_step, round_log, round_count, page, number, m, s, w, round_age[e, m, s], round_pos[e, m, s], round_vel[e, m, s])
    frame_count[page] = number + 1
    if ended[e] == 1:
        page_open[page] = 0


# fmt: on
def add_arrays(batch: Batch, count: int, ring: int, more: Sequence[FrameColumn] = ()) -> None:
    """Allocate the frames of ``count`` recorded environments, ``ring`` rows each, with ``more`` columns at the end."""
    mechs, device = batch.num_mechs, batch.device
    width = Layout([column.to_header() for column in (*COLUMNS, *more)], mechs).width
    shapes = {
        "frames": ((count, ring, width), wp.int32),
        "digests": ((count, ring, mechs), wp.uint32),
        "frame_count": ((count,), wp.int32),
        "round_log": ((count, ring // 2 * ROUND_ROWS_PER_FRAME * mechs, len(ROUNDS.columns)), wp.int32),
        "round_count": ((count,), wp.int32),
        "cloud_log": ((count, CLOUD_ROWS * mechs, len(CLOUDS.columns)), wp.int32),
        "cloud_count": ((count,), wp.int32),
    }
    for name, (shape, dtype) in shapes.items():
        batch.backend.add({name: wp.zeros(shape, dtype=dtype, device=device)}, per_env=False)
    limits = np.array([bounds(column.dtype) for column in COLUMNS])
    batch.add_constant("column_step", np.array([1 / column.scale for column in COLUMNS], np.float32), wp.float32)
    batch.add_constant("column_low", np.maximum(limits[:, 0], -(2**31)).astype(np.int32), wp.int32)
    batch.add_constant("column_high", np.minimum(limits[:, 1], 2**31 - 1).astype(np.int32), wp.int32)
    batch.add_constant("round_step", np.array([1 / c.scale for c in ROUNDS.columns], np.float32), wp.float32)


def launches(more: Sequence[Launch] = ()) -> list[Launch]:
    """Return what writes a frame down; ``more`` runs before the frame is counted."""
    mechs = [Launch(record_motion, "JM"), Launch(record_condition, "JM")]
    return in_phase("journal", [*mechs, *more, Launch(record_clouds, "J"), Launch(finish_frame, "J")])
