"""A match in words: names of teams and pilots, endings, captions of moments (viewer/src/text.ts, score_text.ts)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from echelon.runs import policy_name

TEAMS = ("Blue", "Red")
MAX_NAME = 16
"""Characters of a name from a file that a caption contains."""
SMALL_CHANGE = 5
"""Change of the win probability that decides nothing, and is not told [%]."""
MAX_LISTED = 4
"""Victims that a caption lists by name."""
NOUNS = {"gauss": "gauss round"}
"""Weapons whose name alone does not read as the cause of damage."""


class Kill(NamedTuple):
    """A destroyed mech; mechs are indices of the roster, -1 for none."""

    tick: int
    killer: int
    victim: int
    weapon: str
    rear: bool
    shutdown: bool
    fallen: bool


def plain_name(name: Any) -> str:
    """Return a name from a file as at most ``MAX_NAME`` printable characters."""
    return "".join(char if char.isprintable() else "?" for char in str(name)[:MAX_NAME])


def clock(seconds: float) -> str:
    """Return seconds as m:ss."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def points(score: float) -> str:
    """Return zone points with one decimal, rounded down, so that a team never seems to have won before it has."""
    return f"{int(score * 10 + 1e-3) / 10:.1f}"


def percent(p: float) -> str:
    """Return a probability in whole percent; 0 and 100 only if it is certain."""
    shown = int(round(p * 1e5) / 1e3 + 0.5)
    return f"{shown if p in (0.0, 1.0) else min(99, max(1, shown))} %"


def caption(seconds: float, text: str, before: float, after: float) -> str:
    """Return the caption of a moment with its time and its change of the win probability, which is always blue's.

    A change below ``SMALL_CHANGE`` is left out.
    """
    told = f"{clock(seconds)} {text}"
    parts = [int(percent(p).split()[0]) for p in (before, after)]
    return told if abs(parts[1] - parts[0]) < SMALL_CHANGE else f"{told}: blue {parts[0]} % → {parts[1]} %"


def listed(names: Sequence[str]) -> str:
    if len(names) > MAX_LISTED:
        return f"{len(names)} mechs"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def kill_text(kill: Kill, names: Sequence[str], teams: Sequence[int]) -> str:
    victim = names[kill.victim]
    if kill.killer < 0:
        return f"{victim} is destroyed by a hazard"
    killer = names[kill.killer]
    subject = f"{killer}'s {NOUNS.get(kill.weapon, kill.weapon)}" if kill.weapon else killer
    if teams[kill.killer] == teams[kill.victim]:
        return f"{subject} destroys its own {victim}"
    how = next(
        (
            text
            for applies, text in (
                (kill.shutdown, ", shut down by heat"),
                (kill.rear, " from behind"),
                (kill.fallen, ", knocked down"),
            )
            if applies
        ),
        "",
    )
    return f"{subject} kills {victim}{how}"


def multi_kill_text(kills: Sequence[Kill], names: Sequence[str], team: int, seconds: float) -> str:
    killers = {kill.killer for kill in kills}
    subject = names[kills[0].killer] if len(killers) == 1 else TEAMS[team]
    return f"{subject} kills {listed([names[kill.victim] for kill in kills])} within {max(1, math.ceil(seconds))} s"


def loss_text(team: int, lost: Sequence[str]) -> str:
    return f", {TEAMS[team].lower()} loses {listed(lost)}" if lost else ""


def hold_text(team: int, sole: str, alive: Sequence[int], seconds: float) -> str:
    subject = f"{sole} alone holds" if alive[team] == 1 else f"{TEAMS[team]}'s last {alive[team]} hold"
    return f"{subject} the zone against {alive[1 - team]} for {seconds:.0f} s"


def comeback_text(team: int, alive: Sequence[int], score: Sequence[float]) -> str:
    """Return the lowest point of the winner as a clause."""
    mechs = f"{alive[team]} against {alive[1 - team]} mechs"
    scores = f"{points(score[team])} to {points(score[1 - team])} zone points"
    return f"{TEAMS[team]} comes back from {mechs}, {scores}"


def swing_text(group: str, team: int, lost: Sequence[float], scored: Sequence[float], seconds: float) -> str:
    """Return what moved the win probability toward a team as a clause.

    ``group`` is the group of features that changed most, ``lost`` the hit points that each team lost, ``scored`` the
    zone points that each scored.
    """
    gains, loses = TEAMS[team], TEAMS[1 - team]
    within = f"within {seconds:.0f} s"
    if group == "zone points" and scored[team] <= scored[1 - team]:
        return f"time runs out for {loses.lower()}"
    return {
        "hit points": f"{loses} loses {lost[1 - team]:.0f} hit points to {gains.lower()}'s {lost[team]:.0f} {within}",
        "zone points": f"{gains} scores {points(scored[team])} zone points to {points(scored[1 - team])} {within}",
        "zone control": f"{gains} has more mechs in the zone",
        "distance to the zone": f"{gains} gets closer to the zone",
        "knocked down": f"{loses} has more mechs down or shut down",
        "leg damage": f"{loses} takes leg damage",
        "painted": f"{loses} has more mechs painted",
    }.get(group, f"{gains} gains in {group}")


SIDES = {"blue": 0, "red": 1}
STILL = "still"


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


LEVEL_PREFIX = "heuristic:"
HUMAN = "human"
"""Name of the pilot of a seat in a recording's teams."""
JOINT = " and "
MAX_TEAM_NAME = 48


def ending_text(reason: str | None) -> str:
    """Return how a match ended, as every list, table and page names it (``endingText`` of viewer/src/text.ts)."""
    return "zone held" if reason == "zone_control" else (reason or "").replace("_", " ")


def shown_pilots(name: str, run: str) -> str:
    """Return the name of a team of a recording with its policies as they are named everywhere."""
    return JOINT.join(policy_name(pilot, run) for pilot in name.split(JOINT))


def team_name(header: Mapping[str, Any], team: int) -> str:
    """Return the name of a team, "bot: medium" for a scripted level, else its colour; printable characters only."""
    entry = header["teams"][team]
    level, name = entry["level"], shown_pilots(entry["name"], header.get("run", "")) or TEAMS[team]
    if level:
        pilots = name.split(JOINT)
        bot = f"bot: {level.removeprefix(LEVEL_PREFIX)}"
        name = JOINT.join(p if p == HUMAN else f"bot: {p}" for p in pilots) if HUMAN in pilots else bot
    return "".join(char if char.isprintable() else "?" for char in name[:MAX_TEAM_NAME])


def match_title(header: Mapping[str, Any]) -> str:
    return " against ".join(team_name(header, team) for team in (0, 1))
