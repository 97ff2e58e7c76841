"""Tables of ``echelon arena``: ratings with 95 % intervals, behaviour, matches, head-to-head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from echelon.runs import command
from echelon_cli import output
from echelon_cli.output import figure, percent
from echelon_cli.tui.format import short_run_id

BAR_WIDTH = 32
"""Width of a drawn interval [columns]."""
SCORE_FORMS = ("{score} ±{half} /{matches}", "{score}±{half}/{matches}", "{score}±{half}", "{score}{mark}", "{score}")
"""Cells of the head-to-head table; the first form that fits is printed."""
NAME_SHARE = 4
"""Part of the screen that names of the head-to-head table may take: one in four columns."""
DIAGONAL, EVEN = "·", 0.5
SCORE_PARTS = {
    "{half}": "±: half of the 95 % interval",
    "{matches}": "/: matches",
    "{mark}": "*: the 95 % interval excludes 50",
}
"""Parts of a cell beside the score, and what they are."""
SMALLEST_WEIGHT = 5e-4
"""Smallest weight in a mixture that is printed."""
INSIDE, MIDDLE, OUTSIDE = "─", "●", " "
RIGHT = ("rating", "±", "games", "won", "drawn", "lost", "#")


def show_standings(found: dict[str, Any]) -> None:
    """Print ratings with their intervals, as numbers and drawn on one scale."""
    rows = found["entries"]
    low, high = (f(row[key] for row in rows) if rows else 0.0 for f, key in ((min, "low"), (max, "high")))
    scale = f"interval {low:.0f} to {high:.0f}"
    output.show_table(
        ("#", "name", "kind", "rating", "±", "games", "won", "drawn", "lost", "run", scale),
        [
            (rank, row["name"], row["kind"], f"{row['rating']:.0f}", f"{row['high'] - row['rating']:.0f}",
             row["games"], row["wins"], row["draws"], row["losses"], run_of(row), _bar(row, low, high))
            for rank, row in enumerate(rows, 1)
        ],
        right=RIGHT,
        unwrapped=("kind", "run", scale),
        optional=(scale, "kind", "lost", "drawn", "won"),
    )  # fmt: skip
    output.print_line(
        "± is the 95 % interval; the scripted level medium is fixed at 1500 once it has played", style="dim"
    )
    for row in found["unfinished"]:
        output.print_line(
            f"round {row['round']} of {row['job']}: {row['played']} of {row['matches']} matches, not rated yet"
        )


def run_of(row: Mapping[str, Any]) -> str:
    """Return the run and update that an entry is a snapshot of; ``-`` for other entries."""
    run, update = row["meta"].get("run"), row["meta"].get("update")
    if not isinstance(run, str) or not run:
        return "-"
    return f"{short_run_id(run)} u{update}" if isinstance(update, int) else short_run_id(run)


def _bar(row: dict[str, Any], low: float, high: float) -> str:
    """Return an interval drawn on the scale from ``low`` to ``high``."""
    span = max(high - low, 1e-9)
    first, middle, last = (round((row[key] - low) / span * (BAR_WIDTH - 1)) for key in ("low", "rating", "high"))
    return "".join(
        MIDDLE if i == middle else INSIDE if first <= i <= last else OUTSIDE for i in range(BAR_WIDTH)
    ).rstrip()


def _number(value: float | None) -> str:
    return "-" if value is None else figure(value)


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def show_entries(rows: Sequence[dict[str, Any]]) -> None:
    numbers = ("damage", "kills", "deaths", "accuracy", "range", "zone s", "life s", "paints", "assists", "smoke")
    output.show_table(
        ("name", "kind", "matches", *numbers, "most damage by", "lost to"),
        [
            (row["name"], row["kind"], s["matches"], _number(s["damage"]), _number(s["kills"]), _number(s["deaths"]),
             _share(s["accuracy"]), _number(s["range_vox"]), _number(s["zone_s"]), _number(s["life_s"]),
             _number(s["paints"]), _number(s["assists"]), _number(s["smoke"]),
             _most(s["damage_by"]), next(iter(s["lost_to"]), "-"))
            for row in rows for s in (row["style"],)
        ],
        right=("matches", *numbers),
        unwrapped=("kind",),
        optional=("kind", "most damage by", "lost to", *numbers[::-1]),
    )  # fmt: skip


def _most(shares: dict[str, float]) -> str:
    best = max(shares, key=lambda name: shares[name], default=None)
    return "-" if best is None else f"{best} {percent(shares[best])}"


ENTRY_FACTS = ("target", "win_rate", "level", "checkpoint", "run", "update")
"""Metadata of an entry that is printed."""


def show_entry(row: dict[str, Any]) -> None:
    style = row["style"]
    about = [
        ("name", row["name"]),
        ("id", row["id"]),
        ("kind", row["kind"]),
        ("rating", f"{row['rating']:.0f} ({row['low']:.0f} to {row['high']:.0f}), volatility {row['vol']:.4f}"),
        ("matches", f"{row['games']} rated: {row['wins']} won, {row['draws']} drawn, {row['losses']} lost"),
        ("since", row["created_at"]),
        ("checkpoint", row["path"] or "-"),
        *((name, value) for name, value in row["meta"].items() if name in ENTRY_FACTS),
        ("damage by", ", ".join(f"{name} {percent(value)}" for name, value in style["damage_by"].items()) or "-"),
        ("accuracy by", ", ".join(f"{name} {percent(value)}" for name, value in style["accuracy_by"].items()) or "-"),
        ("range by", ", ".join(f"{name} {figure(value)}" for name, value in style["range_by"].items()) or "-"),
        ("lost to", ", ".join(f"{name} {count}" for name, count in style["lost_to"].items()) or "-"),
    ]
    output.show_table(("", ""), about)
    output.print_line()
    show_entries([row])
    if row["history"]:
        output.print_line()
        output.show_table(
            ("job", "round", "rating", "rd", "games"),
            [(h["job"], h["round"], f"{h['rating']:.0f}", f"{h['rd']:.0f}", h["games"]) for h in row["history"]],
            right=("round", "rating", "rd", "games"),
        )


def show_matches(rows: Sequence[dict[str, Any]]) -> None:
    output.show_table(
        ("match", "round", "blue", "red", "winner", "reason", "score", "hp", "seconds", "seed", "replay"),
        [
            (row["id"], row["round"], row["blue_name"], row["red_name"], row["winner"] or "-",
             row["note"] or row["reason"], _two(row, "score", 1), _two(row, "hp", 0), f"{row['seconds'] or 0:.0f}",
             row["seed"], row["replay"].rpartition("/")[2] or "-")
            for row in rows
        ],
        right=("match", "round", "seconds", "seed"),
        unwrapped=("winner", "score", "hp"),
        optional=("replay", "hp", "seed", "round", "reason", "seconds", "score"),
    )  # fmt: skip
    recorded = next((row for row in rows if row["replay"]), None)
    if recorded is not None:
        output.print_line(f"watch: {command('watch', recorded['replay'].rpartition('/')[2])}", style="dim")


def _two(row: dict[str, Any], name: str, digits: int) -> str:
    return f"{row[f'{name}_blue'] or 0:.{digits}f} : {row[f'{name}_red'] or 0:.{digits}f}"


def show_pairs(found: dict[str, Any]) -> None:
    entries, pairs = found["entries"], {(p["id"], p["against"]): p for p in found["pairs"]}
    numbers = [str(number) for number in range(1, len(entries) + 1)]
    names = [entry["name"][: output.console().width // NAME_SHARE] for entry in entries]
    form, rows = "", []
    for form in SCORE_FORMS:
        rows = [
            (number, name, *(_cell(form, pairs.get((one["id"], other["id"])), one is other) for other in entries))
            for number, name, one in zip(numbers, names, entries, strict=True)
        ]
        if output.fits(("#", "score of", *numbers), rows):
            break
    output.show_table(
        ("#", "score of", *numbers), rows, right=("#", *numbers), unwrapped=("score of",), optional=numbers[::-1]
    )
    output.print_line("score against the entry of each column [%]; a draw counts half", style="dim")
    parts = [text for field, text in SCORE_PARTS.items() if field in form]
    counts = {_matches(pair) for pair in found["pairs"]}
    if len(counts) == 1 and "matches" not in form:
        parts.append(f"matches of each pair: {counts.pop()}")
    if parts:
        output.print_line("; ".join(parts), style="dim")
    _show_metagame(found, dict(zip((entry["id"] for entry in entries), zip(numbers, names, strict=True), strict=True)))
    for cycle in found["cycles"]:
        output.print_line(f"cycle: {' beats '.join([*cycle, cycle[0]])}")


def _cell(form: str, pair: dict[str, Any] | None, is_diagonal: bool) -> str:
    """Return the score of a pair as text; empty for a pair without matches."""
    if pair is None:
        return DIAGONAL if is_diagonal else ""
    half = (pair["score_high"] - pair["score_low"]) / 2
    mark = " " if pair["score_low"] <= EVEN <= pair["score_high"] else "*"
    return form.format(score=f"{100 * pair['score']:.0f}", half=f"{100 * half:.0f}", mark=mark, matches=_matches(pair))


def _matches(pair: dict[str, Any]) -> int:
    return pair["wins"] + pair["draws"] + pair["losses"]


def _show_metagame(found: dict[str, Any], shown: dict[str, tuple[str, str]]) -> None:
    """Print Nash weight and alpha-rank of every entry; ``shown`` has number and name by id."""
    game = found["metagame"]
    if not game["entries"]:
        return
    columns = ("nash", "in support", "alpha-rank", "nash-averaged", "matches")
    output.print_line()
    output.show_table(
        ("#", "name", *columns),
        [
            (*shown[row["id"]], _weight(row["nash"]), percent(row["support"]), _weight(row["alpha_rank"]),
             f"{row['nash_averaged']:.1%}", row["matches"])
            for row in game["entries"]
        ],
        right=("#", *columns),
        unwrapped=("name",),
        optional=("matches",),
    )  # fmt: skip
    for line in (
        "nash: weight in the maximum-entropy equilibrium; nash-averaged: score against it",
        f"in support: share of {game['resamples']} bootstrap samples of the matches that give it weight",
        f"alpha-rank: mass in a population of {game['population']} under strong selection",
    ):
        output.print_line(line, style="dim")
    if game["unplayed"]:
        output.print_line(
            f"{game['unplayed']} of {game['pairs']} pairs were not played and have the score that the ratings expect"
        )


def _weight(value: float) -> str:
    return f"{value:.1%}" if value >= SMALLEST_WEIGHT else "-"
