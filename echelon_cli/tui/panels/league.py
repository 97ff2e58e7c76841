"""Panels of the league: ratings with their doubt, who beats whom, matches, and all about the chosen entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from textual import events
from textual.message import Message
from textual.reactive import reactive

from echelon.arena.intervals import Z_95 as CONFIDENCE_Z
from echelon_cli.output import count
from echelon_cli.tui.charts.axis import data_range
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_overlay
from echelon_cli.tui.charts.curves import Curve
from echelon_cli.tui.charts.plot import Trace
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.feed.messages import LeagueView
from echelon_cli.tui.format import measured, percent
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.panels.log import wrap
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, truncate

Row = Mapping[str, Any]

EMPTY_STATE = (
    "no league here yet",
    "",
    "p plays a first round of the scripted levels;",
    "echelon arena add RUN puts a policy among them.",
    "Ratings have their doubt drawn: it shrinks with every round.",
)

NAME_CELLS = 10
"""Least columns of a name."""

BAR_CELLS = 12
"""Least columns of the picture of intervals."""

YIELDING = 3
"""Columns from this rank on are left out where the picture of intervals would be."""

PAIR_CELLS = 5
"""Columns of a share of points in the table of pairs."""

OPPONENT_CELLS = 26
"""Columns that side and opponent of a match keep beside how it ended."""

EVEN = 0.5

CHART_ROWS = 7
"""Rows from which, beside the words, the history of an entry is drawn."""

STYLE: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("damage", "{} damage", measured),
    ("kills", "{} kills", measured),
    ("deaths", "{} deaths", measured),
    ("zone_s", "{} s in the zone", measured),
    ("accuracy", "{} of shots hit", percent),
)
"""What a mech does in a match: name, words around the figure, and how that is written."""

HISTORY = Chart(series=(Series(metric="rating", label="rating"),), text="{:.0f}".format)
ROUNDS = Viewport(x_axis="rounds")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the standings."""

    name: str
    width: int
    text: Callable[[Row], str]
    rank: int = 0
    """Higher ranks are left out first where there is little room."""
    right: bool = True


COLUMNS: tuple[Column, ...] = (
    Column(name="rating", width=6, text=lambda row: f"{row['rating']:.0f}"),
    Column(name="+-", width=4, text=lambda row: f"{row['high'] - row['rating']:.0f}"),
    Column(name="kind", width=11, rank=5, text=lambda row: f" {row['kind']}", right=False),
    Column(name="games", width=5, text=lambda row: count(row["games"]), rank=2),
    Column(name="won", width=5, text=lambda row: _share(row, "wins"), rank=1),
    Column(name="drawn", width=5, text=lambda row: _share(row, "draws"), rank=4),
    Column(name="lost", width=5, text=lambda row: _share(row, "losses"), rank=3),
)


def _share(row: Row, what: str) -> str:
    games = row["wins"] + row["draws"] + row["losses"]
    return percent(row[what] / games) if games else "-"


class LeaguePanel(Panel):
    """Something about the league, with one entry chosen."""

    league: reactive[LeagueView] = reactive(LeagueView(), repaint=False, init=False)
    selected: reactive[str] = reactive("", repaint=False, init=False)
    """Id of the entry the cursor stands on."""

    def watch_league(self) -> None:
        self.redraw()

    def watch_selected(self) -> None:
        self.redraw()

    def draw_body(self, width: int, height: int) -> Grid:
        """Return what is drawn where there is a league."""
        return Grid(width, height)

    def body(self, width: int, height: int) -> Grid:
        if self.league.entries:
            return self.draw_body(width, height)
        grid = Grid(width, height)
        lines = EMPTY_STATE if self.league.loaded else ("looking for the league",)
        if self.league.problem:
            lines = (self.league.problem,)
        rows = [row for line in lines for row in (wrap(line, max(1, width)) or [""])]
        for y, row in enumerate(rows, start=max(0, (height - len(rows)) // 2)):
            grid.put(max(0, (width - len(row)) // 2), y, row, "bad" if self.league.problem else "dim")
        return grid


def first_shown(at: int, rows: int, room: int) -> int:
    """Return the first of ``rows`` to draw, so that row ``at`` is among those that fit."""
    return max(0, min(at - room // 2, rows - room))


class PanelRatings(LeaguePanel):
    """Everybody, the strongest first."""

    class Selected(Message):
        """An entry was clicked."""

        def __init__(self, entry: str) -> None:
            super().__init__()
            self.entry = entry

    def draw_body(self, width: int, height: int) -> Grid:
        return draw_ratings_table(self.league, self.selected, width, height, self.theme)

    def on_click(self, event: events.Click) -> None:
        rows, room = self.league.entries, self.size.height - 3
        at = next((i for i, row in enumerate(rows) if row["id"] == self.selected), 0)
        index = first_shown(at, len(rows), room) + event.y - 2
        if event.y >= 2 and index < len(rows):
            self.post_message(self.Selected(rows[index]["id"]))


def draw_ratings_table(view: LeagueView, selected: str, width: int, height: int, theme: Theme) -> Grid:
    """Return places, names, figures, and every 95 % interval on one scale where there is room for it."""
    grid, rows = Grid(width, height), view.entries
    columns = visible_columns(width)
    figures = sum(c.width + 1 for c in columns)
    names = min(max(len(row["name"]) for row in rows) + 1, max(NAME_CELLS, (width - 4 - figures) // 2))
    bar = width - 4 - names - figures - 2
    if bar < BAR_CELLS:
        names, bar = width - 4 - figures, 0
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    grid.put(4, 0, "name", "dim")
    x = 4 + names
    for column in columns:
        x += column.width + 1
        title = "±" if column.name == "+-" and theme.glyphs == "braille" else column.name
        _figure(grid, column, x, 0, title if column.right else f" {title}", "dim")
    if bar:
        grid.put(x + 2, 0, f"{low:.0f}", "dim")
        grid.right(width, 0, f"{high:.0f}", "dim")
    at = next((i for i, row in enumerate(rows) if row["id"] == selected), 0)
    first = first_shown(at, len(rows), height - 1)
    for y, row in enumerate(rows[first : first + height - 1], start=1):
        grid.right(3, y, str(first + y), "dim")
        grid.put(
            4, y, truncate(row["name"], names - 1, theme.symbols.cut), "dim" if row["kind"] == "heuristic" else "bold"
        )
        x = 4 + names
        for column in columns:
            x += column.width + 1
            _figure(grid, column, x, y, column.text(row), "good" if column.name == "rating" else "")
        if bar:
            _interval(grid, x + 2, y, row, (low, high), bar, theme)
        if first + y - 1 == at:
            grid.put(0, y, theme.symbols.cursor)
            grid.fill(y, "cursor")
    return grid


def _figure(grid: Grid, column: Column, end: int, y: int, text: str, role: str) -> None:
    """Write text into the column that ends before ``end``."""
    if column.right:
        grid.right(end, y, text, role)
    else:
        grid.put(end - column.width, y, text, role, limit=end)


def visible_columns(width: int) -> list[Column]:
    """Return the columns that fit beside a name; what matters least makes room for the picture of intervals too."""
    kept = list(COLUMNS)
    while len(kept) > 1:
        last = max(kept, key=lambda c: c.rank)
        room = width - 4 - NAME_CELLS - sum(c.width + 1 for c in kept)
        if room >= (BAR_CELLS + 2 if last.rank >= YIELDING else 0):
            break
        kept.remove(last)
    return kept


def _interval(grid: Grid, x: int, y: int, row: Row, scale: tuple[float, float], wide: int, theme: Theme) -> None:
    """Draw where a rating lies between its doubts."""
    span = max(scale[1] - scale[0], 1e-9)
    left, middle, right = (round((row[key] - scale[0]) / span * (wide - 1)) for key in ("low", "rating", "high"))
    grid.put(x + left, y, theme.symbols.rest * (right - left + 1), "frame")
    grid.put(x + middle, y, theme.symbols.mark, "mark")


class PanelHeadToHead(LeaguePanel):
    """Who takes which share of the points from whom."""

    def note(self) -> str:
        return "share of points, row against column"

    def draw_body(self, width: int, height: int) -> Grid:
        return draw_head_to_head(self.league, self.selected, width, height, self.theme)


def draw_head_to_head(view: LeagueView, selected: str, width: int, height: int, theme: Theme) -> Grid:
    """Return the table of pairs around the chosen entry, columns by place, and rings of three below it."""
    grid, rows = Grid(width, height), view.entries
    rings = [f"ring: {' beats '.join([*ring, ring[0]])}" for ring in view.cycles][: max(0, height // 4)]
    names = min(max(len(row["name"]) for row in rows), max(NAME_CELLS, width // 4))
    tall, wide = height - 1 - len(rings), max(1, (width - names - 4) // PAIR_CELLS)
    at = next((i for i, row in enumerate(rows) if row["id"] == selected), 0)
    top, left = first_shown(at, len(rows), tall), first_shown(at, len(rows), wide)
    others = rows[left : left + wide]
    for i, other in enumerate(others):
        grid.right(4 + names + (i + 1) * PAIR_CELLS, 0, str(left + i + 1), "key" if other["id"] == selected else "dim")
    for y, row in enumerate(rows[top : top + tall], start=1):
        mine = row["id"] == selected
        grid.right(3, y, str(top + y), "key" if mine else "dim")
        grid.put(4, y, truncate(row["name"], names, theme.symbols.cut), "key" if mine else "")
        for i, other in enumerate(others):
            pair = view.pairs.get((row["id"], other["id"]))
            text = theme.symbols.dot if pair is None else percent(pair["score"])
            role = "dim" if pair is None else "good" if pair["low"] > EVEN else "bad" if pair["high"] < EVEN else ""
            grid.right(4 + names + (i + 1) * PAIR_CELLS, y, text, role)
    for y, ring in enumerate(rings, start=height - len(rings)):
        grid.put(0, y, truncate(ring, width, theme.symbols.cut), "warn")
    return grid


class PanelMatches(LeaguePanel):
    """Matches of the chosen entry."""

    def note(self) -> str:
        row = self.league.entry(self.selected)
        return f"of {row['name']}" if row else ""

    def draw_body(self, width: int, height: int) -> Grid:
        return draw_entry_matches(entry_matches(self.league, self.selected), self.selected, width, height, self.theme)


def entry_matches(view: LeagueView, entry: str) -> list[dict[str, Any]]:
    """Return the listed matches of an entry, the newest first."""
    return [row for row in view.matches if entry in (row["blue"], row["red"])]


def draw_entry_matches(rows: Sequence[Row], selected: str, width: int, height: int, theme: Theme) -> Grid:
    """Return a line for each match: how it went for the chosen, against whom, and whether it can be watched."""
    grid = Grid(width, height)
    if not rows:
        grid.put(0, 0, truncate("none of the newest matches", width, theme.symbols.cut), "dim")
        return grid
    for y, row in enumerate(rows[:height]):
        blue = row["blue"] == selected
        outcome, role = _outcome(row, blue)
        x = grid.put(0, y, outcome, role)
        against = row["red_name" if blue else "blue_name"]
        ended = (row["note"] or row["reason"] or "").replace("_", " ")
        said = f"{ended}, {row['seconds'] or 0:.0f} s" if ended else ""
        kept = f" {theme.symbols.cursor}" if row["replay"] else "  "
        room = width - 6 - len(kept)
        text = f"{'blue' if blue else 'red'} against {against}"
        if room - len(said) - 2 >= min(len(text), OPPONENT_CELLS):
            grid.right(width - len(kept), y, said, "dim")
            room -= len(said) + 2
        grid.put(max(x + 1, 6), y, truncate(text, room, theme.symbols.cut))
        grid.right(width, y, kept, "mark")
    return grid


def _outcome(row: Row, blue: bool) -> tuple[str, str]:
    if row["winner"] == "draw":
        return "drawn", "info"
    if row["winner"] not in ("blue", "red"):
        return "void", "dim"
    return ("won", "good") if (row["winner"] == "blue") == blue else ("lost", "bad")


class PanelEntry(LeaguePanel):
    """All about the chosen entry: how its rating moved, how it fights."""

    def note(self) -> str:
        row = self.league.entry(self.selected)
        return row["kind"] if row else ""

    def draw_body(self, width: int, height: int) -> Grid:
        row = self.league.entry(self.selected)
        return draw_entry(row, width, height, self.theme) if row else Grid(width, height)


def draw_entry(row: Row, width: int, height: int, theme: Theme) -> Grid:
    """Return its name and rating, the history of that, and its behaviour in words."""
    grid = Grid(width, height)
    x = grid.put(0, 0, truncate(row["name"], width, theme.symbols.cut), "bold") + 2
    said = f"{row['rating']:.0f} ({row['low']:.0f} to {row['high']:.0f})"
    grid.put(x if x + len(said) <= width else width, 0, said, "good")
    words = _words(row["style"])
    lines = [line for name, text in words for line in wrap(f"{name}: {text}", width, indent=2)]
    room = height - 1 - len(lines)
    if room >= CHART_ROWS and len(row["history"]) > 1:
        grid.paste(0, 1, draw_history(row["history"], (width, room), theme))
    for y, line in enumerate(lines[: height - 1], start=max(1, height - len(lines))):
        grid.put(0, y, line, "dim")
    return grid


def draw_history(history: Sequence[Row], size: tuple[int, int], theme: Theme) -> Grid:
    """Return the rating round by round, with its 95 % interval behind it."""
    mean = tuple(row["rating"] for row in history)
    low = tuple(row["rating"] - CONFIDENCE_Z * row["rd"] for row in history)
    high = tuple(row["rating"] + CONFIDENCE_Z * row["rd"] for row in history)
    curve = Curve(low=low, mean=mean, high=high, smooth=mean)
    trace = Trace(label="rating", role="good", curve=curve, places=tuple(float(i + 1) for i in range(len(mean))))
    # a rating alone would fill the chart with its noise: what is drawn is how it compares with its doubt
    bounds = data_range([*low, *high])
    return draw_overlay(replace(HISTORY, bounds=bounds), [trace], size, theme, AxisState(), ROUNDS)


def _words(style: Row) -> list[tuple[str, str]]:
    """Return what is known of how an entry fights, the most telling first."""
    if not style.get("mechs"):
        return [("a mech in a match", "no match noted yet")]
    said = ", ".join(words.format(show(style[name])) for name, words, show in STYLE if style[name] is not None)
    by = ", ".join(f"{name} {percent(share)}" for name, share in style["damage_by"].items())
    lost = ", ".join(f"{name} {number} times" for name, number in style["lost_to"].items())
    found = [("a mech in a match", said), ("does damage by", by), ("was destroyed by", lost)]
    return [(name, text.replace("_", " ")) for name, text in found if text]
