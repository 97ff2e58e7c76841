"""What each mech did in a match, counted on the device: shots, hits, damage by weapon, its end, its time in the zone.

The counting kernels are put behind those of the simulator whose results they read (``with_statistics``). They write nothing
that the game reads, and stop at an episode's end. A mech's hits are counted in a fixed order, so sums do not depend on
batch or threads.
"""

# ruff: noqa: E501
from enum import IntEnum

import warp as wp

from echelon.env import referee
from echelon.env.referee import in_zone
from echelon.sim.backend import Launch, Program, in_phase
from echelon.sim.kernels import damage, fire, motion, upkeep
from echelon.sim.kernels.damage import body_share, paid_damage
from echelon.sim.state import ROUNDS_PER_MECH, Field
from echelon.sim.tables import NUM_WEAPONS, Rules
from echelon.sim.world import Hazard

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


class Cause(IntEnum):
    """What a mech died of, beyond the weapons of hostiles, which are numbered as ``Weapon``."""

    LIVES = -1
    OWN_SIDE = NUM_WEAPONS
    LAVA = NUM_WEAPONS + Hazard.LAVA
    DEBRIS_FIELD = NUM_WEAPONS + Hazard.DEBRIS
    FALL = NUM_WEAPONS + Hazard.CRASH


LIVES, OWN_SIDE = wp.constant(int(Cause.LIVES)), wp.constant(int(Cause.OWN_SIDE))

FIELDS: dict[str, Field] = {
    "tally_shots": Field(wp.int32, "EMW", "shots fired, by weapon"),
    "tally_hits": Field(wp.int32, "EMW", "direct hits on hostiles, by weapon"),
    "tally_damage": Field(wp.float32, "EMW", "body damage to hostiles, explosions included, by weapon"),
    "tally_range": Field(wp.float32, "EMW", "sum over direct hits of the distance to the target [vox], by weapon"),
    "tally_assists": Field(wp.int32, "EM", "paid assists of its paint"),
    "tally_friendly": Field(wp.float32, "EM", "body damage to the own side and to itself"),
    "tally_taken": Field(wp.float32, "EM", "body damage taken"),
    "tally_cause": Field(wp.int32, "EM", "what it died of: Cause, or the weapon of its killer"),
    "tally_killer": Field(wp.int32, "EM", "who killed it, -1 nobody"),
    "tally_zone": Field(wp.int32, "EM", "decisions that ended with it in the zone"),
    "tally_steps": Field(wp.int32, "EM", "decisions that it began alive"),
    "tally_shutdowns": Field(wp.int32, "EM", "shutdowns by heat"),
    "tally_knockdowns": Field(wp.int32, "EM", "knockdowns"),
}


# fmt: off
@wp.kernel
def count_shots(
    # state in
    ended: wp.array(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_age: wp.array3d(dtype=wp.int32), hit_mask: wp.array2d(dtype=wp.int32),
    # events
    tally_shots: wp.array3d(dtype=wp.int32),
):
    """Count the beams and rounds that this mech let go in this tick."""
    e, m = wp.tid()
    if ended[e] == 1:
        return
    mask = hit_mask[e, m]
    if mask != 0:
        for w in range(NUM_WEAPONS):
            if (mask & (1 << w)) != 0:
                tally_shots[e, m, w] = tally_shots[e, m, w] + 1
    for s in range(ROUNDS_PER_MECH):
        w = round_weapon[e, m, s]
        if w >= 0 and round_age[e, m, s] == 0:
            tally_shots[e, m, w] = tally_shots[e, m, w] + 1


@wp.func
def blast_source(rules: Rules, e: int, m: int, blast_mask: wp.array2d(dtype=wp.int32), blast_weapon: wp.array3d(dtype=wp.int32)) -> int:
    """Weapon of the first explosion of this mech in this phase, -1 if none."""
    for s in range(ROUNDS_PER_MECH):
        if (blast_mask[e, m] & (1 << s)) != 0 and rules.weapon_splash[blast_weapon[e, m, s]] > 0.0:
            return blast_weapon[e, m, s]
    return -1


@wp.kernel
def count_hits(
    # rules
    rules: Rules,
    # state in
    ended: wp.array(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), blast_weapon: wp.array3d(dtype=wp.int32), splash: wp.array3d(dtype=wp.vec3),
    # events
    tally_hits: wp.array3d(dtype=wp.int32), tally_damage: wp.array3d(dtype=wp.float32), tally_range: wp.array3d(dtype=wp.float32), tally_friendly: wp.array2d(dtype=wp.float32),
):
    """Add up what this mech's hits and explosions did in this phase."""
    e, m = wp.tid()
    if ended[e] == 1:
        return
    if hit_mask[e, m] != 0:
        for k in range(NUM_WEAPONS):
            if (hit_mask[e, m] & (1 << k)) != 0:
                w = hit_weapon[e, m, k]
                flags = hit_flags[e, m, k]
                tally_hits[e, m, w] = tally_hits[e, m, w] + 1
                tally_range[e, m, w] = tally_range[e, m, w] + wp.length(pos[e, hit_target[e, m, k]] - pos[e, m])
                tally_damage[e, m, w] = tally_damage[e, m, w] + paid_damage(rules, flags, hit_damage[e, m, k]) * body_share(rules, flags)
    if blast_mask[e, m] != 0:
        w = blast_source(rules, e, m, blast_mask, blast_weapon)
        if w >= 0:
            for j in range(team.shape[1]):
                d = splash[e, m, j][0]
                if d > 0.0 and team[e, j] != team[e, m]:
                    tally_damage[e, m, w] = tally_damage[e, m, w] + d
                elif d > 0.0:
                    tally_friendly[e, m] = tally_friendly[e, m] + d


@wp.kernel
def name_killers(
    # rules
    rules: Rules,
    # state in
    ended: wp.array(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), killer: wp.array2d(dtype=wp.int32), hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), blast_weapon: wp.array3d(dtype=wp.int32), splash: wp.array3d(dtype=wp.vec3),
    # events
    tally_cause: wp.array2d(dtype=wp.int32), tally_killer: wp.array2d(dtype=wp.int32),
):
    """Note who killed a mech that died in this phase, and with which weapon it did most."""
    e, m = wp.tid()
    if ended[e] == 1 or dying[e, m] == 0 or tally_cause[e, m] != LIVES:
        return
    s = killer[e, m]
    if s < 0:
        return
    tally_killer[e, m] = s
    cause = OWN_SIDE
    if team[e, s] != team[e, m]:
        most = float(0.0)
        if blast_mask[e, s] != 0:
            cause = blast_source(rules, e, s, blast_mask, blast_weapon)
            most = splash[e, s, m][0]
        for k in range(NUM_WEAPONS):
            if (hit_mask[e, s] & (1 << k)) != 0 and hit_target[e, s, k] == m:
                flags = hit_flags[e, s, k]
                d = paid_damage(rules, flags, hit_damage[e, s, k]) * body_share(rules, flags)
                if d > most:
                    most = d
                    cause = hit_weapon[e, s, k]
    tally_cause[e, m] = cause


@wp.kernel
def name_hazards(
    # state in
    ended: wp.array(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), hazard: wp.array2d(dtype=wp.int32),
    # events
    tally_cause: wp.array2d(dtype=wp.int32),
):
    """Note the ground or the fall that killed a mech."""
    e, m = wp.tid()
    if ended[e] == 1 or dying[e, m] == 0 or tally_cause[e, m] != LIVES:
        return
    tally_cause[e, m] = OWN_SIDE + hazard[e, m]


@wp.kernel
def count_decision(
    # world
    zone: wp.array(dtype=wp.vec3),
    # state in
    over: wp.array(dtype=wp.int32), ended: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), acting: wp.array2d(dtype=wp.int32), took: wp.array2d(dtype=wp.float32), assists: wp.array2d(dtype=wp.int32), shutdowns: wp.array2d(dtype=wp.int32), knockdowns: wp.array2d(dtype=wp.int32),
    # events
    tally_taken: wp.array2d(dtype=wp.float32), tally_assists: wp.array2d(dtype=wp.int32), tally_zone: wp.array2d(dtype=wp.int32), tally_steps: wp.array2d(dtype=wp.int32), tally_shutdowns: wp.array2d(dtype=wp.int32), tally_knockdowns: wp.array2d(dtype=wp.int32),
):
    """Add up what a decision says about a mech; the one that ends the match counts."""
    e, m = wp.tid()
    if ended[e] == 1 and over[e] == 0:
        return
    tally_taken[e, m] = tally_taken[e, m] + took[e, m]
    tally_assists[e, m] = tally_assists[e, m] + assists[e, m]
    tally_steps[e, m] = tally_steps[e, m] + acting[e, m]
    tally_shutdowns[e, m] = tally_shutdowns[e, m] + shutdowns[e, m]
    tally_knockdowns[e, m] = tally_knockdowns[e, m] + knockdowns[e, m]
    if alive[e, m] == 1 and in_zone(zone[e], pos[e, m]):
        tally_zone[e, m] = tally_zone[e, m] + 1


# fmt: on
BEHIND = {
    upkeep.thermals: (name_hazards,),
    fire.triggers: (count_shots,),
    damage.credit: (count_hits, name_killers),
    motion.land: (name_hazards,),
    referee.update_outcome: (count_decision,),
}
"""Kernels of the simulator and what is launched right behind each."""


def with_statistics(program: Program) -> list[Launch]:
    """Return a decision's program with the counting kernels put in."""
    found: list[Launch] = []
    for launch in program:
        found.append(launch)
        found += in_phase("tally", [Launch(kernel, "EM") for kernel in BEHIND.get(launch.kernel, ())])
    return found
