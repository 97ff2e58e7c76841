# type: ignore
"""Projectile phase of a tick: point defence, guidance, flight and impacts of rounds.

One thread per mech moves its own rounds against the mechs and voxels at the phase's start. Hits on mechs become hit
records for ``damage``; impacts on terrain become impact records for ``terrain``.
"""

import warp as wp

from echelon.sim.arsenal import Cooldown
from echelon.sim.geometry import EPS_DIV, unit3
from echelon.sim.kernels.fire import BALLISTIC, HOMING, hit_bits, is_painted_for, is_rear, rear_scale
from echelon.sim.raycast import cast_ray, inside
from echelon.sim.rng import STREAM_COMBAT, uniform01
from echelon.sim.scan import next_round
from echelon.sim.state import (
    CLOUDS_PER_MECH,
    ROUNDS_PER_MECH,
    Blasts,
    Episode,
    Events,
    Hits,
    Mechs,
    Rounds,
    Smoke,
    World,
)
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

AMS_TIMER = wp.constant(int(Cooldown.AMS))
AMS_DRAW = wp.constant(64)
"""First index of point defence in the combat random stream; lower indices belong to weapons."""
HOMING_NEAR = wp.constant(0.1)
"""Homing rounds closer than this to their target fly straight on [vox]."""
PULL_BACK = wp.constant(1.0e-4)
"""Distance before a wall at which a round bursts, as a fraction of its path in a tick."""
OVERFLOW_CLOUDS = wp.constant(2)


@wp.func
def closest_on_segment(a: wp.vec3, d: wp.vec3, p: wp.vec3) -> float:
    """Return the parameter t in [0, 1] of the point of segment a + t d closest to p."""
    return wp.clamp(wp.dot(p - a, d) / wp.max(wp.dot(d, d), EPS_DIV), 0.0, 1.0)


@wp.func
def first_struck(rules: Rules, mechs: Mechs, e: int, m: int, a: wp.vec3, d: wp.vec3) -> wp.vec2:
    """Return (t, index) of the first hostile whose hit sphere the segment intersects, index -1 if none."""
    best = wp.vec2(2.0, -1.0)
    for j in range(mechs.alive.shape[1]):
        if mechs.alive[e, j] == 1 and mechs.team[e, j] != mechs.team[e, m]:
            t = closest_on_segment(a, d, mechs.pos[e, j])
            if t < best[0] and wp.length(a + d * t - mechs.pos[e, j]) <= rules.chassis[mechs.chassis[e, j]].hit_radius:
                best = wp.vec2(t, float(j))
    return best


@wp.func
def clamped_inside(size: wp.vec3i, p: wp.vec3) -> wp.vec3:
    return wp.vec3(
        wp.clamp(p[0], 0.0, float(size[0])), wp.clamp(p[1], 0.0, float(size[1])), wp.clamp(p[2], 0.0, float(size[2]))
    )


@wp.func
def bursts(rules: Rules, w: int) -> int:
    if rules.weapons[w].splash_vox > 0.0:
        return 1
    return rules.weapons[w].bursts_smoke


@wp.func
def strikes_low(rules: Rules, z: float, centre_z: float, half_z: float) -> bool:
    """Whether a round at height z strikes a mech's legs."""
    return z < centre_z - half_z + rules.leg_height * 2.0 * half_z


@wp.kernel
def defend(
    rules: Rules,
    mechs: Mechs,
    episode: Episode,
    rounds: Rounds,
    mechs_out: Mechs,
    rounds_out: Rounds,
    events_out: Events,
):
    """Let point defence shoot at homing rounds in order, lowest defender first; each shot starts its cooldown."""
    e = wp.tid()
    slots = mechs.alive.shape[1] * ROUNDS_PER_MECH
    slot = next_round(rounds.round_weapon, e, 0, slots)
    while slot < slots:
        m = slot // ROUNDS_PER_MECH
        s = slot - m * ROUNDS_PER_MECH
        w = rounds_out.round_weapon[e, m, s]
        if rules.weapons[w].guidance == HOMING and rounds.round_age[e, m, s] < rules.weapons[w].life_ticks:
            side = mechs.team[e, rounds.round_target[e, m, s]]
            for j in range(mechs.alive.shape[1]):
                ready = (
                    rules.chassis[mechs.chassis[e, j]].has_ams == 1
                    and mechs.alive[e, j] == 1
                    and mechs.shutdown[e, j] == 0
                )
                ready = (
                    ready
                    and mechs.team[e, j] == side
                    and mechs_out.cooldown[e, j, AMS_TIMER] == 0
                    and rounds_out.round_weapon[e, m, s] >= 0
                )
                if ready and wp.length(mechs.pos[e, j] - rounds.round_pos[e, m, s]) <= rules.ams_vox:
                    mechs_out.cooldown[e, j, AMS_TIMER] = rules.ams_ticks
                    roll = uniform01(
                        episode.seed[e], STREAM_COMBAT, episode.tick[e], j, AMS_DRAW + m * ROUNDS_PER_MECH + s
                    )
                    events_out.ams_shot[e, j] = wp.vec4i(m, s, w, 0)
                    if roll < rules.ams_chance:
                        events_out.ams_shot[e, j] = wp.vec4i(m, s, w, 1)
                        rounds_out.round_weapon[e, m, s] = -1
                        events_out.intercepts[e, j] = events_out.intercepts[e, j] + 1
        slot = next_round(rounds.round_weapon, e, slot + 1, slots)


@wp.func
def guided(rules: Rules, mechs: Mechs, w: int, e: int, j: int, p: wp.vec3, v: wp.vec3) -> wp.vec3:
    """Return the velocity of a round after a tick of guidance or gravity."""
    kind = rules.weapons[w].guidance
    if kind == BALLISTIC:
        return v - wp.vec3(0.0, 0.0, rules.gravity * rules.dt)
    if kind == HOMING and j >= 0:
        delta = mechs.pos[e, j] - p
        if mechs.alive[e, j] == 1 and wp.length(delta) > HOMING_NEAR:
            s = wp.min(1.0, rules.homing_gain)  # a long tick turns straight onto the target, not beyond
            return (
                unit3(v * (1.0 - s) + unit3(delta) * (rules.weapons[w].speed_vox_s * s)) * rules.weapons[w].speed_vox_s
            )
    return v


@wp.func
def free_cloud(smoke: Smoke, e: int, m: int) -> int:
    """Return the first free cloud slot of a mech, -1 if all are in use."""
    for q in range(CLOUDS_PER_MECH):
        if smoke.cloud_ticks[e, m, q] == 0:
            return q
    return -1


@wp.kernel
def guide(rules: Rules, mechs: Mechs, rounds: Rounds, rounds_out: Rounds):
    """Update the velocity of every round in flight."""
    e, m = wp.tid()
    slot = next_round(rounds.round_weapon, e, m * ROUNDS_PER_MECH, (m + 1) * ROUNDS_PER_MECH)
    while slot < (m + 1) * ROUNDS_PER_MECH:
        s = slot - m * ROUNDS_PER_MECH
        rounds_out.round_vel[e, m, s] = guided(
            rules,
            mechs,
            rounds.round_weapon[e, m, s],
            e,
            rounds.round_target[e, m, s],
            rounds.round_pos[e, m, s],
            rounds_out.round_vel[e, m, s],
        )
        slot = next_round(rounds.round_weapon, e, slot + 1, (m + 1) * ROUNDS_PER_MECH)


@wp.kernel
def fly(
    rules: Rules, world: World, mechs: Mechs, rounds: Rounds, rounds_out: Rounds, hits_out: Hits, blasts_out: Blasts
):
    """Age and move each round of a mech; record its hits and explosions."""
    e, m = wp.tid()
    hits_out.hit_mask[e, m] = 0
    blasts_out.impact_mask[e, m] = 0
    blasts_out.blast_mask[e, m] = 0
    for s in range(ROUNDS_PER_MECH):
        w = rounds_out.round_weapon[e, m, s]
        if w < 0:
            continue
        rounds_out.round_age[e, m, s] = rounds_out.round_age[e, m, s] + 1
        a = rounds_out.round_pos[e, m, s]
        v = rounds.round_vel[e, m, s]
        blasts_out.blast_pos[e, m, s] = a
        blasts_out.blast_skip[e, m, s] = -1
        blasts_out.blast_weapon[e, m, s] = w
        if rounds_out.round_age[e, m, s] > rules.weapons[w].life_ticks:
            rounds_out.round_weapon[e, m, s] = -1
            blasts_out.blast_mask[e, m] = blasts_out.blast_mask[e, m] | (rules.weapons[w].bursts_smoke << s)
            continue
        struck = first_struck(rules, mechs, e, m, a, v * rules.dt)
        path = v * (rules.dt * wp.min(struck[0], 1.0))
        block = cast_ray(world.shot_plane, e, world.size[e], a, a + path, True)
        j = int(struck[1])
        rounds_out.round_pos[e, m, s] = a + path
        if block[0] < 0.0 and j < 0:
            continue
        rounds_out.round_weapon[e, m, s] = -1
        blasts_out.blast_mask[e, m] = blasts_out.blast_mask[e, m] | (bursts(rules, w) << s)
        if block[0] >= 0.0:
            short = wp.max(0.0, block[0] - PULL_BACK * wp.length(v) * rules.dt)
            blasts_out.blast_pos[e, m, s] = clamped_inside(world.size[e], a + unit3(path) * short)
            cell = wp.vec3i(int(block[1]), int(block[2]), int(block[3]))
            if inside(world.size[e], cell[0], cell[1], cell[2]):
                blasts_out.impact_mask[e, m] = blasts_out.impact_mask[e, m] | (1 << s)
                blasts_out.impact_cell[e, m, s] = cell
                blasts_out.impact_weapon[e, m, s] = w
            continue
        blasts_out.blast_pos[e, m, s] = mechs.pos[e, j]
        blasts_out.blast_skip[e, m, s] = j
        if rules.weapons[w].bursts_smoke == 0:
            rear = is_rear(rules, v, mechs.yaw[e, j])
            hits_out.hit_mask[e, m] = hits_out.hit_mask[e, m] | (1 << s)
            hits_out.hit_target[e, m, s] = j
            hits_out.hit_damage[e, m, s] = rules.weapons[w].damage * rear_scale(rules, rear)
            hits_out.hit_stability[e, m, s] = rules.weapons[w].stability * rear_scale(rules, rear)
            leg = strikes_low(rules, a[2] + path[2], mechs.pos[e, j][2], rules.chassis[mechs.chassis[e, j]].half[2])
            hits_out.hit_flags[e, m, s] = hit_bits(rear, leg, is_painted_for(mechs, e, m, j))
            hits_out.hit_weapon[e, m, s] = w


@wp.kernel
def burst_smoke(rules: Rules, smoke: Smoke, blasts: Blasts, smoke_out: Smoke, events_out: Events):
    e = wp.tid()
    live = int(0)
    for m in range(blasts.blast_mask.shape[1]):
        mask = blasts.blast_mask[e, m]
        if mask != 0:
            for s in range(ROUNDS_PER_MECH):
                if (mask & (1 << s)) != 0 and rules.weapons[blasts.blast_weapon[e, m, s]].bursts_smoke == 1:
                    q = free_cloud(smoke, e, m)
                    if q < 0:
                        events_out.overflow[e, m] = events_out.overflow[e, m] | OVERFLOW_CLOUDS
                    else:
                        smoke_out.cloud_ticks[e, m, q] = rules.smoke_ticks
                        smoke_out.cloud_pos[e, m, q] = blasts.blast_pos[e, m, s]
        for q in range(CLOUDS_PER_MECH):
            live += wp.min(1, smoke_out.cloud_ticks[e, m, q])
    smoke_out.clouds[e] = live
