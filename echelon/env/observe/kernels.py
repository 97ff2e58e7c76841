"""Fills the columns of ``observe``: one thread per mech writes its own row of the rollout buffer.

Mechs whose row is -1 are not learners and are skipped. A dead mech's row is zero with all masks set. Distances are
in units of the map's longest edge; features follow the tables in ``observe``. ``observe_contacts`` has the contacts.
"""

# ruff: noqa: E501
import warp as wp

from echelon.config import PACK_SIZE
from echelon.env import layout
from echelon.sim.geometry import cos_sin, to_heading, xy_length
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SQUAD_AT = wp.constant(layout.offset("squad"))
SQUAD_MASK_AT = wp.constant(layout.offset("squad_mask"))
PANEL_AT = wp.constant(layout.offset("panel"))
PANEL_SQUAD = wp.constant(3)
"""Column of the panel that counts the living squadmates shown."""
MAX_SQUAD = wp.constant(layout.MAX_SQUAD)
CONTACT_DIM = wp.constant(len(layout.CONTACT))
SQUAD_DIM = wp.constant(len(layout.SQUAD))
MAP_R = wp.constant(layout.LOCAL_MAP_R)
MAP_SIDE = wp.constant(layout.LOCAL_MAP_SIDE)
PACK = wp.constant(PACK_SIZE)
PACKMATE = wp.constant(-1.0)
"""Distance by which packmates, who lie side by side, are sorted before all others."""
CLASS_SPAN = wp.constant(3.0)


@wp.func
def longest(size: wp.vec3i) -> float:
    """Longest edge of the map [vox]."""
    return float(wp.max(size[0], wp.max(size[1], size[2])))


@wp.func
def bit(yes: bool) -> float:
    """1 for true."""
    if yes:
        return 1.0
    return 0.0


@wp.func
def squad_after(
    e: int, m: int, last_d: float, last_j: int, present: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3)
) -> wp.vec2:
    """Next squad row after (distance, index): packmates count as nearer than anyone, in roster order."""
    best = wp.vec2(1.0e30, -1.0)
    if last_d <= PACKMATE:
        first = m - m % PACK
        for j in range(first, first + PACK):
            if j != m and present[e, j] == 1 and (last_d < PACKMATE or j > last_j):
                return wp.vec2(PACKMATE, float(j))
    for j in range(team.shape[1]):
        if present[e, j] == 1 and team[e, j] == team[e, m] and pack[e, j] != pack[e, m]:
            d = wp.length(pos[e, j] - pos[e, m])
            later = d > last_d or (d == last_d and j > last_j)
            if later and d < best[0]:
                best = wp.vec2(d, float(j))
    return best


@wp.func
def primary_ready(rules: Rules, e: int, j: int, c: int, cooldown: wp.array3d(dtype=wp.int32)) -> bool:
    """Whether the weapon on the first trigger is off cooldown."""
    for w in range(rules.trigger_of.shape[1]):
        if rules.trigger_of[c, w] == 0:
            return cooldown[e, j, rules.weapon_cooldown[w]] == 0
    return False


@wp.func
def has_target(e: int, j: int, focus: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32)) -> bool:
    """Whether a mech's focus target still lives."""
    i = focus[e, j]
    if i < 0:
        return False
    return alive[e, i] == 1


@wp.kernel
def write_squad(
    # rules
    rules: Rules, obs_scale: wp.array(dtype=wp.float32), suite_squad: wp.array2d(dtype=wp.int32),
    # world
    size: wp.array(dtype=wp.vec3i),
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), present: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), cooldown: wp.array3d(dtype=wp.int32), engaged: wp.array2d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write the squad rows, their mask and their count of living, as detailed as the suite allows."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    cs = cos_sin(yaw[e, m])
    slots = suite_squad[chassis[e, m], 0] * alive[e, m]
    detail = suite_squad[chassis[e, m], 1]
    last = wp.vec2(-2.0, -1.0)
    mates = int(0)
    for k in range(MAX_SQUAD):
        at = SQUAD_AT + k * SQUAD_DIM
        j = int(-1)
        if k < slots:
            last = squad_after(e, m, last[0], int(last[1]), present, team, pack, pos)
            j = int(last[1])
        for i in range(SQUAD_DIM):
            obs[t, n, at + i] = 0.0
        obs[t, n, SQUAD_MASK_AT + k] = bit(j < 0)
        if j < 0:
            slots = 0
            continue
        c = chassis[e, j]
        mates += alive[e, j]
        living = float(alive[e, j])
        rel = to_heading(pos[e, j] - pos[e, m], cs)
        flat = wp.max(xy_length(rel), 1.0e-7)
        obs[t, n, at] = rel[1] / flat
        obs[t, n, at + 1] = rel[0] / flat
        obs[t, n, at + 2] = wp.length(rel) / longest(size[e])
        obs[t, n, at + 3] = living
        if detail >= 1:
            obs[t, n, at + 4] = living * wp.clamp(hp[e, j] / rules.max_hp[c], 0.0, 1.0)
            obs[t, n, at + 5] = living * wp.clamp(heat[e, j] / (rules.heat_cap[c] * obs_scale[2]), 0.0, 1.0)
            obs[t, n, at + 6] = living * bit(engaged[e, j] > 0 or has_target(e, j, focus, alive))
            obs[t, n, at + 7] = float(c) / CLASS_SPAN
        if detail >= 2:
            obs[t, n, at + 8] = living * stability[e, j] / rules.max_stability
            obs[t, n, at + 9] = living * bit(primary_ready(rules, e, j, c, cooldown))
    obs[t, n, PANEL_AT + PANEL_SQUAD] = float(mates) / float(MAX_SQUAD)


@wp.kernel
def write_messages(
    # rules
    rules: Rules, comms_at: wp.int32,
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), message: wp.array3d(dtype=wp.float32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write what the pack said in the decision just played, in roster order, own row included."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    first = (m // PACK) * PACK
    for k in range(PACK):
        heard = float(alive[e, first + k] * alive[e, m])
        for i in range(rules.comm_dim):
            obs[t, n, comms_at + k * rules.comm_dim + i] = heard * message[e, first + k, i]


@wp.kernel
def write_local_map(
    # rules
    map_at: wp.int32, low_layers: wp.uint64,
    # world
    move_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write which cells around the mech, turned to its heading, block walking; outside the map blocks."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    cs = cos_sin(yaw[e, m])
    p = pos[e, m]
    for i in range(MAP_SIDE):
        ahead = float(i - MAP_R)
        for j in range(MAP_SIDE):
            left = float(j - MAP_R)
            x = int(wp.floor(p[0] + cs[0] * ahead - cs[1] * left))
            y = int(wp.floor(p[1] + cs[1] * ahead + cs[0] * left))
            blocked = bool(True)
            if x >= 0 and y >= 0 and x < size[e][0] and y < size[e][1]:
                blocked = (move_plane[e, y, x] & low_layers) != wp.uint64(0)
            obs[t, n, map_at + i * MAP_SIDE + j] = float(alive[e, m]) * bit(blocked)


@wp.func
def unsound(row: wp.array(dtype=wp.float32), start: int, end: int) -> float:
    """0 if every entry from start to end is finite, else not a number."""
    # 0 x is 0 unless x is not finite; four sums, because one would wait for itself
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
    # rules
    rows: wp.int32, spans: wp.vec4i,
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), contact: wp.array3d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
    # events
    bad_obs: wp.array2d(dtype=wp.int32),
):
    """Replace what is not finite in a finished row by 0, and count it; maps and masks are 0 or 1 whatever happens.

    ``spans`` are two ranges of columns to look at besides the filled contact rows.
    """
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    row = obs[obs_row[0], n]
    filled = int(0)
    for k in range(rows):
        if contact[e, m, k] >= 0:
            filled = k + 1
    bad = int(0)
    found = unsound(row, 0, filled * CONTACT_DIM) + unsound(row, spans[0], spans[1]) + unsound(row, spans[2], spans[3])
    if not wp.isfinite(found):
        for i in range(row.shape[0]):
            if not wp.isfinite(row[i]):
                row[i] = 0.0
                bad += 1
    bad_obs[e, m] = bad
