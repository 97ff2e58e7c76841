"""Squad, message, map and target blocks, and the check for non-finite entries.

One thread per mech writes its own row of the observation buffer ``obs`` ``[T, N, D]``: row ``row_of`` [E, M] at time
``obs_row``. Mechs with row -1 are not observed and skipped. A dead mech's row is zero with all masks set. Columns are
those of ``echelon.env.layout``.
"""

import warp as wp

from echelon.config import PACK_SIZE
from echelon.env import layout
from echelon.env.display import DisplayRules
from echelon.env.observe.helpers import as_flag, has_living_target, longest_edge
from echelon.env.observe.telemetry_map import TelemetryMap
from echelon.env.referee import Outcome
from echelon.sim.geometry import HALF_PI, cos_sin, to_heading, xy_length
from echelon.sim.state import Controls, Mechs, World
from echelon.sim.tables import Rules

# the nested loops over the local map would be unrolled into 121 copies, a minute to compile
wp.set_module_options({"enable_backward": False, "fuse_fp": False, "max_unroll": 8})

CONTACT_DIM = wp.constant(layout.CONTACT_DIM)
SQUAD_AT = wp.constant(layout.offset("squad"))
SQUAD_MASK_AT = wp.constant(layout.offset("squad_mask"))
SQUAD_DIM = wp.constant(layout.SQUAD_DIM)
MAX_SQUAD = wp.constant(layout.MAX_SQUAD)
SQUAD = layout.position(layout.SQUAD)
PANEL = layout.position(layout.PANEL, layout.offset("panel"))
TARGET = layout.position(layout.TARGET.features)
TARGET_SLOTS = wp.constant(layout.CLASSIC_SLOTS)
MAP_R = wp.constant(layout.LOCAL_MAP_R)
MAP_SIDE = wp.constant(layout.LOCAL_MAP_SIDE)
BINS_PER_SIDE = wp.constant(layout.TELEMETRY_SIDE)
PACK = wp.constant(PACK_SIZE)
PACKMATE = wp.constant(-1.0)
"""Sort distance of packmates, before all others."""
MAX_CLASS = wp.constant(float(len(layout.CLASSES) - 1))


@wp.func
def next_squad_row(mechs: Mechs, e: int, m: int, last_distance: float, last_mech: int) -> wp.vec2:
    """Return (distance, mech) of the squad row after the last one: packmates in roster order, then by distance."""
    best = wp.vec2(1.0e30, -1.0)
    if last_distance <= PACKMATE:
        first = m - m % PACK
        for j in range(first, first + PACK):
            if j != m and mechs.present[e, j] == 1 and (last_distance < PACKMATE or j > last_mech):
                return wp.vec2(PACKMATE, float(j))
    for j in range(mechs.team.shape[1]):
        same_team = mechs.team[e, j] == mechs.team[e, m]
        if mechs.present[e, j] == 1 and same_team and mechs.pack[e, j] != mechs.pack[e, m]:
            d = wp.length(mechs.pos[e, j] - mechs.pos[e, m])
            later = d > last_distance or (d == last_distance and j > last_mech)
            if later and d < best[0]:
                best = wp.vec2(d, float(j))
    return best


@wp.func
def primary_ready(rules: Rules, mechs: Mechs, e: int, m: int) -> bool:
    """Whether the weapon on the first trigger of a mech is off cooldown."""
    c = mechs.chassis[e, m]
    for w in range(rules.trigger_of.shape[1]):
        if rules.trigger_of[c, w] == 0:
            return mechs.cooldown[e, m, rules.weapons[w].cooldown] == 0
    return False


@wp.func
def write_squad_row(
    rules: Rules,
    display: DisplayRules,
    mechs: Mechs,
    controls: Controls,
    outcome: Outcome,
    e: int,
    j: int,
    rel: wp.vec3,
    edge: float,
    detail: int,
    at: int,
    row_out: wp.array(dtype=wp.float32),
):
    """Write the columns of squadmate j at relative position ``rel`` from column ``at`` on, up to a detail level."""
    c = mechs.chassis[e, j]
    living = float(mechs.alive[e, j])
    flat = wp.max(xy_length(rel), 1.0e-7)
    row_out[at + SQUAD.bearing_sin] = rel[1] / flat
    row_out[at + SQUAD.bearing_cos] = rel[0] / flat
    row_out[at + SQUAD.distance] = wp.length(rel) / edge
    row_out[at + SQUAD.alive] = living
    if detail >= 1:
        row_out[at + SQUAD.hull] = living * wp.clamp(mechs.hp[e, j] / rules.chassis[c].hp, 0.0, 1.0)
        heat = wp.clamp(mechs.heat[e, j] / (rules.chassis[c].heat_cap * display.heat_scale), 0.0, 1.0)
        row_out[at + SQUAD.heat] = living * heat
        engaged = outcome.engaged[e, j] > 0 or has_living_target(mechs, controls, e, j)
        row_out[at + SQUAD.engaged] = living * as_flag(engaged)
        row_out[at + SQUAD.class_] = float(c) / MAX_CLASS
    if detail >= 2:
        row_out[at + SQUAD.stability] = living * mechs.stability[e, j] / rules.max_stability
        row_out[at + SQUAD.primary_ready] = living * as_flag(primary_ready(rules, mechs, e, j))


@wp.kernel
def write_squad(
    rules: Rules,
    display: DisplayRules,
    squad_detail: wp.array(dtype=wp.int32),
    squad_slots: wp.array(dtype=wp.int32),
    world: World,
    mechs: Mechs,
    controls: Controls,
    outcome: Outcome,
    fresh: wp.array(dtype=wp.int32),
    row_of: wp.array2d(dtype=wp.int32),
    obs_row: wp.array(dtype=wp.int32),
    obs_out: wp.array3d(dtype=wp.float32),
):
    """Write the squad rows, their mask and ``panel.squad``, as detailed as the suite allows."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    row = obs_out[obs_row[0], n]
    cs = cos_sin(mechs.yaw[e, m])
    edge = longest_edge(world.size[e])
    slots = squad_slots[mechs.chassis[e, m]] * mechs.alive[e, m]
    detail = squad_detail[mechs.chassis[e, m]]
    last = wp.vec2(-2.0, -1.0)
    mates = int(0)
    for k in range(MAX_SQUAD):
        at = SQUAD_AT + k * SQUAD_DIM
        j = int(-1)
        if k < slots:
            last = next_squad_row(mechs, e, m, last[0], int(last[1]))
            j = int(last[1])
        for i in range(SQUAD_DIM):
            row[at + i] = 0.0
        row[SQUAD_MASK_AT + k] = as_flag(j < 0)
        if j < 0:
            slots = 0
        else:
            mates += mechs.alive[e, j]
            rel = to_heading(mechs.pos[e, j] - mechs.pos[e, m], cs)
            write_squad_row(rules, display, mechs, controls, outcome, e, j, rel, edge, detail, at, row)
    row[PANEL.squad] = float(mates) / float(MAX_SQUAD)


@wp.kernel
def write_messages(
    rules: Rules,
    mechs: Mechs,
    controls: Controls,
    fresh: wp.array(dtype=wp.int32),
    row_of: wp.array2d(dtype=wp.int32),
    obs_row: wp.array(dtype=wp.int32),
    comms_at: wp.int32,
    obs_out: wp.array3d(dtype=wp.float32),
):
    """Write the messages that the pack sent in the last step, in roster order, the own message included."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    row = obs_out[obs_row[0], n]
    first = (m // PACK) * PACK
    for k in range(PACK):
        received = float(mechs.alive[e, first + k] * mechs.alive[e, m])
        for i in range(rules.comm_dim):
            row[comms_at + k * rules.comm_dim + i] = received * controls.message[e, first + k, i]


@wp.kernel
def write_local_map(
    world: World,
    mechs: Mechs,
    fresh: wp.array(dtype=wp.int32),
    row_of: wp.array2d(dtype=wp.int32),
    obs_row: wp.array(dtype=wp.int32),
    local_map_at: wp.int32,
    low_layers: wp.uint64,
    obs_out: wp.array3d(dtype=wp.float32),
):
    """Write which cells around the mech, in its heading frame, block walking; cells outside the map do.

    ``low_layers`` has a bit set for each layer that a walking mech occupies.
    """
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    row = obs_out[obs_row[0], n]
    cs = cos_sin(mechs.yaw[e, m])
    p = mechs.pos[e, m]
    size = world.size[e]
    for i in range(MAP_SIDE):
        ahead = float(i - MAP_R)
        for j in range(MAP_SIDE):
            left = float(j - MAP_R)
            x = int(wp.floor(p[0] + cs[0] * ahead - cs[1] * left))
            y = int(wp.floor(p[1] + cs[1] * ahead + cs[0] * left))
            blocked = bool(True)
            if x >= 0 and y >= 0 and x < size[0] and y < size[1]:
                blocked = (world.move_plane[e, y, x] & low_layers) != wp.uint64(0)
            row[local_map_at + i * MAP_SIDE + j] = float(mechs.alive[e, m]) * as_flag(blocked)


@wp.kernel
def write_telemetry(
    mechs: Mechs,
    telemetry_map: TelemetryMap,
    fresh: wp.array(dtype=wp.int32),
    row_of: wp.array2d(dtype=wp.int32),
    obs_row: wp.array(dtype=wp.int32),
    telemetry_at: wp.int32,
    obs_out: wp.array3d(dtype=wp.float32),
):
    """Write the telemetry map, rows from rear to front, columns from right to left.

    It is rotated by the quarter turn nearest to the heading, so that every bin is shown whole and "ahead" means the
    same in all maps of a row.
    """
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    row = obs_out[obs_row[0], n]
    quarter = int(wp.floor(mechs.yaw[e, m] / HALF_PI + 0.5)) & 3
    living = float(mechs.alive[e, m])
    for i in range(BINS_PER_SIDE):
        for j in range(BINS_PER_SIDE):
            x = i
            y = j
            if quarter == 1:
                x = BINS_PER_SIDE - 1 - j
                y = i
            if quarter == 2:
                x = BINS_PER_SIDE - 1 - i
                y = BINS_PER_SIDE - 1 - j
            if quarter == 3:
                x = j
                y = BINS_PER_SIDE - 1 - i
            blocked = float(telemetry_map.telemetry[e, x * BINS_PER_SIDE + y])
            row[telemetry_at + i * BINS_PER_SIDE + j] = living * blocked


@wp.kernel
def write_target(
    mechs: Mechs,
    controls: Controls,
    fresh: wp.array(dtype=wp.int32),
    row_of: wp.array2d(dtype=wp.int32),
    obs_row: wp.array(dtype=wp.int32),
    target_at: wp.int32,
    obs_out: wp.array3d(dtype=wp.float32),
):
    """Write which contact slot the last action chose as target, and whether the target is alive."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    row = obs_out[obs_row[0], n]
    alive = mechs.alive[e, m] == 1
    for i in range(TARGET_SLOTS):
        row[target_at + TARGET.slot_0 + i] = as_flag(alive and controls.focus_slot[e, m] == i)
    row[target_at + TARGET.locked] = as_flag(alive and has_living_target(mechs, controls, e, m))


@wp.func
def nonfinite_sum(row: wp.array(dtype=wp.float32), start: int, end: int) -> float:
    """Return 0 if every entry from ``start`` to ``end`` is finite, else NaN."""
    # 0 * x is 0 unless x is not finite; four sums avoid one chain of dependent additions
    a = float(0.0)
    b = float(0.0)
    c = float(0.0)
    d = float(0.0)
    fours = (end - start) // 4
    for q in range(fours):
        i = start + 4 * q
        a += 0.0 * row[i]
        b += 0.0 * row[i + 1]
        c += 0.0 * row[i + 2]
        d += 0.0 * row[i + 3]
    for i in range(start + 4 * fours, end):
        a += 0.0 * row[i]
    return a + b + c + d


@wp.kernel
def replace_nonfinite(
    controls: Controls,
    fresh: wp.array(dtype=wp.int32),
    row_of: wp.array2d(dtype=wp.int32),
    obs_row: wp.array(dtype=wp.int32),
    contact_rows: wp.int32,
    checked_columns: wp.vec4i,
    obs_out: wp.array3d(dtype=wp.float32),
    bad_obs_out: wp.array2d(dtype=wp.int32),
):
    """Replace the non-finite entries of a finished row by 0 and count them.

    ``checked_columns`` are two ranges to check besides the filled contact rows; all others hold 0 or 1.
    """
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    row = obs_out[obs_row[0], n]
    filled = int(0)
    for k in range(contact_rows):
        if controls.contact[e, m, k] >= 0:
            filled = k + 1
    bad = int(0)
    found = nonfinite_sum(row, 0, filled * CONTACT_DIM)
    found = found + nonfinite_sum(row, checked_columns[0], checked_columns[1])
    found = found + nonfinite_sum(row, checked_columns[2], checked_columns[3])
    if not wp.isfinite(found):
        for i in range(row.shape[0]):
            if not wp.isfinite(row[i]):
                row[i] = 0.0
                bad += 1
    bad_obs_out[e, m] = bad
