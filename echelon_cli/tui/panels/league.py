"""Panels of the league screen: ratings with 95 % intervals, head-to-head scores, matches and one entry in detail."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from echelon.replay.match_text import ending_text
from echelon_cli.arena_tables import kind_of, run_of
from echelon_cli.output import count, measured, percent
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.feed.messages import LeagueView
from echelon_cli.tui.format import wrap
from echelon_cli.tui.panels.base import SelectionPanel
from echelon_cli.tui.panels.league_rating import draw_ratings, plus_minus
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, truncate
from echelon_cli.tui.widgets.table import GridColumn, first_visible

Row = Mapping[str, Any]

EMPTY_STATE = (
    "no league yet",
    "",
    "p plays a first round between the scripted levels;",
    "echelon arena add RUN adds a policy.",
    "The intervals of the ratings shrink with every round.",
)

NAME_CELLS = 10

PLOTTED_NAME_CELLS = 24
"""Columns that names get before the interval plot, if they are as long."""

INTERVAL_CELLS = 12

OPTIONAL_RANK = 3
"""Columns of this rank or higher are dropped where the interval plot needs their space."""

SCORE_CELLS = 5

OPPONENT_CELLS = 26
"""Columns reserved for side and opponent of a match before its result is shown."""

EVEN = 0.5
"""Score against an equal opponent."""

CHART_ROWS = 7

STYLE: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("damage", "{} damage", measured),
    ("kills", "{} kills", measured),
    ("deaths", "{} deaths", measured),
    ("zone_s", "{} s in the zone", measured),
    ("accuracy", "{} of shots hit", percent),
)
"""Behaviour statistics per mech and match: key, text around the value, and format of the value."""

ROUNDS = Viewport(x_axis="rounds")


COLUMNS: tuple[GridColumn, ...] = (
    GridColumn("rating", 6, text=lambda row, _: f"{row['rating']:.0f}"),
    GridColumn("+-", 4, text=lambda row, _: f"{row['high'] - row['rating']:.0f}"),
    GridColumn("kind", 11, rank=5, text=lambda row, _: f" {'retired' if row['retired'] else row['kind']}", right=False),
    GridColumn("games", 5, text=lambda row, _: count(row["games"]), rank=2),
    GridColumn("won", 5, text=lambda row, _: _share(row, "wins"), rank=1),
    GridColumn("drawn", 5, text=lambda row, _: _share(row, "draws"), rank=4),
    GridColumn("lost", 5, text=lambda row, _: _share(row, "losses"), rank=3),
)


def _share(row: Row, outcome: str) -> str:
    games = row["wins"] + row["draws"] + row["losses"]
    return percent(row[outcome] / games) if games else "-"


class LeaguePanel(SelectionPanel):
    """A panel about the league, with one entry selected."""

    data = LeagueView()

    def league_body(self, width: int, height: int) -> Grid:
        return Grid(width, height)

    def body(self, width: int, height: int) -> Grid:
        if self.data.entries:
            return self.league_body(width, height)
        lines = EMPTY_STATE if self.data.loaded else ("loading the league",)
        if self.data.problem:
            lines = (self.data.problem,)
        rows = [row for line in lines for row in (wrap(line, max(1, width)) or [""])]
        return Grid(width, height).centre(rows, "bad" if self.data.problem else "dim")


def entry_index(view: LeagueView, entry: str) -> int:
    """Return the position of an entry in the ratings, 0 where it is missing."""
    return next((i for i, row in enumerate(view.entries) if row["id"] == entry), 0)


class PanelRatings(LeaguePanel):
    """All entries, highest rating first."""

    LISTS_ROWS = True

    def league_body(self, width: int, height: int) -> Grid:
        return draw_ratings_table(self.data, self.selected, width, height, self.theme)


def draw_ratings_table(view: LeagueView, selected: str, width: int, height: int, theme: Theme) -> Grid:
    """Return a row per entry: rank, name, statistics and, where columns allow, the 95 % interval on a common scale."""
    grid, rows = Grid(width, height), view.entries
    columns = visible_columns(width)
    column_width = sum(c.width + 1 for c in columns)
    spare = width - 4 - column_width - 2
    longest = max(len(row["name"]) for row in rows) + 1
    name_width = min(longest, max(PLOTTED_NAME_CELLS, spare - INTERVAL_CELLS))
    plot_width = spare - name_width
    if plot_width < INTERVAL_CELLS:
        name_width, plot_width = width - 4 - column_width, 0
    scale = min(row["low"] for row in rows), max(row["high"] for row in rows)
    grid.put(4, 0, "name", "dim")
    x = 4 + name_width
    for column in columns:
        title = plus_minus(theme) if column.name == "+-" else column.name
        column.put(grid, (x + 1, 0, column.width), title if column.right else f" {title}", "dim")
        x += column.width + 1
    if plot_width:
        grid.put(x + 2, 0, f"{scale[0]:.0f}", "dim")
        grid.right(width, 0, f"{scale[1]:.0f}", "dim")
    cursor = entry_index(view, selected)
    first = first_visible(cursor, len(rows), height - 1)
    for y, row in enumerate(rows[first : first + height - 1], start=1):
        grid.right(3, y, str(first + y), "dim")
        name_role = "dim" if row["kind"] == "heuristic" else "bold"
        grid.put(4, y, truncate(row["name"], name_width - 1, theme.symbols.ellipsis), name_role)
        x = 4 + name_width
        for column in columns:
            role = "good" if column.name == "rating" else ""
            column.put(grid, (x + 1, y, column.width), column.text(row, None), role)
            x += column.width + 1
        if plot_width:
            _draw_interval(grid, x + 2, y, row, scale, plot_width, theme)
        if first + y - 1 == cursor:
            grid.put(0, y, theme.symbols.cursor)
            grid.fill(y, "cursor")
    return grid


def visible_columns(width: int) -> list[GridColumn]:
    """Return the columns that fit beside a name and, for those of ``OPTIONAL_RANK``, the interval plot."""
    visible = list(COLUMNS)
    while len(visible) > 1:
        last = max(visible, key=lambda c: c.rank)
        spare = width - 4 - NAME_CELLS - sum(c.width + 1 for c in visible)
        if spare >= (INTERVAL_CELLS + 2 if last.rank >= OPTIONAL_RANK else 0):
            break
        visible.remove(last)
    return visible


def _draw_interval(grid: Grid, x: int, y: int, row: Row, scale: tuple[float, float], width: int, theme: Theme) -> None:
    """Draw a rating and its 95 % interval in ``width`` cells that span ``scale``."""
    span = max(scale[1] - scale[0], 1e-9)
    left, middle, right = (round((row[key] - scale[0]) / span * (width - 1)) for key in ("low", "rating", "high"))
    grid.put(x + left, y, theme.symbols.bar_rest * (right - left + 1), "frame")
    grid.put(x + middle, y, theme.symbols.mark, "mark")


class PanelHeadToHead(LeaguePanel):
    """The score of every entry against every other."""

    def note(self) -> str:
        return "score of row against column"

    def league_body(self, width: int, height: int) -> Grid:
        return draw_head_to_head(self.data, self.selected, width, height, self.theme)


def draw_head_to_head(view: LeagueView, selected: str, width: int, height: int, theme: Theme) -> Grid:
    """Return the head-to-head table around the selected entry, columns numbered by rank, with cycles below it."""
    grid, rows = Grid(width, height), view.entries
    cycles = [f"cycle: {' beats '.join([*cycle, cycle[0]])}" for cycle in view.cycles][: max(0, height // 4)]
    name_width = min(max(len(row["name"]) for row in rows), max(NAME_CELLS, 2 * width // 5))
    row_count, column_count = height - 1 - len(cycles), max(1, (width - name_width - 4) // SCORE_CELLS)
    cursor = entry_index(view, selected)
    top, left = first_visible(cursor, len(rows), row_count), first_visible(cursor, len(rows), column_count)
    opponents = rows[left : left + column_count]
    ends = [4 + name_width + (i + 1) * SCORE_CELLS for i in range(len(opponents))]
    for i, opponent in enumerate(opponents):
        grid.right(ends[i], 0, str(left + i + 1), "key" if opponent["id"] == selected else "dim")
    for y, row in enumerate(rows[top : top + row_count], start=1):
        is_selected = row["id"] == selected
        grid.right(3, y, str(top + y), "key" if is_selected else "dim")
        grid.put(4, y, truncate(row["name"], name_width, theme.symbols.ellipsis), "key" if is_selected else "")
        for i, opponent in enumerate(opponents):
            pair = view.pairs.get((row["id"], opponent["id"]))
            text = theme.symbols.dot if pair is None else percent(pair["score"])
            role = "dim" if pair is None else "good" if pair["low"] > EVEN else "bad" if pair["high"] < EVEN else ""
            grid.right(ends[i], y, text, role)
    for y, cycle in enumerate(cycles, start=height - len(cycles)):
        grid.put(0, y, truncate(cycle, width, theme.symbols.ellipsis), "warn")
    return grid


class PanelMatches(LeaguePanel):
    """Matches of the selected entry."""

    def note(self) -> str:
        row = self.data.entry(self.selected)
        return f"of {row['name']}" if row else ""

    def league_body(self, width: int, height: int) -> Grid:
        return draw_entry_matches(entry_matches(self.data, self.selected), self.selected, width, height, self.theme)


def entry_matches(view: LeagueView, entry: str) -> list[dict[str, Any]]:
    """Return the matches of an entry, newest first."""
    return [row for row in view.matches if entry in (row["blue"], row["red"])]


def draw_entry_matches(rows: Sequence[Row], selected: str, width: int, height: int, theme: Theme) -> Grid:
    """Return a row per match: outcome for the selected entry, opponent, result, and a marker where it is recorded."""
    grid = Grid(width, height)
    if not rows:
        grid.put(0, 0, truncate("no recent matches", width, theme.symbols.ellipsis), "dim")
        return grid
    for y, row in enumerate(rows[:height]):
        is_blue = row["blue"] == selected
        outcome, role = _outcome(row, is_blue)
        x = grid.put(0, y, outcome, role)
        reason = row["note"] or ending_text(row["reason"])
        result = f"{reason}, {row['seconds'] or 0:.0f} s" if reason else ""
        marker = f" {theme.symbols.cursor}" if row["replay"] else "  "
        spare = width - 6 - len(marker)
        text = f"{'blue' if is_blue else 'red'} against {row['red_name' if is_blue else 'blue_name']}"
        if spare - len(result) - 2 >= min(len(text), OPPONENT_CELLS):
            grid.right(width - len(marker), y, result, "dim")
            spare -= len(result) + 2
        grid.put(max(x + 1, 6), y, truncate(text, spare, theme.symbols.ellipsis))
        grid.right(width, y, marker, "mark")
    return grid


def _outcome(row: Row, is_blue: bool) -> tuple[str, str]:
    if row["winner"] == "draw":
        return "drawn", "info"
    if row["winner"] not in ("blue", "red"):
        return "void", "dim"
    return ("won", "good") if (row["winner"] == "blue") == is_blue else ("lost", "bad")


class PanelEntry(LeaguePanel):
    """The selected entry: rating history and behaviour."""

    def note(self) -> str:
        row = self.data.entry(self.selected)
        return kind_of(row) if row else ""

    def league_body(self, width: int, height: int) -> Grid:
        row = self.data.entry(self.selected)
        return draw_entry(row, width, height, self.theme) if row else Grid(width, height)


def draw_entry(row: Row, width: int, height: int, theme: Theme) -> Grid:
    """Return name, rating and run of an entry, its rating history where rows allow, and its behaviour statistics."""
    grid = Grid(width, height)
    x = grid.put(0, 0, truncate(row["name"], width, theme.symbols.ellipsis), "bold") + 2
    rating = f"{row['rating']:.0f} {plus_minus(theme)}{row['high'] - row['rating']:.0f}"
    grid.put(x if x + len(rating) <= width else width, 0, rating, "good")
    origin = run_of(row)
    texts = [*([f"snapshot of {origin}"] if origin not in ("-", row["name"]) else []), *behaviour_lines(row["style"])]
    lines = [line for text in texts for line in wrap(text, width, indent=2)]
    chart_rows = height - 1 - len(lines)
    if chart_rows >= CHART_ROWS and len(row["history"]) > 1:
        history = [(each["rating"], each["rd"]) for each in row["history"]]
        rounds = [float(number) for number, _ in enumerate(history, start=1)]
        grid.paste(0, 1, draw_ratings(history, rounds, (width, chart_rows), theme, ROUNDS))
    for y, line in enumerate(lines[: height - 1], start=max(1, height - len(lines))):
        grid.put(0, y, line, "dim")
    return grid


def behaviour_lines(style: Row) -> list[str]:
    if not style.get("mechs"):
        return ["per mech and match: no match yet"]
    values = ", ".join(text.format(show(style[name])) for name, text, show in STYLE if style[name] is not None)
    weapons = ", ".join(f"{name} {percent(share)}" for name, share in style["damage_by"].items())
    causes = ", ".join(f"{name} {number} times" for name, number in style["lost_to"].items())
    found = [("per mech and match", values), ("damage by weapon", weapons), ("destroyed by", causes)]
    return [f"{name}: {text.replace('_', ' ')}" for name, text in found if text]
