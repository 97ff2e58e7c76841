# type: ignore
"""Statistics of each mech in a match, counted on the device: shots, hits and damage by weapon, death, zone time.

Each counting kernel runs directly after the simulator kernel whose results it reads (``with_statistics``). It writes
nothing that the simulation reads and stops at the end of the episode. Hits of a mech are added in a fixed order, so
sums do not depend on the batch or on threads.
"""

from enum import IntEnum

import warp as wp

from echelon.env import referee
from echelon.env.referee import in_zone
from echelon.sim.backend import Launch, Program, in_phase
from echelon.sim.kernels import damage, fire, motion, upkeep
from echelon.sim.kernels.damage import body_share, credited_damage
from echelon.sim.state import ROUNDS_PER_MECH, Blasts, Events, Hits, Rounds
from echelon.sim.structs import Field, array_struct, fields_of
from echelon.sim.tables import NUM_WEAPONS, Rules
from echelon.sim.world import Hazard

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


class Cause(IntEnum):
    """Causes of death other than a hostile weapon; hostile weapons keep their ``Weapon`` number."""

    LIVES = -1
    OWN_SIDE = NUM_WEAPONS
    LAVA = NUM_WEAPONS + Hazard.LAVA
    DEBRIS_FIELD = NUM_WEAPONS + Hazard.DEBRIS
    FALL = NUM_WEAPONS + Hazard.CRASH


LIVES, OWN_SIDE = wp.constant(int(Cause.LIVES)), wp.constant(int(Cause.OWN_SIDE))


@array_struct
class MatchStats:
    """Statistics of each mech since the match began."""

    stat_shots = Field(wp.int32, "EMW", "shots fired, by weapon")
    stat_hits = Field(wp.int32, "EMW", "direct hits on hostiles, by weapon")
    stat_damage = Field(wp.float32, "EMW", "body damage to hostiles, explosions included, by weapon")
    stat_range = Field(wp.float32, "EMW", "sum of target distances over direct hits [vox], by weapon")
    stat_assists = Field(wp.int32, "EM", "rewarded assists by painting")
    stat_friendly = Field(wp.float32, "EM", "body damage to its own team, itself included")
    stat_taken = Field(wp.float32, "EM", "body damage taken")
    stat_cause = Field(wp.int32, "EM", "cause of death: Cause, or the weapon of the killer")
    stat_killer = Field(wp.int32, "EM", "mech that killed it, -1 none")
    stat_zone = Field(wp.int32, "EM", "decisions at whose end it was in the zone")
    stat_steps = Field(wp.int32, "EM", "decisions it began alive")
    stat_shutdowns = Field(wp.int32, "EM", "shutdowns by heat")
    stat_knockdowns = Field(wp.int32, "EM", "knockdowns")


FIELDS = fields_of(MatchStats)
INITIALLY_UNSET = ("stat_cause", "stat_killer")
"""Fields that start at -1; the others start at 0."""


@wp.kernel
def count_shots(ended: wp.array(dtype=int), rounds: Rounds, hits: Hits, stats: MatchStats, stats_out: MatchStats):
    e, m = wp.tid()
    if ended[e] == 1:
        return
    mask = hits.hit_mask[e, m]
    if mask != 0:
        for w in range(NUM_WEAPONS):
            if (mask & (1 << w)) != 0:
                stats_out.stat_shots[e, m, w] = stats.stat_shots[e, m, w] + 1
    for s in range(ROUNDS_PER_MECH):
        w = rounds.round_weapon[e, m, s]
        if w >= 0 and rounds.round_age[e, m, s] == 0:
            stats_out.stat_shots[e, m, w] = stats.stat_shots[e, m, w] + 1


@wp.func
def blast_source(rules: Rules, blasts: Blasts, e: int, m: int) -> int:
    """Return the weapon of a mech's first explosion with splash damage in this phase, -1 none."""
    for s in range(ROUNDS_PER_MECH):
        if (blasts.blast_mask[e, m] & (1 << s)) != 0 and rules.weapons[blasts.blast_weapon[e, m, s]].splash_vox > 0.0:
            return blasts.blast_weapon[e, m, s]
    return -1


@wp.func
def body_damage(rules: Rules, hits: Hits, e: int, m: int, k: int) -> float:
    """Return the body damage of hit record ``k`` of a mech."""
    flags = hits.hit_flags[e, m, k]
    return credited_damage(rules, flags, hits.hit_damage[e, m, k]) * body_share(rules, flags)


@wp.kernel
def count_hits(
    rules: Rules,
    ended: wp.array(dtype=int),
    pos: wp.array2d(dtype=wp.vec3),
    team: wp.array2d(dtype=wp.int32),
    hits: Hits,
    blasts: Blasts,
    stats: MatchStats,
    stats_out: MatchStats,
):
    e, m = wp.tid()
    if ended[e] == 1:
        return
    if hits.hit_mask[e, m] != 0:
        for k in range(NUM_WEAPONS):
            if (hits.hit_mask[e, m] & (1 << k)) != 0:
                w = hits.hit_weapon[e, m, k]
                distance = wp.length(pos[e, hits.hit_target[e, m, k]] - pos[e, m])
                stats_out.stat_hits[e, m, w] = stats.stat_hits[e, m, w] + 1
                stats_out.stat_range[e, m, w] = stats.stat_range[e, m, w] + distance
                stats_out.stat_damage[e, m, w] = stats.stat_damage[e, m, w] + body_damage(rules, hits, e, m, k)
    if blasts.blast_mask[e, m] != 0:
        w = blast_source(rules, blasts, e, m)
        if w >= 0:
            for j in range(team.shape[1]):
                d = blasts.splash[e, m, j][0]
                if d > 0.0 and team[e, j] != team[e, m]:
                    stats_out.stat_damage[e, m, w] = stats.stat_damage[e, m, w] + d
                elif d > 0.0:
                    stats_out.stat_friendly[e, m] = stats.stat_friendly[e, m] + d


@wp.kernel
def name_killers(
    rules: Rules,
    ended: wp.array(dtype=int),
    team: wp.array2d(dtype=wp.int32),
    dying: wp.array2d(dtype=wp.int32),
    killer: wp.array2d(dtype=wp.int32),
    hits: Hits,
    blasts: Blasts,
    stats: MatchStats,
    stats_out: MatchStats,
):
    """Set killer and cause of a mech that died in this phase; the cause is the killer's weapon with most damage."""
    e, m = wp.tid()
    if ended[e] == 1 or dying[e, m] == 0 or stats.stat_cause[e, m] != LIVES:
        return
    s = killer[e, m]
    if s < 0:
        return
    stats_out.stat_killer[e, m] = s
    cause = OWN_SIDE
    if team[e, s] != team[e, m]:
        most = float(0.0)
        if blasts.blast_mask[e, s] != 0:
            cause = blast_source(rules, blasts, e, s)
            most = blasts.splash[e, s, m][0]
        for k in range(NUM_WEAPONS):
            if (hits.hit_mask[e, s] & (1 << k)) != 0 and hits.hit_target[e, s, k] == m:
                d = body_damage(rules, hits, e, s, k)
                if d > most:
                    most = d
                    cause = hits.hit_weapon[e, s, k]
    stats_out.stat_cause[e, m] = cause


@wp.kernel
def name_hazards(ended: wp.array(dtype=int), events: Events, stats: MatchStats, stats_out: MatchStats):
    """Set the cause of a mech that the ground or a fall killed."""
    e, m = wp.tid()
    if ended[e] == 1 or events.dying[e, m] == 0 or stats.stat_cause[e, m] != LIVES:
        return
    stats_out.stat_cause[e, m] = OWN_SIDE + events.hazard[e, m]


@wp.kernel
def count_decision(
    zone: wp.array(dtype=wp.vec3),
    over: wp.array(dtype=int),
    ended: wp.array(dtype=int),
    alive: wp.array2d(dtype=wp.int32),
    pos: wp.array2d(dtype=wp.vec3),
    events: Events,
    stats: MatchStats,
    stats_out: MatchStats,
):
    """Add the events of a decision to a mech's statistics, the decision that ends the match included."""
    e, m = wp.tid()
    if ended[e] == 1 and over[e] == 0:
        return
    stats_out.stat_taken[e, m] = stats.stat_taken[e, m] + events.took[e, m]
    stats_out.stat_assists[e, m] = stats.stat_assists[e, m] + events.assists[e, m]
    stats_out.stat_steps[e, m] = stats.stat_steps[e, m] + events.acting[e, m]
    stats_out.stat_shutdowns[e, m] = stats.stat_shutdowns[e, m] + events.shutdowns[e, m]
    stats_out.stat_knockdowns[e, m] = stats.stat_knockdowns[e, m] + events.knockdowns[e, m]
    if alive[e, m] == 1 and in_zone(zone[e], pos[e, m]):
        stats_out.stat_zone[e, m] = stats.stat_zone[e, m] + 1


RUN_AFTER = {
    upkeep.thermals: (name_hazards,),
    fire.fire_weapons: (count_shots,),
    damage.credit_hits: (count_hits, name_killers),
    motion.land: (name_hazards,),
    referee.update_outcome: (count_decision,),
}
"""Simulator kernels and the statistics kernels launched directly after each."""


def with_statistics(program: Program) -> list[Launch]:
    """Return a decision's program with the statistics kernels inserted."""
    launches: list[Launch] = []
    for launch in program:
        launches.append(launch)
        launches += in_phase("statistics", [Launch(kernel, "EM") for kernel in RUN_AFTER.get(launch.kernel, ())])
    return launches
