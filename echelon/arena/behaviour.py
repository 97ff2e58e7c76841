"""What people read of an entry's behaviour, from the sums that its matches added. Knows only their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BY_WEAPON = ("shots", "hits", "damage", "range")
"""Sums there are of every weapon, as ``shots.laser``."""
PER_MECH = ("friendly", "taken", "zone_s", "life_s", "shutdowns", "knockdowns", "assists")
DEVICES = ("painter", "smoke")
"""What is fired without being meant to hurt."""


def style_means(sums: Mapping[str, float]) -> dict[str, Any]:
    """Return an entry's behaviour: means per mech and match, shares by weapon, what its mechs are lost to."""
    mechs = sums.get("mechs", 0.0)
    names = sorted({name.partition(".")[2] for name in sums if name.partition(".")[0] in BY_WEAPON})
    shots, hits, damage, reach = ({w: sums.get(f"{what}.{w}", 0.0) for w in names} for what in BY_WEAPON)
    total = sum(damage.values())
    aimed, struck, far = (sum(v for w, v in values.items() if w not in DEVICES) for values in (shots, hits, reach))
    shares = {w: value / total for w, value in damage.items() if value} if total else {}
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
        "paints": hits.get("painter", 0.0) / mechs if mechs else None,
        "smoke": shots.get("smoke", 0.0) / mechs if mechs else None,
        "damage_by": dict(sorted(shares.items(), key=lambda item: (-item[1], item[0]))),
        "range_by": {w: reach[w] / value for w, value in hits.items() if reach[w] and w not in DEVICES},
        "accuracy_by": {w: hits[w] / value for w, value in shots.items() if value and w not in DEVICES},
        "lost_to": dict(sorted(lost.items(), key=lambda item: (-item[1], item[0]))),
    }
