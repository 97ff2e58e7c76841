"""The journal: what happened in each tick, written down for environments that are being recorded.

It is launched over the recorded environments alone. One thread for each walks its mechs in index order, so the order
of rows depends on nothing else. Rows stay until the host fetches them; those beyond the journal's length are counted
and dropped. It reads what other kernels left and changes nothing of the game.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.arsenal import Cooldown
from echelon.sim.kernels.damage import paid_damage
from echelon.sim.kernels.fire import HIT_PAINTED, HOMING, paint_helps
from echelon.sim.state import JOURNAL_DETAIL, JOURNAL_VALUES, ROUNDS_PER_MECH
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

HIT = wp.constant(1)
PAINT = wp.constant(2)
KILL = wp.constant(3)
ASSIST = wp.constant(4)
LAUNCH = wp.constant(5)
IMPACT = wp.constant(6)
AMS = wp.constant(9)
SPLASHED = wp.constant(8)
"""Flag of a hit by an explosion nearby."""
STOPPED = wp.constant(16)
"""Flag of a shot of point defence that took its missile down."""
AMS_TIMER = wp.constant(int(Cooldown.AMS))
NOBODY = wp.constant(-1)
DAMAGE_STEPS = wp.constant(10.0)
"""Steps per hit point in which damage is written down."""
MOST_STEPS = wp.constant(65535.0)
"""Most that can be written down."""
PLACE_STEPS = wp.constant(2.0)
"""Steps per voxel in which the places of impacts are written down."""
DETAIL, DETAILS = wp.constant(JOURNAL_VALUES), wp.constant(JOURNAL_DETAIL)
EXACT_STEPS = wp.constant(1000.0)
"""Steps per voxel, and per point of damage or stability, of a row's detail."""
BY_PAINT = wp.constant(1)
"""Mark of a missile that was locked on by paint."""
BURST = wp.constant(1)
"""Mark of an impact whose round exploded or burst into smoke."""
NOWHERE = wp.constant(wp.vec3(0.0, 0.0, 0.0))
"""Place of what happens to a mech: it is where the mech is."""


@wp.func
def write(
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32), page: int, tick: int, kind: int, who: int, whom: int, weapon: int, value: float, flags: int, place: wp.vec3,
):
    """Append a row, or only count it where the journal is full."""
    n = journal_count[page]
    journal_count[page] = n + 1
    if n >= journal.shape[1]:
        return
    journal[page, n, 0] = tick
    journal[page, n, 1] = kind
    journal[page, n, 2] = who
    journal[page, n, 3] = whom
    journal[page, n, 4] = weapon
    journal[page, n, 5] = int(wp.clamp(wp.rint(value * DAMAGE_STEPS), 0.0, MOST_STEPS))
    journal[page, n, 6] = flags
    for i in range(3):
        journal[page, n, 7 + i] = int(wp.rint(place[i] * PLACE_STEPS))
    for i in range(DETAILS):
        journal[page, n, DETAIL + i] = 0


@wp.func
def detail(
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32), page: int, place: wp.vec3, points: float, mech: int, mark: int,
):
    """Add to the row just written what only event logs tell: where exactly, stability lost or damage added, a mech, a mark."""
    n = journal_count[page] - 1
    if n >= journal.shape[1]:
        return
    for i in range(3):
        journal[page, n, DETAIL + i] = int(wp.rint(place[i] * EXACT_STEPS))
    journal[page, n, DETAIL + 3] = int(wp.rint(points * EXACT_STEPS))
    journal[page, n, DETAIL + 4] = mech
    journal[page, n, DETAIL + 5] = mark


@wp.func
def first_blast(mask: int) -> int:
    """Lowest round of a mask."""
    for s in range(ROUNDS_PER_MECH):
        if (mask & (1 << s)) != 0:
            return s
    return 0


@wp.kernel
def note_deaths(
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), hazard: wp.array2d(dtype=wp.int32),
    # events
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32),
):
    """Note who died of a hazard in this phase."""
    i = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    for m in range(dying.shape[1]):
        if dying[e, m] == 1:
            write(journal, journal_count, page, tick[e], KILL, NOBODY, m, NOBODY, 0.0, 0, NOWHERE)
            detail(journal, journal_count, page, pos[e, m], 0.0, NOBODY, hazard[e, m])


@wp.kernel
def note_defence(
    # rules
    rules: Rules,
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), cooldown: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3), round_target: wp.array3d(dtype=wp.int32), ams_shot: wp.array2d(dtype=wp.vec4i),
    # events
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32),
):
    """Note at which round point defence shot in this tick, and whether it hit; a full timer says that it did shoot."""
    i = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and rules.has_ams[chassis[e, j]] == 1 and cooldown[e, j, AMS_TIMER] == rules.ams_ticks:
            shot = ams_shot[e, j]
            where = round_pos[e, shot[0], shot[1]]
            write(journal, journal_count, page, tick[e], AMS, j, shot[0], shot[2], 0.0, shot[3] * STOPPED, where)
            detail(journal, journal_count, page, where, 0.0, round_target[e, shot[0], shot[1]], 0)


@wp.kernel
def note_impacts(
    # rules
    rules: Rules,
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), impact_mask: wp.array2d(dtype=wp.int32), impact_cell: wp.array3d(dtype=wp.vec3i), impact_weapon: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), blast_pos: wp.array3d(dtype=wp.vec3), blast_weapon: wp.array3d(dtype=wp.int32),
    # events
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32),
):
    """Note the cells that rounds struck in this tick, and where others burst."""
    i = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    for m in range(impact_mask.shape[1]):
        for s in range(ROUNDS_PER_MECH):
            if (impact_mask[e, m] & (1 << s)) != 0:
                cell = impact_cell[e, m, s]
                place = wp.vec3(float(cell[0]) + 0.5, float(cell[1]) + 0.5, float(cell[2]) + 0.5)
                w = impact_weapon[e, m, s]
                write(journal, journal_count, page, tick[e], IMPACT, m, NOBODY, w, rules.weapon_damage[w], 0, place)
                if (blast_mask[e, m] & (1 << s)) != 0:
                    detail(journal, journal_count, page, blast_pos[e, m, s], 0.0, NOBODY, BURST)
            elif (blast_mask[e, m] & (1 << s)) != 0:
                write(journal, journal_count, page, tick[e], IMPACT, m, NOBODY, blast_weapon[e, m, s], 0.0, 0, blast_pos[e, m, s])
                detail(journal, journal_count, page, blast_pos[e, m, s], 0.0, NOBODY, BURST)


@wp.kernel
def note_launches(
    # rules
    rules: Rules,
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32), round_weapon: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3), round_age: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32),
    # events
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32),
):
    """Note the rounds that left a muzzle in this tick; what hits of the phase paint comes later."""
    i = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    for m in range(round_weapon.shape[1]):
        for s in range(ROUNDS_PER_MECH):
            w = round_weapon[e, m, s]
            if w >= 0 and round_age[e, m, s] == 0:
                j = round_target[e, m, s]
                mark = int(0)
                if rules.weapon_guidance[w] == HOMING and j >= 0:
                    if quality[e, m] >= rules.paint_quality and paint_helps(e, m, j, painted, painter, team, pack):
                        mark = BY_PAINT
                write(journal, journal_count, page, tick[e], LAUNCH, m, NOBODY, w, 0.0, 0, NOWHERE)
                detail(journal, journal_count, page, round_pos[e, m, s], 0.0, j, mark)


@wp.func
def assisted(
    rules: Rules, e: int, m: int, by: int, hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32),
) -> wp.vec2:
    """Whose hit on mech m paid painter ``by`` an assist, the last in order, and what the paint added: (shooter, damage)."""
    found = wp.vec2(-1.0, 0.0)
    for s in range(hit_mask.shape[1]):
        for k in range(NUM_WEAPONS):
            if s != by and (hit_mask[e, s] & (1 << k)) != 0 and hit_target[e, s, k] == m:
                if (hit_flags[e, s, k] & HIT_PAINTED) != 0 and hit_damage[e, s, k] > 0.0:
                    found = wp.vec2(float(s), hit_damage[e, s, k] * rules.paint_bonus)
    return found


@wp.kernel
def note_hits(
    # rules
    rules: Rules,
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_stability: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), killer: wp.array2d(dtype=wp.int32), assist_to: wp.array2d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), blast_weapon: wp.array3d(dtype=wp.int32), splash: wp.array3d(dtype=wp.vec3),
    # events
    journal: wp.array3d(dtype=wp.int32), journal_count: wp.array(dtype=wp.int32),
):
    """Note this phase's hits and splashes by shooter, then the assists they paid, then who died of them."""
    i = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    t = tick[e]
    for m in range(dying.shape[1]):
        mask = hit_mask[e, m]
        if mask != 0:
            for k in range(NUM_WEAPONS):
                if (mask & (1 << k)) != 0:
                    j = hit_target[e, m, k]
                    w = hit_weapon[e, m, k]
                    flags = hit_flags[e, m, k]
                    kind = HIT
                    if rules.weapon_paints[w] == 1:
                        kind = PAINT
                    write(journal, journal_count, page, t, kind, m, j, w, paid_damage(rules, flags, hit_damage[e, m, k]), flags, NOWHERE)
                    detail(journal, journal_count, page, pos[e, j], hit_stability[e, m, k], NOBODY, 0)
        if blast_mask[e, m] != 0:
            source = first_blast(blast_mask[e, m])
            for j in range(dying.shape[1]):
                if splash[e, m, j][0] > 0.0:
                    write(journal, journal_count, page, t, HIT, m, j, blast_weapon[e, m, source], splash[e, m, j][0], SPLASHED, NOWHERE)
                    detail(journal, journal_count, page, pos[e, j], splash[e, m, j][1], NOBODY, 0)
    for m in range(dying.shape[1]):
        if assist_to[e, m] >= 0:
            write(journal, journal_count, page, t, ASSIST, assist_to[e, m], m, NOBODY, 0.0, 0, NOWHERE)
            paid = assisted(rules, e, m, assist_to[e, m], hit_mask, hit_target, hit_damage, hit_flags)
            detail(journal, journal_count, page, pos[e, m], paid[1], int(paid[0]), 0)
    for m in range(dying.shape[1]):
        if dying[e, m] == 1:
            write(journal, journal_count, page, t, KILL, killer[e, m], m, NOBODY, 0.0, 0, NOWHERE)
            detail(journal, journal_count, page, pos[e, m], 0.0, NOBODY, 0)
