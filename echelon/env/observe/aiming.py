# type: ignore
"""Blocks at the end of the suite layout: what a pilot aims by, and its course to the zone.

The columns of a contact are computed from its row as written, noise and memory included. Distances are absolute, while
those of the core are divided by the edge of the map, which no column shows.
"""

import warp as wp

from echelon.env import layout
from echelon.env.observe.helpers import ObsRows, as_flag, clear_columns, longest_edge, put, read, row_index
from echelon.nav.waypoints import CODE_GOAL, CODE_NONE, LOOK_AHEAD, FlowFields, cell_below, shortest_layer
from echelon.sim.geometry import clamp_unit, cos_sin, exponential, to_heading, xy_length
from echelon.sim.state import PACK, Controls, Mechs, World
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

AIMING = layout.position(layout.AIMING)
AIMING_DIM = wp.constant(len(layout.AIMING))
CONTACT = layout.position(layout.CONTACT, layout.offset("contacts"))
CONTACT_DIM = wp.constant(layout.CONTACT_DIM)
MASK_AT = wp.constant(layout.offset("contact_mask"))
COURSE = layout.position(layout.COURSE)
COURSE_DIM = wp.constant(len(layout.COURSE))
RANGE_VOX, MAX_RANGE = wp.constant(layout.RANGE_VOX), wp.constant(layout.MAX_RANGE)
NEAR_VOX = wp.constant(8.0)
"""Distance over which ``near`` falls to 1/e [vox]."""
FINE_GAIN = wp.constant(5.0)
"""Factor of ``bearing_fine`` on the sine of the bearing."""
LEAST = wp.constant(1.0e-7)
"""Distance below which a bearing is 0 [vox]."""
WEAPONS = wp.constant(NUM_WEAPONS)
PATH_CELLS = wp.constant(32)
"""Cells of a path that are walked for its length; the rest of the way counts as a straight line."""


@wp.func
def scaled_range(d: float) -> float:
    """Return a distance [vox] in units of RANGE_VOX, at most MAX_RANGE."""
    return wp.min(d / RANGE_VOX, MAX_RANGE)


@wp.func
def gun_reach(rules: Rules, c: int) -> float:
    """Return the longest range of a chassis' guns by own sight [vox], 0 without guns."""
    reach = float(0.0)
    for w in range(WEAPONS):
        if rules.trigger_of[c, w] >= 0 and rules.weapons[w].damage > 0.0:
            reach = wp.max(reach, rules.weapons[w].sight_range_vox)
    return reach


@wp.func
def pack_targets(mechs: Mechs, controls: Controls, e: int, m: int, j: int) -> float:
    """Return the share of packmates of mech m that are alive and whose last action chose j as target."""
    first = m - m % PACK
    count = int(0)
    for k in range(PACK):
        i = first + k
        if i != m and controls.focus[e, i] == j:
            count += mechs.alive[e, i]
    return float(count) / float(PACK - 1)


@wp.kernel
def write_aiming(
    rules: Rules,
    world: World,
    mechs: Mechs,
    controls: Controls,
    contact_rows: wp.int32,
    aiming_at: wp.int32,
    rows_out: ObsRows,
):
    """Write range, bearing and targets of every contact, after ``write_contacts``; empty rows are zero."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    edge = longest_edge(world.size[e])
    reach = gun_reach(rules, mechs.chassis[e, m])
    for k in range(contact_rows):
        at = aiming_at + k * AIMING_DIM
        clear_columns(row, at, AIMING_DIM)
        contact = k * CONTACT_DIM
        r = edge * wp.vec3(
            read(row, contact + CONTACT.ahead), read(row, contact + CONTACT.left), read(row, contact + CONTACT.up)
        )
        d = wp.length(r)
        if read(row, MASK_AT + k) == 0.0 and wp.isfinite(d):
            flat = wp.max(xy_length(r), LEAST)
            side = clamp_unit(r[1] / flat)
            j = controls.contact[e, m, k]
            put(row, at + AIMING.range, scaled_range(d))
            put(row, at + AIMING.near, exponential(-d / NEAR_VOX))
            put(row, at + AIMING.bearing_sin, side)
            put(row, at + AIMING.bearing_cos, clamp_unit(r[0] / flat))
            put(row, at + AIMING.bearing_fine, clamp_unit(FINE_GAIN * side) * as_flag(r[0] > 0.0))
            put(row, at + AIMING.in_reach, as_flag(d <= reach))
            put(row, at + AIMING.own_target, as_flag(controls.focus[e, m] == j))
            put(row, at + AIMING.pack_targets, pack_targets(mechs, controls, e, m, j))


@wp.func
def course(flow: FlowFields, layer: int, size: wp.vec3i, p: wp.vec3, foot: float, zone: wp.vec3) -> wp.vec3:
    """Return the direction (x, y) of the path to the zone and its length to the centre of the zone [vox].

    The direction is that of the cell LOOK_AHEAD steps ahead, by which scripted pilots steer. It is the straight line to
    the centre where there is no path, and where the path reaches the zone before that cell.
    """
    x = wp.clamp(int(p[0]), 0, size[0] - 1)
    y = wp.clamp(int(p[1]), 0, size[1] - 1)
    k = cell_below(flow, layer, x, y, foot)
    code = int(flow.bank_flow[layer, k, y, x])
    toward = wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0)
    straight = xy_length(toward)
    ahead = toward
    length = float(0.0)
    cells = int(0)
    while cells < PATH_CELLS and code != CODE_GOAL and code != CODE_NONE:
        dx = flow.flow_step[code, 0]
        dy = flow.flow_step[code, 1]
        x += dx
        y += dy
        k += flow.flow_step[code, 2]
        length += wp.sqrt(float(dx * dx + dy * dy))
        cells += 1
        code = int(flow.bank_flow[layer, k, y, x])
        if cells == LOOK_AHEAD and code != CODE_GOAL:
            ahead = wp.vec3(float(x) + 0.5 - p[0], float(y) + 0.5 - p[1], 0.0)
    rest = wp.vec3(zone[0] - float(x) - 0.5, zone[1] - float(y) - 0.5, 0.0)
    far = wp.max(xy_length(ahead), LEAST)
    return wp.vec3(ahead[0] / far, ahead[1] / far, wp.where(cells == 0, straight, length + xy_length(rest)))


@wp.kernel
def write_course(rules: Rules, flow: FlowFields, world: World, mechs: Mechs, course_at: wp.int32, rows_out: ObsRows):
    """Write range, bearing and radius of the zone, and the path to it; zero for a dead mech."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    if mechs.alive[e, m] == 0:
        for i in range(COURSE_DIM):
            put(row, course_at + i, 0.0)
        return
    c = mechs.chassis[e, m]
    p = mechs.pos[e, m]
    cs = cos_sin(mechs.yaw[e, m])
    zone = world.zone[e]
    to_zone = to_heading(wp.vec3(zone[0] - p[0], zone[1] - p[1], 0.0), cs)
    d = xy_length(to_zone)
    flat = wp.max(d, LEAST)
    layer = shortest_layer(world.map_slot[e], c)
    found = course(flow, layer, world.size[e], p, p[2] - rules.chassis[c].half[2], zone)
    path = to_heading(wp.vec3(found[0], found[1], 0.0), cs)
    put(row, course_at + COURSE.zone_range, scaled_range(d))
    put(row, course_at + COURSE.zone_sin, clamp_unit(to_zone[1] / flat))
    put(row, course_at + COURSE.zone_cos, clamp_unit(to_zone[0] / flat))
    put(row, course_at + COURSE.zone_radius, scaled_range(zone[2]))
    put(row, course_at + COURSE.path_sin, clamp_unit(path[1]))
    put(row, course_at + COURSE.path_cos, clamp_unit(path[0]))
    put(row, course_at + COURSE.path_length, scaled_range(found[2]))
