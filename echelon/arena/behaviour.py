"""Behaviour of a league entry: means and ratios from the sums that its matches accumulated.

Import-light; ``results_table.sums_of`` computes the sums of a match.
"""

from collections.abc import Mapping
from typing import Any

WEAPON_SUMS = ("shots", "hits", "damage", "range", "kills")
"""Sums that exist for every weapon, named such as ``shots.laser``."""
MECH_SUMS = ("friendly", "taken", "zone_s", "life_s", "shutdowns", "knockdowns", "assists")
NON_DAMAGING = ("painter", "smoke")
"""Weapons that deal no damage, left out of accuracy and range."""


def style_means(sums: Mapping[str, float]) -> dict[str, Any]:
    """Return means per mech and match, values by weapon, and causes of death.

    Means are None where no mech was counted.
    """
    mechs = sums.get("mechs", 0.0)
    names = sorted({name.partition(".")[2] for name in sums if name.partition(".")[0] in WEAPON_SUMS})
    shots, hits, damage, distance, kills = ({w: sums.get(f"{what}.{w}", 0.0) for w in names} for what in WEAPON_SUMS)
    total = sum(damage.values())
    num_shots, num_hits, total_distance = (
        sum(v for w, v in values.items() if w not in NON_DAMAGING) for values in (shots, hits, distance)
    )
    shares = {w: value / total for w, value in damage.items() if value} if total else {}
    lost = {name.partition(".")[2]: int(value) for name, value in sums.items() if name.startswith("lost.")}
    return {
        "matches": int(sums.get("matches", 0)),
        "mechs": int(mechs),
        "kills": sum(kills.values()) / mechs if mechs else None,
        "deaths": sum(lost.values()) / mechs if mechs else None,
        "damage": total / mechs if mechs else None,
        **{name: sums.get(name, 0.0) / mechs if mechs else None for name in MECH_SUMS},
        "accuracy": num_hits / num_shots if num_shots else None,
        "range_vox": total_distance / num_hits if num_hits and total_distance else None,
        "paints": hits.get("painter", 0.0) / mechs if mechs else None,
        "smoke": shots.get("smoke", 0.0) / mechs if mechs else None,
        "shots_by": {w: int(value) for w, value in shots.items() if value},
        "kills_by": {w: int(value) for w, value in kills.items() if value},
        "damage_by": dict(sorted(shares.items(), key=lambda item: (-item[1], item[0]))),
        "range_by": {w: distance[w] / value for w, value in hits.items() if distance[w] and w not in NON_DAMAGING},
        "accuracy_by": {w: hits[w] / value for w, value in shots.items() if value and w not in NON_DAMAGING},
        "lost_to": dict(sorted(lost.items(), key=lambda item: (-item[1], item[0]))),
    }
