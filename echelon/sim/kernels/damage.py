"""What hits do: each target gathers the hit records aimed at it, then each shooter its credit.

Gathering in index order makes the result independent of who fired first, so two mechs can kill each other in the
same phase. Run after phase 4 and after phase 5; deaths are marked here and stamped by ``terrain``.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.geometry import unit3
from echelon.sim.kernels.fire import HIT_LEG, HIT_PAINTED
from echelon.sim.kernels.upkeep import heat_share, overheated
from echelon.sim.raycast import sight_clear
from echelon.sim.state import ROUNDS_PER_MECH
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

NEAR = wp.constant(0.1)
"""Attackers and explosions closer than this give no damage direction [vox]."""


@wp.func
def paid_damage(rules: Rules, flags: int, damage: float) -> float:
    """Damage of a record with the paint bonus."""
    if (flags & HIT_PAINTED) != 0:
        return damage * (1.0 + rules.paint_bonus)
    return damage


@wp.func
def body_share(rules: Rules, flags: int) -> float:
    """Share of a hit that reaches the body."""
    if (flags & HIT_LEG) != 0:
        return rules.leg_body_share
    return 1.0


@wp.kernel
def shake(
    # rules
    rules: Rules,
    # world
    sight_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3),
    # events
    blast_mask: wp.array2d(dtype=wp.int32), blast_pos: wp.array3d(dtype=wp.vec3), blast_skip: wp.array3d(dtype=wp.int32), blast_weapon: wp.array3d(dtype=wp.int32), splash: wp.array3d(dtype=wp.vec3),
):
    """Measure what this mech's explosions cost everyone in reach and in the open, friends and itself included."""
    e, m = wp.tid()
    mask = blast_mask[e, m]
    if mask == 0:
        return
    for j in range(alive.shape[1]):
        total = wp.vec3(0.0, 0.0, -1.0)
        for s in range(ROUNDS_PER_MECH):
            if (mask & (1 << s)) != 0 and alive[e, j] == 1 and blast_skip[e, m, s] != j:
                w = blast_weapon[e, m, s]
                c = blast_pos[e, m, s]
                if rules.weapon_splash[w] > 0.0 and wp.length(pos[e, j] - c) <= rules.weapon_splash[w]:
                    if sight_clear(sight_plane, e, size[e], c, pos[e, j]):
                        total[0] = total[0] + rules.weapon_damage[w] * rules.weapon_splash_scale[w]
                        total[1] = total[1] + rules.weapon_stability[w] * rules.weapon_splash_scale[w]
                        if wp.length(pos[e, j] - c) >= NEAR:
                            total[2] = float(s)
        splash[e, m, j] = total


@wp.kernel
def suffer(
    # rules
    rules: Rules,
    # state in
    withheld: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), tick: wp.array(dtype=wp.int32),
    # state out
    hp: wp.array2d(dtype=wp.float32), leg_hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), suppressed: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32),
    # events
    hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_stability: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), blast_pos: wp.array3d(dtype=wp.vec3), splash: wp.array3d(dtype=wp.vec3), took: wp.array2d(dtype=wp.float32), was_hit: wp.array2d(dtype=wp.int32), hit_dir: wp.array2d(dtype=wp.vec3), assist_to: wp.array2d(dtype=wp.int32), assist_tick: wp.array2d(dtype=wp.int32),
):
    """Apply every hit on this mech, in shooter order."""
    e, m = wp.tid()
    assist_to[e, m] = -1
    if alive[e, m] == 0:
        return
    new_painter = int(-1)
    old_painter = painter[e, m]
    lost = float(0.0)
    for s in range(hit_mask.shape[1]):
        mask = hit_mask[e, s]
        if mask == 0 and blast_mask[e, s] == 0:
            continue
        for k in range(NUM_WEAPONS):
            if (mask & (1 << k)) != 0 and hit_target[e, s, k] == m:
                w = hit_weapon[e, s, k]
                flags = hit_flags[e, s, k]
                d = paid_damage(rules, flags, hit_damage[e, s, k])
                if rules.weapon_paints[w] == 1:
                    new_painter = s
                if d > 0.0:
                    if (flags & HIT_LEG) != 0:
                        leg_hp[e, m] = leg_hp[e, m] - d
                    if (flags & HIT_PAINTED) != 0 and old_painter != s and tick[e] >= assist_tick[e, m]:
                        assist_to[e, m] = old_painter
                    lost += d * body_share(rules, flags)
                    was_hit[e, m] = 1
                    delta = pos[e, s] - pos[e, m]
                    if wp.length(delta) >= NEAR:
                        hit_dir[e, m] = unit3(delta)
                stability[e, m] = wp.max(0.0, stability[e, m] - hit_stability[e, s, k])
                heat[e, m] = heat[e, m] + heat_share(withheld[e]) * rules.weapon_target_heat[w]
                if rules.weapon_suppresses[w] == 1:
                    suppressed[e, m] = wp.max(suppressed[e, m], rules.suppressed_ticks)
        if blast_mask[e, s] != 0 and splash[e, s, m][0] > 0.0:
            lost += splash[e, s, m][0]
            stability[e, m] = wp.max(0.0, stability[e, m] - splash[e, s, m][1])
            was_hit[e, m] = 1
            k = int(splash[e, s, m][2])
            if k >= 0:
                hit_dir[e, m] = unit3(blast_pos[e, s, k] - pos[e, m])
    hp[e, m] = hp[e, m] - lost
    took[e, m] = took[e, m] + lost
    if assist_to[e, m] >= 0:
        assist_tick[e, m] = tick[e] + rules.assist_ticks
    if new_painter >= 0:
        painted[e, m] = rules.painted_ticks
        painter[e, m] = new_painter


@wp.func
def phase_share(
    rules: Rules, e: int, s: int, m: int, hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), splash: wp.array3d(dtype=wp.vec3),
) -> float:
    """Body damage that mech s did to mech m in this phase."""
    total = float(0.0)
    if blast_mask[e, s] != 0:
        total = splash[e, s, m][0]
    for k in range(NUM_WEAPONS):
        if (hit_mask[e, s] & (1 << k)) != 0 and hit_target[e, s, k] == m:
            flags = hit_flags[e, s, k]
            total += paid_damage(rules, flags, hit_damage[e, s, k]) * body_share(rules, flags)
    return total


@wp.func
def heat_given(
    rules: Rules, e: int, m: int, hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32),
) -> float:
    """Heat that this phase's hits gave mech m."""
    total = float(0.0)
    for s in range(hit_mask.shape[1]):
        if hit_mask[e, s] != 0:
            for k in range(NUM_WEAPONS):
                if (hit_mask[e, s] & (1 << k)) != 0 and hit_target[e, s, k] == m:
                    total += rules.weapon_target_heat[hit_weapon[e, s, k]]
    return total


@wp.kernel
def succumb(
    # rules
    rules: Rules,
    # state in
    team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32),
    # state out
    alive: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32),
    # events
    shutdown_due: wp.array2d(dtype=wp.int32), hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), splash: wp.array3d(dtype=wp.vec3), died: wp.array2d(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), killer: wp.array2d(dtype=wp.int32), shutdowns: wp.array2d(dtype=wp.int32),
):
    """Shut down if the phase's heat was too much; die if the body is spent, to whoever did most, hostiles first."""
    e, m = wp.tid()
    if alive[e, m] == 0:
        return
    down = overheated(rules, chassis[e, m], heat[e, m], shutdown[e, m])
    shutdown_due[e, m] = 0
    if down == 1 and shutdown[e, m] == 0:
        shutdowns[e, m] = shutdowns[e, m] + 1
        # Own fire stops a mech at once; heat that others gave it acts from the next tick.
        own = heat[e, m] - heat_given(rules, e, m, hit_mask, hit_target, hit_weapon)
        shutdown_due[e, m] = 1 - overheated(rules, chassis[e, m], own, 0)
    shutdown[e, m] = down
    if hp[e, m] > 0.0:
        return
    alive[e, m] = 0
    died[e, m] = 1
    dying[e, m] = 1
    most = float(0.0)
    most_friendly = float(0.0)
    for s in range(hit_mask.shape[1]):
        share = phase_share(rules, e, s, m, hit_mask, hit_target, hit_damage, hit_flags, blast_mask, splash)
        if team[e, s] != team[e, m]:
            if share > most:
                most = share
                killer[e, m] = s
        elif most == 0.0 and share > most_friendly:
            most_friendly = share
            killer[e, m] = s


@wp.kernel
def credit(
    # rules
    rules: Rules,
    # state in
    team: wp.array2d(dtype=wp.int32),
    # events
    hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), splash: wp.array3d(dtype=wp.vec3), dying: wp.array2d(dtype=wp.int32), killer: wp.array2d(dtype=wp.int32), assist_to: wp.array2d(dtype=wp.int32), dealt: wp.array2d(dtype=wp.float32), dealt_friendly: wp.array2d(dtype=wp.float32), kills: wp.array2d(dtype=wp.int32), assists: wp.array2d(dtype=wp.int32),
):
    """Give this mech the damage, kills and assists that the phase's hits earned it."""
    e, m = wp.tid()
    for j in range(hit_mask.shape[1]):
        if assist_to[e, j] == m:
            assists[e, m] = assists[e, m] + 1
    if hit_mask[e, m] == 0 and blast_mask[e, m] == 0:
        return  # who did no damage killed nobody
    for j in range(hit_mask.shape[1]):
        d = phase_share(rules, e, m, j, hit_mask, hit_target, hit_damage, hit_flags, blast_mask, splash)
        if team[e, j] == team[e, m]:
            dealt_friendly[e, m] = dealt_friendly[e, m] + d
        else:
            dealt[e, m] = dealt[e, m] + d
            if dying[e, j] == 1 and killer[e, j] == m:
                kills[e, m] = kills[e, m] + 1
