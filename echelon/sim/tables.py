# type: ignore
"""Packs the tables of the game and the physical constants into ``Rules``, a read-only Warp struct on a device.

Kernels read a column of a table row as ``rules.weapons[w].damage``, ``rules.chassis[c].max_speed`` or
``rules.materials[k].hp``. Numeric columns of ``WeaponSpec``, ``ChassisSpec`` and ``MaterialSpec`` are members of the
device rows by their own names, and those of ``Physics`` members of ``Rules``, so a new column needs no change here;
computed members are declared below. Durations in seconds become ticks here: cooldowns and durations round up, flight
lives round down.
"""

from dataclasses import dataclass
from math import ceil, cos, floor, radians
from typing import Any

import warp as wp

from echelon.config import EnvConfig
from echelon.sim.arsenal import CHASSIS, ROSTER, WEAPONS, ChassisSpec, Cooldown, Guidance, Weapon, WeaponSpec
from echelon.sim.physics import PHYSICS, Physics
from echelon.sim.structs import record, record_of
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


@record_of(ChassisSpec)
class ChassisRow:
    """A row of ``ChassisSpec`` on a device."""

    half: wp.vec3
    """Half size of the box [vox]."""
    hit_radius: wp.float32


@record_of(WeaponSpec)
class WeaponRow:
    """A row of ``WeaponSpec`` on a device."""

    cooldown_ticks: wp.int32
    life_ticks: wp.int32
    arc_cos: wp.float32
    sight_range_vox: wp.float32
    """Range of a lock by own sight [vox]."""
    needs: wp.int32
    """Bits of ``Mechanic`` without which the weapon does not fire."""


@record_of(MaterialSpec)
class MaterialRow:
    """A row of ``MaterialSpec`` on a device."""

    stops_shot: wp.int32


RATES = {
    name: f"{name}_s"
    for name in ("lava_heat", "lava_damage", "debris_heat", "debris_damage", "water_cooling", "ecm_heat", "eccm_heat",
                 "stability_regen", "homing_gain")
}  # fmt: skip
"""Members of ``Rules`` per tick, and the fields of ``Physics`` per second that they come from."""
DURATIONS = {
    **{f"{name}_ticks": f"{name}_s" for name in ("fallen", "painted", "suppressed", "engaged")},
    "smoke_ticks": "smoke_life_s",
    "ams_ticks": "ams_cooldown_s",
}
"""Members of ``Rules`` in ticks, and the durations of ``Physics`` [s] that they come from."""


@record_of(Physics, without=(*RATES.values(), *DURATIONS.values(), "gravity_m_s2"))
class Rules:
    """What does not change during play; further fields of ``Physics`` are members by their own names."""

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
    dt: wp.float32
    dt_act: wp.float32
    fallen_ticks: wp.int32
    painted_ticks: wp.int32
    suppressed_ticks: wp.int32
    engaged_ticks: wp.int32
    smoke_ticks: wp.int32
    ams_ticks: wp.int32
    assist_ticks: wp.int32
    min_pack_size: wp.int32
    min_decisions: wp.int32
    max_decisions: wp.int32
    ticks_per_decision: wp.int32
    gravity: wp.float32
    """[vox/s^2]"""
    lava_heat: wp.float32
    lava_damage: wp.float32
    debris_heat: wp.float32
    debris_damage: wp.float32
    water_cooling: wp.float32
    ecm_heat: wp.float32
    eccm_heat: wp.float32
    stability_regen: wp.float32
    homing_gain: wp.float32
    full_observation: wp.int32
    own_eccm: wp.int32
    enable_ewar: wp.int32
    enable_target: wp.int32
    enable_obs_control: wp.int32
    contested_floor: wp.float32
    score_to_win: wp.float32


def pack_rules(cfg: EnvConfig, tables: GameTables, device: str) -> Rules:
    """Return ``Rules`` on ``device`` for environments of configuration ``cfg`` that play with ``tables``."""
    dt, physics = cfg.dt_sim, tables.physics
    triggers = [[int(c.carries.get(Weapon(w), -1)) for w in range(NUM_WEAPONS)] for c in tables.chassis]
    carried = {weapon for c in tables.chassis for weapon in c.carries}
    cooldowns = [
        [duration_ticks(w.cooldown_s, dt) for w in tables.weapons if w.weapon in carried and w.cooldown == k]
        for k in Cooldown
    ]
    factors = [[w.voxel_damage.get(material, 1.0) for material in Material] for w in tables.weapons]
    rates = {name: getattr(physics, source) * dt for name, source in RATES.items()}
    durations = {name: duration_ticks(getattr(physics, source), dt) for name, source in DURATIONS.items()}
    durations["ams_ticks"] = max(1, durations["ams_ticks"])  # at most one shot a tick

    def on_device(rows: Any, dtype: Any) -> wp.array:
        return wp.array(rows, dtype=dtype, device=device)

    return record(
        Rules,
        physics,
        chassis=on_device([_chassis_row(spec) for spec in tables.chassis], ChassisRow),
        weapons=on_device([_weapon_row(spec, dt) for spec in tables.weapons], WeaponRow),
        materials=on_device([record(MaterialRow, spec) for spec in MATERIALS], MaterialRow),
        trigger_of=on_device(triggers, wp.int32),
        voxel_damage=on_device(factors, wp.float32),
        timer_ticks=on_device([max([1, *ticks]) for ticks in cooldowns], wp.int32),
        roster=on_device([int(c) for c in ROSTER], wp.int32),
        dt=dt,
        dt_act=cfg.dt_act,
        assist_ticks=duration_ticks(cfg.reward.assist_period_s, dt),
        min_pack_size=cfg.min_pack_size,
        min_decisions=cfg.min_steps,
        max_decisions=cfg.max_steps,
        ticks_per_decision=cfg.decision_repeat,
        gravity=physics.gravity_m_s2 / cfg.world.voxel_size_m,
        full_observation=int(cfg.observation_mode == "full"),
        own_eccm=int(cfg.own_eccm),
        enable_ewar=int(cfg.enable_ewar),
        enable_target=int(cfg.enable_target_selection),
        enable_obs_control=int(cfg.enable_obs_control),
        contested_floor=cfg.contested_floor,
        score_to_win=cfg.zone_score_to_win,
        **rates,
        **durations,
    )


def _chassis_row(spec: ChassisSpec) -> ChassisRow:
    return record(ChassisRow, spec, half=wp.vec3(*(length / 2 for length in spec.size)))


def _weapon_row(spec: WeaponSpec, dt: float) -> WeaponRow:
    return record(
        WeaponRow,
        spec,
        cooldown_ticks=duration_ticks(spec.cooldown_s, dt),
        life_ticks=life_ticks(spec.life_s, dt),
        arc_cos=cos(radians(spec.arc_deg / 2)),
        sight_range_vox=spec.own_sight_vox or spec.range_vox,
        needs=int(spec.needs),
    )
