"""Phase 3 of a tick: clock, timers, electronic-warfare heat, hazards, balance, venting and dissipation.

Each mech is one thread and writes only itself. Deaths by hazards are marked here and stamped by ``terrain``.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.arsenal import Mechanic
from echelon.sim.tables import NUM_COOLDOWNS, Rules
from echelon.sim.world import Hazard

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SOLID = wp.constant(1)
LAVA = wp.constant(2)
WATER = wp.constant(3)
DEBRIS_FIELD = wp.constant(4)
BY_LAVA, BY_DEBRIS = wp.constant(int(Hazard.LAVA)), wp.constant(int(Hazard.DEBRIS))
HEAT = wp.constant(int(Mechanic.HEAT))
SUPPORT_GAP = wp.constant(0.05)
"""How far below the feet the supporting cell is looked up [vox]."""


@wp.func
def material_at(material: wp.array4d(dtype=wp.uint8), e: int, size: wp.vec3i, x: int, y: int, z: int) -> int:
    """Material of a cell; solid outside the grid."""
    if x < 0 or y < 0 or z < 0 or x >= size[0] or y >= size[1] or z >= size[2]:
        return SOLID
    return int(material[e, z, y, x])


@wp.func
def foot_material(material: wp.array4d(dtype=wp.uint8), e: int, size: wp.vec3i, pos: wp.vec3, foot: float) -> int:
    """Material in the column under the mech centre at height ``foot``."""
    return material_at(material, e, size, int(wp.floor(pos[0])), int(wp.floor(pos[1])), int(wp.floor(foot)))


@wp.func
def overheated(rules: Rules, c: int, heat: float, was_down: int) -> int:
    """Whether a mech of chassis ``c`` is shut down at this heat."""
    if heat > rules.heat_cap[c] or (was_down == 1 and heat > rules.heat_cap[c] * rules.shutdown_restart):
        return 1
    return 0


@wp.func
def heat_share(withheld: int) -> float:
    """Share of all heat that is felt: none in an episode that goes without."""
    if (withheld & HEAT) != 0:
        return 0.0
    return 1.0


@wp.kernel
def clock(
    # state out
    tick: wp.array(dtype=wp.int32), cloud_ticks: wp.array3d(dtype=wp.int32), clouds: wp.array(dtype=wp.int32),
):
    """Advance the tick counter of each environment and let its smoke age."""
    e = wp.tid()
    tick[e] = tick[e] + 1
    if clouds[e] == 0:
        return
    left = int(0)
    for m in range(cloud_ticks.shape[1]):
        for q in range(cloud_ticks.shape[2]):
            cloud_ticks[e, m, q] = wp.max(0, cloud_ticks[e, m, q] - 1)
            left += wp.min(1, cloud_ticks[e, m, q])
    clouds[e] = left


@wp.func
def count_down(t: int) -> int:
    """One tick less, not below zero."""
    return wp.max(0, t - 1)


@wp.kernel
def timers(
    # state in
    alive: wp.array2d(dtype=wp.int32),
    # state out
    cooldown: wp.array3d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), suppressed: wp.array2d(dtype=wp.int32),
):
    """Count down every timer of a living mech."""
    e, m = wp.tid()
    if alive[e, m] == 0:
        return
    for k in range(NUM_COOLDOWNS):
        cooldown[e, m, k] = count_down(cooldown[e, m, k])
    painted[e, m] = count_down(painted[e, m])
    suppressed[e, m] = count_down(suppressed[e, m])


@wp.func
def regen_factor(rules: Rules, legged: bool, moving: bool, suppressed: bool) -> float:
    """Share of stability regeneration left after penalties, which add up."""
    k = float(1.0)
    if legged:
        k -= rules.regen_legged_loss
    if moving:
        k -= rules.regen_moving_loss
    if suppressed:
        k -= rules.regen_suppressed_loss
    return wp.max(rules.regen_min, k)


@wp.kernel
def balance(
    # rules
    rules: Rules,
    # state in
    alive: wp.array2d(dtype=wp.int32), leg_hp: wp.array2d(dtype=wp.float32), suppressed: wp.array2d(dtype=wp.int32),
    # state out
    stability: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), vel: wp.array2d(dtype=wp.vec3),
    # events
    knockdowns: wp.array2d(dtype=wp.int32),
):
    """Stand up, fall over or regain stability."""
    e, m = wp.tid()
    if alive[e, m] == 0:
        return
    legged = leg_hp[e, m] <= 0.0
    if fallen[e, m] > 0:
        fallen[e, m] = fallen[e, m] - 1
        if fallen[e, m] == 0:
            stability[e, m] = rules.stand_up_stability
    elif stability[e, m] <= 0.0:
        fallen[e, m] = rules.fallen_ticks
        vel[e, m] = wp.vec3(0.0, 0.0, 0.0)
        knockdowns[e, m] = knockdowns[e, m] + 1
    else:
        top = rules.max_stability
        if legged:
            top = rules.legged_max_stability
        k = regen_factor(rules, legged, wp.length(vel[e, m]) > rules.moving_speed, suppressed[e, m] > 0)
        stability[e, m] = wp.min(top, stability[e, m] + rules.stability_regen * k)


@wp.kernel
def thermals(
    # rules
    rules: Rules,
    # world
    material: wp.array4d(dtype=wp.uint8), size: wp.array(dtype=wp.vec3i),
    # state in
    withheld: wp.array(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3),
    # controls
    vent: wp.array2d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32),
    # state out
    alive: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), shutdown: wp.array2d(dtype=wp.int32),
    # events
    took: wp.array2d(dtype=wp.float32), died: wp.array2d(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), hazard: wp.array2d(dtype=wp.int32), shutdowns: wp.array2d(dtype=wp.int32),
):
    """Add the heat of electronic warfare and hazards, take hazard damage, then vent and dissipate."""
    e, m = wp.tid()
    if alive[e, m] == 0:
        return
    c = chassis[e, m]
    h = heat[e, m]
    felt = heat_share(withheld[e])
    was_down = shutdown[e, m]
    if overheated(rules, c, h, was_down) == 0:
        h += felt * (float(ecm[e, m]) * rules.ecm_heat + float(eccm[e, m]) * rules.eccm_heat)
    foot = pos[e, m][2] - rules.half[c][2]
    ground = foot_material(material, e, size[e], pos[e, m], foot)
    damage = float(0.0)
    if ground == LAVA:
        h += felt * rules.lava_heat
        damage = rules.lava_damage
    elif ground == WATER:
        h = wp.max(0.0, h - rules.water_cooling)
    # what rests hovers by up to two ticks of falling, and still stands on no more than the voxel below
    gap = wp.clamp(2.0 * rules.gravity * rules.dt * rules.dt, SUPPORT_GAP, 0.99)
    if foot_material(material, e, size[e], pos[e, m], foot - gap) == DEBRIS_FIELD:
        h += felt * rules.debris_heat
        damage += rules.debris_damage
    if vent[e, m] == 1 and overheated(rules, c, h, was_down) == 0:
        h -= rules.vent_factor * rules.dissipation[c] * rules.dt
    h = wp.max(0.0, h - rules.dissipation[c] * rules.dt)
    heat[e, m] = h
    down = overheated(rules, c, h, was_down)
    if down == 1 and was_down == 0:
        shutdowns[e, m] = shutdowns[e, m] + 1
    shutdown[e, m] = down
    if damage > 0.0:
        hp[e, m] = hp[e, m] - damage
        took[e, m] = took[e, m] + damage
        if hp[e, m] <= 0.0:
            alive[e, m] = 0
            died[e, m] = 1
            dying[e, m] = 1
            hazard[e, m] = wp.where(ground == LAVA, BY_LAVA, BY_DEBRIS)
