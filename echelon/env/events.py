"""What happened in a decision, as plain records: the journal of a battle read as the events that rewards speak of.

``EventLog`` reads the journal of environment 0 after each decision; it may share the journal with a recorder, which
clears it from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.sim.arsenal import WEAPONS, Guidance, Weapon
from echelon.sim.batch import Batch
from echelon.sim.kernels import journal
from echelon.sim.world import Material

HAZARDS = {int(Material.LAVA): "lava", int(Material.DEBRIS_FIELD): "debris"}
"""Who is said to have killed a mech that no mech killed, by what lies around its feet."""
UNKNOWN_HAZARD = "hazard"
TICK, KIND, WHO, WHOM, WEAPON, VALUE, FLAGS = range(7)
STEPS = float(journal.DAMAGE_STEPS)
COUNTED_EVENTS = {
    "kill": "kills",
    "paint": "paints",
    "laser_hit": "laser_hits",
    "missile_launch": "missile_launches",
    "kinetic_fire": "kinetic_fires",
    "ams_intercept": "ams_intercepts",
}
"""Statistic that each type of event counts for, by the team of who did it."""

Event = dict[str, Any]


class EventLog:
    """Reads a battle's journal decision by decision."""

    def __init__(self, batch: Batch, names: Sequence[str]) -> None:
        self._batch = batch
        self._names = tuple(names)
        self._seen = 0

    def read(self) -> list[Event]:
        """Return what happened since the last call, in order; ``type`` says what, mechs are named by agent."""
        count = self._count()
        rows = self._batch.numpy("journal")[0, self._seen : count].tolist()
        self._seen = count
        return [event for row in rows if (event := self._event(row)) is not None]

    def resume(self) -> None:
        """Go on behind what is written now, after somebody else may have cleared the journal."""
        self._seen = self._count()

    def clear(self) -> None:
        """Empty the journal, where nobody else reads it."""
        self._batch.set("journal_count", np.zeros(1, np.int32))
        self._seen = 0

    def _count(self) -> int:
        counts = self._batch.numpy("journal_count")
        return min(int(counts[0]), self._batch["journal"].shape[1]) if len(counts) else 0

    def _event(self, row: list[int]) -> Event | None:
        reader = READERS.get(row[KIND])
        event = reader(self, row) if reader else None
        return None if event is None else {**event, "tick": row[TICK]}

    def _name(self, mech: int) -> str | None:
        return self._names[mech] if mech >= 0 else None

    def _hit(self, row: list[int]) -> Event:
        hitscan = WEAPONS[row[WEAPON]].guidance == Guidance.HITSCAN
        return {
            "type": "laser_hit" if hitscan else "projectile_hit",
            "shooter": self._name(row[WHO]),
            "target": self._name(row[WHOM]),
            "weapon": Weapon(row[WEAPON]).name.lower(),
            "damage": row[VALUE] / STEPS,
        }

    def _paint(self, row: list[int]) -> Event:
        return {"type": "paint", "shooter": self._name(row[WHO]), "target": self._name(row[WHOM])}

    def _kill(self, row: list[int]) -> Event:
        shooter = self._name(row[WHO]) or self._hazard(row[WHOM])
        return {"type": "kill", "shooter": shooter, "target": self._name(row[WHOM])}

    def _assist(self, row: list[int]) -> Event:
        return {"type": "assist", "painter": self._name(row[WHO]), "target": self._name(row[WHOM])}

    def _launch(self, row: list[int]) -> Event:
        weapon = Weapon(row[WEAPON])
        kinds = {Weapon.MISSILE: "missile_launch", Weapon.SMOKE: "smoke_launch"}
        kind = kinds.get(weapon, "kinetic_fire")
        return {"type": kind, "shooter": self._name(row[WHO]), "weapon": weapon.name.lower()}

    def _defence(self, row: list[int]) -> Event | None:
        if not row[FLAGS] & int(journal.STOPPED):
            return None
        return {"type": "ams_intercept", "defender": self._name(row[WHO]), "shooter": self._name(row[WHOM])}

    def _hazard(self, mech: int) -> str:
        """Name what burned a mech: the hazard in the cells around it."""
        x, y, z = np.floor(self._batch.numpy("pos")[0, mech]).astype(int)
        cells: NDArray[np.uint8] = self._batch.numpy("material")[0]
        near = cells[: max(z, 0) + 1, max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3]
        found = [name for material, name in HAZARDS.items() if (near == material).any()]
        return found[0] if found else UNKNOWN_HAZARD


READERS: dict[int, Callable[[EventLog, list[int]], Event | None]] = {
    int(journal.HIT): EventLog._hit,
    int(journal.PAINT): EventLog._paint,
    int(journal.KILL): EventLog._kill,
    int(journal.ASSIST): EventLog._assist,
    int(journal.LAUNCH): EventLog._launch,
    int(journal.AMS): EventLog._defence,
}
"""How each kind of row is read; other kinds are about places."""
