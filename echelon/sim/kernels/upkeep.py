# type: ignore
"""Upkeep phase of a tick: clock, timers, heat of electronic warfare, hazards, balance, venting and dissipation.

One thread per mech writes only that mech. Deaths by hazards are marked here; ``terrain`` turns them into wrecks.
"""

import warp as wp

from echelon.sim.arsenal import Mechanic
from echelon.sim.state import Controls, Episode, Events, Mechs, Smoke, World
from echelon.sim.tables import NUM_COOLDOWNS, Rules
from echelon.sim.world import Hazard, Material

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SOLID = wp.constant(int(Material.SOLID))
LAVA = wp.constant(int(Material.LAVA))
WATER = wp.constant(int(Material.WATER))
DEBRIS_FIELD = wp.constant(int(Material.DEBRIS_FIELD))
BY_LAVA, BY_DEBRIS = wp.constant(int(Hazard.LAVA)), wp.constant(int(Hazard.DEBRIS))
HEAT = wp.constant(int(Mechanic.HEAT))
SUPPORT_GAP = wp.constant(0.05)
"""Least distance below the feet at which the supporting cell is looked up [vox]."""


@wp.func
def material_at(material: wp.array4d(dtype=wp.uint8), e: int, size: wp.vec3i, x: int, y: int, z: int) -> int:
    if x < 0 or y < 0 or z < 0 or x >= size[0] or y >= size[1] or z >= size[2]:
        return SOLID
    return int(material[e, z, y, x])


@wp.func
def foot_material(material: wp.array4d(dtype=wp.uint8), e: int, size: wp.vec3i, pos: wp.vec3, foot: float) -> int:
    """Return the material of the cell at height ``foot`` in the column of the mech's centre."""
    return material_at(material, e, size, int(wp.floor(pos[0])), int(wp.floor(pos[1])), int(wp.floor(foot)))


@wp.func
def overheated(rules: Rules, c: int, heat: float, was_down: int) -> bool:
    cap = rules.chassis[c].heat_cap
    return heat > cap or (was_down == 1 and heat > cap * rules.shutdown_restart)


@wp.func
def heat_share(withheld: int) -> float:
    """Return the factor on all heat: 0 in episodes where the heat mechanic is disabled, else 1."""
    if (withheld & HEAT) != 0:
        return 0.0
    return 1.0


@wp.kernel
def clock(episode_out: Episode, smoke_out: Smoke):
    """Advance the tick counter of each environment and age its smoke clouds."""
    e = wp.tid()
    episode_out.tick[e] = episode_out.tick[e] + 1
    if smoke_out.clouds[e] == 0:
        return
    left = int(0)
    for m in range(smoke_out.cloud_ticks.shape[1]):
        for q in range(smoke_out.cloud_ticks.shape[2]):
            smoke_out.cloud_ticks[e, m, q] = wp.max(0, smoke_out.cloud_ticks[e, m, q] - 1)
            left += wp.min(1, smoke_out.cloud_ticks[e, m, q])
    smoke_out.clouds[e] = left


@wp.func
def count_down(t: int) -> int:
    return wp.max(0, t - 1)


@wp.kernel
def timers(mechs: Mechs, mechs_out: Mechs):
    e, m = wp.tid()
    if mechs.alive[e, m] == 0:
        return
    for k in range(NUM_COOLDOWNS):
        mechs_out.cooldown[e, m, k] = count_down(mechs_out.cooldown[e, m, k])
    mechs_out.painted[e, m] = count_down(mechs_out.painted[e, m])
    mechs_out.suppressed[e, m] = count_down(mechs_out.suppressed[e, m])


@wp.func
def regen_factor(rules: Rules, legged: bool, moving: bool, suppressed: bool) -> float:
    k = float(1.0)
    if legged:
        k -= rules.regen_legged_loss
    if moving:
        k -= rules.regen_moving_loss
    if suppressed:
        k -= rules.regen_suppressed_loss
    return wp.max(rules.regen_min, k)


@wp.kernel
def balance(rules: Rules, mechs: Mechs, mechs_out: Mechs, events_out: Events):
    e, m = wp.tid()
    if mechs.alive[e, m] == 0:
        return
    legged = mechs.leg_hp[e, m] <= 0.0
    if mechs_out.fallen[e, m] > 0:
        mechs_out.fallen[e, m] = mechs_out.fallen[e, m] - 1
        if mechs_out.fallen[e, m] == 0:
            mechs_out.stability[e, m] = rules.stand_up_stability
    elif mechs_out.stability[e, m] <= 0.0:
        mechs_out.fallen[e, m] = rules.fallen_ticks
        mechs_out.vel[e, m] = wp.vec3(0.0, 0.0, 0.0)
        events_out.knockdowns[e, m] = events_out.knockdowns[e, m] + 1
    else:
        top = rules.max_stability
        if legged:
            top = rules.legged_max_stability
        k = regen_factor(rules, legged, wp.length(mechs_out.vel[e, m]) > rules.moving_vox_s, mechs.suppressed[e, m] > 0)
        mechs_out.stability[e, m] = wp.min(top, mechs_out.stability[e, m] + rules.stability_regen * k)


@wp.kernel
def thermals(
    rules: Rules, world: World, mechs: Mechs, episode: Episode, controls: Controls, mechs_out: Mechs, events_out: Events
):
    """Add heat of electronic warfare and hazards, apply hazard damage, then vent and dissipate."""
    e, m = wp.tid()
    if mechs_out.alive[e, m] == 0:
        return
    c = mechs.chassis[e, m]
    h = mechs_out.heat[e, m]
    felt = heat_share(episode.withheld[e])
    was_down = mechs_out.shutdown[e, m]
    if not overheated(rules, c, h, was_down):
        h += felt * (float(controls.ecm[e, m]) * rules.ecm_heat + float(controls.eccm[e, m]) * rules.eccm_heat)
    foot = mechs.pos[e, m][2] - rules.chassis[c].half[2]
    ground = foot_material(world.material, e, world.size[e], mechs.pos[e, m], foot)
    damage = float(0.0)
    if ground == LAVA:
        h += felt * rules.lava_heat
        damage = rules.lava_damage
    elif ground == WATER:
        h = wp.max(0.0, h - rules.water_cooling)
    # A resting mech hovers by up to two ticks of falling; the gap stays below one voxel.
    gap = wp.clamp(2.0 * rules.gravity * rules.dt * rules.dt, SUPPORT_GAP, 0.99)
    if foot_material(world.material, e, world.size[e], mechs.pos[e, m], foot - gap) == DEBRIS_FIELD:
        h += felt * rules.debris_heat
        damage += rules.debris_damage
    if controls.vent[e, m] == 1 and not overheated(rules, c, h, was_down):
        h -= rules.vent_factor * rules.chassis[c].dissipation * rules.dt
    h = wp.max(0.0, h - rules.chassis[c].dissipation * rules.dt)
    mechs_out.heat[e, m] = h
    down = overheated(rules, c, h, was_down)
    if down and was_down == 0:
        events_out.shutdowns[e, m] = events_out.shutdowns[e, m] + 1
    mechs_out.shutdown[e, m] = wp.where(down, 1, 0)
    if damage > 0.0:
        mechs_out.hp[e, m] = mechs_out.hp[e, m] - damage
        events_out.took[e, m] = events_out.took[e, m] + damage
        if mechs_out.hp[e, m] <= 0.0:
            mechs_out.alive[e, m] = 0
            events_out.died[e, m] = 1
            events_out.dying[e, m] = 1
            events_out.hazard[e, m] = wp.where(ground == LAVA, BY_LAVA, BY_DEBRIS)
