"""Parameter overrides: single values of the game tables and physics, changed for an environment.

A parameter is named by row and column: ``laser.damage``, ``heavy.max_speed``, ``physics.ams_chance``. Columns that
array shapes, maps or recordings depend on have no override: box sizes, splash radius, weapons carried, guidance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from echelon.config import require
from echelon.config.checks import ranges_of
from echelon.sim.arsenal import CHASSIS, WEAPONS, ChassisSpec, WeaponSpec
from echelon.sim.physics import PHYSICS, Physics
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH
from echelon.sim.tables import GameTables, max_clouds, max_rounds

Overrides = Mapping[str, float]
"""Values by dotted parameter name; the argument ``changes`` of environments."""
CHASSIS_RANGES, WEAPON_RANGES, PHYSICS_RANGES = (ranges_of(table) for table in (ChassisSpec, WeaponSpec, Physics))
"""Least and greatest value of each column that can be overridden."""


def override_names() -> list[str]:
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
