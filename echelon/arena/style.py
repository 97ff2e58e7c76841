"""How an entry behaves: sums that each match adds, and the figures that people read from them.

Sums are plain numbers by name, so that a store can add them up without knowing what they mean. Loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.sim.arsenal import WEAPONS

NAMES = {int(spec.weapon): spec.weapon.name.lower() for spec in WEAPONS}
BY_WEAPON = ("shots", "hits", "damage", "range")
PER_MECH = ("friendly", "taken", "zone_s", "life_s", "shutdowns", "knockdowns", "assists")
DEVICES = ("painter", "smoke")
"""What is fired without being meant to hurt."""


def sums_of(counts: Mapping[str, Any], side: int, causes: Mapping[int, str], dt: float) -> dict[str, float]:
    """Return what one side of a match adds to its entry's sums.

    ``counts`` are the arrays of a ``MatchResult``, ``causes`` names causes of death, ``dt`` is a decision [s].
    """
    mine = (counts["team"] == side) & (counts["present"] == 1)
    total = {"matches": 1.0, "mechs": float(mine.sum())}
    for what in BY_WEAPON:
        for weapon, value in enumerate(counts[f"tally_{what}"][mine].sum(axis=0).tolist()):
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
        total[name] = float(counts[f"tally_{field}"][mine].sum()) * scale
    for cause in counts["tally_cause"][mine].tolist():
        if cause in causes:
            total[f"lost.{causes[cause]}"] = total.get(f"lost.{causes[cause]}", 0.0) + 1.0
    killers = counts["tally_killer"][(counts["team"] != side) & (counts["tally_cause"] >= 0)]
    own = set(mine.nonzero()[0].tolist())
    total["kills"] = float(sum(killer in own for killer in killers.tolist()))
    return {name: value for name, value in total.items() if value}


def figures(sums: Mapping[str, float]) -> dict[str, Any]:
    """Return an entry's behaviour: means per mech and match, shares by weapon, what its mechs are lost to."""
    mechs = sums.get("mechs", 0.0)
    shots, hits, damage, reach = ({w: sums.get(f"{what}.{w}", 0.0) for w in NAMES.values()} for what in BY_WEAPON)
    total = sum(damage.values())
    aimed, struck, far = (sum(v for w, v in values.items() if w not in DEVICES) for values in (shots, hits, reach))
    lost = {name.partition(".")[2]: int(value) for name, value in sums.items() if name.startswith("lost.")}
    return {
        "matches": int(sums.get("matches", 0)),
        "mechs": int(mechs),
        "kills": sums.get("kills", 0.0) / mechs if mechs else None,
        "deaths": sum(lost.values()) / mechs if mechs else None,
        "damage": total / mechs if mechs else None,
        **{name: sums.get(name, 0.0) / mechs if mechs else None for name in PER_MECH},
        "accuracy": struck / aimed if aimed else None,
        "range_vox": far / struck if struck and far else None,
        "paints": hits["painter"] / mechs if mechs else None,
        "smoke": shots["smoke"] / mechs if mechs else None,
        "damage_by": {w: value / total for w, value in damage.items() if value} if total else {},
        "range_by": {w: reach[w] / value for w, value in hits.items() if reach[w] and w not in DEVICES},
        "accuracy_by": {w: hits[w] / value for w, value in shots.items() if value and w not in DEVICES},
        "lost_to": dict(sorted(lost.items(), key=lambda item: (-item[1], item[0]))),
    }
