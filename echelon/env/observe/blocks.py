# type: ignore
"""Squad, map and target blocks, and the check for non-finite entries.

One thread per mech writes its own row of the observation buffer ``obs`` ``[T, N, D]``: row ``row_of`` [E, M] at time
``obs_row``. Mechs with row -1 are not observed and skipped. A dead mech's row is zero with all masks set. Columns are
those of ``echelon.env.layout``.
"""

from math import ceil, sqrt

import warp as wp

from echelon.env import layout
from echelon.env.display import DisplayRules
from echelon.env.observe.helpers import (
    ObsRows,
    all_finite,
    as_flag,
    clear_columns,
    has_living_target,
    longest_edge,
    put,
    read,
    row_index,
)
from echelon.env.observe.telemetry_map import TelemetryMap
from echelon.env.referee import StepOutcome
from echelon.sim.geometry import HALF_PI, cos_sin, to_heading, xy_length
from echelon.sim.state import PACK, Controls, Mechs, World
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
MAP_REACH = wp.constant(layout.LOCAL_MAP_R * sqrt(2.0) + 0.02)
"""Distance from the mech to the farthest point of the local map, rounded up [vox]."""
WINDOW_SIDE = wp.constant(ceil(2.0 * MAP_REACH) + 1)
"""Side of the square of cells that holds the local map at every heading."""
ALL_CELLS = wp.constant(wp.uint32(0xFFFFFFFF))
Window = wp.types.vector(length=WINDOW_SIDE, dtype=wp.uint32)
"""Cells of that square, a bit each and a word per row."""
BINS_PER_SIDE = wp.constant(layout.TELEMETRY_SIDE)
FARTHEST = wp.constant(1.0e30)
Mates = wp.types.vector(length=layout.MAX_SQUAD, dtype=wp.int32)
Distances = wp.types.vector(length=layout.MAX_SQUAD, dtype=wp.float32)
MAX_CLASS = wp.constant(float(len(layout.CLASSES) - 1))


@wp.func
def squad_mates(mechs: Mechs, e: int, m: int, rows: int) -> Mates:
    """Return the mech of each of ``rows`` squad rows, -1 none: packmates in roster order, then others by distance."""
    mates = Mates(-1)
    if rows == 0:
        return mates
    found = int(0)
    first = m - m % PACK
    for j in range(first, first + PACK):
        if j != m and mechs.present[e, j] == 1 and found < rows:
            mates[found] = j
            found += 1
    packmates = found
    distance = Distances()
    for j in range(mechs.team.shape[1]):
        if mechs.present[e, j] == 1 and mechs.team[e, j] == mechs.team[e, m] and mechs.pack[e, j] != mechs.pack[e, m]:
            d = wp.length(mechs.pos[e, j] - mechs.pos[e, m])
            if d < FARTHEST and (found < rows or d < distance[rows - 1]):
                at = wp.min(found, rows - 1)
                while at > packmates and d < distance[at - 1]:
                    distance[at] = distance[at - 1]
                    mates[at] = mates[at - 1]
                    at -= 1
                distance[at] = d
                mates[at] = j
                found = wp.min(found + 1, rows)
    return mates


@wp.func
def primary_ready(rules: Rules, mechs: Mechs, e: int, m: int) -> bool:
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
    outcome: StepOutcome,
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
    put(row_out, at + SQUAD.bearing_sin, rel[1] / flat)
    put(row_out, at + SQUAD.bearing_cos, rel[0] / flat)
    put(row_out, at + SQUAD.distance, wp.length(rel) / edge)
    put(row_out, at + SQUAD.alive, living)
    if detail >= 1:
        put(row_out, at + SQUAD.hull, living * wp.clamp(mechs.hp[e, j] / rules.chassis[c].hp, 0.0, 1.0))
        heat = wp.clamp(mechs.heat[e, j] / (rules.chassis[c].heat_cap * display.heat_scale), 0.0, 1.0)
        put(row_out, at + SQUAD.heat, living * heat)
        engaged = outcome.engaged[e, j] > 0 or has_living_target(mechs, controls, e, j)
        put(row_out, at + SQUAD.engaged, living * as_flag(engaged))
        put(row_out, at + SQUAD.class_, float(c) / MAX_CLASS)
    if detail >= 2:
        put(row_out, at + SQUAD.stability, living * mechs.stability[e, j] / rules.max_stability)
        put(row_out, at + SQUAD.primary_ready, living * as_flag(primary_ready(rules, mechs, e, j)))


@wp.kernel
def write_squad(
    rules: Rules,
    display: DisplayRules,
    squad_detail: wp.array(dtype=wp.int32),
    squad_slots: wp.array(dtype=wp.int32),
    world: World,
    mechs: Mechs,
    controls: Controls,
    outcome: StepOutcome,
    rows_out: ObsRows,
):
    """Write the squad rows, their mask and ``panel.squad``, as detailed as the suite allows."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    cs = cos_sin(mechs.yaw[e, m])
    edge = longest_edge(world.size[e])
    detail = squad_detail[mechs.chassis[e, m]]
    mates = squad_mates(mechs, e, m, squad_slots[mechs.chassis[e, m]] * mechs.alive[e, m])
    living = int(0)
    for k in range(MAX_SQUAD):
        at = SQUAD_AT + k * SQUAD_DIM
        j = mates[k]
        clear_columns(row, at, SQUAD_DIM)
        put(row, SQUAD_MASK_AT + k, as_flag(j < 0))
        if j >= 0:
            living += mechs.alive[e, j]
            rel = to_heading(mechs.pos[e, j] - mechs.pos[e, m], cs)
            write_squad_row(rules, display, mechs, controls, outcome, e, j, rel, edge, detail, at, row)
    put(row, PANEL.squad, float(living) / float(MAX_SQUAD))


@wp.func_native(
    """
    const wp::uint64* columns = &wp::index(plane, e, y, x);
    wp::uint32 bits = 0;
    #ifdef __CUDA_ARCH__
    #pragma unroll 1
    #else
    #pragma clang loop vectorize_width(8) interleave_count(1)
    #endif
    for (int i = 0; i < count; ++i)
        bits |= wp::uint32((columns[i] & layers) == 0) << i;
    return bits;
    """
)
def free_bits(plane: wp.array3d(dtype=wp.uint64), e: int, y: int, x: int, count: int, layers: wp.uint64) -> wp.uint32:
    """Return which of ``count`` columns from x on in row y have none of ``layers`` set, a bit each.

    Native, since vector loads of contiguous columns keep many cache misses in flight.
    """
    ...


@wp.func
def read_window(world: World, e: int, x0: int, y0: int, layers: wp.uint64) -> Window:
    """Return which cells of the window from (x0, y0) on do not block one of ``layers``; cells outside the map do."""
    size = world.size[e]
    count = wp.min(WINDOW_SIDE, world.move_plane.shape[2])
    x = wp.clamp(x0, 0, world.move_plane.shape[2] - count)
    inside = wp.uint32(0)
    if x < size[0]:
        inside = ALL_CELLS >> wp.uint32(32 - wp.min(count, size[0] - x))
    window = Window()
    for k in range(WINDOW_SIDE):
        if y0 + k >= 0 and y0 + k < size[1]:
            bits = free_bits(world.move_plane, e, y0 + k, x, count, layers) & inside
            if x > x0:
                window[k] = bits << wp.uint32(wp.min(x - x0, WINDOW_SIDE))
            else:
                window[k] = bits >> wp.uint32(wp.min(x0 - x, WINDOW_SIDE))
    return window


@wp.kernel
def write_local_map(world: World, mechs: Mechs, local_map_at: wp.int32, low_layers: wp.uint64, rows_out: ObsRows):
    """Write which cells around the mech, in its heading frame, block walking; cells outside the map do.

    ``low_layers`` has a bit set for each layer that a walking mech occupies.
    """
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    cs = cos_sin(mechs.yaw[e, m])
    p = mechs.pos[e, m]
    if mechs.alive[e, m] == 0:
        clear_columns(row, local_map_at, MAP_SIDE * MAP_SIDE)
        return
    x0 = int(wp.floor(p[0] - MAP_REACH))
    y0 = int(wp.floor(p[1] - MAP_REACH))
    window = read_window(world, e, x0, y0, low_layers)
    for i in range(MAP_SIDE):
        ahead = float(i - MAP_R)
        for j in range(MAP_SIDE):
            left = float(j - MAP_R)
            x = int(wp.floor(p[0] + cs[0] * ahead - cs[1] * left))
            y = int(wp.floor(p[1] + cs[1] * ahead + cs[0] * left))
            # clamped for positions and headings that are not finite
            bits = window[wp.clamp(y - y0, 0, WINDOW_SIDE - 1)]
            free = (bits >> wp.uint32(wp.clamp(x - x0, 0, WINDOW_SIDE - 1))) & wp.uint32(1)
            put(row, local_map_at + i * MAP_SIDE + j, 1.0 - float(free))


@wp.kernel
def write_telemetry(mechs: Mechs, telemetry_map: TelemetryMap, telemetry_at: wp.int32, rows_out: ObsRows):
    """Write the telemetry map, rows from rear to front, columns from right to left.

    It is rotated by the quarter turn nearest to the heading, so that every bin is shown whole and "ahead" means the
    same in all maps of a row.
    """
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
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
            put(row, telemetry_at + i * BINS_PER_SIDE + j, living * blocked)


@wp.kernel
def write_target(mechs: Mechs, controls: Controls, target_at: wp.int32, rows_out: ObsRows):
    """Write which contact slot the last action chose as target, and whether the target is alive."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    alive = mechs.alive[e, m] == 1
    for i in range(TARGET_SLOTS):
        put(row, target_at + TARGET.slot_0 + i, as_flag(alive and controls.focus_slot[e, m] == i))
    put(row, target_at + TARGET.locked, as_flag(alive and has_living_target(mechs, controls, e, m)))


@wp.kernel
def replace_nonfinite(
    controls: Controls,
    contact_rows: wp.int32,
    checked_columns: wp.vec4i,
    rows_out: ObsRows,
    bad_obs_out: wp.array2d(dtype=wp.int32),
):
    """Replace the non-finite entries of a finished row by 0 and count them.

    ``checked_columns`` are two ranges to check besides the filled contact rows; all others hold 0 or 1.
    """
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    filled = int(0)
    for k in range(contact_rows):
        if controls.contact[e, m, k] >= 0:
            filled = k + 1
    bad = int(0)
    finite = all_finite(row, 0, filled * CONTACT_DIM)
    finite = finite and all_finite(row, checked_columns[0], checked_columns[1] - checked_columns[0])
    finite = finite and all_finite(row, checked_columns[2], checked_columns[3] - checked_columns[2])
    if not finite:
        for i in range(row.shape[0]):
            if not wp.isfinite(read(row, i)):
                put(row, i, 0.0)
                bad += 1
    bad_obs_out[e, m] = bad
