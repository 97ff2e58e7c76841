# type: ignore
"""Damage: each target applies the hit records aimed at it, then each shooter collects its credit.

Records are applied in index order whatever order they were fired in, so two mechs can kill each other in one phase.
Runs after the projectile and weapons phases. Deaths are marked here; ``terrain`` turns them into wrecks.
"""

import warp as wp

from echelon.sim.geometry import unit3
from echelon.sim.kernels.fire import HIT_LEG, HIT_PAINTED
from echelon.sim.kernels.upkeep import heat_share, overheated
from echelon.sim.raycast import sight_clear
from echelon.sim.scan import count_equal, next_nonzero
from echelon.sim.state import ROUNDS_PER_MECH, Blasts, Episode, Events, Hits, Mechs, World
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

NEAR = wp.constant(0.1)
"""Attackers and explosions closer than this set no hit direction [vox]."""


@wp.func
def credited_damage(rules: Rules, flags: int, damage: float) -> float:
    if (flags & HIT_PAINTED) != 0:
        return damage * (1.0 + rules.paint_bonus)
    return damage


@wp.func
def body_share(rules: Rules, flags: int) -> float:
    if (flags & HIT_LEG) != 0:
        return rules.leg_body_share
    return 1.0


@wp.kernel
def compute_splash(rules: Rules, world: World, mechs: Mechs, blasts: Blasts, lanes: int, blasts_out: Blasts):
    """Compute the splash of this mech's explosions on every mech in range and in sight, friends and itself included.

    ``lanes`` threads share the mechs.
    """
    e, m, lane = wp.tid()
    mask = blasts.blast_mask[e, m]
    if mask == 0:
        return
    for j in range(lane, mechs.alive.shape[1], lanes):
        total = wp.vec3(0.0, 0.0, -1.0)
        for s in range(ROUNDS_PER_MECH):
            if (mask & (1 << s)) != 0 and mechs.alive[e, j] == 1 and blasts.blast_skip[e, m, s] != j:
                w = blasts.blast_weapon[e, m, s]
                c = blasts.blast_pos[e, m, s]
                if rules.weapons[w].splash_vox > 0.0 and wp.length(mechs.pos[e, j] - c) <= rules.weapons[w].splash_vox:
                    if sight_clear(world.sight_plane, e, world.size[e], c, mechs.pos[e, j]):
                        total[0] = total[0] + rules.weapons[w].damage * rules.weapons[w].splash_scale
                        total[1] = total[1] + rules.weapons[w].stability * rules.weapons[w].splash_scale
                        if wp.length(mechs.pos[e, j] - c) >= NEAR:
                            total[2] = float(s)
        blasts_out.splash[e, m, j] = total


@wp.func
def apply_hit(
    rules: Rules,
    mechs: Mechs,
    hits: Hits,
    e: int,
    m: int,
    s: int,
    k: int,
    heat_factor: float,
    mechs_out: Mechs,
    events_out: Events,
) -> float:
    """Apply hit record k of shooter s to mech m; return the damage to its body."""
    w = hits.hit_weapon[e, s, k]
    flags = hits.hit_flags[e, s, k]
    d = credited_damage(rules, flags, hits.hit_damage[e, s, k])
    body = float(0.0)
    if d > 0.0:
        if (flags & HIT_LEG) != 0:
            mechs_out.leg_hp[e, m] = mechs_out.leg_hp[e, m] - d
        body = d * body_share(rules, flags)
        events_out.was_hit[e, m] = 1
        delta = mechs.pos[e, s] - mechs.pos[e, m]
        if wp.length(delta) >= NEAR:
            events_out.hit_dir[e, m] = unit3(delta)
    mechs_out.stability[e, m] = wp.max(0.0, mechs_out.stability[e, m] - hits.hit_stability[e, s, k])
    mechs_out.heat[e, m] = mechs_out.heat[e, m] + heat_factor * rules.weapons[w].target_heat
    if rules.weapons[w].suppresses == 1:
        mechs_out.suppressed[e, m] = wp.max(mechs_out.suppressed[e, m], rules.suppressed_ticks)
    return body


@wp.func
def apply_splash(mechs: Mechs, blasts: Blasts, e: int, m: int, s: int, mechs_out: Mechs, events_out: Events) -> float:
    """Apply the splash of shooter s's explosions to mech m; return the damage to its body."""
    splash = blasts.splash[e, s, m]
    if blasts.blast_mask[e, s] == 0 or splash[0] <= 0.0:
        return 0.0
    mechs_out.stability[e, m] = wp.max(0.0, mechs_out.stability[e, m] - splash[1])
    events_out.was_hit[e, m] = 1
    k = int(splash[2])
    if k >= 0:
        events_out.hit_dir[e, m] = unit3(blasts.blast_pos[e, s, k] - mechs.pos[e, m])
    return splash[0]


@wp.kernel
def apply_hits(
    rules: Rules, mechs: Mechs, episode: Episode, hits: Hits, blasts: Blasts, mechs_out: Mechs, events_out: Events
):
    e, m = wp.tid()
    events_out.assist_to[e, m] = -1
    if mechs.alive[e, m] == 0:
        return
    new_painter = int(-1)
    old_painter = mechs_out.painter[e, m]
    lost = float(0.0)
    heat_factor = heat_share(episode.withheld[e])
    s = next_nonzero(hits.hit_mask, blasts.blast_mask, e, 0)
    while s < hits.hit_mask.shape[1]:
        mask = hits.hit_mask[e, s]
        for k in range(NUM_WEAPONS):
            if (mask & (1 << k)) != 0 and hits.hit_target[e, s, k] == m:
                if rules.weapons[hits.hit_weapon[e, s, k]].paints == 1:
                    new_painter = s
                if (hits.hit_flags[e, s, k] & HIT_PAINTED) != 0 and hits.hit_damage[e, s, k] > 0.0:
                    if old_painter != s and episode.tick[e] >= events_out.assist_tick[e, m]:
                        events_out.assist_to[e, m] = old_painter
                lost += apply_hit(rules, mechs, hits, e, m, s, k, heat_factor, mechs_out, events_out)
        lost += apply_splash(mechs, blasts, e, m, s, mechs_out, events_out)
        s = next_nonzero(hits.hit_mask, blasts.blast_mask, e, s + 1)
    mechs_out.hp[e, m] = mechs_out.hp[e, m] - lost
    events_out.took[e, m] = events_out.took[e, m] + lost
    if events_out.assist_to[e, m] >= 0:
        events_out.assist_tick[e, m] = episode.tick[e] + rules.assist_ticks
    if new_painter >= 0:
        mechs_out.painted[e, m] = rules.painted_ticks
        mechs_out.painter[e, m] = new_painter


@wp.func
def phase_damage(rules: Rules, hits: Hits, blasts: Blasts, e: int, s: int, m: int) -> float:
    total = float(0.0)
    if blasts.blast_mask[e, s] != 0:
        total = blasts.splash[e, s, m][0]
    for k in range(NUM_WEAPONS):
        if (hits.hit_mask[e, s] & (1 << k)) != 0 and hits.hit_target[e, s, k] == m:
            flags = hits.hit_flags[e, s, k]
            total += credited_damage(rules, flags, hits.hit_damage[e, s, k]) * body_share(rules, flags)
    return total


@wp.func
def heat_given(rules: Rules, hits: Hits, e: int, m: int) -> float:
    total = float(0.0)
    for s in range(hits.hit_mask.shape[1]):
        if hits.hit_mask[e, s] != 0:
            for k in range(NUM_WEAPONS):
                if (hits.hit_mask[e, s] & (1 << k)) != 0 and hits.hit_target[e, s, k] == m:
                    total += rules.weapons[hits.hit_weapon[e, s, k]].target_heat
    return total


@wp.kernel
def resolve_deaths(rules: Rules, mechs: Mechs, hits: Hits, blasts: Blasts, mechs_out: Mechs, events_out: Events):
    """Shut down on overheating; die without hit points, killed by the mech that dealt most damage, hostiles first."""
    e, m = wp.tid()
    if mechs_out.alive[e, m] == 0:
        return
    down = overheated(rules, mechs.chassis[e, m], mechs.heat[e, m], mechs_out.shutdown[e, m])
    events_out.shutdown_due[e, m] = 0
    if down and mechs_out.shutdown[e, m] == 0:
        events_out.shutdowns[e, m] = events_out.shutdowns[e, m] + 1
        # Heat from own fire shuts a mech down at once, heat from hits of others from the next tick.
        own = mechs.heat[e, m] - heat_given(rules, hits, e, m)
        events_out.shutdown_due[e, m] = wp.where(overheated(rules, mechs.chassis[e, m], own, 0), 0, 1)
    mechs_out.shutdown[e, m] = wp.where(down, 1, 0)
    if mechs.hp[e, m] > 0.0:
        return
    mechs_out.alive[e, m] = 0
    events_out.died[e, m] = 1
    events_out.dying[e, m] = 1
    most = float(0.0)
    most_friendly = float(0.0)
    for s in range(hits.hit_mask.shape[1]):
        damage = phase_damage(rules, hits, blasts, e, s, m)
        if mechs.team[e, s] != mechs.team[e, m]:
            if damage > most:
                most = damage
                events_out.killer[e, m] = s
        elif most == 0.0 and damage > most_friendly:
            most_friendly = damage
            events_out.killer[e, m] = s


@wp.kernel
def credit_hits(rules: Rules, mechs: Mechs, events: Events, hits: Hits, blasts: Blasts, events_out: Events):
    """Credit this mech with the damage, kills and assists of the phase's hits."""
    e, m = wp.tid()
    events_out.assists[e, m] = events_out.assists[e, m] + count_equal(events.assist_to, e, m)
    if hits.hit_mask[e, m] == 0 and blasts.blast_mask[e, m] == 0:
        return  # a mech that did no damage has no kill
    for j in range(hits.hit_mask.shape[1]):
        d = phase_damage(rules, hits, blasts, e, m, j)
        if mechs.team[e, j] == mechs.team[e, m]:
            events_out.dealt_friendly[e, m] = events_out.dealt_friendly[e, m] + d
        else:
            events_out.dealt[e, m] = events_out.dealt[e, m] + d
            if events.dying[e, j] == 1 and events.killer[e, j] == m:
                events_out.kills[e, m] = events_out.kills[e, m] + 1
