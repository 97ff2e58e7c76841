"""Tables of ``echelon arena``: ratings with 95 % intervals, behaviour, matches, head-to-head."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from echelon.replay.match_text import ending_text
from echelon.runs import command, policy_name, short_run_id
from echelon_cli import output
from echelon_cli.output import Column, measured, percent

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


def show_standings(found: dict[str, Any]) -> None:
    """Print ratings with their intervals, as numbers and drawn on one scale."""
    rows = found["entries"]
    low, high = (f(row[key] for row in rows) if rows else 0.0 for f, key in ((min, "low"), (max, "high")))
    scale = Column(f"interval {low:.0f} to {high:.0f}", lambda row: _bar(row, low, high), whole=True, rank=5)
    output.show_rows((*STANDINGS, scale), [{**row, "rank": rank} for rank, row in enumerate(rows, 1)])
    output.print_line(
        "± is the 95 % interval; the scripted level medium is fixed at 1500 once it has played", style="dim"
    )
    for row in found["unfinished"]:
        played = f"{row['played']} of {row['matches']} matches"
        output.print_line(f"round {row['round']} of {policy_name(row['job'])}: {played}, not rated yet")


def run_of(row: Mapping[str, Any]) -> str:
    """Return the run and update that an entry is a snapshot of; ``-`` for other entries."""
    run, update = row["meta"].get("run"), row["meta"].get("update")
    if not isinstance(run, str) or not run:
        return "-"
    return policy_name(f"update {update}", run) if isinstance(update, int) else short_run_id(run)


def kind_of(row: Mapping[str, Any]) -> str:
    """Return the kind of an entry, and whether it is an exploiter that its target beats."""
    return row["kind"] + " (retired)" * row["retired"]


def _bar(row: dict[str, Any], low: float, high: float) -> str:
    """Return an interval drawn on the scale from ``low`` to ``high``."""
    span = max(high - low, 1e-9)
    first, middle, last = (round((row[key] - low) / span * (BAR_WIDTH - 1)) for key in ("low", "rating", "high"))
    return "".join(
        MIDDLE if i == middle else INSIDE if first <= i <= last else OUTSIDE for i in range(BAR_WIDTH)
    ).rstrip()


STANDINGS = (
    Column("#", lambda row: row["rank"], right=True),
    Column("name", lambda row: row["name"]),
    Column("kind", kind_of, whole=True, rank=4),
    Column("rating", lambda row: f"{row['rating']:.0f}", right=True),
    Column("±", lambda row: f"{row['high'] - row['rating']:.0f}", right=True),
    Column("games", lambda row: row["games"], right=True),
    Column("won", lambda row: row["wins"], right=True, rank=1),
    Column("drawn", lambda row: row["draws"], right=True, rank=2),
    Column("lost", lambda row: row["losses"], right=True, rank=3),
    Column("run", run_of, whole=True),
)

STYLE = ("damage", "kills", "deaths", "accuracy", "range_vox", "zone_s", "life_s", "paints", "assists", "smoke")
"""Mean behaviour; the last columns are omitted first."""


def _style_column(key: str, rank: int) -> Column:
    form = percent if key == "accuracy" else measured
    name = key.removesuffix("_vox").replace("_", " ")
    return Column(name, lambda row: form(row["style"][key]), right=True, rank=rank)


BEHAVIOUR = (
    Column("name", lambda row: row["name"]),
    Column("kind", kind_of, whole=True, rank=len(STYLE) + 3),
    Column("matches", lambda row: row["style"]["matches"], right=True),
    *(_style_column(key, rank) for rank, key in enumerate(STYLE, 1)),
    Column("most damage by", lambda row: _most(row["style"]["damage_by"]), rank=len(STYLE) + 2),
    Column("lost to", lambda row: next(iter(row["style"]["lost_to"]), "-"), rank=len(STYLE) + 1),
)


def show_entries(rows: Sequence[dict[str, Any]]) -> None:
    output.show_rows(BEHAVIOUR, rows)


def _most(shares: dict[str, float]) -> str:
    best = max(shares, key=lambda name: shares[name], default=None)
    return "-" if best is None else f"{best} {percent(shares[best])}"


def _listed(values: Mapping[str, Any], form: Callable[[Any], str]) -> str:
    return ", ".join(f"{name} {form(value)}" for name, value in values.items()) or "-"


ENTRY_FACTS = ("target", "win_rate", "level", "checkpoint", "run", "update")
"""Metadata of an entry that is printed."""


def show_entry(row: dict[str, Any]) -> None:
    style = row["style"]
    about = [
        ("name", row["name"]),
        ("id", row["id"]),
        ("kind", kind_of(row)),
        ("rating", f"{row['rating']:.0f} ±{row['high'] - row['rating']:.0f}, volatility {row['vol']:.4f}"),
        ("matches", f"{row['games']} rated: {row['wins']} won, {row['draws']} drawn, {row['losses']} lost"),
        ("since", row["created_at"]),
        ("checkpoint", row["path"] or "-"),
        *((name, value) for name, value in row["meta"].items() if name in ENTRY_FACTS),
        ("damage by", _listed(style["damage_by"], percent)),
        ("accuracy by", _listed(style["accuracy_by"], percent)),
        ("range by", _listed(style["range_by"], measured)),
        ("lost to", _listed(style["lost_to"], str)),
    ]
    output.show_table(("", ""), about)
    output.show_rows(BEHAVIOUR, [row], title="")
    if row["history"]:
        output.show_table(
            ("job", "round", "rating", "rd", "games"),
            [(h["job"], h["round"], f"{h['rating']:.0f}", f"{h['rd']:.0f}", h["games"]) for h in row["history"]],
            right=("round", "rating", "rd", "games"),
            title="",
        )


MATCHES = (
    Column("match", lambda row: row["id"], right=True),
    Column("round", lambda row: row["round"], right=True, rank=4),
    Column("blue", lambda row: row["blue_name"]),
    Column("red", lambda row: row["red_name"]),
    Column("winner", lambda row: row["winner"] or "-", whole=True),
    Column("ending", lambda row: row["note"] or ending_text(row["reason"]), rank=3),
    Column("score", lambda row: _two(row, "score", 1), whole=True, rank=1),
    Column("hp", lambda row: _two(row, "hp", 0), whole=True, rank=6),
    Column("seconds", lambda row: f"{row['seconds'] or 0:.0f}", right=True, rank=2),
    Column("seed", lambda row: row["seed"], right=True, rank=5),
    Column("replay", lambda row: row["replay"].rpartition("/")[2] or "-", rank=7),
)


def show_matches(rows: Sequence[dict[str, Any]]) -> None:
    output.show_rows(MATCHES, rows)
    recorded = next((row for row in rows if row["replay"]), None)
    if recorded is not None:
        output.print_line(f"watch: {command('watch', recorded['replay'].rpartition('/')[2])}", style="dim")


def _two(row: dict[str, Any], name: str, digits: int) -> str:
    return f"{row[f'{name}_blue'] or 0:.{digits}f} : {row[f'{name}_red'] or 0:.{digits}f}"


def show_pairs(found: dict[str, Any]) -> None:
    entries, pairs = found["entries"], {(p["id"], p["against"]): p for p in found["pairs"]}
    numbers = [str(number) for number in range(1, len(entries) + 1)]
    names = [entry["name"][: output.console().width // NAME_SHARE] for entry in entries]
    form, rows, titles = "", [], ("#", "score of", *numbers)
    for form in SCORE_FORMS if output.fits(titles, ()) else SCORE_FORMS[-1:]:
        rows = [
            (number, name, *(_cell(form, pairs.get((one["id"], other["id"])), one is other) for other in entries))
            for number, name, one in zip(numbers, names, entries, strict=True)
        ]
        if output.fits(titles, rows):
            break
    output.show_table(titles, rows, right=("#", *numbers), unwrapped=("score of",), optional=numbers[::-1])
    output.print_line("score against the entry of each column [%]; a draw counts half", style="dim")
    parts = [text for field, text in SCORE_PARTS.items() if field in form]
    counts = {_matches(pair) for pair in found["pairs"]}
    if len(counts) == 1 and "matches" not in form:
        parts.append(f"matches of each pair: {counts.pop()}")
    if found["left_out"]:
        parts.append(f"the {len(entries)} best-rated entries; {found['left_out']} are left out")
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
        title="",
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
