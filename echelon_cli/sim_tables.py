"""Tables of ``echelon sim``: results, endings, classes, weapons and causes of death."""

from pathlib import Path
from typing import Any

from echelon.replay.match_text import ending_text
from echelon.runs import command
from echelon_cli import output
from echelon_cli.output import Column

COMBAT_COLUMNS = (
    ("kills", "kills", output.count),
    ("deaths", "deaths", output.count),
    ("survived", "lived", output.percent),
    ("damage", "dealt", output.measured),
    ("taken", "taken", output.measured),
    ("friendly", "friendly", output.measured),
    ("accuracy", "hits", output.percent),
)
SURVIVAL_COLUMNS = (
    ("mechs", "mechs", output.count),
    ("zone_s", "in zone", output.measured),
    ("life_s", "alive", output.measured),
    ("shutdowns", "shutdowns", output.measured),
    ("knockdowns", "knockdowns", output.measured),
)
"""(key, column name, formatter), narrow enough for 80 columns."""
WHOLE_TEAM = "all"


def show_contest(found: dict[str, Any]) -> None:
    _show_heading(found)
    if not found["matches"]:
        output.print_line("stopped before the first match ended", style="yellow")
        return
    _show_wins(found)
    _show_ends(found)
    _show_mechs("combat: kills and deaths in total, damage per mech and match", COMBAT_COLUMNS, found)
    _show_mechs("survival: seconds, shutdowns and knockdowns per mech and match", SURVIVAL_COLUMNS, found)
    output.show_rows(WEAPONS, found["weapons"], title="weapons")
    _show_deaths(found)
    _show_closing(found)


def _show_heading(found: dict[str, Any]) -> None:
    task = found["task"]
    x, y, z = task["map"]
    played = found["matches"]
    count = f"{played} matches" if played == found["planned"] else f"{played} of {found['planned']} matches"
    how = "every seed from both sides" if found["swap"] else "every seed once"
    last = found["first_seed"] + found["seeds"] - 1
    output.print_line(f"{found['blue']} against {found['red']}: {count}", style="bold")
    fair = "fair maps, " if task["maps"] == "path" else ""
    fair += f"distances to the zone within {task['fair']:g}x, " if task["fair"] else ""
    output.print_line(f"seeds {found['first_seed']} to {last}, {how}; packs per team: {task['packs']}, {x}x{y}x{z}, "
               f"{fair}{task['seconds']:g} s, trigger probability {task['weapon_prob']:g}")  # fmt: skip
    if found["note"]:
        output.print_line(found["note"], style="yellow")
    if found["stopped"] and played:
        output.print_line("stopped early: only finished matches count, which favours short ones", style="yellow")


def _show_wins(found: dict[str, Any]) -> None:
    rows = [_wins(row) for row in found["pilots"]]
    if found["swap"]:
        for row in found["pilots"]:
            rows += [_wins({"name": f"  {row['name']} as {side}", **row[side]}) for side in ("blue", "red")]
        rows += [_wins({**row, "name": f"{row['name']} side"}) for row in found["sides"]]
    columns = ("", "matches", "wins", "draws", "losses", "win rate", "95 % interval")
    output.show_table(columns, rows, right=columns[1:], title="")


def _wins(row: dict[str, Any]) -> tuple[object, ...]:
    rate = output.percent(row["win_rate"])
    interval = output.bounds(row["win_low"], row["win_high"])
    return row["name"], row["matches"], row["wins"], row["draws"], row["losses"], rate, interval


def _show_ends(found: dict[str, Any]) -> None:
    first, second = (row["name"] for row in found["pilots"])
    columns = ("ended by", "matches", f"{first} won", f"{second} won", "drawn")
    rows = [
        (ending_text(row["reason"]), row["matches"], row["first"], row["second"], row["draw"]) for row in found["ends"]
    ]
    output.show_table(columns, rows, right=columns[1:], title="")
    length = found["seconds"]
    output.print_line(
        f"length {length['mean']:.1f} s on average, {length['median']:.1f} s median, "
        f"{length['least']:.1f} to {length['most']:.1f} s"
    )


def _show_mechs(title: str, values: tuple[tuple[str, str, Any], ...], found: dict[str, Any]) -> None:
    """Print some values per class of each pilot, and over all its mechs."""
    rows = []
    for team in found["teams"]:
        of_team = [row for row in found["classes"] if row["pilot"] == team["pilot"]]
        for row in (*of_team, {**team, "class": WHOLE_TEAM}):
            rows.append((row["pilot"], row["class"], *(form(row[key]) for key, _, form in values)))
    columns = ("pilot", "class", *(label for _, label, _ in values))
    output.show_table(columns, rows, right=columns[2:], title=title)


WEAPONS = (
    Column("pilot", lambda row: row["pilot"]),
    Column("weapon", lambda row: row["weapon"]),
    Column("shots", lambda row: output.count(row["shots"]), right=True),
    Column("accuracy", lambda row: output.percent(row["accuracy"]), right=True),
    Column("dealt a match", lambda row: output.measured(row["damage_per_match"]), right=True),
    Column("share", lambda row: output.percent(row["damage_share"]), right=True),
    Column("kills", lambda row: row["kills"], right=True),
)


def _show_deaths(found: dict[str, Any]) -> None:
    causes = list(dict.fromkeys(cause for row in found["deaths"] for cause in row["causes"]))
    columns = ("pilot", "deaths", *(cause.replace("_", " ") for cause in causes))
    rows = [
        (row["pilot"], row["deaths"], *(row["causes"].get(cause, 0) for cause in causes)) for row in found["deaths"]
    ]
    output.show_table(columns, rows, right=columns[1:], title="deaths by cause")


def _show_closing(found: dict[str, Any]) -> None:
    speed = found["speed"]
    output.print_line()
    if speed["per_s"] is not None:
        took = output.duration(speed["play_s"])
        output.print_line(
            f"{output.count(speed['per_s'])} agent-steps/s: {output.count(speed['agent_steps'])} in {took}, "
            f"{speed['envs']} matches at a time"
        )
    if found["fault"]:
        output.print_line(found["fault"], style="yellow")
    if found["run"]:
        folder = {str(Path(row["replay"]).parent) for row in found["rows"] if row["replay"]}
        output.print_line(
            f"{found['replays']} replays in {', '.join(folder) or found['run']}; {command('watch', found['run'])}"
        )
