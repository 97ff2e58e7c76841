"""Names of pilots, sides and mechs in headers of recorded matches; nothing of the simulator is loaded here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.replay.match_text import HUMAN, JOINT

SIDES = {"blue": 0, "red": 1}
STILL = "still"
"""Pilot that does nothing."""


def mechs_by_name(header: Mapping[str, Any]) -> dict[str, int]:
    return {str(row["name"]): mech for mech, row in enumerate(header["roster"]) if row["present"]}


def names_by_mech(header: Mapping[str, Any], chosen: Mapping[str, str], option: str) -> dict[int, str]:
    """Return the names of pilots by mech; ``chosen`` has them by mech or team, and a mech goes before its team.

    ``ValueError`` names an ``option`` with a mech that does not exist.
    """
    mechs, named = mechs_by_name(header), {}
    for target in sorted(chosen, key=lambda target: target not in SIDES):
        if target in SIDES:
            named |= {m: chosen[target] for m in mechs.values() if header["roster"][m]["team"] == SIDES[target]}
        elif target in mechs:
            named[mechs[target]] = chosen[target]
        else:
            raise ValueError(f"{option} has mech {target!r:.80}, expected blue, red or one of: {', '.join(mechs)}")
    return named


def team_pilot(team: Mapping[str, Any]) -> str:
    """Return the name of the pilot that flew a recorded team's mechs, without its humans; ``still`` for none.

    A scripted level has its prefix.
    """
    if name := team.get("policy") or team.get("level"):
        return str(name)
    return JOINT.join(name for name in str(team["name"]).split(JOINT) if name != HUMAN) or STILL
