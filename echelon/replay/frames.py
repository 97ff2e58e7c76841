# type: ignore
"""Device code of recording: writes a frame of each recorded environment as the integers that a chunk stores.

It runs once per environment step, after the referee and before any reset: the last frame of an episode shows its end.
Frames stay in a ring buffer until the host fetches them. Columns, their quantisation steps and bounds come from
``schema``; quantising on the device keeps the host's share of recording small.
"""

from collections.abc import Sequence

import numpy as np
import warp as wp

from echelon.replay.columns import Layout, bounds
from echelon.replay.schema import CLOUDS, COLUMNS, ROUNDS, EventKind, FrameColumn, MechFlag
from echelon.sim.backend import Launch, in_phase
from echelon.sim.batch import Batch
from echelon.sim.geometry import arc_tan2, xy_length
from echelon.sim.kernels.journal import append_row
from echelon.sim.rng import mix
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH, Controls, Episode, Journal, Mechs, Senses, Smoke
from echelon.sim.state import Rounds as LiveRounds
from echelon.sim.structs import Field, array_struct
from echelon.sim.tables import NUM_COOLDOWNS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

COLUMN_INDEX = {column.name: i for i, column in enumerate(COLUMNS)}
ROUND_COLUMN_INDEX = {column.name: i for i, column in enumerate(ROUNDS.columns)}
CLOUD_COLUMN_INDEX = {column.name: i for i, column in enumerate(CLOUDS.columns)}
FIRST_MECH_COLUMN = wp.constant(COLUMN_INDEX["x"])
"""First column with a value per mech; earlier columns are per frame or per team."""
FRAME_HEAD = wp.constant(5)
"""Values of a frame before the first mech column: tick, and score and zone tonnage of both teams."""
ROUND_ROWS_PER_FRAME = 2 * ROUNDS_PER_MECH
"""Rows of the round log per mech and frame of half a ring buffer."""
CLOUD_ROWS = 4 * CLOUDS_PER_MECH
"""Rows of the cloud log per mech."""

SCORE, TONNAGE = wp.constant(COLUMN_INDEX["score"]), wp.constant(COLUMN_INDEX["tonnage"])
X, VX, YAW = wp.constant(COLUMN_INDEX["x"]), wp.constant(COLUMN_INDEX["vx"]), wp.constant(COLUMN_INDEX["yaw"])
HP, LEG_HP = wp.constant(COLUMN_INDEX["hp"]), wp.constant(COLUMN_INDEX["leg_hp"])
HEAT, STABILITY = wp.constant(COLUMN_INDEX["heat"]), wp.constant(COLUMN_INDEX["stability"])
COOLDOWN, FLAGS = wp.constant(COLUMN_INDEX["cooldown"]), wp.constant(COLUMN_INDEX["flags"])
FOCUS, PAINTER = wp.constant(COLUMN_INDEX["focus"]), wp.constant(COLUMN_INDEX["painter"])
ROUND_X = wp.constant(ROUND_COLUMN_INDEX["x"])
ROUND_YAW, ROUND_PITCH = wp.constant(ROUND_COLUMN_INDEX["yaw"]), wp.constant(ROUND_COLUMN_INDEX["pitch"])
CLOUD_X = wp.constant(CLOUD_COLUMN_INDEX["x"])
CLOUD_STEPS = wp.constant(1.0 / CLOUDS.columns[CLOUD_COLUMN_INDEX["x"]].scale)
"""Quantisation steps per voxel of a cloud's centre."""
MAX_CLOUD_STEPS = wp.constant(float(bounds(CLOUDS.columns[CLOUD_COLUMN_INDEX["x"]].dtype)[1]))
"""Largest coordinate of a cloud that the column can store, in steps."""
HALF_TURN = wp.constant(-bounds(ROUNDS.columns[ROUND_COLUMN_INDEX["yaw"]].dtype)[0])
ALIVE, FALLEN, SHUT_DOWN = (wp.constant(int(f)) for f in (MechFlag.ALIVE, MechFlag.FALLEN, MechFlag.SHUTDOWN))
LEGGED, PAINTED, VENT = (wp.constant(int(f)) for f in (MechFlag.LEGGED, MechFlag.PAINTED, MechFlag.VENT))
ECM, ECCM, SUPPRESSED = (wp.constant(int(f)) for f in (MechFlag.ECM, MechFlag.ECCM, MechFlag.SUPPRESSED))
SEEN = wp.constant(int(MechFlag.SEEN))
FALL, SHUTDOWN = wp.constant(int(EventKind.FALL)), wp.constant(int(EventKind.SHUTDOWN))
NO_MECH = wp.constant(-1)
NO_POSITION = wp.constant(wp.vec3(0.0, 0.0, 0.0))


@array_struct
class Quantization:
    """Quantisation of frame columns and of round columns; A columns, U round columns."""

    column_step = Field(wp.float32, "A", "quantisation steps per unit")
    column_low = Field(wp.int32, "A", "smallest integer")
    column_high = Field(wp.int32, "A", "largest integer")
    round_step = Field(wp.float32, "U", "quantisation steps per unit of a round column")


@array_struct
class FrameLog:
    """Frames, round log and cloud log of each recorded environment since the last fetch; G pages, F ring rows."""

    frames = Field(wp.int32, "GFV", "frames, a ring buffer of rows in the order of the frame columns")
    digests = Field(wp.uint32, "GFM", "digest of each mech's exact state at a frame")
    frame_count = Field(wp.int32, "G", "frames written in this episode")
    round_log = Field(wp.int32, "GRV", "a row per live round and frame, in the order of the round columns")
    round_count = Field(wp.int32, "G", "rows of the round log, dropped ones included")
    cloud_log = Field(wp.int32, "GRV", "a row per smoke cloud, in the order of the cloud columns")
    cloud_count = Field(wp.int32, "G", "rows of the cloud log, dropped ones included")


@wp.func
def quantized(value: float, step: float, low: int, high: int) -> int:
    """Return a value in quantisation steps, clamped to its bounds; 0 if it is not finite."""
    if not wp.isfinite(value):
        return 0
    return int(wp.clamp(wp.rint(value * step), float(low), float(high)))


@wp.func
def column_value(quantization: Quantization, c: int, value: float) -> int:
    return quantized(value, quantization.column_step[c], quantization.column_low[c], quantization.column_high[c])


@wp.func
def quantized_angle(angle: float, step: float, half: int) -> int:
    turn = 2 * half
    return (((int(wp.rint(angle * step)) + half) % turn) + turn) % turn - half


@wp.func
def mixed_float(h: wp.uint32, value: float) -> wp.uint32:
    return mix(h ^ wp.cast(value, wp.uint32))


@wp.func
def frame_offset(c: int, m: int, count: int) -> int:
    return FRAME_HEAD + (c - FIRST_MECH_COLUMN) * count + m


@wp.kernel
def record_motion(
    mechs: Mechs, journal: Journal, quantization: Quantization, recording: FrameLog, recording_out: FrameLog
):
    """Write position, velocity, heading, hit points, heat and stability of a mech, and a digest of their exact bits."""
    i, m = wp.tid()
    e = journal.journal_env[i]
    page = journal.journal_page[i]
    if journal.page_open[page] == 0:
        return
    row = recording.frame_count[page] % recording.frames.shape[1]
    count = mechs.pos.shape[1]
    present = float(mechs.present[e, m])
    alive = float(mechs.alive[e, m])
    pos = mechs.pos[e, m]
    vel = mechs.vel[e, m]
    p = pos * present
    v = vel * alive
    h = mixed_float(mixed_float(mix(wp.uint32(mechs.alive[e, m])), mechs.yaw[e, m]), mechs.stability[e, m])
    for a in range(3):
        recording_out.frames[page, row, frame_offset(X + a, m, count)] = column_value(quantization, X + a, p[a])
        recording_out.frames[page, row, frame_offset(VX + a, m, count)] = column_value(quantization, VX + a, v[a])
        h = mixed_float(mixed_float(h, pos[a]), vel[a])
    half_turn = -quantization.column_low[YAW]
    yaw = quantized_angle(mechs.yaw[e, m] * present, quantization.column_step[YAW], half_turn)
    recording_out.frames[page, row, frame_offset(YAW, m, count)] = yaw
    # a mech that is alive with less than half a hit point is recorded with one
    hp = wp.max(column_value(quantization, HP, mechs.hp[e, m] * alive), mechs.alive[e, m])
    recording_out.frames[page, row, frame_offset(HP, m, count)] = hp
    leg_hp = column_value(quantization, LEG_HP, mechs.leg_hp[e, m] * alive)
    recording_out.frames[page, row, frame_offset(LEG_HP, m, count)] = leg_hp
    heat = column_value(quantization, HEAT, mechs.heat[e, m] * alive)
    recording_out.frames[page, row, frame_offset(HEAT, m, count)] = heat
    stability = column_value(quantization, STABILITY, mechs.stability[e, m] * alive)
    recording_out.frames[page, row, frame_offset(STABILITY, m, count)] = stability
    h = mixed_float(mixed_float(h, mechs.hp[e, m]), mechs.leg_hp[e, m])
    recording_out.digests[page, row, m] = mixed_float(h, mechs.heat[e, m])


@wp.func
def is_seen_by_hostile(mechs: Mechs, senses: Senses, e: int, m: int) -> int:
    for j in range(mechs.team.shape[1]):
        if mechs.team[e, j] != mechs.team[e, m] and senses.visible[e, j, m] == wp.uint8(1):
            return 1
    return 0


@wp.func
def mech_flags(mechs: Mechs, controls: Controls, e: int, m: int, first_frame: bool) -> int:
    """Return the bits of ``MechFlag`` of a living mech, except SEEN."""
    flags = ALIVE + wp.min(mechs.fallen[e, m], 1) * FALLEN + mechs.shutdown[e, m] * SHUT_DOWN
    flags += wp.min(mechs.painted[e, m], 1) * PAINTED + wp.min(mechs.suppressed[e, m], 1) * SUPPRESSED
    flags += controls.ecm[e, m] * ECM + controls.eccm[e, m] * ECCM
    # at the first frame, the vent control still holds the action of the previous episode
    if not first_frame:
        flags += controls.vent[e, m] * VENT
    if mechs.leg_hp[e, m] <= 0.0:
        flags += LEGGED
    return flags


@wp.kernel
def record_condition(
    mechs: Mechs,
    controls: Controls,
    senses: Senses,
    journal: Journal,
    quantization: Quantization,
    recording: FrameLog,
    recording_out: FrameLog,
):
    """Write flags, focus target, painter and cooldowns of a mech, and mix its timers into the digest."""
    i, m = wp.tid()
    e = journal.journal_env[i]
    page = journal.journal_page[i]
    if journal.page_open[page] == 0:
        return
    row = recording.frame_count[page] % recording.frames.shape[1]
    count = mechs.alive.shape[1]
    flags = int(0)
    target = NO_MECH
    painter = NO_MECH
    if mechs.alive[e, m] == 1:
        flags = mech_flags(mechs, controls, e, m, recording.frame_count[page] == 0)
        flags += is_seen_by_hostile(mechs, senses, e, m) * SEEN
        target = controls.focus[e, m]
        if mechs.painted[e, m] > 0:
            painter = mechs.painter[e, m]
    recording_out.frames[page, row, frame_offset(FLAGS, m, count)] = flags
    recording_out.frames[page, row, frame_offset(FOCUS, m, count)] = target
    recording_out.frames[page, row, frame_offset(PAINTER, m, count)] = painter
    h = recording.digests[page, row, m] ^ wp.uint32(flags)
    h = mix(mix(mix(h) ^ wp.uint32(mechs.fallen[e, m])) ^ wp.uint32(mechs.painted[e, m]))
    h = mix(mix(h ^ wp.uint32(mechs.suppressed[e, m])) ^ wp.uint32(target))
    for k in range(NUM_COOLDOWNS):
        ticks = mechs.cooldown[e, m, k]
        h = mix(h ^ wp.uint32(ticks))
        offset = frame_offset(COOLDOWN, m * NUM_COOLDOWNS + k, count)
        value = column_value(quantization, COOLDOWN, float(ticks * mechs.alive[e, m]))
        recording_out.frames[page, row, offset] = value
    recording_out.digests[page, row, m] = h


@wp.func
def append_round(
    rounds: LiveRounds, quantization: Quantization, recording_out: FrameLog, page: int, e: int, m: int, s: int
):
    """Append round ``s`` of a mech to the round log; a full log only counts it."""
    n = recording_out.round_count[page]
    recording_out.round_count[page] = n + 1
    if n >= recording_out.round_log.shape[1]:
        return
    p = rounds.round_pos[e, m, s]
    v = rounds.round_vel[e, m, s]
    recording_out.round_log[page, n, 0] = recording_out.frame_count[page]
    recording_out.round_log[page, n, 1] = m
    recording_out.round_log[page, n, 2] = s
    recording_out.round_log[page, n, 3] = rounds.round_weapon[e, m, s]
    recording_out.round_log[page, n, 4] = rounds.round_age[e, m, s]
    for a in range(3):
        recording_out.round_log[page, n, ROUND_X + a] = int(wp.rint(p[a] * quantization.round_step[ROUND_X + a]))
    yaw = quantized_angle(arc_tan2(v[1], v[0]), quantization.round_step[ROUND_YAW], HALF_TURN)
    pitch = quantized_angle(arc_tan2(v[2], xy_length(v)), quantization.round_step[ROUND_PITCH], HALF_TURN)
    recording_out.round_log[page, n, ROUND_YAW] = yaw
    recording_out.round_log[page, n, ROUND_PITCH] = pitch


@wp.func
def append_cloud(recording_out: FrameLog, page: int, burst_tick: int, m: int, p: wp.vec3):
    """Append a smoke cloud to the cloud log; a full log only counts it."""
    n = recording_out.cloud_count[page]
    recording_out.cloud_count[page] = n + 1
    if n >= recording_out.cloud_log.shape[1]:
        return
    recording_out.cloud_log[page, n, 0] = burst_tick
    recording_out.cloud_log[page, n, 1] = m
    for a in range(3):
        steps = wp.clamp(wp.rint(p[a] * CLOUD_STEPS), 0.0, MAX_CLOUD_STEPS)
        recording_out.cloud_log[page, n, CLOUD_X + a] = int(steps)


@wp.kernel
def record_clouds(
    rules: Rules, episode: Episode, smoke: Smoke, journal: Journal, recording: FrameLog, recording_out: FrameLog
):
    """Log the smoke clouds that burst since the previous frame; at the first frame, all live clouds."""
    i = wp.tid()
    e = journal.journal_env[i]
    page = journal.journal_page[i]
    if journal.page_open[page] == 0 or smoke.clouds[e] == 0:
        return
    frame = recording.frame_count[page]
    previous = episode.tick[e] - rules.smoke_ticks - 1
    if frame > 0:
        previous = recording.frames[page, (frame - 1) % recording.frames.shape[1], 0]
    for m in range(smoke.cloud_ticks.shape[1]):
        for q in range(CLOUDS_PER_MECH):
            remaining = smoke.cloud_ticks[e, m, q]
            burst = episode.tick[e] - rules.smoke_ticks + remaining
            if remaining > 0 and burst > previous:
                append_cloud(recording_out, page, burst, m, smoke.cloud_pos[e, m, q])


@wp.kernel
def finish_frame(
    ended: wp.array(dtype=int),
    episode: Episode,
    knockdowns: wp.array2d(dtype=wp.int32),
    shutdowns: wp.array2d(dtype=wp.int32),
    rounds: LiveRounds,
    quantization: Quantization,
    journal: Journal,
    journal_out: Journal,
    recording: FrameLog,
    recording_out: FrameLog,
):
    """Write tick, scores, falls, shutdowns and live rounds; count the frame; close the page at the episode's end."""
    i = wp.tid()
    e = journal.journal_env[i]
    page = journal.journal_page[i]
    if journal.page_open[page] == 0:
        return
    frame = recording.frame_count[page]
    row = frame % recording.frames.shape[1]
    tick = episode.tick[e]
    recording_out.frames[page, row, 0] = tick
    for t in range(2):
        score = int(wp.rint(episode.score[e][t] * quantization.column_step[SCORE]))
        tonnage = int(wp.rint(episode.zone_tonnage[e][t] * quantization.column_step[TONNAGE]))
        recording_out.frames[page, row, 1 + t] = score
        recording_out.frames[page, row, 3 + t] = tonnage
    for m in range(knockdowns.shape[1]):
        if tick > 0 and knockdowns[e, m] > 0:
            append_row(journal_out, page, tick, FALL, m, NO_MECH, NO_MECH, 0.0, 0, NO_POSITION)
        if tick > 0 and shutdowns[e, m] > 0:
            append_row(journal_out, page, tick, SHUTDOWN, m, NO_MECH, NO_MECH, 0.0, 0, NO_POSITION)
        for s in range(ROUNDS_PER_MECH):
            if rounds.round_weapon[e, m, s] >= 0:
                append_round(rounds, quantization, recording_out, page, e, m, s)
    recording_out.frame_count[page] = frame + 1
    if ended[e] == 1:
        journal_out.page_open[page] = 0


def add_arrays(batch: Batch, count: int, ring: int, extra: Sequence[FrameColumn] = ()) -> None:
    """Allocate ``ring`` frames for each of ``count`` recorded environments, with ``extra`` columns at the end."""
    mechs, device = batch.num_mechs, batch.device
    width = Layout([column.to_header() for column in (*COLUMNS, *extra)], mechs).width
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


def launches(extra: Sequence[Launch] = ()) -> list[Launch]:
    """Return the launches that write a frame; ``extra`` launches run before the frame is counted."""
    mechs = [Launch(record_motion, "JM"), Launch(record_condition, "JM")]
    return in_phase("journal", [*mechs, *extra, Launch(record_clouds, "J"), Launch(finish_frame, "J")])
