"""Packs the arsenal, the materials and the physical constants into ``Rules`` on a device.

``Rules`` is read-only to every kernel. Seconds become integer ticks here, once, by the rounding of the clock:
durations round up, flight lives round down.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, cos, floor, radians

import numpy as np
import warp as wp

from echelon.config import EnvConfig, PhysicsConfig
from echelon.sim.arsenal import ROSTER, WEAPONS, ChassisSpec, Cooldown, Weapon, WeaponSpec
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, MATERIAL_HP, MATERIALS, STOPS_SHOT

NUM_WEAPONS = len(WEAPONS)
NUM_COOLDOWNS = len(Cooldown)


def duration_ticks(seconds: float, dt: float) -> int:
    """Ticks of a cooldown or duration [s] at tick length ``dt`` [s]."""
    return ceil(seconds / dt - 1e-6)


def life_ticks(seconds: float, dt: float) -> int:
    """Ticks a round flies, from its life [s]."""
    return floor(seconds / dt + 1e-6)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The tables that one environment is played with; ``echelon.sim.overrides`` makes them."""

    chassis: tuple[ChassisSpec, ...]
    weapons: tuple[WeaponSpec, ...]
    physics: PhysicsConfig


@wp.struct
class Rules:
    """What does not change during play; arrays are indexed by chassis, weapon or material id."""

    # chassis
    half: wp.array(dtype=wp.vec3)
    max_speed: wp.array(dtype=wp.float32)
    max_yaw_rate: wp.array(dtype=wp.float32)
    max_jet: wp.array(dtype=wp.float32)
    max_hp: wp.array(dtype=wp.float32)
    max_leg_hp: wp.array(dtype=wp.float32)
    heat_cap: wp.array(dtype=wp.float32)
    dissipation: wp.array(dtype=wp.float32)
    tonnage: wp.array(dtype=wp.float32)
    noise_mass: wp.array(dtype=wp.float32)
    wreck_solid: wp.array(dtype=wp.float32)
    sort_rank: wp.array(dtype=wp.int32)
    hit_radius: wp.array(dtype=wp.float32)
    has_ewar: wp.array(dtype=wp.int32)
    has_ams: wp.array(dtype=wp.int32)
    trigger_of: wp.array2d(dtype=wp.int32)
    """Trigger bit that fires weapon w on chassis c, -1 if not carried, shape [chassis, weapon]."""
    roster: wp.array(dtype=wp.int32)
    """Chassis of each position in a pack."""
    # weapons
    weapon_cooldown: wp.array(dtype=wp.int32)
    weapon_cooldown_ticks: wp.array(dtype=wp.int32)
    weapon_guidance: wp.array(dtype=wp.int32)
    weapon_range: wp.array(dtype=wp.float32)
    weapon_damage: wp.array(dtype=wp.float32)
    weapon_stability: wp.array(dtype=wp.float32)
    weapon_heat: wp.array(dtype=wp.float32)
    weapon_target_heat: wp.array(dtype=wp.float32)
    weapon_arc_cos: wp.array(dtype=wp.float32)
    weapon_speed: wp.array(dtype=wp.float32)
    weapon_life: wp.array(dtype=wp.int32)
    weapon_sight_range: wp.array(dtype=wp.float32)
    weapon_cloud: wp.array(dtype=wp.int32)
    weapon_splash: wp.array(dtype=wp.float32)
    weapon_splash_scale: wp.array(dtype=wp.float32)
    weapon_paints: wp.array(dtype=wp.int32)
    weapon_suppresses: wp.array(dtype=wp.int32)
    weapon_needs: wp.array(dtype=wp.int32)
    """Bits of ``Mechanic`` without which the weapon stays silent."""
    # materials
    material_move: wp.array(dtype=wp.int32)
    material_sight: wp.array(dtype=wp.int32)
    material_shot: wp.array(dtype=wp.int32)
    material_hp: wp.array(dtype=wp.uint16)
    material_destructible: wp.array(dtype=wp.int32)
    # clock
    dt: wp.float32
    fallen_ticks: wp.int32
    painted_ticks: wp.int32
    suppressed_ticks: wp.int32
    assist_ticks: wp.int32
    engaged_ticks: wp.int32
    max_decisions: wp.int32
    ticks_per_decision: wp.int32
    # physics
    gravity: wp.float32
    damping: wp.float32
    step_height: wp.float32
    step_max_vz: wp.float32
    legged_speed: wp.float32
    legged_jet: wp.float32
    water_speed: wp.float32
    lava_heat: wp.float32
    lava_damage: wp.float32
    debris_heat: wp.float32
    debris_damage: wp.float32
    water_cooling: wp.float32
    vent_factor: wp.float32
    ecm_heat: wp.float32
    eccm_heat: wp.float32
    max_stability: wp.float32
    legged_max_stability: wp.float32
    shutdown_restart: wp.float32
    stand_up_stability: wp.float32
    stability_regen: wp.float32
    regen_legged_loss: wp.float32
    regen_moving_loss: wp.float32
    regen_suppressed_loss: wp.float32
    regen_min: wp.float32
    moving_speed: wp.float32
    landing_free_speed: wp.float32
    landing_shock: wp.float32
    landing_crash: wp.float32
    rear_cos: wp.float32
    rear_factor: wp.float32
    leg_height: wp.float32
    leg_body_share: wp.float32
    paint_bonus: wp.float32
    kinetic_cone: wp.float32
    kinetic_focus_cone: wp.float32
    homing_gain: wp.float32
    loft: wp.float32
    smoke_radius: wp.float32
    smoke_ticks: wp.int32
    ams_range: wp.float32
    ams_chance: wp.float32
    ams_ticks: wp.int32
    # sensing
    full_observation: wp.int32
    radar: wp.float32
    bloom_heat: wp.float32
    ewar_range: wp.float32
    ecm_weight: wp.float32
    own_eccm: wp.int32
    eccm_weight: wp.float32
    quality_min: wp.float32
    quality_max: wp.float32
    paint_quality: wp.float32
    targeted_range: wp.float32
    acoustic_occlusion: wp.float32
    enable_ewar: wp.int32
    enable_target: wp.int32
    enable_obs_control: wp.int32
    enable_comm: wp.int32
    comm_dim: wp.int32
    # spawning
    spawn_jitter: wp.float32
    spawn_yaw_jitter: wp.float32
    # objective
    contested_floor: wp.float32
    score_to_win: wp.float32
    dt_act: wp.float32


PER_SECOND = ("lava_heat", "lava_damage", "debris_heat", "debris_damage", "water_cooling", "ecm_heat", "eccm_heat",
              "stability_regen", "homing_gain")  # fmt: skip
"""Fields of ``Rules`` stored per tick although the config states them per second (``<name>_s``)."""
SAME_NAME = (
    "damping", "step_max_vz", "legged_speed", "legged_jet", "water_speed", "vent_factor", "max_stability",
    "legged_max_stability", "stand_up_stability", "shutdown_restart", "rear_cos", "rear_factor", "leg_height",
    "leg_body_share", "paint_bonus", "bloom_heat", "ecm_weight", "eccm_weight", "quality_min", "quality_max",
    "paint_quality", "acoustic_occlusion", "loft", "ams_chance", "regen_legged_loss", "regen_moving_loss",
    "regen_suppressed_loss", "regen_min", "landing_free_speed", "landing_shock", "landing_crash",
)  # fmt: skip
RENAMED = {
    "step_height": "step_height_vox",
    "radar": "radar_vox",
    "ewar_range": "ewar_vox",
    "targeted_range": "targeted_vox",
    "smoke_radius": "smoke_radius_vox",
    "moving_speed": "moving_vox_s",
    "ams_range": "ams_vox",
    "spawn_jitter": "spawn_jitter_vox",
    "spawn_yaw_jitter": "spawn_yaw_jitter_rad",
    "kinetic_cone": "kinetic_cone_rad",
    "kinetic_focus_cone": "kinetic_focus_cone_rad",
}


def pack_rules(cfg: EnvConfig, figures: Figures, device: str) -> Rules:
    """Build ``Rules`` on ``device`` for environments of one configuration that are played with ``figures``."""
    rules = Rules()
    _pack_chassis(rules, figures.chassis, device)
    _pack_weapons(rules, figures.weapons, cfg.dt_sim, device)
    rules.material_move = wp.array(BLOCKS_MOVE.astype(np.int32), dtype=wp.int32, device=device)
    rules.material_sight = wp.array(BLOCKS_SIGHT.astype(np.int32), dtype=wp.int32, device=device)
    rules.material_shot = wp.array(STOPS_SHOT.astype(np.int32), dtype=wp.int32, device=device)
    rules.material_hp = wp.array(MATERIAL_HP, dtype=wp.uint16, device=device)
    rules.material_destructible = wp.array([int(m.destructible) for m in MATERIALS], dtype=wp.int32, device=device)
    physics = figures.physics
    for name in PER_SECOND:
        setattr(rules, name, getattr(physics, f"{name}_s") * cfg.dt_sim)
    for name in SAME_NAME:
        setattr(rules, name, getattr(physics, name))
    for name, source in RENAMED.items():
        setattr(rules, name, getattr(physics, source))
    rules.gravity = physics.gravity_m_s2 / cfg.world.voxel_size_m
    rules.own_eccm = int(physics.own_eccm)
    rules.dt = cfg.dt_sim
    for name in ("fallen", "painted", "suppressed", "engaged"):
        setattr(rules, f"{name}_ticks", duration_ticks(getattr(physics, f"{name}_s"), cfg.dt_sim))
    rules.smoke_ticks = duration_ticks(physics.smoke_life_s, cfg.dt_sim)
    rules.ams_ticks = max(1, duration_ticks(physics.ams_cooldown_s, cfg.dt_sim))  # one try a tick, however quick
    rules.assist_ticks = duration_ticks(cfg.reward.assist_period_s, cfg.dt_sim)
    rules.max_decisions = cfg.max_steps
    rules.ticks_per_decision = cfg.decision_repeat
    rules.full_observation = int(cfg.observation_mode == "full")
    rules.enable_ewar = int(cfg.enable_ewar)
    rules.enable_target = int(cfg.enable_target_selection)
    rules.enable_obs_control = int(cfg.enable_obs_control)
    rules.enable_comm = int(cfg.enable_comm)
    rules.comm_dim = cfg.comm_dim
    rules.contested_floor = cfg.contested_floor
    rules.score_to_win = cfg.zone_score_to_win
    rules.dt_act = cfg.dt_act
    return rules


def _pack_chassis(rules: Rules, specs: tuple[ChassisSpec, ...], device: str) -> None:
    half = np.array([c.size for c in specs], dtype=np.float32) / 2
    rules.half = wp.array(half, dtype=wp.vec3, device=device)
    columns = {"max_hp": "hp", "max_leg_hp": "leg_hp"}
    for name in ("max_speed", "max_yaw_rate", "max_jet", "max_hp", "max_leg_hp", "heat_cap", "dissipation", "tonnage",
                 "noise_mass", "wreck_solid", "hit_radius"):  # fmt: skip
        values = [float(getattr(c, columns.get(name, name))) for c in specs]
        setattr(rules, name, wp.array(values, dtype=wp.float32, device=device))
    for name in ("sort_rank", "has_ewar", "has_ams"):
        setattr(rules, name, wp.array([int(getattr(c, name)) for c in specs], dtype=wp.int32, device=device))
    rules.roster = wp.array([int(c) for c in ROSTER], dtype=wp.int32, device=device)
    triggers = [[int(c.carries.get(Weapon(w), -1)) for w in range(NUM_WEAPONS)] for c in specs]
    rules.trigger_of = wp.array(np.array(triggers, dtype=np.int32), dtype=wp.int32, device=device)


def _pack_weapons(rules: Rules, specs: tuple[WeaponSpec, ...], dt: float, device: str) -> None:
    floats = {
        "weapon_range": [w.range_vox for w in specs],
        "weapon_damage": [w.damage for w in specs],
        "weapon_stability": [w.stability for w in specs],
        "weapon_heat": [w.heat for w in specs],
        "weapon_target_heat": [w.target_heat for w in specs],
        "weapon_arc_cos": [cos(radians(w.arc_deg / 2)) for w in specs],
        "weapon_sight_range": [w.own_sight_vox or w.range_vox for w in specs],
        "weapon_splash": [w.splash_vox for w in specs],
        "weapon_splash_scale": [w.splash_scale for w in specs],
        "weapon_speed": [w.speed_vox_s for w in specs],
    }
    ints = {
        "weapon_cooldown": [int(w.cooldown) for w in specs],
        "weapon_cooldown_ticks": [duration_ticks(w.cooldown_s, dt) for w in specs],
        "weapon_guidance": [int(w.guidance) for w in specs],
        "weapon_life": [life_ticks(w.life_s, dt) for w in specs],
        "weapon_cloud": [int(w.bursts_smoke) for w in specs],
        "weapon_paints": [int(w.paints) for w in specs],
        "weapon_suppresses": [int(w.suppresses) for w in specs],
        "weapon_needs": [int(w.needs) for w in specs],
    }
    for name, values in floats.items():
        setattr(rules, name, wp.array([float(v) for v in values], dtype=wp.float32, device=device))
    for name, values in ints.items():
        setattr(rules, name, wp.array(values, dtype=wp.int32, device=device))
