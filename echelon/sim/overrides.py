"""Parameter overrides: single values of the game tables and physics, changed for an environment.

A parameter is named by row and column: ``laser.damage``, ``heavy.max_speed``, ``physics.ams_chance``. Columns that
array shapes, maps or recordings depend on have no override: box sizes, splash radius, weapons carried, guidance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from echelon.config import require
from echelon.config.checks import HOUR_S, LARGE, TINY, ranges_of
from echelon.sim.arsenal import CHASSIS, WEAPONS
from echelon.sim.physics import PHYSICS, Physics
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH
from echelon.sim.tables import GameTables, max_clouds, max_rounds

FRACTION, NON_NEGATIVE, POSITIVE = (0.0, 1.0), (0.0, LARGE), (TINY, LARGE)
PHYSICS_RANGES = ranges_of(Physics)
Overrides = Mapping[str, float]
"""Values by dotted parameter name; the argument ``changes`` of environments."""

CHASSIS_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("max_speed", "max_jet", "max_yaw_rate", "dissipation", "tonnage"), NON_NEGATIVE),
    "noise_mass": NON_NEGATIVE, "leg_hp": NON_NEGATIVE, "hp": POSITIVE, "heat_cap": POSITIVE, "wreck_solid": FRACTION,
}  # fmt: skip
"""Least and largest value of each column of ``ChassisSpec`` that can be overridden."""
WEAPON_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("range_vox", "heat", "stability", "target_heat", "own_sight_vox"), NON_NEGATIVE),
    "damage": (0.0, 65535.0), "splash_scale": FRACTION, "cooldown_s": (TINY, HOUR_S), "life_s": (0.0, HOUR_S),
    "arc_deg": (0.0, 360.0), "speed_vox_s": POSITIVE,
}  # fmt: skip
"""The same for ``WeaponSpec``; damage is limited by the 16 bits of voxel hit points."""


def override_names() -> list[str]:
    """Return the name of every parameter that can be overridden."""
    chassis = [f"{spec.chassis.name.lower()}.{name}" for spec in CHASSIS for name in CHASSIS_RANGES]
    weapons = [f"{spec.weapon.name.lower()}.{name}" for spec in WEAPONS for name in WEAPON_RANGES]
    return [*chassis, *weapons, *(f"physics.{name}" for name in PHYSICS_RANGES)]


def apply_overrides(dt: float, changes: Overrides) -> GameTables:
    """Return the tables with overrides ``changes``; ``ValueError`` for one unknown or impossible at ``dt`` [s]."""
    rows: dict[str, tuple[object, Mapping[str, tuple[float, float]]]] = {
        **{spec.chassis.name.lower(): (spec, CHASSIS_RANGES) for spec in CHASSIS},
        **{spec.weapon.name.lower(): (spec, WEAPON_RANGES) for spec in WEAPONS},
        "physics": (PHYSICS, PHYSICS_RANGES),
    }
    overrides: dict[str, dict[str, float]] = {name: {} for name in rows}
    for name, value in changes.items():
        row, _, column = name.partition(".")
        ranges = rows[row][1] if row in rows else {}
        if column not in ranges:
            known = ", ".join(rows) if row not in rows else ", ".join(f"{row}.{known}" for known in ranges)
            raise ValueError(f"parameter {name!r} does not exist, expected one of: {known}")
        low, high = ranges[column]
        real = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
        require(real, f"parameter {name}", value, f"{low:g} to {high:g}")
        overrides[row][column] = float(value)

    def overridden(row: Any, name: str) -> Any:
        return replace(row, **overrides[name])

    changed = GameTables(
        chassis=tuple(overridden(spec, spec.chassis.name.lower()) for spec in CHASSIS),
        weapons=tuple(overridden(spec, spec.weapon.name.lower()) for spec in WEAPONS),
        physics=overridden(PHYSICS, "physics"),
    )
    _require_slots(changed, dt)
    return changed


def _require_slots(tables: GameTables, dt: float) -> None:
    """Raise ``ValueError`` if a mech could have more rounds in flight, or more smoke clouds, than slots."""
    for mech in tables.chassis:
        owner = mech.chassis.name.lower()
        for name, need, slots in (
            (f"rounds in flight of a {owner}", max_rounds(tables, mech, dt), ROUNDS_PER_MECH),
            (f"smoke clouds of a {owner}", max_clouds(tables, mech, dt), CLOUDS_PER_MECH),
        ):
            require(need <= slots, name, need, f"at most {slots}: shorter lives or longer cooldowns")


def override_groups(changes: Sequence[Overrides]) -> list[int]:
    """Return the first environment of each run of neighbours with equal overrides."""
    return [e for e, own in enumerate(changes) if e == 0 or dict(own) != dict(changes[e - 1])]
