"""Phase 4 of a tick: rounds age, meet point defence, turn, fly and strike.

One thread per mech moves its own rounds against the mechs and voxels as they stood at the phase's start. Hits on
mechs become hit records for ``damage``; strikes on terrain become impact records for ``terrain``.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.arsenal import Cooldown
from echelon.sim.geometry import EPS_DIV, unit3
from echelon.sim.kernels.fire import BALLISTIC, HOMING, hit_bits, is_rear, paint_helps, rear_scale
from echelon.sim.raycast import cast_ray, inside
from echelon.sim.rng import STREAM_COMBAT, uniform01
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

AMS_TIMER = wp.constant(int(Cooldown.AMS))
AMS_DRAW = wp.constant(64)
"""First draw of point defence in the combat stream, beyond those of the weapons."""
HOMING_NEAR = wp.constant(0.1)
"""Missiles closer than this fly straight on [vox]."""
PULL_BACK = wp.constant(1.0e-4)
"""How far before the wall a round bursts, as a share of its way in a tick."""
OVERFLOW_CLOUDS = wp.constant(2)


@wp.func
def closest_on_segment(a: wp.vec3, d: wp.vec3, p: wp.vec3) -> float:
    """Parameter in [0, 1] of the point of segment a + t d closest to p."""
    return wp.clamp(wp.dot(p - a, d) / wp.max(wp.dot(d, d), EPS_DIV), 0.0, 1.0)


@wp.func
def first_struck(
    rules: Rules, e: int, m: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), a: wp.vec3, d: wp.vec3,
) -> wp.vec2:
    """Hostile whose hit sphere the segment meets first: (parameter, index), index -1 if none."""
    best = wp.vec2(2.0, -1.0)
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] != team[e, m]:
            t = closest_on_segment(a, d, pos[e, j])
            if t < best[0] and wp.length(a + d * t - pos[e, j]) <= rules.hit_radius[chassis[e, j]]:
                best = wp.vec2(t, float(j))
    return best


@wp.func
def kept_inside(size: wp.vec3i, p: wp.vec3) -> wp.vec3:
    """A point moved onto the map if it lies outside, as that of a muzzle above the ceiling may."""
    return wp.vec3(
        wp.clamp(p[0], 0.0, float(size[0])), wp.clamp(p[1], 0.0, float(size[1])), wp.clamp(p[2], 0.0, float(size[2]))
    )


@wp.func
def bursts(rules: Rules, w: int) -> int:
    """1 for rounds that explode or burst into smoke where they end."""
    if rules.weapon_splash[w] > 0.0:
        return 1
    return rules.weapon_cloud[w]


@wp.func
def strikes_low(rules: Rules, z: float, centre_z: float, half_z: float) -> bool:
    """Whether a round at height z strikes the legs of a mech."""
    return z < centre_z - half_z + rules.leg_height * 2.0 * half_z


@wp.kernel
def defend(
    # rules
    rules: Rules,
    # state in
    alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), shutdown: wp.array2d(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), tick: wp.array(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3), round_age: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32),
    # state out
    cooldown: wp.array3d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32),
    # events
    intercepts: wp.array2d(dtype=wp.int32), ams_shot: wp.array2d(dtype=wp.vec4i),
):
    """Let point defence shoot at homing rounds, missile by missile, the lowest defender first; every try costs it."""
    e = wp.tid()
    for m in range(alive.shape[1]):
        for s in range(ROUNDS_PER_MECH):
            w = round_weapon[e, m, s]
            if w < 0:
                continue
            if rules.weapon_guidance[w] != HOMING or round_age[e, m, s] >= rules.weapon_life[w]:
                continue
            side = team[e, round_target[e, m, s]]
            for j in range(alive.shape[1]):
                ready = rules.has_ams[chassis[e, j]] == 1 and alive[e, j] == 1 and shutdown[e, j] == 0
                ready = ready and team[e, j] == side and cooldown[e, j, AMS_TIMER] == 0 and round_weapon[e, m, s] >= 0
                if ready and wp.length(pos[e, j] - round_pos[e, m, s]) <= rules.ams_range:
                    cooldown[e, j, AMS_TIMER] = rules.ams_ticks
                    roll = uniform01(seed[e], STREAM_COMBAT, tick[e], j, AMS_DRAW + m * ROUNDS_PER_MECH + s)
                    ams_shot[e, j] = wp.vec4i(m, s, w, 0)
                    if roll < rules.ams_chance:
                        ams_shot[e, j] = wp.vec4i(m, s, w, 1)
                        round_weapon[e, m, s] = -1
                        intercepts[e, j] = intercepts[e, j] + 1


@wp.func
def guided(rules: Rules, w: int, e: int, j: int, alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), p: wp.vec3, v: wp.vec3) -> wp.vec3:
    """Velocity of a round after its guidance or gravity acted for a tick."""
    kind = rules.weapon_guidance[w]
    if kind == BALLISTIC:
        return v - wp.vec3(0.0, 0.0, rules.gravity * rules.dt)
    if kind == HOMING and j >= 0:
        delta = pos[e, j] - p
        if alive[e, j] == 1 and wp.length(delta) > HOMING_NEAR:
            s = wp.min(1.0, rules.homing_gain)  # a long tick turns right onto the target and no farther
            return unit3(v * (1.0 - s) + unit3(delta) * (rules.weapon_speed[w] * s)) * rules.weapon_speed[w]
    return v


@wp.func
def free_cloud(cloud_ticks: wp.array3d(dtype=wp.int32), e: int, m: int) -> int:
    """First empty cloud slot of a mech, -1 if all live."""
    for q in range(CLOUDS_PER_MECH):
        if cloud_ticks[e, m, q] == 0:
            return q
    return -1


@wp.kernel
def guide(
    # rules
    rules: Rules,
    # state in
    alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), round_pos: wp.array3d(dtype=wp.vec3), round_target: wp.array3d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32),
    # state out
    round_vel: wp.array3d(dtype=wp.vec3),
):
    """Turn every round that still flies."""
    e, m = wp.tid()
    for s in range(ROUNDS_PER_MECH):
        w = round_weapon[e, m, s]
        if w >= 0:
            round_vel[e, m, s] = guided(rules, w, e, round_target[e, m, s], alive, pos, round_pos[e, m, s], round_vel[e, m, s])


@wp.kernel
def fly(
    # rules
    rules: Rules,
    # world
    shot_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), round_vel: wp.array3d(dtype=wp.vec3),
    # state out
    round_weapon: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3), round_age: wp.array3d(dtype=wp.int32),
    # events
    hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_stability: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32), impact_mask: wp.array2d(dtype=wp.int32), impact_cell: wp.array3d(dtype=wp.vec3i), impact_weapon: wp.array3d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32), blast_pos: wp.array3d(dtype=wp.vec3), blast_skip: wp.array3d(dtype=wp.int32), blast_weapon: wp.array3d(dtype=wp.int32),
):
    """Age and move each round of a mech; record what it hits and where it bursts."""
    e, m = wp.tid()
    hit_mask[e, m] = 0
    impact_mask[e, m] = 0
    blast_mask[e, m] = 0
    for s in range(ROUNDS_PER_MECH):
        w = round_weapon[e, m, s]
        if w < 0:
            continue
        round_age[e, m, s] = round_age[e, m, s] + 1
        a = round_pos[e, m, s]
        v = round_vel[e, m, s]
        blast_pos[e, m, s] = a
        blast_skip[e, m, s] = -1
        blast_weapon[e, m, s] = w
        if round_age[e, m, s] > rules.weapon_life[w]:
            round_weapon[e, m, s] = -1
            blast_mask[e, m] = blast_mask[e, m] | (rules.weapon_cloud[w] << s)
            continue
        struck = first_struck(rules, e, m, alive, team, chassis, pos, a, v * rules.dt)
        way = v * (rules.dt * wp.min(struck[0], 1.0))
        block = cast_ray(shot_plane, e, size[e], a, a + way, True)
        j = int(struck[1])
        round_pos[e, m, s] = a + way
        if block[0] < 0.0 and j < 0:
            continue
        round_weapon[e, m, s] = -1
        blast_mask[e, m] = blast_mask[e, m] | (bursts(rules, w) << s)
        if block[0] >= 0.0:
            short = wp.max(0.0, block[0] - PULL_BACK * wp.length(v) * rules.dt)
            blast_pos[e, m, s] = kept_inside(size[e], a + unit3(way) * short)
            cell = wp.vec3i(int(block[1]), int(block[2]), int(block[3]))
            if inside(size[e], cell[0], cell[1], cell[2]):
                impact_mask[e, m] = impact_mask[e, m] | (1 << s)
                impact_cell[e, m, s] = cell
                impact_weapon[e, m, s] = w
            continue
        blast_pos[e, m, s] = pos[e, j]
        blast_skip[e, m, s] = j
        if rules.weapon_cloud[w] == 0:
            rear = is_rear(rules, v, yaw[e, j])
            hit_mask[e, m] = hit_mask[e, m] | (1 << s)
            hit_target[e, m, s] = j
            hit_damage[e, m, s] = rules.weapon_damage[w] * rear_scale(rules, rear)
            hit_stability[e, m, s] = rules.weapon_stability[w] * rear_scale(rules, rear)
            leg = strikes_low(rules, a[2] + way[2], pos[e, j][2], rules.half[chassis[e, j]][2])
            hit_flags[e, m, s] = hit_bits(rear, leg, paint_helps(e, m, j, painted, painter, team, pack))
            hit_weapon[e, m, s] = w


@wp.kernel
def burst_smoke(
    # rules
    rules: Rules,
    # events
    blast_mask: wp.array2d(dtype=wp.int32), blast_pos: wp.array3d(dtype=wp.vec3), blast_weapon: wp.array3d(dtype=wp.int32), overflow: wp.array2d(dtype=wp.int32),
    # state out
    cloud_ticks: wp.array3d(dtype=wp.int32), cloud_pos: wp.array3d(dtype=wp.vec3), clouds: wp.array(dtype=wp.int32),
):
    """Turn burst smoke rounds into clouds, and count the clouds that live."""
    e = wp.tid()
    live = int(0)
    for m in range(blast_mask.shape[1]):
        mask = blast_mask[e, m]
        if mask != 0:
            for s in range(ROUNDS_PER_MECH):
                if (mask & (1 << s)) != 0 and rules.weapon_cloud[blast_weapon[e, m, s]] == 1:
                    q = free_cloud(cloud_ticks, e, m)
                    if q < 0:
                        overflow[e, m] = overflow[e, m] | OVERFLOW_CLOUDS
                    else:
                        cloud_ticks[e, m, q] = rules.smoke_ticks
                        cloud_pos[e, m, q] = blast_pos[e, m, s]
        for q in range(CLOUDS_PER_MECH):
            live += wp.min(1, cloud_ticks[e, m, q])
    clouds[e] = live
