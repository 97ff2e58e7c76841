# type: ignore
"""Changes to the voxels: damage by rounds and explosions, and the wrecks of dead mechs.

The threads of an environment share its voxel columns: each applies the few changes of a tick that lie in its columns,
in index order and with integer hit points, so the result does not depend on the number of threads. The bit planes, a
word a column, are updated with the materials. In recorded environments one thread has all columns, and logs every
replaced voxel.
"""

import warp as wp

from echelon.sim.geometry import boxes_overlap
from echelon.sim.kernels.motion import last_cell
from echelon.sim.rng import mix
from echelon.sim.state import ROUNDS_PER_MECH, Blasts, Episode, Journal, Mechs, World
from echelon.sim.tables import Rules
from echelon.sim.world import Material

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

AIR = wp.constant(int(Material.AIR))
DEBRIS_FIELD = wp.constant(int(Material.DEBRIS_FIELD))
SOLID_DEBRIS = wp.constant(int(Material.SOLID_DEBRIS))
DIRT = wp.constant(int(Material.DIRT))
UNRECORDED = wp.constant(-1)
"""Journal page of an environment that is not recorded."""
ROW_SHIFT = wp.constant(8)
"""Lanes between the columns of an x in neighbouring rows, so that a box eight columns wide falls on many lanes."""


@wp.func
def lanes_of(page: int, lanes: int) -> int:
    """Return the number of threads that share the columns of an environment: one if it is recorded."""
    if page != UNRECORDED:
        return 1
    return lanes


@wp.func
def first_column(x: int, y: int, lane: int, lanes: int) -> int:
    """Return the first column from ``x`` on of row ``y`` that belongs to ``lane``; every ``lanes``-th after it does."""
    ahead = (lane - x - ROW_SHIFT * y) % lanes
    if ahead < 0:
        ahead = ahead + lanes
    return x + ahead


@wp.func
def with_bit(word: wp.uint64, z: int, on: int) -> wp.uint64:
    bit = wp.uint64(1) << wp.uint64(z)
    if on == 1:
        return word | bit
    return word & ~bit


@wp.func
def page_of(journal: Journal, e: int) -> int:
    """Return the journal page of environment e, ``UNRECORDED`` if it is not recorded or its page is closed."""
    page = journal.edit_page[e]
    if page != UNRECORDED and journal.page_open[page] == 0:
        return UNRECORDED
    return page


@wp.func
def log_edit(journal_out: Journal, page: int, tick: int, index: int, kind: int):
    """Append a replaced voxel to a page; a full page only counts it."""
    n = journal_out.edit_count[page]
    journal_out.edit_count[page] = n + 1
    if n >= journal_out.edit_log.shape[1]:
        return
    journal_out.edit_log[page, n, 0] = tick
    journal_out.edit_log[page, n, 1] = index
    journal_out.edit_log[page, n, 2] = kind


@wp.func
def set_cell(
    rules: Rules, e: int, cell: wp.vec3i, kind: int, page: int, tick: int, world_out: World, journal_out: Journal
):
    """Replace a cell by intact material ``kind`` in material, hit points and bit planes, and log it on ``page``.

    The log numbers cells from 0 along z, then x, then y.
    """
    x = cell[0]
    y = cell[1]
    z = cell[2]
    if page != UNRECORDED and int(world_out.material[e, z, y, x]) != kind:
        size = world_out.size[e]
        log_edit(journal_out, page, tick, z + size[2] * (x + size[0] * y), kind)
    world_out.material[e, z, y, x] = wp.uint8(kind)
    world_out.voxel_hp[e, z, y, x] = wp.uint16(rules.materials[kind].hp)
    world_out.move_plane[e, y, x] = with_bit(world_out.move_plane[e, y, x], z, rules.materials[kind].blocks_move)
    world_out.sight_plane[e, y, x] = with_bit(world_out.sight_plane[e, y, x], z, rules.materials[kind].blocks_sight)
    world_out.shot_plane[e, y, x] = with_bit(world_out.shot_plane[e, y, x], z, rules.materials[kind].stops_shot)


@wp.func
def damage_cell(
    rules: Rules,
    e: int,
    cell: wp.vec3i,
    w: int,
    damage: float,
    page: int,
    tick: int,
    world_out: World,
    journal_out: Journal,
):
    """Subtract ``damage`` of weapon w from a cell's hit points; at 0 it becomes air, or dirt on the ground layer."""
    x = cell[0]
    y = cell[1]
    z = cell[2]
    kind = int(world_out.material[e, z, y, x])
    if rules.materials[kind].destructible == 0:
        return
    left = int(world_out.voxel_hp[e, z, y, x]) - int(damage * rules.voxel_damage[w, kind])
    if left > 0:
        world_out.voxel_hp[e, z, y, x] = wp.uint16(left)
    else:
        replacement = AIR
        if z == 0:
            replacement = DIRT
        set_cell(rules, e, cell, replacement, page, tick, world_out, journal_out)


@wp.func
def damage_sphere(
    rules: Rules,
    e: int,
    lane: wp.vec2i,
    c: wp.vec3,
    w: int,
    page: int,
    tick: int,
    world_out: World,
    journal_out: Journal,
):
    """Damage every cell whose centre lies within the splash radius of weapon w around ``c``, in columns of a lane.

    ``lane`` is (lane, number of lanes).
    """
    r = rules.weapons[w].splash_vox
    size = world_out.size[e]
    damage = rules.weapons[w].damage * rules.weapons[w].splash_scale
    x0 = wp.max(0, int(wp.floor(c[0] - r)))
    for z in range(wp.max(0, int(wp.floor(c[2] - r))), wp.min(size[2], int(wp.ceil(c[2] + r)))):
        for y in range(wp.max(0, int(wp.floor(c[1] - r))), wp.min(size[1], int(wp.ceil(c[1] + r)))):
            for x in range(first_column(x0, y, lane[0], lane[1]), wp.min(size[0], int(wp.ceil(c[0] + r))), lane[1]):
                if wp.length(wp.vec3(float(x) + 0.5, float(y) + 0.5, float(z) + 0.5) - c) <= r:
                    damage_cell(rules, e, wp.vec3i(x, y, z), w, damage, page, tick, world_out, journal_out)


@wp.kernel
def damage_terrain(
    rules: Rules, episode: Episode, blasts: Blasts, journal: Journal, lanes: int, world_out: World, journal_out: Journal
):
    """Damage the cells that rounds struck and those around explosions, in the columns of a lane."""
    e, lane = wp.tid()
    page = page_of(journal, e)
    tick = episode.tick[e]
    sharing = lanes_of(page, lanes)
    if lane >= sharing:
        return
    for m in range(blasts.impact_mask.shape[1]):
        if blasts.impact_mask[e, m] != 0 or blasts.blast_mask[e, m] != 0:
            for s in range(ROUNDS_PER_MECH):
                if (blasts.impact_mask[e, m] & (1 << s)) != 0:
                    w = blasts.impact_weapon[e, m, s]
                    cell = blasts.impact_cell[e, m, s]
                    if first_column(cell[0], cell[1], lane, sharing) == cell[0]:
                        damage_cell(rules, e, cell, w, rules.weapons[w].damage, page, tick, world_out, journal_out)
                w = blasts.blast_weapon[e, m, s]
                if (blasts.blast_mask[e, m] & (1 << s)) != 0 and rules.weapons[w].splash_vox > 0.0:
                    damage_sphere(
                        rules,
                        e,
                        wp.vec2i(lane, sharing),
                        blasts.blast_pos[e, m, s],
                        w,
                        page,
                        tick,
                        world_out,
                        journal_out,
                    )


@wp.func
def wreck_kind(rules: Rules, m: int, c: int, low: wp.vec3i, top: wp.vec3i) -> int:
    """Return the wreck's material, solid debris or debris field, from a hash of mech, class and box."""
    h = mix(wp.uint32(m) + wp.uint32(1))
    h = mix(h ^ wp.uint32(c + 1))
    for i in range(3):
        h = mix(h ^ wp.uint32(low[i]))
        h = mix(h ^ wp.uint32(top[i]))
    if float(h >> wp.uint32(8)) * (1.0 / 16777216.0) < rules.chassis[c].wreck_solid:
        return SOLID_DEBRIS
    return DEBRIS_FIELD


@wp.func
def overlaps_mech(rules: Rules, mechs: Mechs, e: int, x: int, y: int, z: int) -> bool:
    centre = wp.vec3(float(x) + 0.5, float(y) + 0.5, float(z) + 0.5)
    half = wp.vec3(0.5, 0.5, 0.5)
    for j in range(mechs.alive.shape[1]):
        if mechs.alive[e, j] == 1 and boxes_overlap(
            centre, half, mechs.pos[e, j], rules.chassis[mechs.chassis[e, j]].half
        ):
            return True
    return False


@wp.kernel
def stamp_wrecks(
    rules: Rules,
    world: World,
    mechs: Mechs,
    episode: Episode,
    journal: Journal,
    dying: wp.array2d(dtype=wp.int32),
    lanes: int,
    world_out: World,
    journal_out: Journal,
):
    """Turn the mechs that died in this phase into debris, in the columns of a lane."""
    e, lane = wp.tid()
    size = world.size[e]
    for m in range(mechs.alive.shape[1]):
        if dying[e, m] == 0:
            continue
        page = page_of(journal, e)
        sharing = lanes_of(page, lanes)
        p = mechs.pos[e, m]
        h = rules.chassis[mechs.chassis[e, m]].half
        low = wp.vec3i(int(wp.floor(p[0] - h[0])), int(wp.floor(p[1] - h[1])), int(wp.floor(p[2] - h[2])))
        top = wp.vec3i(last_cell(p[0] + h[0]), last_cell(p[1] + h[1]), last_cell(p[2] + h[2]))
        kind = wreck_kind(rules, m, mechs.chassis[e, m], low, top)
        x0 = wp.max(low[0], 0)
        x1 = wp.where(lane < sharing, wp.min(top[0], size[0] - 1), -1)
        for z in range(wp.max(low[2], 0), wp.min(top[2], size[2] - 1) + 1):
            for y in range(wp.max(low[1], 0), wp.min(top[1], size[1] - 1) + 1):
                for x in range(first_column(x0, y, lane, sharing), x1 + 1, sharing):
                    old = int(world.material[e, z, y, x])
                    if (old == AIR or old == DIRT) and not overlaps_mech(rules, mechs, e, x, y, z):
                        set_cell(rules, e, wp.vec3i(x, y, z), kind, page, episode.tick[e], world_out, journal_out)


@wp.kernel
def clear_dying(dying_out: wp.array2d(dtype=wp.int32)):
    """Clear the marks of the mechs that died in this phase, which every lane of ``stamp_wrecks`` has read by now."""
    e, m = wp.tid()
    dying_out[e, m] = 0
