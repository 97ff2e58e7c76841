"""Tables of ``echelon arena``: ratings with 95 % intervals, behaviour, matches, head-to-head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon_cli import output
from echelon_cli.output import figure, percent

BAR_WIDTH = 32
"""Width of a drawn interval [columns]."""
PAIRS_WIDTH = 9
"""Characters of an entry's name above a column of the head-to-head table."""
INSIDE, MIDDLE, OUTSIDE = "─", "●", " "
RIGHT = ("rating", "±", "games", "won", "drawn", "lost", "#")


def show_standings(found: dict[str, Any]) -> None:
    """Print ratings with their intervals, as numbers and drawn on one scale."""
    rows = found["entries"]
    low, high = (f(row[key] for row in rows) if rows else 0.0 for f, key in ((min, "low"), (max, "high")))
    scale = f"interval {low:.0f} to {high:.0f}"
    output.show_table(
        ("#", "name", "kind", "rating", "±", "games", "won", "drawn", "lost", scale),
        [
            (rank, row["name"], row["kind"], f"{row['rating']:.0f}", f"{row['high'] - row['rating']:.0f}",
             row["games"], row["wins"], row["draws"], row["losses"], _bar(row, low, high))
            for rank, row in enumerate(rows, 1)
        ],
        right=RIGHT,
        unwrapped=("kind", scale),
        optional=(scale, "kind", "lost", "drawn", "won"),
    )  # fmt: skip
    output.print_line(
        "± is the 95 % interval; the scripted level medium is fixed at 1500 once it has played", style="dim"
    )
    for row in found["unfinished"]:
        output.print_line(
            f"round {row['round']} of {row['job']}: {row['played']} of {row['matches']} matches, not rated yet"
        )


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
    """Print the behaviour of entries, per mech and match."""
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
    """Print rating, behaviour and history of one entry."""
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
    """Print matches and the command to watch a recorded one."""
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
        output.print_line(f"watch: echelon watch {recorded['replay'].rpartition('/')[2]}", style="dim")


def _two(row: dict[str, Any], name: str, digits: int) -> str:
    return f"{row[f'{name}_blue'] or 0:.{digits}f} : {row[f'{name}_red'] or 0:.{digits}f}"


def show_pairs(found: dict[str, Any]) -> None:
    """Print the score of each row's entry against each column's, and cycles of three."""
    entries = found["entries"]
    scores = {
        (p["id"], p["against"]): f"{percent(p['score'])} /{p['wins'] + p['draws'] + p['losses']}"
        for p in found["pairs"]
    }
    names = [e["name"][:PAIRS_WIDTH] for e in entries]
    output.show_table(
        ("score against", *names),
        [(e["name"], *(scores.get((e["id"], other["id"]), "") for other in entries)) for e in entries],
        right=names,
        optional=names[::-1],
    )
    output.print_line("score (win 1, draw 0.5) / matches", style="dim")
    for cycle in found["cycles"]:
        output.print_line(f"cycle: {' beats '.join([*cycle, cycle[0]])}")
