# type: ignore
"""Packs the tables of the game and the physical constants into ``Rules``, a read-only Warp struct on a device.

Kernels read a column of a table row as ``rules.weapons[w].damage``, ``rules.chassis[c].max_speed`` or
``rules.materials[k].hp``. Numeric columns of ``WeaponSpec``, ``ChassisSpec`` and ``MaterialSpec`` are members of the
device rows by their own names, so a new column needs no change here; members computed from several columns are listed
below. Durations in seconds become ticks here: cooldowns and durations round up, flight lives round down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, cos, floor, radians
from typing import Any, get_type_hints

import numpy as np
import warp as wp

from echelon.config import EnvConfig
from echelon.sim.arsenal import CHASSIS, ROSTER, WEAPONS, ChassisSpec, Cooldown, Guidance, Weapon, WeaponSpec
from echelon.sim.physics import PHYSICS, Physics
from echelon.sim.world import MATERIALS, Material, MaterialSpec

NUM_WEAPONS = len(WEAPONS)
NUM_COOLDOWNS = len(Cooldown)


def duration_ticks(seconds: float, dt: float) -> int:
    """Return the ticks of a cooldown or duration [s] at tick length ``dt`` [s], rounded up."""
    return ceil(seconds / dt - 1e-6)


def life_ticks(seconds: float, dt: float) -> int:
    """Return the ticks that a round flies, from its life [s] at tick length ``dt`` [s], rounded down."""
    return floor(seconds / dt + 1e-6)


@dataclass(frozen=True, kw_only=True)
class GameTables:
    """The tables and physics of one environment, overrides applied (see ``echelon.sim.overrides``)."""

    chassis: tuple[ChassisSpec, ...]
    weapons: tuple[WeaponSpec, ...]
    physics: Physics


STOCK_TABLES = GameTables(chassis=CHASSIS, weapons=WEAPONS, physics=PHYSICS)
"""The tables without overrides."""


def max_rounds(tables: GameTables, mech: ChassisSpec, dt: float) -> int:
    """Return the largest number of rounds that a mech can have in flight at once, at tick length ``dt`` [s]."""
    fired = [spec for weapon in mech.carries if (spec := tables.weapons[weapon]).guidance != Guidance.HITSCAN]
    return sum(ceil((life_ticks(spec.life_s, dt) + 1) / duration_ticks(spec.cooldown_s, dt)) for spec in fired)


def max_clouds(tables: GameTables, mech: ChassisSpec, dt: float) -> int:
    """Return the largest number of a mech's smoke clouds that live at once, rounds about to burst included."""
    launchers = [spec for weapon in mech.carries if (spec := tables.weapons[weapon]).bursts_smoke]
    cloud = duration_ticks(tables.physics.smoke_life_s, dt)
    return sum(
        ceil((cloud + life_ticks(spec.life_s, dt) + 1) / duration_ticks(spec.cooldown_s, dt)) for spec in launchers
    )


@dataclass(frozen=True)
class Derived:
    """A member of a device row that is computed: its type, and its value from a row of the table and ``dt`` [s]."""

    dtype: Any
    value: Callable[[Any, float], Any]


CHASSIS_DERIVED = {
    "half": Derived(wp.vec3, lambda spec, dt: wp.vec3(*(length / 2 for length in spec.size))),
    "hit_radius": Derived(wp.float32, lambda spec, dt: spec.hit_radius),
}
"""``half``: half size of the box [vox]."""
WEAPON_DERIVED = {
    "cooldown_ticks": Derived(wp.int32, lambda spec, dt: duration_ticks(spec.cooldown_s, dt)),
    "life_ticks": Derived(wp.int32, lambda spec, dt: life_ticks(spec.life_s, dt)),
    "arc_cos": Derived(wp.float32, lambda spec, dt: cos(radians(spec.arc_deg / 2))),
    "sight_range_vox": Derived(wp.float32, lambda spec, dt: spec.own_sight_vox or spec.range_vox),
    "needs": Derived(wp.int32, lambda spec, dt: int(spec.needs)),
}
"""``needs``: bits of ``Mechanic`` without which the weapon does not fire."""
MATERIAL_DERIVED = {"stops_shot": Derived(wp.int32, lambda spec, dt: int(spec.stops_shot))}


def row_struct(name: str, spec: type, derived: dict[str, Derived]) -> Any:
    """Return a Warp struct of the numeric columns of a table and its derived members; flags and ids are int32."""
    members: dict[str, Any] = {}
    for column, kind in get_type_hints(spec).items():
        if kind is float:
            members[column] = wp.float32
        elif isinstance(kind, type) and issubclass(kind, int):
            members[column] = wp.int32
    members |= {column: one.dtype for column, one in derived.items()}
    row = type(name, (), {"__module__": __name__, "__doc__": f"A row of ``{spec.__name__}`` on a device."})
    row.__annotations__ = members
    return wp.struct(row)


ChassisRow = row_struct("ChassisRow", ChassisSpec, CHASSIS_DERIVED)
WeaponRow = row_struct("WeaponRow", WeaponSpec, WEAPON_DERIVED)
MaterialRow = row_struct("MaterialRow", MaterialSpec, MATERIAL_DERIVED)


@wp.struct
class Rules:
    """What does not change during play."""

    chassis: wp.array(dtype=ChassisRow)
    weapons: wp.array(dtype=WeaponRow)
    materials: wp.array(dtype=MaterialRow)
    trigger_of: wp.array2d(dtype=wp.int32)
    """Trigger bit that fires weapon w on chassis c, -1 if it is not carried [chassis, weapon]."""
    voxel_damage: wp.array2d(dtype=wp.float32)
    """Factor on the damage of a weapon to voxels of a material [weapon, material]."""
    timer_ticks: wp.array(dtype=wp.int32)
    """Longest cooldown of the carried weapons that share timer k [ticks], at least 1 [cooldown]."""
    roster: wp.array(dtype=wp.int32)
    """Chassis of each position in a pack."""
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
"""Members of ``Rules`` per tick that the config states per second (``<name>_s``)."""
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


def pack_rules(cfg: EnvConfig, tables: GameTables, device: str) -> Rules:
    """Return ``Rules`` on ``device`` for environments of configuration ``cfg`` that play with ``tables``."""
    rules = Rules()
    dt = cfg.dt_sim
    rules.chassis = _pack_rows(ChassisRow, tables.chassis, CHASSIS_DERIVED, dt, device)
    rules.weapons = _pack_rows(WeaponRow, tables.weapons, WEAPON_DERIVED, dt, device)
    rules.materials = _pack_rows(MaterialRow, MATERIALS, MATERIAL_DERIVED, dt, device)
    triggers = [[int(c.carries.get(Weapon(w), -1)) for w in range(NUM_WEAPONS)] for c in tables.chassis]
    rules.trigger_of = wp.array(np.array(triggers, dtype=np.int32), dtype=wp.int32, device=device)
    carried = {weapon for c in tables.chassis for weapon in c.carries}
    cooldowns = [
        [duration_ticks(w.cooldown_s, dt) for w in tables.weapons if w.weapon in carried and w.cooldown == k]
        for k in Cooldown
    ]
    rules.timer_ticks = wp.array([max([1, *ticks]) for ticks in cooldowns], dtype=wp.int32, device=device)
    factors = [[w.voxel_damage.get(material, 1.0) for material in Material] for w in tables.weapons]
    rules.voxel_damage = wp.array(np.array(factors, dtype=np.float32), dtype=wp.float32, device=device)
    rules.roster = wp.array([int(c) for c in ROSTER], dtype=wp.int32, device=device)
    physics = tables.physics
    for name in PER_SECOND:
        setattr(rules, name, getattr(physics, f"{name}_s") * cfg.dt_sim)
    for name in SAME_NAME:
        setattr(rules, name, getattr(physics, name))
    for name, source in RENAMED.items():
        setattr(rules, name, getattr(physics, source))
    rules.gravity = physics.gravity_m_s2 / cfg.world.voxel_size_m
    rules.own_eccm = int(cfg.own_eccm)
    rules.dt = cfg.dt_sim
    for name in ("fallen", "painted", "suppressed", "engaged"):
        setattr(rules, f"{name}_ticks", duration_ticks(getattr(physics, f"{name}_s"), cfg.dt_sim))
    rules.smoke_ticks = duration_ticks(physics.smoke_life_s, cfg.dt_sim)
    rules.ams_ticks = max(1, duration_ticks(physics.ams_cooldown_s, cfg.dt_sim))  # at most one shot a tick
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


def _pack_rows(struct: Any, specs: Sequence[Any], derived: dict[str, Derived], dt: float, device: str) -> wp.array:
    rows = []
    for spec in specs:
        row = struct()
        for member in struct.vars:
            value = derived[member].value(spec, dt) if member in derived else getattr(spec, member)
            setattr(row, member, value)
        rows.append(row)
    return wp.array(rows, dtype=struct, device=device)
