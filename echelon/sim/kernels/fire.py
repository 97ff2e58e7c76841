# type: ignore
"""Weapons phase of a tick, first half: every mech evaluates its triggers against the state at the phase's start.

One thread per mech writes the mech's own heat and cooldowns, a hit record per hitscan shot, and new rounds into its
own slots. ``damage`` applies the hits. What a weapon does is read from its row of ``echelon.sim.arsenal``.
"""

import warp as wp

from echelon.sim import state
from echelon.sim.arsenal import Guidance
from echelon.sim.geometry import EPS_NORM, arc_tan2, cos_sin, unit3, wrap_angle, xy_length
from echelon.sim.kernels.upkeep import heat_share, overheated
from echelon.sim.raycast import sight_clear, smoke_blocks
from echelon.sim.rng import STREAM_COMBAT, uniform01
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

HITSCAN = wp.constant(int(Guidance.HITSCAN))
BALLISTIC = wp.constant(int(Guidance.BALLISTIC))
HOMING = wp.constant(int(Guidance.HOMING))
HIT_LEG = wp.constant(1)
HIT_REAR = wp.constant(2)
HIT_PAINTED = wp.constant(4)
AIM_HEIGHT = wp.constant(0.5)
"""Vertical scatter of hitscan hits, as a fraction of the half height."""
MUZZLE_HEIGHT = wp.constant(0.8)
"""Height of kinetic muzzles above the centre, as a fraction of the half height."""
LAUNCHER_GAP = wp.constant(0.5)
"""Height above the hull at which missiles are launched [vox]."""
OVERFLOW_ROUNDS = wp.constant(1)
MIN_TRAVEL = wp.constant(1.0e-6)
"""Horizontal length of an attack [vox] below which it comes from above or below, not from behind."""
HOLD_FIRE = wp.constant(-2)
"""Value of ``aim`` for a weapon that is not fired."""


@wp.func
def in_arc(delta: wp.vec3, cs: wp.vec2, arc_cos: float) -> bool:
    """Whether a horizontal direction lies within an arc around the heading; straight up or down counts."""
    n = xy_length(delta)
    if n < EPS_NORM:
        return True
    return delta[0] * cs[0] + delta[1] * cs[1] >= arc_cos * n


@wp.func
def pair_sight(
    plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, i: int, a: wp.vec3, j: int, b: wp.vec3
) -> bool:
    """Whether terrain leaves mechs i and j in sight of each other, cast from the lower to the higher index."""
    if i < j:
        return sight_clear(plane, e, size, a, b)
    return sight_clear(plane, e, size, b, a)


@wp.func
def is_painted_for(mechs: state.Mechs, e: int, shooter: int, target: int) -> bool:
    if mechs.painted[e, target] == 0:
        return False
    by = mechs.painter[e, target]
    return by >= 0 and mechs.team[e, by] == mechs.team[e, shooter] and mechs.pack[e, by] == mechs.pack[e, shooter]


@wp.func
def locks(rules: Rules, w: int, d: float, sees: bool, paint: bool, quality: float) -> bool:
    """Whether weapon w locks on a target at distance d: by sight, homing weapons also by the pack's paint."""
    if d > rules.weapons[w].range_vox:
        return False
    if rules.weapons[w].guidance == HOMING and paint and quality >= rules.paint_quality:
        return True
    return sees and d <= rules.weapons[w].sight_range_vox


@wp.func
def aimed_target(
    rules: Rules,
    world: state.World,
    mechs: state.Mechs,
    smoke: state.Smoke,
    e: int,
    m: int,
    w: int,
    cs: wp.vec2,
    quality: float,
    focus: int,
) -> int:
    """Return the focus target if weapon w locks on it, else the nearest hostile that it locks on, or -1."""
    best = int(-1)
    best_d = float(0.0)
    p = mechs.pos[e, m]
    for j in range(mechs.alive.shape[1]):
        if mechs.alive[e, j] == 1 and mechs.team[e, j] != mechs.team[e, m]:
            delta = mechs.pos[e, j] - p
            d = wp.length(delta)
            candidate = d <= rules.weapons[w].range_vox and (j == focus or best < 0 or d < best_d)
            if candidate and in_arc(delta, cs, rules.weapons[w].arc_cos):
                sees = bool(False)
                if d <= rules.weapons[w].sight_range_vox:
                    sees = pair_sight(world.sight_plane, e, world.size[e], m, p, j, mechs.pos[e, j])
                    sees = sees and not smoke_blocks(smoke, e, rules.smoke_radius_vox, p, mechs.pos[e, j])
                if locks(rules, w, d, sees, is_painted_for(mechs, e, m, j), quality):
                    if j == focus:
                        return j
                    best = j
                    best_d = d
    return best


@wp.func
def kinetic_target(rules: Rules, mechs: state.Mechs, w: int, e: int, m: int, yaw: float, focus: int) -> int:
    """Return the focus target within the wide cone, else the nearest hostile within the narrow one, else -1."""
    best = int(-1)
    best_d = rules.weapons[w].range_vox
    for j in range(mechs.alive.shape[1]):
        if mechs.alive[e, j] == 1 and mechs.team[e, j] != mechs.team[e, m]:
            delta = mechs.pos[e, j] - mechs.pos[e, m]
            d = wp.length(delta)
            if d <= rules.weapons[w].range_vox:
                error = wp.abs(wrap_angle(arc_tan2(delta[1], delta[0]) - yaw))
                if j == focus and error < rules.kinetic_focus_cone_rad:
                    return j
                if error < rules.kinetic_cone_rad and (d < best_d or best < 0):
                    best = j
                    best_d = d
    return best


@wp.func
def is_rear(rules: Rules, travel: wp.vec3, target_yaw: float) -> bool:
    """Whether an attack in direction ``travel`` strikes a mech of heading ``target_yaw`` from behind."""
    n = xy_length(travel)
    if n < MIN_TRAVEL:
        return False
    cs = cos_sin(target_yaw)
    return (travel[0] * cs[0] + travel[1] * cs[1]) / n > rules.rear_cos


@wp.func
def hit_bits(rear: bool, leg: bool, paint: bool) -> int:
    bits = int(0)
    if leg:
        bits += HIT_LEG
    if rear:
        bits += HIT_REAR
    if paint:
        bits += HIT_PAINTED
    return bits


@wp.func
def is_held(trigger: int, held: int) -> bool:
    """Whether a weapon's trigger is among the held ones; trigger -1 is a weapon that the mech does not carry."""
    return trigger >= 0 and (held & (1 << wp.max(trigger, 0))) != 0


@wp.func
def rear_scale(rules: Rules, rear: bool) -> float:
    if rear:
        return rules.rear_factor
    return 1.0


@wp.func
def aims_low(rules: Rules, u: float) -> bool:
    """Whether a hitscan shot, scattered in height by ``u`` in [0, 1), strikes the legs."""
    return AIM_HEIGHT * (2.0 * u - 1.0) < 2.0 * rules.leg_height - 1.0


@wp.func
def kinetic_aim(rules: Rules, mechs: state.Mechs, w: int, e: int, j: int, muzzle: wp.vec3, cs: wp.vec2) -> wp.vec3:
    """Return the direction of a kinetic round: at target j, raised for the drop if ballistic; ahead if j is -1."""
    if j < 0:
        return wp.vec3(cs[0], cs[1], 0.0)
    delta = mechs.pos[e, j] - muzzle
    if rules.weapons[w].guidance == BALLISTIC:
        t = wp.length(delta) / rules.weapons[w].speed_vox_s
        delta = delta + wp.vec3(0.0, 0.0, 0.5 * rules.gravity * t * t)
    return unit3(delta)


@wp.func
def smoke_aim(rules: Rules, mechs: state.Mechs, w: int, e: int, m: int, focus: int, cs: wp.vec2) -> wp.vec3:
    """Return the horizontal direction of a smoke round: toward a focus target in range, else ahead."""
    if focus >= 0:
        delta = mechs.pos[e, focus] - mechs.pos[e, m]
        if wp.length(delta) <= rules.weapons[w].range_vox and xy_length(delta) > EPS_NORM:
            return unit3(wp.vec3(delta[0], delta[1], 0.0))
    return wp.vec3(cs[0], cs[1], 0.0)


@wp.func
def living_focus(mechs: state.Mechs, e: int, focus: int) -> int:
    if focus >= 0:
        if mechs.alive[e, focus] == 1:
            return focus
    return -1


@wp.func
def muzzle_height(rules: Rules, w: int, half_z: float) -> float:
    """Return the height above the centre at which rounds of weapon w are launched."""
    if rules.weapons[w].guidance == HOMING:
        return half_z + LAUNCHER_GAP
    if rules.weapons[w].bursts_smoke == 1:
        return half_z
    return MUZZLE_HEIGHT * half_z


@wp.func
def free_round(rounds: state.Rounds, e: int, m: int) -> int:
    """Return the first free round slot of a mech, -1 if all are in flight."""
    for s in range(state.ROUNDS_PER_MECH):
        if rounds.round_weapon[e, m, s] < 0:
            return s
    return -1


@wp.kernel
def choose_targets(
    rules: Rules,
    world: state.World,
    mechs: state.Mechs,
    episode: state.Episode,
    smoke: state.Smoke,
    controls: state.Controls,
    senses: state.Senses,
    events_out: state.Events,
    hits_out: state.Hits,
    blasts_out: state.Blasts,
):
    """Choose the target of each triggered weapon that is ready: a mech, -1 for an unaimed shot, -2 to hold fire."""
    e, m = wp.tid()
    hits_out.hit_mask[e, m] = 0
    blasts_out.blast_mask[e, m] = 0
    held = controls.trigger[e, m]
    idle = (
        mechs.alive[e, m] == 0
        or mechs.fallen[e, m] > 0
        or overheated(rules, mechs.chassis[e, m], mechs.heat[e, m], mechs.shutdown[e, m])
    )
    cs = cos_sin(mechs.yaw[e, m])
    # not NUM_WEAPONS: unrolled, the loop would be 200 kB of machine code on CUDA and spill registers
    for w in range(rules.weapons.shape[0]):
        events_out.aim[e, m, w] = HOLD_FIRE
        if (
            idle
            or not is_held(rules.trigger_of[mechs.chassis[e, m], w], held)
            or mechs.cooldown[e, m, rules.weapons[w].cooldown] > 0
        ):
            continue
        if (rules.weapons[w].needs & episode.withheld[e]) != 0:
            continue
        kind = rules.weapons[w].guidance
        if kind == HITSCAN or kind == HOMING:
            j = aimed_target(rules, world, mechs, smoke, e, m, w, cs, senses.quality[e, m], controls.focus[e, m])
            if j >= 0:
                events_out.aim[e, m, w] = j
        elif rules.weapons[w].bursts_smoke == 1:
            events_out.aim[e, m, w] = living_focus(mechs, e, controls.focus[e, m])
        else:
            events_out.aim[e, m, w] = kinetic_target(rules, mechs, w, e, m, mechs.yaw[e, m], controls.focus[e, m])


@wp.func
def launch_velocity(
    rules: Rules, mechs: state.Mechs, w: int, e: int, m: int, j: int, muzzle: wp.vec3, cs: wp.vec2
) -> wp.vec3:
    direction = wp.vec3(cs[0], cs[1], 0.0)
    if rules.weapons[w].guidance == HOMING:
        direction = unit3(unit3(mechs.pos[e, j] - mechs.pos[e, m]) + wp.vec3(0.0, 0.0, rules.loft))
    elif rules.weapons[w].bursts_smoke == 1:
        direction = smoke_aim(rules, mechs, w, e, m, j, cs)
    else:
        direction = kinetic_aim(rules, mechs, w, e, j, muzzle, cs)
    return direction * rules.weapons[w].speed_vox_s


@wp.kernel
def fire_weapons(
    rules: Rules,
    mechs: state.Mechs,
    episode: state.Episode,
    rounds: state.Rounds,
    events: state.Events,
    mechs_out: state.Mechs,
    rounds_out: state.Rounds,
    events_out: state.Events,
    hits_out: state.Hits,
):
    """Fire the weapons whose ``aim`` is set, in order of their ids; each adds its heat before the next is checked."""
    e, m = wp.tid()
    c = mechs.chassis[e, m]
    p = mechs.pos[e, m]
    for w in range(NUM_WEAPONS):
        j = events.aim[e, m, w]
        k = rules.weapons[w].cooldown
        if (
            j == HOLD_FIRE
            or mechs_out.cooldown[e, m, k] > 0
            or overheated(rules, c, mechs_out.heat[e, m], mechs.shutdown[e, m])
        ):
            continue
        mechs_out.heat[e, m] = mechs_out.heat[e, m] + heat_share(episode.withheld[e]) * rules.weapons[w].heat
        mechs_out.cooldown[e, m, k] = rules.weapons[w].cooldown_ticks
        events_out.fired[e, m] = events_out.fired[e, m] | (1 << w)
        if rules.weapons[w].guidance == HITSCAN:
            rear = is_rear(rules, mechs.pos[e, j] - p, mechs.yaw[e, j])
            leg = aims_low(rules, uniform01(episode.seed[e], STREAM_COMBAT, episode.tick[e], m, w))
            hits_out.hit_mask[e, m] = hits_out.hit_mask[e, m] | (1 << w)
            hits_out.hit_target[e, m, w] = j
            hits_out.hit_damage[e, m, w] = rules.weapons[w].damage * rear_scale(rules, rear)
            hits_out.hit_stability[e, m, w] = rules.weapons[w].stability
            hits_out.hit_flags[e, m, w] = hit_bits(rear, leg, is_painted_for(mechs, e, m, j))
            hits_out.hit_weapon[e, m, w] = w
            continue
        s = free_round(rounds, e, m)
        if s < 0:
            events_out.overflow[e, m] = events_out.overflow[e, m] | OVERFLOW_ROUNDS
            continue
        muzzle = p + wp.vec3(0.0, 0.0, muzzle_height(rules, w, rules.chassis[c].half[2]))
        rounds_out.round_weapon[e, m, s] = w
        rounds_out.round_pos[e, m, s] = muzzle
        rounds_out.round_vel[e, m, s] = launch_velocity(rules, mechs, w, e, m, j, muzzle, cos_sin(mechs.yaw[e, m]))
        rounds_out.round_age[e, m, s] = 0
        rounds_out.round_target[e, m, s] = j
