"""The matches screen: recorded matches with their results, and the viewer address of one."""

import asyncio
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from textual.widget import Widget

from echelon.replay.match_text import ending_text
from echelon_cli.tui.feed.messages import MatchesView
from echelon_cli.tui.format import age, short_run_id, wrap
from echelon_cli.tui.keys import Key, back_key, bindings, move_keys
from echelon_cli.tui.screens.base import BaseScreen, TableScreen
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.viewer_server import ViewerAddress
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.table import GridColumn, RowList, fitting

EMPTY_TEXT = "no recorded matches yet; training records some at every evaluation"

Row = dict[str, Any]


def result_text(row: Row) -> str:
    if row["live"]:
        return "live"
    if not row["complete"]:
        return "incomplete"
    from echelon.replay.schema import WINNERS

    winner = WINNERS[row["winner"]] if 0 <= row["winner"] < len(WINNERS) else ""
    reason = ending_text(row["reason"])
    return f"{winner} ({reason})" if winner and reason else winner or reason or "unfinished"


def score_text(row: Row) -> str:
    return " : ".join(f"{value:.1f}" for value in row["score"])


COLUMNS: tuple[GridColumn, ...] = (
    GridColumn("blue", 12, text=lambda row, now: row["blue"], right=False),
    GridColumn("red", 12, text=lambda row, now: row["red"], right=False),
    GridColumn("result", 22, text=lambda row, now: result_text(row), right=False, rank=1),
    GridColumn("score", 11, text=lambda row, now: score_text(row), rank=2),
    GridColumn("age", 4, text=lambda row, now: age(now - row["created"]) if row["created"] else "-"),
    GridColumn("update", 7, text=lambda row, now: str(row["update"]), rank=3),
    GridColumn("run", 16, text=lambda row, now: short_run_id(row["run"]), right=False, rank=4),
    GridColumn("match", 16, text=lambda row, now: row["id"], right=False, rank=5),
)


def visible_columns(width: int) -> list[GridColumn]:
    return fitting(COLUMNS, width - 2, 2)


def draw_matches(rows: Sequence[Row], cursor: int, top: int, width: int, height: int, theme: Theme, now: float) -> Grid:
    grid = Grid(width, height)
    columns = visible_columns(width)
    spare = max(0, width - 2 - sum(c.width + 2 for c in columns)) // 2
    for y, row in enumerate([None, *rows[top : top + height - 1]]):
        x = 2
        for column in columns:
            column_width = column.width + (spare if column.name in ("blue", "red") else 0)
            text = truncate(column.name if row is None else column.text(row, now), column_width, theme.symbols.ellipsis)
            role = "dim" if row is None else "good" if row["live"] else ""
            column.put(grid, (x, y, column_width), text, role)
            x += column_width + 2
        if row is not None and top + y - 1 == cursor:
            grid.put(0, y, theme.symbols.cursor)
            grid.fill(y, "cursor")
    return grid


class MatchTable(RowList):
    """The list of matches."""

    view = MatchesView()

    def key_of(self, row: Row) -> str:
        return row["id"]

    def show(self, view: MatchesView) -> None:
        self.view, self.rows = view, view.rows
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        if not self.rows:
            text = EMPTY_TEXT if self.view.loaded else "loading matches"
            return Grid(width, height).centre(wrap(text, max(1, width - 4)))
        return draw_matches(self.rows, self.cursor, self.scrolled_top(), width, height, self.theme, self.view.now)


class MatchesTitle(CellView):
    """The line above the list: run, number of matches, live ones."""

    def __init__(self, run: str, **options: Any) -> None:
        super().__init__(**options)
        self.run = run
        self.rows: Sequence[Row] = ()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        x = grid.put(1, 0, "matches", "bold") + 2
        x = grid.put(x, 0, truncate(short_run_id(self.run) if self.run else "of all runs", width // 2), "") + 2
        live = sum(row["live"] for row in self.rows)
        x = grid.put(x, 0, f"{len(self.rows)} recorded", "dim") + 2
        if live:
            grid.put(x, 0, f"{self.theme.state_symbol('running')} {live} live", "good")
        return grid


class AddressBar(CellView):
    """The viewer address of a match, and the ssh tunnel that reaches it from another machine."""

    address = ViewerAddress()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        if self.address.url:
            hint = "opened in a browser" if self.address.opened else "y copies the address"
            rows = [("", self.address.url, "bold"), ("", hint, "dim")]
            if self.address.tunnel:
                rows = [("on your own machine: ", self.address.tunnel, "bold"), ("then: ", self.address.url, "bold")]
            for y, (label, text, role) in enumerate(rows):
                # a command without its end is of no use: the label goes first
                x = grid.put(1, y, label, "dim") if len(label) + len(text) <= width - 2 else 1
                grid.put(x, y, truncate(text, width - x, self.theme.symbols.ellipsis), role)
        return grid


def show_address(screen: BaseScreen, open_match: Callable[[], ViewerAddress]) -> None:
    """Open a match in the background, and show its address in the screen's bar."""
    screen.show_notice("starting the viewer server")

    async def work() -> None:
        address = await asyncio.to_thread(open_match)
        if address.problem:
            screen.show_notice(address.problem, "bad")
            return
        bar = screen.query_one(AddressBar)
        bar.address, bar.display = address, True
        bar.repaint()
        screen.relayout()
        screen.show_notice("opened in a browser" if address.opened else "open the address above in a browser", "good")

    screen.run_worker(work())


class MatchesScreen(TableScreen):
    """The matches of one run or of all runs."""

    KEYS = (
        back_key("close the matches"),
        Key("enter", "open", "watch", "open the match in a browser, or show its address", rank=2),
        *move_keys("match", pages=True),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, root: Path | None) -> None:
        super().__init__()
        self.root = root

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield MatchesTitle(self.root.name if self.root else "", theme=theme, id="title")
        yield MatchTable(theme=theme, id="lines")
        yield AddressBar(theme=theme, id="address")

    def prepare(self) -> None:
        self.query_one(AddressBar).display = False
        self.table.focus()

    def activate(self) -> None:
        self.subscribe(("matches", None))

    def show_matches(self, view: MatchesView) -> None:
        run = self.root.name if self.root else ""
        rows = tuple(row for row in view.rows if not run or row["run"] == run)
        self.table.show(replace(view, rows=rows))
        title = self.query_one(MatchesTitle)
        title.rows = rows
        title.redraw()

    def lines_to_copy(self) -> list[str]:
        address = self.query_one(AddressBar).address
        row = self.table.row
        return [address.url] if address.url else [shlex.quote(row["id"])] if row else []

    def action_open(self) -> None:
        row = self.table.row
        if row is not None:
            show_address(self, partial(self.dashboard.viewer.open, row["id"]))
