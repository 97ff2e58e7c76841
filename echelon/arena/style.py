"""How an entry behaves, as sums that each match adds; ``behaviour`` makes figures of them.

Sums are plain numbers by name, so that a store can add them up without knowing what they mean. Loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.arena.behaviour import BY_WEAPON
from echelon.sim.arsenal import WEAPONS

NAMES = {int(spec.weapon): spec.weapon.name.lower() for spec in WEAPONS}


def sums_of(counts: Mapping[str, Any], side: int, causes: Mapping[int, str], dt: float) -> dict[str, float]:
    """Return what one side of a match adds to its entry's sums.

    ``counts`` are the arrays of a ``MatchResult``, ``causes`` names causes of death, ``dt`` is a decision [s].
    """
    mine = (counts["team"] == side) & (counts["present"] == 1)
    total = {"matches": 1.0, "mechs": float(mine.sum())}
    for what in BY_WEAPON:
        for weapon, value in enumerate(counts[f"stat_{what}"][mine].sum(axis=0).tolist()):
            total[f"{what}.{NAMES[weapon]}"] = float(value)
    for name, field, scale in (
        ("friendly", "friendly", 1.0),
        ("taken", "taken", 1.0),
        ("zone_s", "zone", dt),
        ("life_s", "steps", dt),
        ("shutdowns", "shutdowns", 1.0),
        ("knockdowns", "knockdowns", 1.0),
        ("assists", "assists", 1.0),
    ):
        total[name] = float(counts[f"stat_{field}"][mine].sum()) * scale
    for cause in counts["stat_cause"][mine].tolist():
        if cause in causes:
            total[f"lost.{causes[cause]}"] = total.get(f"lost.{causes[cause]}", 0.0) + 1.0
    killers = counts["stat_killer"][(counts["team"] != side) & (counts["stat_cause"] >= 0)]
    own = set(mine.nonzero()[0].tolist())
    total["kills"] = float(sum(killer in own for killer in killers.tolist()))
    return {name: value for name, value in total.items() if value}
