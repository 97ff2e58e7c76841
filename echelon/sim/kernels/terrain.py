"""Changes to the voxels: impacts of rounds and the wrecks of the dead.

One thread per environment applies a tick's few changes in index order, with integer hit points, so the result
depends on nothing else. Bit planes follow the materials cell by cell.
Where an environment is recorded, every replaced cell is written down as it is replaced.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.geometry import boxes_overlap
from echelon.sim.kernels.motion import last_cell
from echelon.sim.rng import mix
from echelon.sim.state import ROUNDS_PER_MECH
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

AIR = wp.constant(0)
DEBRIS_FIELD = wp.constant(4)
SOLID_DEBRIS = wp.constant(5)
DIRT = wp.constant(6)
UNRECORDED = wp.constant(-1)
"""Page of an environment whose edits nobody keeps."""


@wp.func
def with_bit(word: wp.uint64, z: int, on: int) -> wp.uint64:
    """A column word with bit z set or cleared."""
    bit = wp.uint64(1) << wp.uint64(z)
    if on == 1:
        return word | bit
    return word & ~bit


@wp.func
def page_of(edit_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), e: int) -> int:
    """Where the edits of environment e are written down, ``UNRECORDED`` where nobody keeps them."""
    page = edit_page[e]
    if page != UNRECORDED and page_open[page] == 0:
        return UNRECORDED
    return page


@wp.func
def log_edit(
    edit_log: wp.array3d(dtype=wp.int32), edit_count: wp.array(dtype=wp.int32), page: int, tick: int, cell: int, kind: int,
):
    """Append an edit, or only count it where the log is full."""
    n = edit_count[page]
    edit_count[page] = n + 1
    if n >= edit_log.shape[1]:
        return
    edit_log[page, n, 0] = tick
    edit_log[page, n, 1] = cell
    edit_log[page, n, 2] = kind


@wp.func
def set_cell(
    rules: Rules, material: wp.array4d(dtype=wp.uint8), voxel_hp: wp.array4d(dtype=wp.uint16), move_plane: wp.array3d(dtype=wp.uint64), sight_plane: wp.array3d(dtype=wp.uint64), shot_plane: wp.array3d(dtype=wp.uint64), edit_log: wp.array3d(dtype=wp.int32), edit_count: wp.array(dtype=wp.int32),
    size: wp.vec3i, page: int, tick: int, e: int, x: int, y: int, z: int, kind: int,
):
    """Replace a cell by fresh material ``kind``, keep planes and hit points true, and note it on ``page``.

    Notes count cells from 0 along z, then x, then y.
    """
    if page != UNRECORDED and int(material[e, z, y, x]) != kind:
        log_edit(edit_log, edit_count, page, tick, z + size[2] * (x + size[0] * y), kind)
    material[e, z, y, x] = wp.uint8(kind)
    voxel_hp[e, z, y, x] = rules.material_hp[kind]
    move_plane[e, y, x] = with_bit(move_plane[e, y, x], z, rules.material_move[kind])
    sight_plane[e, y, x] = with_bit(sight_plane[e, y, x], z, rules.material_sight[kind])
    shot_plane[e, y, x] = with_bit(shot_plane[e, y, x], z, rules.material_shot[kind])


@wp.func
def hurt_cell(
    rules: Rules, material: wp.array4d(dtype=wp.uint8), voxel_hp: wp.array4d(dtype=wp.uint16), move_plane: wp.array3d(dtype=wp.uint64), sight_plane: wp.array3d(dtype=wp.uint64), shot_plane: wp.array3d(dtype=wp.uint64), edit_log: wp.array3d(dtype=wp.int32), edit_count: wp.array(dtype=wp.int32),
    size: wp.vec3i, page: int, tick: int, e: int, x: int, y: int, z: int, damage: int,
):
    """Take hit points from a cell; a spent one becomes air, or dirt on the ground layer."""
    if rules.material_destructible[int(material[e, z, y, x])] == 0:
        return
    left = int(voxel_hp[e, z, y, x]) - damage
    if left > 0:
        voxel_hp[e, z, y, x] = wp.uint16(left)
    else:
        rest = AIR
        if z == 0:
            rest = DIRT
        set_cell(rules, material, voxel_hp, move_plane, sight_plane, shot_plane, edit_log, edit_count, size, page, tick, e, x, y, z, rest)


@wp.func
def hurt_around(
    rules: Rules, material: wp.array4d(dtype=wp.uint8), voxel_hp: wp.array4d(dtype=wp.uint16), move_plane: wp.array3d(dtype=wp.uint64), sight_plane: wp.array3d(dtype=wp.uint64), shot_plane: wp.array3d(dtype=wp.uint64), edit_log: wp.array3d(dtype=wp.int32), edit_count: wp.array(dtype=wp.int32),
    size: wp.vec3i, page: int, tick: int, e: int, c: wp.vec3, w: int,
):
    """Damage every cell whose centre lies within the splash of weapon w around c."""
    r = rules.weapon_splash[w]
    damage = int(rules.weapon_damage[w] * rules.weapon_splash_scale[w])
    for z in range(wp.max(0, int(wp.floor(c[2] - r))), wp.min(size[2], int(wp.ceil(c[2] + r)))):
        for y in range(wp.max(0, int(wp.floor(c[1] - r))), wp.min(size[1], int(wp.ceil(c[1] + r)))):
            for x in range(wp.max(0, int(wp.floor(c[0] - r))), wp.min(size[0], int(wp.ceil(c[0] + r)))):
                if wp.length(wp.vec3(float(x) + 0.5, float(y) + 0.5, float(z) + 0.5) - c) <= r:
                    hurt_cell(rules, material, voxel_hp, move_plane, sight_plane, shot_plane, edit_log, edit_count, size, page, tick, e, x, y, z, damage)


@wp.kernel
def erode(
    # rules
    rules: Rules,
    # world
    size: wp.array(dtype=wp.vec3i),
    # state in
    tick: wp.array(dtype=wp.int32), edit_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32),
    # events
    impact_mask: wp.array2d(dtype=wp.int32), impact_cell: wp.array3d(dtype=wp.vec3i), impact_weapon: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), blast_pos: wp.array3d(dtype=wp.vec3), blast_weapon: wp.array3d(dtype=wp.int32),
    # state out
    material: wp.array4d(dtype=wp.uint8), voxel_hp: wp.array4d(dtype=wp.uint16), move_plane: wp.array3d(dtype=wp.uint64), sight_plane: wp.array3d(dtype=wp.uint64), shot_plane: wp.array3d(dtype=wp.uint64),
    # scratch
    edit_log: wp.array3d(dtype=wp.int32), edit_count: wp.array(dtype=wp.int32),
):
    """Damage the cells that rounds struck and those around explosions."""
    e = wp.tid()
    page = page_of(edit_page, page_open, e)
    for m in range(impact_mask.shape[1]):
        if impact_mask[e, m] != 0 or blast_mask[e, m] != 0:
            for s in range(ROUNDS_PER_MECH):
                if (impact_mask[e, m] & (1 << s)) != 0:
                    cell = impact_cell[e, m, s]
                    damage = int(rules.weapon_damage[impact_weapon[e, m, s]])
                    hurt_cell(rules, material, voxel_hp, move_plane, sight_plane, shot_plane, edit_log, edit_count, size[e], page, tick[e], e, cell[0], cell[1], cell[2], damage)
                w = blast_weapon[e, m, s]
                if (blast_mask[e, m] & (1 << s)) != 0 and rules.weapon_splash[w] > 0.0:
                    hurt_around(rules, material, voxel_hp, move_plane, sight_plane, shot_plane, edit_log, edit_count, size[e], page, tick[e], e, blast_pos[e, m, s], w)


@wp.func
def wreck_kind(rules: Rules, m: int, c: int, low: wp.vec3i, top: wp.vec3i) -> int:
    """Solid debris or a debris field, decided by a hash of mech, class and box alone."""
    h = mix(wp.uint32(m) + wp.uint32(1))
    h = mix(h ^ wp.uint32(c + 1))
    for i in range(3):
        h = mix(h ^ wp.uint32(low[i]))
        h = mix(h ^ wp.uint32(top[i]))
    if float(h >> wp.uint32(8)) * (1.0 / 16777216.0) < rules.wreck_solid[c]:
        return SOLID_DEBRIS
    return DEBRIS_FIELD


@wp.func
def meets_mech(
    rules: Rules, alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), e: int, x: int, y: int, z: int
) -> bool:
    """Whether a living mech's box intersects a cell."""
    centre = wp.vec3(float(x) + 0.5, float(y) + 0.5, float(z) + 0.5)
    half = wp.vec3(0.5, 0.5, 0.5)
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and boxes_overlap(centre, half, pos[e, j], rules.half[chassis[e, j]]):
            return True
    return False


@wp.kernel
def stamp_wrecks(
    # rules
    rules: Rules,
    # world
    size: wp.array(dtype=wp.vec3i),
    # state in
    tick: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), edit_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32),
    # events
    dying: wp.array2d(dtype=wp.int32),
    # state out
    material: wp.array4d(dtype=wp.uint8), voxel_hp: wp.array4d(dtype=wp.uint16), move_plane: wp.array3d(dtype=wp.uint64), sight_plane: wp.array3d(dtype=wp.uint64), shot_plane: wp.array3d(dtype=wp.uint64),
    # scratch
    edit_log: wp.array3d(dtype=wp.int32), edit_count: wp.array(dtype=wp.int32),
):
    """Turn the mechs that died in this phase into debris, at the end of it."""
    e = wp.tid()
    for m in range(alive.shape[1]):
        if dying[e, m] == 0:
            continue
        dying[e, m] = 0
        page = page_of(edit_page, page_open, e)
        p = pos[e, m]
        h = rules.half[chassis[e, m]]
        low = wp.vec3i(int(wp.floor(p[0] - h[0])), int(wp.floor(p[1] - h[1])), int(wp.floor(p[2] - h[2])))
        top = wp.vec3i(last_cell(p[0] + h[0]), last_cell(p[1] + h[1]), last_cell(p[2] + h[2]))
        kind = wreck_kind(rules, m, chassis[e, m], low, top)
        for z in range(wp.max(low[2], 0), wp.min(top[2], size[e][2] - 1) + 1):
            for y in range(wp.max(low[1], 0), wp.min(top[1], size[e][1] - 1) + 1):
                for x in range(wp.max(low[0], 0), wp.min(top[0], size[e][0] - 1) + 1):
                    old = int(material[e, z, y, x])
                    if (old == AIR or old == DIRT) and not meets_mech(rules, alive, chassis, pos, e, x, y, z):
                        set_cell(rules, material, voxel_hp, move_plane, sight_plane, shot_plane, edit_log, edit_count, size[e], page, tick[e], e, x, y, z, kind)
