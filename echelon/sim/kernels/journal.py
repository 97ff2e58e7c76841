# type: ignore
"""The journal: event rows of each tick in recorded environments.

Kernels are launched over the recorded environments alone, one thread each, which visits its mechs in index order, so
the order of rows is deterministic. Rows stay until the host fetches them; rows beyond the journal's capacity are
counted and dropped. The journal never changes the state of the simulation.
"""

import warp as wp

from echelon.sim.arsenal import Cooldown
from echelon.sim.kernels.damage import credited_damage
from echelon.sim.kernels.fire import HIT_PAINTED, HOMING, is_painted_for
from echelon.sim.state import (
    JOURNAL_DETAIL,
    JOURNAL_VALUES,
    ROUNDS_PER_MECH,
    Blasts,
    Episode,
    Hits,
    Journal,
    Mechs,
    Rounds,
    Senses,
)
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
"""Flag of a point defence shot that destroyed its missile."""
AMS_TIMER = wp.constant(int(Cooldown.AMS))
NO_MECH = wp.constant(-1)
DAMAGE_STEPS = wp.constant(10.0)
"""Resolution of damage: steps per hit point."""
MOST_STEPS = wp.constant(65535.0)
"""Largest recorded value [steps]."""
PLACE_STEPS = wp.constant(2.0)
"""Resolution of impact positions: steps per voxel."""
DETAIL, DETAILS = wp.constant(JOURNAL_VALUES), wp.constant(JOURNAL_DETAIL)
EXACT_STEPS = wp.constant(1000.0)
"""Resolution of a row's detail: steps per voxel and per point of damage or stability."""
BY_PAINT = wp.constant(1)
"""Mark of a missile locked on by paint."""
BURST = wp.constant(1)
"""Mark of an impact whose round exploded or burst into smoke."""
NO_POSITION = wp.constant(wp.vec3(0.0, 0.0, 0.0))
"""Position of events that happen to a mech; replays take the mech's own position."""


@wp.func
def append_row(
    journal_out: Journal,
    page: int,
    tick: int,
    kind: int,
    actor: int,
    target: int,
    weapon: int,
    value: float,
    flags: int,
    place: wp.vec3,
):
    n = journal_out.journal_count[page]
    journal_out.journal_count[page] = n + 1
    if n >= journal_out.journal.shape[1]:
        return
    journal_out.journal[page, n, 0] = tick
    journal_out.journal[page, n, 1] = kind
    journal_out.journal[page, n, 2] = actor
    journal_out.journal[page, n, 3] = target
    journal_out.journal[page, n, 4] = weapon
    journal_out.journal[page, n, 5] = int(wp.clamp(wp.rint(value * DAMAGE_STEPS), 0.0, MOST_STEPS))
    journal_out.journal[page, n, 6] = flags
    for i in range(3):
        journal_out.journal[page, n, 7 + i] = int(wp.rint(place[i] * PLACE_STEPS))
    for i in range(DETAILS):
        journal_out.journal[page, n, DETAIL + i] = 0


@wp.func
def append_detail(journal_out: Journal, page: int, place: wp.vec3, points: float, mech: int, mark: int):
    """Add to the row just appended what only event logs read: exact position, stability or damage, a mech, a mark."""
    n = journal_out.journal_count[page] - 1
    if n >= journal_out.journal.shape[1]:
        return
    for i in range(3):
        journal_out.journal[page, n, DETAIL + i] = int(wp.rint(place[i] * EXACT_STEPS))
    journal_out.journal[page, n, DETAIL + 3] = int(wp.rint(points * EXACT_STEPS))
    journal_out.journal[page, n, DETAIL + 4] = mech
    journal_out.journal[page, n, DETAIL + 5] = mark


@wp.func
def first_blast(mask: int) -> int:
    for s in range(ROUNDS_PER_MECH):
        if (mask & (1 << s)) != 0:
            return s
    return 0


@wp.kernel
def record_deaths(
    mechs: Mechs,
    episode: Episode,
    dying: wp.array2d(dtype=wp.int32),
    hazard: wp.array2d(dtype=wp.int32),
    journal_out: Journal,
):
    i = wp.tid()
    e = journal_out.journal_env[i]
    page = journal_out.journal_page[i]
    if journal_out.page_open[page] == 0:
        return
    for m in range(dying.shape[1]):
        if dying[e, m] == 1:
            append_row(journal_out, page, episode.tick[e], KILL, NO_MECH, m, NO_MECH, 0.0, 0, NO_POSITION)
            append_detail(journal_out, page, mechs.pos[e, m], 0.0, NO_MECH, hazard[e, m])


@wp.kernel
def record_defence(
    rules: Rules,
    mechs: Mechs,
    episode: Episode,
    rounds: Rounds,
    ams_shot: wp.array2d(dtype=wp.vec4i),
    journal_out: Journal,
):
    """Record the shots of point defence in this tick and whether they hit; a full cooldown marks a shot."""
    i = wp.tid()
    e = journal_out.journal_env[i]
    page = journal_out.journal_page[i]
    if journal_out.page_open[page] == 0:
        return
    for j in range(mechs.alive.shape[1]):
        if (
            mechs.alive[e, j] == 1
            and rules.chassis[mechs.chassis[e, j]].has_ams == 1
            and mechs.cooldown[e, j, AMS_TIMER] == rules.ams_ticks
        ):
            shot = ams_shot[e, j]
            where = rounds.round_pos[e, shot[0], shot[1]]
            append_row(journal_out, page, episode.tick[e], AMS, j, shot[0], shot[2], 0.0, shot[3] * STOPPED, where)
            append_detail(journal_out, page, where, 0.0, rounds.round_target[e, shot[0], shot[1]], 0)


@wp.kernel
def record_impacts(rules: Rules, episode: Episode, blasts: Blasts, journal_out: Journal):
    i = wp.tid()
    e = journal_out.journal_env[i]
    page = journal_out.journal_page[i]
    if journal_out.page_open[page] == 0:
        return
    for m in range(blasts.impact_mask.shape[1]):
        for s in range(ROUNDS_PER_MECH):
            if (blasts.impact_mask[e, m] & (1 << s)) != 0:
                cell = blasts.impact_cell[e, m, s]
                place = wp.vec3(float(cell[0]) + 0.5, float(cell[1]) + 0.5, float(cell[2]) + 0.5)
                w = blasts.impact_weapon[e, m, s]
                append_row(journal_out, page, episode.tick[e], IMPACT, m, NO_MECH, w, rules.weapons[w].damage, 0, place)
                if (blasts.blast_mask[e, m] & (1 << s)) != 0:
                    append_detail(journal_out, page, blasts.blast_pos[e, m, s], 0.0, NO_MECH, BURST)
            elif (blasts.blast_mask[e, m] & (1 << s)) != 0:
                w = blasts.blast_weapon[e, m, s]
                place = blasts.blast_pos[e, m, s]
                append_row(journal_out, page, episode.tick[e], IMPACT, m, NO_MECH, w, 0.0, 0, place)
                append_detail(journal_out, page, place, 0.0, NO_MECH, BURST)


@wp.kernel
def record_launches(rules: Rules, mechs: Mechs, episode: Episode, rounds: Rounds, senses: Senses, journal_out: Journal):
    """Record the rounds launched in this tick, before the hits of the phase change who is painted."""
    i = wp.tid()
    e = journal_out.journal_env[i]
    page = journal_out.journal_page[i]
    if journal_out.page_open[page] == 0:
        return
    for m in range(rounds.round_weapon.shape[1]):
        for s in range(ROUNDS_PER_MECH):
            w = rounds.round_weapon[e, m, s]
            if w >= 0 and rounds.round_age[e, m, s] == 0:
                j = rounds.round_target[e, m, s]
                mark = int(0)
                if rules.weapons[w].guidance == HOMING and j >= 0:
                    if senses.quality[e, m] >= rules.paint_quality and is_painted_for(mechs, e, m, j):
                        mark = BY_PAINT
                append_row(journal_out, page, episode.tick[e], LAUNCH, m, NO_MECH, w, 0.0, 0, NO_POSITION)
                append_detail(journal_out, page, rounds.round_pos[e, m, s], 0.0, j, mark)


@wp.func
def assisted(rules: Rules, hits: Hits, e: int, m: int, by: int) -> wp.vec2:
    """Return (shooter, damage added by paint) of the last hit on mech m that earned painter ``by`` an assist."""
    found = wp.vec2(-1.0, 0.0)
    for s in range(hits.hit_mask.shape[1]):
        for k in range(NUM_WEAPONS):
            if s != by and (hits.hit_mask[e, s] & (1 << k)) != 0 and hits.hit_target[e, s, k] == m:
                if (hits.hit_flags[e, s, k] & HIT_PAINTED) != 0 and hits.hit_damage[e, s, k] > 0.0:
                    found = wp.vec2(float(s), hits.hit_damage[e, s, k] * rules.paint_bonus)
    return found


@wp.func
def record_hits_of(rules: Rules, mechs: Mechs, hits: Hits, e: int, m: int, page: int, tick: int, journal_out: Journal):
    mask = hits.hit_mask[e, m]
    if mask == 0:
        return
    for k in range(NUM_WEAPONS):
        if (mask & (1 << k)) != 0:
            j = hits.hit_target[e, m, k]
            w = hits.hit_weapon[e, m, k]
            flags = hits.hit_flags[e, m, k]
            kind = HIT
            if rules.weapons[w].paints == 1:
                kind = PAINT
            damage = credited_damage(rules, flags, hits.hit_damage[e, m, k])
            append_row(journal_out, page, tick, kind, m, j, w, damage, flags, NO_POSITION)
            append_detail(journal_out, page, mechs.pos[e, j], hits.hit_stability[e, m, k], NO_MECH, 0)


@wp.func
def record_splash_of(mechs: Mechs, blasts: Blasts, e: int, m: int, page: int, tick: int, journal_out: Journal):
    if blasts.blast_mask[e, m] == 0:
        return
    w = blasts.blast_weapon[e, m, first_blast(blasts.blast_mask[e, m])]
    for j in range(blasts.blast_mask.shape[1]):
        splash = blasts.splash[e, m, j]
        if splash[0] > 0.0:
            append_row(journal_out, page, tick, HIT, m, j, w, splash[0], SPLASHED, NO_POSITION)
            append_detail(journal_out, page, mechs.pos[e, j], splash[1], NO_MECH, 0)


@wp.kernel
def record_hits(
    rules: Rules,
    mechs: Mechs,
    tick: wp.array(dtype=wp.int32),
    assist_to: wp.array2d(dtype=wp.int32),
    dying: wp.array2d(dtype=wp.int32),
    killer: wp.array2d(dtype=wp.int32),
    hits: Hits,
    blasts: Blasts,
    journal_out: Journal,
):
    """Record this phase's hits and splash damage by shooter, then the assists, then the deaths."""
    i = wp.tid()
    e = journal_out.journal_env[i]
    page = journal_out.journal_page[i]
    if journal_out.page_open[page] == 0:
        return
    t = tick[e]
    for m in range(dying.shape[1]):
        record_hits_of(rules, mechs, hits, e, m, page, t, journal_out)
        record_splash_of(mechs, blasts, e, m, page, t, journal_out)
    for m in range(dying.shape[1]):
        if assist_to[e, m] >= 0:
            append_row(journal_out, page, t, ASSIST, assist_to[e, m], m, NO_MECH, 0.0, 0, NO_POSITION)
            assist = assisted(rules, hits, e, m, assist_to[e, m])
            append_detail(journal_out, page, mechs.pos[e, m], assist[1], int(assist[0]), 0)
    for m in range(dying.shape[1]):
        if dying[e, m] == 1:
            append_row(journal_out, page, t, KILL, killer[e, m], m, NO_MECH, 0.0, 0, NO_POSITION)
            append_detail(journal_out, page, mechs.pos[e, m], 0.0, NO_MECH, 0)
