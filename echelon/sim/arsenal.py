"""The tables of mechs and weapons: a row per chassis in ``CHASSIS``, a row per weapon in ``WEAPONS``.

A new weapon or mech class is a row here. Kernels of the simulator never name one: they read columns of these tables,
packed into device arrays by ``echelon.sim.tables``. Columns with a range can be overridden for an environment
(``echelon.sim.overrides``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Annotated

from annotated_types import Interval

from echelon.config.checks import HOUR_S, TINY, Fraction, NonNegative, Positive, Seconds
from echelon.sim.world import Material

MAX_DAMAGE = 65535.0
"""Limit of the 16 bits of voxel hit points."""


class Chassis(IntEnum):
    """Mech class ids."""

    SCOUT = 0
    LIGHT = 1
    MEDIUM = 2
    HEAVY = 3


class Weapon(IntEnum):
    """Weapon and device ids; also the order in which one mech's weapons are evaluated in a tick."""

    LASER = 0
    FLAMER = 1
    MISSILE = 2
    GAUSS = 3
    AUTOCANNON = 4
    PAINTER = 5
    SMOKE = 6


class Cooldown(IntEnum):
    """Shared cooldown timers of a mech."""

    LASER = 0
    KINETIC = 1
    LAUNCHER = 2
    PAINTER = 3
    AMS = 4


class Guidance(IntEnum):
    """How a round travels."""

    HITSCAN = 0
    LINEAR = 1
    BALLISTIC = 2
    HOMING = 3


class Trigger(IntEnum):
    """Trigger bits, in the order of the action columns PRIMARY, SECONDARY, TERTIARY, SPECIAL."""

    NONE = -1
    PRIMARY = 0
    SECONDARY = 1
    TERTIARY = 2
    SPECIAL = 3


class Mechanic(IntFlag):
    """Mechanics that the episodes of an environment may disable."""

    HEAT = 1
    """Nothing heats up, so no mech shuts down."""
    MISSILES = 2
    """Homing weapons do not fire."""
    EWAR = 4
    """ECM and ECCM stay off."""
    PAINT = 8
    """Painters do not fire."""


def mechanics_of(names: Iterable[str]) -> Mechanic:
    """Return the union of the mechanics with these names; ``ValueError`` for an unknown name."""
    mechanics = Mechanic(0)
    for name in names:
        if not isinstance(name, str) or name.upper() not in Mechanic.__members__:
            known = ", ".join(mechanic_names(~Mechanic(0)))
            raise ValueError(f"mechanic {name!r} does not exist, expected one of: {known}")
        mechanics |= Mechanic[name.upper()]
    return mechanics


def mechanic_names(mechanics: Mechanic) -> list[str]:
    return [str(one.name).lower() for one in Mechanic if one & mechanics]


@dataclass(frozen=True, kw_only=True)
class WeaponSpec:
    """One row of the weapon table; lengths in voxels, times in seconds, arcs in total degrees."""

    weapon: Weapon
    cooldown: Cooldown
    guidance: Guidance
    range_vox: NonNegative
    damage: Annotated[float, Interval(ge=0.0, le=MAX_DAMAGE)]
    """Damage of a hit; 0 for a device, whose range does not count as gun range in observations (``in_reach``)."""
    heat: NonNegative
    cooldown_s: Annotated[float, Interval(ge=TINY, le=HOUR_S)]
    arc_deg: Annotated[float, Interval(ge=0.0, le=360.0)] = 360.0
    stability: NonNegative = 0.0
    speed_vox_s: Positive = 0.0
    life_s: Seconds = 0.0
    target_heat: NonNegative = 0.0
    """Heat passed to the target by a hit."""
    suppresses: bool = False
    paints: bool = False
    bursts_smoke: bool = False
    own_sight_vox: NonNegative = 0.0
    """Range of a lock by own sight; 0 uses the whole range."""
    splash_vox: float = 0.0
    splash_scale: Fraction = 0.0
    voxel_damage: Mapping[Material, float] = field(default_factory=dict, hash=False)
    """Factor on the damage of its rounds to voxels of a material, 1 for those not listed."""

    def __post_init__(self) -> None:
        if self.voxel_damage and self.guidance == Guidance.HITSCAN:
            raise ValueError(
                f"voxel_damage of {self.weapon.name} is {dict(self.voxel_damage)}, expected none: hitscan weapons "
                "damage no voxels; try LINEAR, BALLISTIC or HOMING guidance"
            )

    @property
    def needs(self) -> Mechanic:
        """Mechanics without which it cannot be fired."""
        needs = Mechanic(0)
        if self.guidance == Guidance.HOMING:
            needs |= Mechanic.MISSILES
        return needs | Mechanic.PAINT if self.paints else needs


WEAPONS: tuple[WeaponSpec, ...] = (
    WeaponSpec(
        weapon=Weapon.LASER, cooldown=Cooldown.LASER, guidance=Guidance.HITSCAN, range_vox=8.0, damage=14.0,
        heat=22.0, cooldown_s=0.6, arc_deg=120.0, target_heat=6.0,
    ),
    WeaponSpec(
        weapon=Weapon.FLAMER, cooldown=Cooldown.KINETIC, guidance=Guidance.HITSCAN, range_vox=4.5, damage=4.0,
        heat=10.0, cooldown_s=0.15, arc_deg=90.0, target_heat=15.0,
    ),
    WeaponSpec(
        weapon=Weapon.MISSILE, cooldown=Cooldown.LAUNCHER, guidance=Guidance.HOMING, range_vox=50.0, damage=40.0,
        heat=45.0, cooldown_s=3.0, arc_deg=180.0, stability=15.0, speed_vox_s=12.0, life_s=4.1667,
        own_sight_vox=12.0, splash_vox=2.5, splash_scale=0.5,
    ),
    WeaponSpec(
        weapon=Weapon.GAUSS, cooldown=Cooldown.KINETIC, guidance=Guidance.BALLISTIC, range_vox=20.0, damage=50.0,
        heat=15.0, cooldown_s=4.0, stability=60.0, speed_vox_s=40.0, life_s=0.5, splash_vox=1.5, splash_scale=0.5,
    ),
    WeaponSpec(
        weapon=Weapon.AUTOCANNON, cooldown=Cooldown.KINETIC, guidance=Guidance.LINEAR, range_vox=12.0, damage=8.0,
        heat=6.0, cooldown_s=0.2, stability=5.0, speed_vox_s=25.0, life_s=0.48, suppresses=True,
    ),
    WeaponSpec(
        weapon=Weapon.PAINTER, cooldown=Cooldown.PAINTER, guidance=Guidance.HITSCAN, range_vox=10.0, damage=0.0,
        heat=5.0, cooldown_s=1.0, arc_deg=60.0, paints=True,
    ),
    WeaponSpec(
        weapon=Weapon.SMOKE, cooldown=Cooldown.LAUNCHER, guidance=Guidance.LINEAR, range_vox=20.0, damage=0.0,
        heat=10.0, cooldown_s=5.0, speed_vox_s=15.0, life_s=1.3333, bursts_smoke=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ChassisSpec:
    """One row of the mech table; lengths in voxels, speeds in vox/s, angles in radians, rates per second."""

    chassis: Chassis
    size: tuple[float, float, float]
    max_speed: NonNegative
    max_yaw_rate: NonNegative
    max_jet: NonNegative
    """Jet acceleration [vox/s^2]."""
    hp: Positive
    leg_hp: NonNegative
    heat_cap: Positive
    dissipation: NonNegative
    tonnage: NonNegative
    noise_mass: NonNegative
    """Acoustic mass factor."""
    wreck_solid: Fraction
    """Chance that the wreck is solid debris rather than a debris field."""
    sort_rank: int
    """Rank under the "biggest" contact order."""
    carries: dict[Weapon, Trigger] = field(default_factory=dict)
    has_ams: bool = False
    has_ewar: bool = False
    """Whether SECONDARY selects ECM and ECCM instead of firing."""

    def __post_init__(self) -> None:
        fired_by: dict[tuple[Trigger, Cooldown], Weapon] = {}
        for weapon, trigger in self.carries.items():
            timer = WEAPONS[weapon].cooldown
            other = fired_by.setdefault((trigger, timer), weapon)
            if other != weapon:
                raise ValueError(
                    f"trigger {trigger.name} of {self.chassis.name} fires {other.name} and {weapon.name}, which share "
                    f"timer {timer.name}: expected one, as the first would hold back the other; try another trigger"
                )

    @property
    def hit_radius(self) -> float:
        return max(self.size) / 2


CHASSIS: tuple[ChassisSpec, ...] = (
    ChassisSpec(
        chassis=Chassis.SCOUT, size=(1.2, 1.2, 1.8), max_speed=7.0, max_yaw_rate=1.8, max_jet=18.0, hp=60.0,
        leg_hp=30.0, heat_cap=75.0, dissipation=13.0, tonnage=20.0, noise_mass=1.0, wreck_solid=0.1, sort_rank=1,
        carries={Weapon.PAINTER: Trigger.PRIMARY, Weapon.SMOKE: Trigger.SPECIAL}, has_ewar=True,
    ),
    ChassisSpec(
        chassis=Chassis.LIGHT, size=(1.5, 1.5, 2.0), max_speed=6.8, max_yaw_rate=1.5, max_jet=16.0, hp=80.0,
        leg_hp=40.0, heat_cap=80.0, dissipation=12.0, tonnage=35.0, noise_mass=1.5, wreck_solid=0.3, sort_rank=1,
        carries={
            Weapon.FLAMER: Trigger.PRIMARY, Weapon.LASER: Trigger.SECONDARY, Weapon.PAINTER: Trigger.TERTIARY,
            Weapon.SMOKE: Trigger.SPECIAL,
        },
    ),
    ChassisSpec(
        chassis=Chassis.MEDIUM, size=(2.5, 2.5, 3.0), max_speed=5.5, max_yaw_rate=1.0, max_jet=0.0, hp=150.0,
        leg_hp=75.0, heat_cap=100.0, dissipation=11.0, tonnage=55.0, noise_mass=2.5, wreck_solid=0.6, sort_rank=2,
        carries={
            Weapon.LASER: Trigger.PRIMARY, Weapon.AUTOCANNON: Trigger.TERTIARY, Weapon.PAINTER: Trigger.TERTIARY,
            Weapon.SMOKE: Trigger.SPECIAL,
        },
    ),
    ChassisSpec(
        chassis=Chassis.HEAVY, size=(3.5, 3.5, 4.0), max_speed=2.5, max_yaw_rate=0.6, max_jet=0.0, hp=200.0,
        leg_hp=100.0, heat_cap=130.0, dissipation=10.0, tonnage=85.0, noise_mass=4.0, wreck_solid=0.9, sort_rank=3,
        carries={
            Weapon.LASER: Trigger.PRIMARY, Weapon.MISSILE: Trigger.SECONDARY, Weapon.GAUSS: Trigger.TERTIARY,
            Weapon.SMOKE: Trigger.SPECIAL,
        },
        has_ams=True,
    ),
)  # fmt: skip

ROSTER: tuple[Chassis, ...] = (Chassis.HEAVY, Chassis.MEDIUM, Chassis.MEDIUM, Chassis.LIGHT, Chassis.SCOUT)
"""Chassis of each position in a pack of five."""
