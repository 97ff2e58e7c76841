"""Style sums: what one side of a match adds to its entry's statistics; ``behaviour`` turns sums into means.

Sums are plain numbers by name, so that the store can add them without knowing their meaning. Import-light.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.arena.behaviour import WEAPON_SUMS
from echelon.sim.arsenal import WEAPONS

WEAPON_NAMES = {int(spec.weapon): spec.weapon.name.lower() for spec in WEAPONS}


def sums_of(counts: Mapping[str, Any], side: int, causes: Mapping[int, str], dt: float) -> dict[str, float]:
    """Return the sums that one side of a match adds to its entry; sums of 0 are left out.

    ``counts`` are the arrays of a ``MatchResult``, ``causes`` maps a cause of death to its name, ``dt`` is the duration
    of a decision [s].
    """
    on_side = (counts["team"] == side) & (counts["present"] == 1)
    sums = {"matches": 1.0, "mechs": float(on_side.sum())}
    for what in WEAPON_SUMS:
        for weapon, value in enumerate(counts[f"stat_{what}"][on_side].sum(axis=0).tolist()):
            sums[f"{what}.{WEAPON_NAMES[weapon]}"] = float(value)
    for name, field, scale in (
        ("friendly", "friendly", 1.0),
        ("taken", "taken", 1.0),
        ("zone_s", "zone", dt),
        ("life_s", "steps", dt),
        ("shutdowns", "shutdowns", 1.0),
        ("knockdowns", "knockdowns", 1.0),
        ("assists", "assists", 1.0),
    ):
        sums[name] = float(counts[f"stat_{field}"][on_side].sum()) * scale
    for cause in counts["stat_cause"][on_side].tolist():
        if cause in causes:
            sums[f"lost.{causes[cause]}"] = sums.get(f"lost.{causes[cause]}", 0.0) + 1.0
    killers = counts["stat_killer"][(counts["team"] != side) & (counts["stat_cause"] >= 0)]
    members = set(on_side.nonzero()[0].tolist())
    sums["kills"] = float(sum(killer in members for killer in killers.tolist()))
    return {name: value for name, value in sums.items() if value}
