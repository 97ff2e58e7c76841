"""Events of a battle as dictionaries, read from the journal after each environment step.

``EventReader`` reads the journal of environment 0; it may share the journal with a recorder, which clears it at times.
Positions are in voxels: the target's centre for a hit or a death, the muzzle for a launch. Rows that did not fit
into the journal are counted and reported by an event of type ``overflow``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from echelon.sim.arsenal import WEAPONS, Guidance, Weapon
from echelon.sim.batch import Batch
from echelon.sim.kernels import fire, journal
from echelon.sim.state import JOURNAL_DETAIL, JOURNAL_VALUES
from echelon.sim.world import Hazard

HAZARDS = {Hazard.NONE: "hazard", Hazard.LAVA: "lava", Hazard.DEBRIS: "debris", Hazard.CRASH: "crash"}
"""Shooter named by a kill event without a shooting mech."""
TICK, KIND, ACTOR, TARGET, WEAPON, VALUE, FLAGS = range(7)
X, Y, Z, POINTS, MECH, MARK = range(JOURNAL_VALUES, JOURNAL_VALUES + JOURNAL_DETAIL)
EXACT = float(journal.EXACT_STEPS)
DECIMALS = 3
"""Decimal digits of positions and points, as the journal stores them."""
STEPS = float(journal.DAMAGE_STEPS)
COUNTED_EVENTS = {
    "kill": "kills",
    "paint": "paints",
    "laser_hit": "laser_hits",
    "missile_launch": "missile_launches",
    "kinetic_fire": "kinetic_fires",
    "ams_intercept": "ams_intercepts",
}
"""Statistic that each type of event increments, for the team of its shooter or defender."""

Event = dict[str, Any]


class EventReader:
    """Reads a battle's journal step by step; ``dropped`` counts the rows that did not fit into it."""

    def __init__(self, batch: Batch, names: Sequence[str]) -> None:
        self._batch = batch
        self._names = tuple(names)
        self._seen = 0
        self.dropped = 0
        self._smoke_vox = batch.tables(0).physics.smoke_radius_vox

    def read(self) -> list[Event]:
        """Return the events since the last call, in order; ``type`` is the kind, mechs are agent names.

        If the journal was full, the last event is an ``overflow`` with the number of rows ``dropped``.
        """
        count, capacity = self._count(), self._batch["journal"].shape[1]
        rows = self._batch.numpy("journal")[0, min(self._seen, capacity) : min(count, capacity)].tolist()
        dropped = max(count, capacity) - max(self._seen, capacity)
        self._seen = count
        events = [event for row in rows if (event := self._event(row)) is not None]
        if dropped > 0:
            self.dropped += dropped
            events.append({"type": "overflow", "dropped": dropped, "tick": int(self._batch.numpy("tick")[0])})
        return events

    def resume(self) -> None:
        """Skip to the current end of the journal, after a recorder may have cleared it."""
        self._seen = self._count()

    def clear(self) -> None:
        self._batch.set("journal_count", np.zeros(1, np.int32))
        self._seen = 0

    def _count(self) -> int:
        """Return the rows written, dropped ones included."""
        counts = self._batch.numpy("journal_count")
        return int(counts[0]) if len(counts) else 0

    def _event(self, row: list[int]) -> Event | None:
        reader = READERS.get(row[KIND])
        event = reader(self, row) if reader else None
        return None if event is None else {**event, "pos": _position(row), "tick": row[TICK]}

    def _name(self, mech: int) -> str | None:
        return self._names[mech] if mech >= 0 else None

    def _hit(self, row: list[int]) -> Event:
        flags = row[FLAGS]
        event: Event = {
            "shooter": self._name(row[ACTOR]),
            "target": self._name(row[TARGET]),
            "weapon": Weapon(row[WEAPON]).name.lower(),
            "damage": row[VALUE] / STEPS,
            "rear": bool(flags & int(fire.HIT_REAR)),
            "leg": bool(flags & int(fire.HIT_LEG)),
            "painted": bool(flags & int(fire.HIT_PAINTED)),
        }
        if WEAPONS[row[WEAPON]].guidance == Guidance.HITSCAN:
            return {"type": "laser_hit", **event}
        splash = bool(flags & int(journal.SPLASHED))
        return {"type": "projectile_hit", **event, "stability": row[POINTS] / EXACT, "splash": splash}

    def _paint(self, row: list[int]) -> Event:
        return {"type": "paint", "shooter": self._name(row[ACTOR]), "target": self._name(row[TARGET])}

    def _kill(self, row: list[int]) -> Event:
        shooter = self._name(row[ACTOR]) or HAZARDS[Hazard(row[MARK])]
        return {"type": "kill", "shooter": shooter, "target": self._name(row[TARGET])}

    def _assist(self, row: list[int]) -> Event:
        return {
            "type": "assist",
            "painter": self._name(row[ACTOR]),
            "shooter": self._name(row[MECH]),
            "target": self._name(row[TARGET]),
            "bonus": row[POINTS] / EXACT,
        }

    def _launch(self, row: list[int]) -> Event:
        spec = WEAPONS[row[WEAPON]]
        event: Event = {"shooter": self._name(row[ACTOR]), "weapon": spec.weapon.name.lower()}
        if spec.guidance == Guidance.HOMING:
            lock = "paint" if row[MARK] == int(journal.BY_PAINT) else "los"
            return {"type": "missile_launch", **event, "target": self._name(row[MECH]), "lock": lock}
        return {"type": "smoke_launch" if spec.bursts_smoke else "kinetic_fire", **event}

    def _impact(self, row: list[int]) -> Event | None:
        weapon = WEAPONS[row[WEAPON]]
        if row[MARK] != int(journal.BURST):
            return None
        event: Event = {"shooter": self._name(row[ACTOR]), "weapon": Weapon(row[WEAPON]).name.lower()}
        if weapon.splash_vox > 0.0:
            return {"type": "explosion", **event, "radius": weapon.splash_vox}
        return {"type": "smoke_cloud", **event, "radius": self._smoke_vox}

    def _defence(self, row: list[int]) -> Event | None:
        if not row[FLAGS] & int(journal.STOPPED):
            return None
        return {
            "type": "ams_intercept",
            "defender": self._name(row[ACTOR]),
            "shooter": self._name(row[TARGET]),
            "target": self._name(row[MECH]),
        }


def _position(row: list[int]) -> tuple[float, float, float]:
    x, y, z = (round(row[axis] / EXACT, DECIMALS) for axis in (X, Y, Z))
    return x, y, z


READERS: dict[int, Callable[[EventReader, list[int]], Event | None]] = {
    int(journal.HIT): EventReader._hit,
    int(journal.PAINT): EventReader._paint,
    int(journal.KILL): EventReader._kill,
    int(journal.ASSIST): EventReader._assist,
    int(journal.LAUNCH): EventReader._launch,
    int(journal.IMPACT): EventReader._impact,
    int(journal.AMS): EventReader._defence,
}
"""Reader of each kind of journal row; other kinds are statistics only."""
