"""A match in words: names, score and result, as the viewer writes them (viewer/src/text.ts, score_text.ts)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.replay.moment_text import TEAMS, clock, points

LEVEL_PREFIX = "heuristic:"
"""Of scripted levels in files."""
HUMAN = "human"
"""Name of the pilot of a seat in a recording's teams."""
JOINT = " and "
"""Between the names of a team's pilots."""
MAX_TEAM_NAME = 48
"""Characters of a team's name."""
ENDINGS = {"zone_control": " by holding the zone", "elimination": " by elimination", "time_up": " at the time limit"}


def team_name(header: Mapping[str, Any], team: int) -> str:
    """Return the name of a team, "bot: medium" for a scripted level, else its colour; printable characters only."""
    entry = header["teams"][team]
    level = str(entry.get("level") or "")
    name = str(entry.get("name") or TEAMS[team])
    if level:
        pilots = name.split(JOINT)
        bot = f"bot: {level.removeprefix(LEVEL_PREFIX)}"
        name = JOINT.join(p if p == HUMAN else f"bot: {p}" for p in pilots) if HUMAN in pilots else bot
    return "".join(char if char.isprintable() else "?" for char in name[:MAX_TEAM_NAME])


def result_text(header: Mapping[str, Any], outcome: Mapping[str, Any]) -> tuple[str, str]:
    winner, ending = int(outcome.get("winner", -1)), ENDINGS.get(str(outcome.get("reason", "")), "")
    headline = {0: f"{TEAMS[0]} wins{ending}", 1: f"{TEAMS[1]} wins{ending}", 2: f"Draw{ending}"}.get(
        winner, "Undecided"
    )
    at = clock(float(outcome.get("ticks", 0)) / float(header["tick_hz"]))
    details = []
    if score := outcome.get("score"):
        details.append(f"zone {points(score[0])} to {points(score[1])}")
    if alive := outcome.get("alive"):
        details.append(f"{alive[0]:.0f} to {alive[1]:.0f} alive")
    return f"{headline} at {at}", ", ".join(details)
