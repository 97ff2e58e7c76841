"""The figures that an environment is played with: the stock tables, or those with single figures changed.

A figure is named by its row and column, ``laser.damage``, ``heavy.max_speed``, ``physics.ams_chance``. What shapes
depend on is none: sizes of boxes and splash, what a class carries, how a round travels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from echelon.config import PhysicsConfig, require
from echelon.config.ranges import FRACTION, HOUR_S, NON_NEGATIVE, PHYSICS_RANGES, POSITIVE, TINY
from echelon.sim.arsenal import CHASSIS, WEAPONS, Guidance, WeaponSpec
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH
from echelon.sim.tables import Figures, duration_ticks, life_ticks

Changes = Mapping[str, float]
"""Figure names, dotted, and their values."""

CHASSIS_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("max_speed", "max_jet", "max_yaw_rate", "dissipation", "tonnage", "noise_mass", "leg_hp"), NON_NEGATIVE),
    "hp": POSITIVE, "heat_cap": POSITIVE, "wreck_solid": FRACTION,
}  # fmt: skip
"""Least and most of each figure of a mech class."""
WEAPON_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("range_vox", "heat", "stability", "target_heat", "own_sight_vox"), NON_NEGATIVE),
    "damage": (0.0, 65535.0), "splash_scale": FRACTION, "cooldown_s": (TINY, HOUR_S), "life_s": (0.0, HOUR_S),
    "arc_deg": (0.0, 360.0), "speed_vox_s": POSITIVE,
}  # fmt: skip
"""Least and most of each figure of a weapon; a voxel's hit points are 16 bits."""


def stock(physics: PhysicsConfig) -> Figures:
    """Return the stock tables with these physics."""
    return Figures(chassis=CHASSIS, weapons=WEAPONS, physics=physics)


def with_changes(physics: PhysicsConfig, dt: float, changes: Changes) -> Figures:
    """Return the stock tables with ``changes``; ``ValueError`` for what is none, or impossible at ``dt`` [s]."""
    rows: dict[str, tuple[object, Mapping[str, tuple[float, float]]]] = {
        **{spec.chassis.name.lower(): (spec, CHASSIS_RANGES) for spec in CHASSIS},
        **{spec.weapon.name.lower(): (spec, WEAPON_RANGES) for spec in WEAPONS},
        "physics": (physics, PHYSICS_RANGES),
    }
    wanted: dict[str, dict[str, float]] = {name: {} for name in rows}
    for name, value in changes.items():
        row, _, column = name.partition(".")
        ranges = rows[row][1] if row in rows else {}
        if column not in ranges:
            known = ", ".join(rows) if row not in rows else ", ".join(f"{row}.{known}" for known in ranges)
            raise ValueError(f"figure {name!r} does not exist, wanted one of: {known}")
        low, high = ranges[column]
        real = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
        require(real, f"figure {name}", value, f"{low:g} to {high:g}")
        wanted[row][column] = float(value)
    changed = Figures(
        chassis=tuple(replace(spec, **wanted[spec.chassis.name.lower()]) for spec in CHASSIS),  # type: ignore[arg-type]
        weapons=tuple(replace(spec, **wanted[spec.weapon.name.lower()]) for spec in WEAPONS),  # type: ignore[arg-type]
        physics=replace(physics, **wanted["physics"]),  # type: ignore[arg-type]
    )
    _require_room(changed, dt)
    return changed


def _require_room(figures: Figures, dt: float) -> None:
    """Raise ``ValueError`` where a mech could have more rounds in flight, or more clouds, than it has places for."""
    weapons = figures.weapons
    for mech in figures.chassis:
        flown = [weapons[w] for w in mech.carries if weapons[w].guidance != Guidance.HITSCAN]
        need = sum(most_in_flight(spec, dt) for spec in flown)
        wanted = f"at most {ROUNDS_PER_MECH}: shorter flights or longer cooldowns"
        require(need <= ROUNDS_PER_MECH, f"rounds in flight of a {mech.chassis.name.lower()}", need, wanted)
    for spec in weapons:
        if spec.bursts_smoke:
            live = duration_ticks(figures.physics.smoke_life_s, dt) + life_ticks(spec.life_s, dt)
            most = CLOUDS_PER_MECH * duration_ticks(spec.cooldown_s, dt) - 1
            name = f"flight and life of {spec.weapon.name.lower()} clouds in ticks"
            require(live <= most, name, live, f"at most {most}, for a mech has room for {CLOUDS_PER_MECH}")


def most_in_flight(spec: WeaponSpec, dt: float) -> int:
    """Return how many rounds of a weapon can fly at once."""
    return ceil((life_ticks(spec.life_s, dt) + 1) / duration_ticks(spec.cooldown_s, dt))


def runs_of(changes: Sequence[Changes]) -> list[int]:
    """Return where environments begin whose figures differ from those of the one before; the first begins at 0."""
    return [e for e, own in enumerate(changes) if e == 0 or dict(own) != dict(changes[e - 1])]
