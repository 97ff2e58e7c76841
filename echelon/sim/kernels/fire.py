"""Phase 5 of a tick, first half: every mech evaluates its triggers against the state at the phase's start.

One thread per mech. It writes its own heat and cooldowns, a hit record per hitscan shot, and new rounds into its
own slots; what hits do to their targets is ``damage``'s affair. Which weapon does what is a row of the arsenal.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.geometry import EPS_NORM, arc_tan2, cos_sin, unit3, wrap_angle, xy_length
from echelon.sim.kernels.upkeep import heat_share, overheated
from echelon.sim.raycast import sight_clear, smoke_blocks
from echelon.sim.rng import STREAM_COMBAT, uniform01
from echelon.sim.state import ROUNDS_PER_MECH
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

HITSCAN = wp.constant(0)
BALLISTIC = wp.constant(2)
HOMING = wp.constant(3)
HIT_LEG = wp.constant(1)
HIT_REAR = wp.constant(2)
HIT_PAINTED = wp.constant(4)
AIM_HEIGHT = wp.constant(0.5)
"""Share of the half height over which hitscan hits scatter."""
MUZZLE_HEIGHT = wp.constant(0.8)
"""Height of kinetic muzzles above the centre, as a share of the half height."""
LAUNCHER_GAP = wp.constant(0.5)
"""How far above the hull missiles leave [vox]."""
OVERFLOW_ROUNDS = wp.constant(1)
HOLD_FIRE = wp.constant(-2)
"""Aim of a weapon that is not fired."""


@wp.func
def in_arc(delta: wp.vec3, cs: wp.vec2, arc_cos: float) -> bool:
    """Whether a horizontal direction lies within an arc around the heading; straight up or down counts."""
    n = xy_length(delta)
    if n < EPS_NORM:
        return True
    return delta[0] * cs[0] + delta[1] * cs[1] >= arc_cos * n


@wp.func
def pair_sight(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, i: int, a: wp.vec3, j: int, b: wp.vec3) -> bool:
    """Terrain sight between mechs i and j, cast from the lower to the higher index."""
    if i < j:
        return sight_clear(plane, e, size, a, b)
    return sight_clear(plane, e, size, b, a)


@wp.func
def paint_helps(
    e: int, shooter: int, target: int, painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32),
) -> bool:
    """Whether the target is painted by the shooter's own pack."""
    if painted[e, target] == 0:
        return False
    by = painter[e, target]
    return by >= 0 and team[e, by] == team[e, shooter] and pack[e, by] == pack[e, shooter]


@wp.func
def locks(rules: Rules, w: int, d: float, sees: bool, paint: bool, quality: float) -> bool:
    """Whether weapon w may be fired at a target at distance d: by sight, and missiles also by own paint."""
    if d > rules.weapon_range[w]:
        return False
    if rules.weapon_guidance[w] == HOMING and paint and quality >= rules.paint_quality:
        return True
    return sees and d <= rules.weapon_sight_range[w]


@wp.func
def aimed_target(
    rules: Rules, w: int, plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, m: int,
    alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), quality: float,
    clouds: int, cloud_ticks: wp.array3d(dtype=wp.int32), cloud_pos: wp.array3d(dtype=wp.vec3), cs: wp.vec2, focus: int,
) -> int:
    """Focus target if it can be shot, else the nearest hostile that can, else -1; ties go to the lowest index."""
    best = int(-1)
    best_d = float(0.0)
    p = pos[e, m]
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] != team[e, m]:
            delta = pos[e, j] - p
            d = wp.length(delta)
            worth = d <= rules.weapon_range[w] and (j == focus or best < 0 or d < best_d)
            if worth and in_arc(delta, cs, rules.weapon_arc_cos[w]):
                sees = bool(False)
                if d <= rules.weapon_sight_range[w]:
                    sees = pair_sight(plane, e, size, m, p, j, pos[e, j])
                    sees = sees and not smoke_blocks(clouds, cloud_ticks, cloud_pos, e, rules.smoke_radius, p, pos[e, j])
                if locks(rules, w, d, sees, paint_helps(e, m, j, painted, painter, team, pack), quality):
                    if j == focus:
                        return j
                    best = j
                    best_d = d
    return best


@wp.func
def kinetic_target(
    rules: Rules, w: int, e: int, m: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: float, focus: int,
) -> int:
    """Focus target within the wide cone, else the nearest hostile within the narrow one, else -1; no sight test."""
    best = int(-1)
    best_d = rules.weapon_range[w]
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] != team[e, m]:
            delta = pos[e, j] - pos[e, m]
            d = wp.length(delta)
            if d <= rules.weapon_range[w]:
                error = wp.abs(wrap_angle(arc_tan2(delta[1], delta[0]) - yaw))
                if j == focus and error < rules.kinetic_focus_cone:
                    return j
                if error < rules.kinetic_cone and (d < best_d or best < 0):
                    best = j
                    best_d = d
    return best


@wp.func
def is_rear(rules: Rules, travel: wp.vec3, target_yaw: float) -> bool:
    """Whether an attack travelling this way strikes a mech with this heading from behind."""
    n = xy_length(travel)
    if n < 1.0e-6:
        return False
    cs = cos_sin(target_yaw)
    return (travel[0] * cs[0] + travel[1] * cs[1]) / n > rules.rear_cos


@wp.func
def hit_bits(rear: bool, leg: bool, paint: bool) -> int:
    """Flags of a hit record."""
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
    """Whether a weapon's trigger is pulled; -1 is a weapon not carried."""
    return trigger >= 0 and (held & (1 << wp.max(trigger, 0))) != 0


@wp.func
def rear_scale(rules: Rules, rear: bool) -> float:
    """Factor on damage from this side."""
    if rear:
        return rules.rear_factor
    return 1.0


@wp.func
def aims_low(rules: Rules, u: float) -> bool:
    """Whether a hitscan shot, scattered in height by ``u`` in [0, 1), strikes the legs."""
    return AIM_HEIGHT * (2.0 * u - 1.0) < 2.0 * rules.leg_height - 1.0


@wp.func
def kinetic_aim(rules: Rules, w: int, e: int, j: int, pos: wp.array2d(dtype=wp.vec3), muzzle: wp.vec3, cs: wp.vec2) -> wp.vec3:
    """Direction of a kinetic round: at the target's centre, raised for the drop if it falls; ahead without one."""
    if j < 0:
        return wp.vec3(cs[0], cs[1], 0.0)
    delta = pos[e, j] - muzzle
    if rules.weapon_guidance[w] == BALLISTIC:
        t = wp.length(delta) / rules.weapon_speed[w]
        delta = delta + wp.vec3(0.0, 0.0, 0.5 * rules.gravity * t * t)
    return unit3(delta)


@wp.func
def smoke_aim(rules: Rules, w: int, e: int, m: int, focus: int, pos: wp.array2d(dtype=wp.vec3), cs: wp.vec2) -> wp.vec3:
    """Horizontal direction of a smoke round: toward the focus target in range, else ahead."""
    if focus >= 0:
        delta = pos[e, focus] - pos[e, m]
        if wp.length(delta) <= rules.weapon_range[w] and xy_length(delta) > EPS_NORM:
            return unit3(wp.vec3(delta[0], delta[1], 0.0))
    return wp.vec3(cs[0], cs[1], 0.0)


@wp.func
def living_focus(e: int, focus: int, alive: wp.array2d(dtype=wp.int32)) -> int:
    """The focus target while it lives, else -1."""
    if focus >= 0:
        if alive[e, focus] == 1:
            return focus
    return -1


@wp.func
def muzzle_height(rules: Rules, w: int, half_z: float) -> float:
    """Height above the centre at which rounds of weapon w leave."""
    if rules.weapon_guidance[w] == HOMING:
        return half_z + LAUNCHER_GAP
    if rules.weapon_cloud[w] == 1:
        return half_z
    return MUZZLE_HEIGHT * half_z


@wp.func
def free_round(round_weapon: wp.array3d(dtype=wp.int32), e: int, m: int) -> int:
    """First empty round slot of a mech, -1 if all fly."""
    for s in range(ROUNDS_PER_MECH):
        if round_weapon[e, m, s] < 0:
            return s
    return -1


@wp.kernel
def choose_targets(
    # rules
    rules: Rules,
    # world
    sight_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    withheld: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32), heat: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), cooldown: wp.array3d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32), clouds: wp.array(dtype=wp.int32), cloud_ticks: wp.array3d(dtype=wp.int32), cloud_pos: wp.array3d(dtype=wp.vec3),
    # controls
    trigger: wp.array2d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32),
    # events
    aim: wp.array3d(dtype=wp.int32), hit_mask: wp.array2d(dtype=wp.int32), blast_mask: wp.array2d(dtype=wp.int32),
):
    """Find the target of each weapon that is pulled and ready: a mech, -1 for a blind shot, -2 for none."""
    e, m = wp.tid()
    hit_mask[e, m] = 0
    blast_mask[e, m] = 0
    held = trigger[e, m]
    idle = alive[e, m] == 0 or fallen[e, m] > 0 or overheated(rules, chassis[e, m], heat[e, m], shutdown[e, m]) == 1
    cs = cos_sin(yaw[e, m])
    for w in range(NUM_WEAPONS):
        aim[e, m, w] = HOLD_FIRE
        if idle or not is_held(rules.trigger_of[chassis[e, m], w], held) or cooldown[e, m, rules.weapon_cooldown[w]] > 0:
            continue
        if (rules.weapon_needs[w] & withheld[e]) != 0:
            continue
        kind = rules.weapon_guidance[w]
        if kind == HITSCAN or kind == HOMING:
            j = aimed_target(
                rules, w, sight_plane, e, size[e], m, alive, team, pack, pos, painted, painter, quality[e, m],
                clouds[e], cloud_ticks, cloud_pos, cs, focus[e, m],
            )
            if j >= 0:
                aim[e, m, w] = j
        elif rules.weapon_cloud[w] == 1:
            aim[e, m, w] = living_focus(e, focus[e, m], alive)
        else:
            aim[e, m, w] = kinetic_target(rules, w, e, m, alive, team, pos, yaw[e, m], focus[e, m])


@wp.func
def launch_velocity(rules: Rules, w: int, e: int, m: int, j: int, pos: wp.array2d(dtype=wp.vec3), muzzle: wp.vec3, cs: wp.vec2) -> wp.vec3:
    """Velocity of a fresh round of weapon w aimed at mech j, -1 for none."""
    way = wp.vec3(cs[0], cs[1], 0.0)
    if rules.weapon_guidance[w] == HOMING:
        way = unit3(unit3(pos[e, j] - pos[e, m]) + wp.vec3(0.0, 0.0, rules.loft))
    elif rules.weapon_cloud[w] == 1:
        way = smoke_aim(rules, w, e, m, j, pos, cs)
    else:
        way = kinetic_aim(rules, w, e, j, pos, muzzle, cs)
    return way * rules.weapon_speed[w]


@wp.kernel
def triggers(
    # rules
    rules: Rules,
    # state in
    withheld: wp.array(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), shutdown: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), tick: wp.array(dtype=wp.int32), aim: wp.array3d(dtype=wp.int32),
    # state out
    heat: wp.array2d(dtype=wp.float32), cooldown: wp.array3d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_pos: wp.array3d(dtype=wp.vec3), round_vel: wp.array3d(dtype=wp.vec3), round_age: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32),
    # events
    fired: wp.array2d(dtype=wp.int32), hit_mask: wp.array2d(dtype=wp.int32), hit_target: wp.array3d(dtype=wp.int32), hit_damage: wp.array3d(dtype=wp.float32), hit_stability: wp.array3d(dtype=wp.float32), hit_flags: wp.array3d(dtype=wp.int32), hit_weapon: wp.array3d(dtype=wp.int32), overflow: wp.array2d(dtype=wp.int32),
):
    """Fire the weapons that have a target or need none, in their order, each feeling the heat of those before."""
    e, m = wp.tid()
    c = chassis[e, m]
    p = pos[e, m]
    for w in range(NUM_WEAPONS):
        j = aim[e, m, w]
        k = rules.weapon_cooldown[w]
        if j == HOLD_FIRE or cooldown[e, m, k] > 0 or overheated(rules, c, heat[e, m], shutdown[e, m]) == 1:
            continue
        heat[e, m] = heat[e, m] + heat_share(withheld[e]) * rules.weapon_heat[w]
        cooldown[e, m, k] = rules.weapon_cooldown_ticks[w]
        fired[e, m] = fired[e, m] | (1 << w)
        if rules.weapon_guidance[w] == HITSCAN:
            rear = is_rear(rules, pos[e, j] - p, yaw[e, j])
            leg = aims_low(rules, uniform01(seed[e], STREAM_COMBAT, tick[e], m, w))
            hit_mask[e, m] = hit_mask[e, m] | (1 << w)
            hit_target[e, m, w] = j
            hit_damage[e, m, w] = rules.weapon_damage[w] * rear_scale(rules, rear)
            hit_stability[e, m, w] = rules.weapon_stability[w]
            hit_flags[e, m, w] = hit_bits(rear, leg, paint_helps(e, m, j, painted, painter, team, pack))
            hit_weapon[e, m, w] = w
            continue
        s = free_round(round_weapon, e, m)
        if s < 0:
            overflow[e, m] = overflow[e, m] | OVERFLOW_ROUNDS
            continue
        muzzle = p + wp.vec3(0.0, 0.0, muzzle_height(rules, w, rules.half[c][2]))
        round_weapon[e, m, s] = w
        round_pos[e, m, s] = muzzle
        round_vel[e, m, s] = launch_velocity(rules, w, e, m, j, pos, muzzle, cos_sin(yaw[e, m]))
        round_age[e, m, s] = 0
        round_target[e, m, s] = j
