"""The league screen: ratings with intervals, head-to-head scores, matches, and the selected entry in detail."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable
from functools import partial

from textual.containers import Container
from textual.widget import Widget

from echelon_cli.tui import actions
from echelon_cli.tui.feed.messages import LeagueView
from echelon_cli.tui.keys import Key, bindings, move_keys
from echelon_cli.tui.layout import Slot
from echelon_cli.tui.panels.league import (
    LeaguePanel,
    PanelEntry,
    PanelHeadToHead,
    PanelMatches,
    PanelRatings,
    entry_index,
    entry_matches,
)
from echelon_cli.tui.screens.chart_screen import PANEL_KEYS, ChartScreen
from echelon_cli.tui.screens.matches import AddressBar
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.tabs import Tabs

TITLES: dict[str, str] = {"ratings": "ratings", "entry": "entry", "pairs": "head to head", "matches": "matches"}
PANEL_CLASSES: dict[str, type[LeaguePanel]] = {
    "ratings": PanelRatings,
    "entry": PanelEntry,
    "pairs": PanelHeadToHead,
    "matches": PanelMatches,
}
SLOTS: tuple[Slot, ...] = (
    Slot("ratings", "ratings", 5),
    Slot("entry", "entry", 3),
    Slot("pairs", "head to head", 4),
    Slot("matches", "matches", 4),
)

TITLE_ROWS = 1
"""Rows above the panels."""


class LeagueTitle(CellView):
    """The line above the panels: number of entries, and the round in progress."""

    league = LeagueView()

    def draw(self, width: int, height: int) -> Grid:
        grid, view = Grid(width, height), self.league
        x = grid.put(1, 0, "league", "bold") + 2
        if view.entries:
            x = grid.put(x, 0, f"{len(view.entries)} entries", "dim") + 2
        for row in view.unfinished[-1:]:
            text = f"{self.theme.state_symbol('running')} round {row['round']}: {row['played']} of {row['matches']}"
            grid.put(x, 0, truncate(f"{text} matches", width - x - 1, self.theme.symbols.ellipsis), "good")
        return grid


class LeagueScreen(ChartScreen):
    """All entries of the league, one of them selected."""

    KEYS = (
        Key(keys="escape", shown="esc", action="back", label="back", help="close the league", rank=2),
        *move_keys("entry"),
        Key(keys="enter", action="watch", label="watch", help="watch the newest recorded match of the entry", rank=3),
        Key(keys="p", action="play", label="play", help="play a round in the background", rank=4),
        *(key for key in PANEL_KEYS if key.action != "filter"),
    )
    BINDINGS = bindings(KEYS)
    PAGES, SLOTS = tuple(slot.page for slot in SLOTS), SLOTS

    def __init__(self) -> None:
        super().__init__()
        self._view = LeagueView()
        self._selected = ""

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield LeagueTitle(theme=theme, id="title")
        yield Tabs(self.PAGES, TITLES, theme=theme, id="tabs")
        self.panels = {
            name: PANEL_CLASSES[name](title, theme=theme, id=f"panel-{name}") for name, title in TITLES.items()
        }
        yield Container(*self.panels.values(), id="body")
        yield AddressBar(theme=theme, id="address")

    def prepare(self) -> None:
        self.query_one(AddressBar).display = False

    def activate(self) -> None:
        self.subscribe(("league", None))

    def lay_out(self, width: int, height: int) -> None:
        bar = self.query_one(AddressBar)
        self.lay_out_panels(width, height - 2 * int(bar.display), TITLE_ROWS)

    def show_league(self, view: LeagueView) -> None:
        self._view = view
        if view.entry(self._selected) is None:
            self._selected = view.entries[0]["id"] if view.entries else ""
        self._show()

    def _show(self) -> None:
        title = self.query_one(LeagueTitle)
        title.league = self._view
        with self.app.batch_update():
            title.redraw()
            for panel in self.query(LeaguePanel):
                panel.set_reactive(LeaguePanel.selected, self._selected)
                panel.set_reactive(LeaguePanel.league, self._view)
                panel.redraw()

    def lines_to_copy(self) -> list[str]:
        row, url = self._view.entry(self._selected), self.query_one(AddressBar).address.url
        return [url] if url else [shlex.quote(str(row["name"]))] if row else []

    def on_panel_ratings_selected(self, message: PanelRatings.Selected) -> None:
        self._selected = message.entry
        self._show()

    def action_move(self, by: int) -> None:
        entries = self._view.entries
        if entries:
            index = entry_index(self._view, self._selected)
            self._selected = entries[max(0, min(len(entries) - 1, index + by))]["id"]
            self._show()

    def action_play(self) -> None:
        question = "Play a round of the league in the background?"
        self.dashboard.confirm(question, lambda: self.dashboard.run_command(actions.play_round, self.dashboard.home))

    def action_watch(self) -> None:
        match = next((row for row in entry_matches(self._view, self._selected) if row["replay"]), None)
        if match is None:
            self.show_notice("no recorded match of this entry; to record some: echelon arena run --record-share 0.1")
            return
        self.show_notice("starting the viewer server")
        name = match["replay"].rpartition("/")[2]

        async def work() -> None:
            address = await asyncio.to_thread(partial(self.dashboard.viewer.open_replay, match["job"], name))
            if address.problem:
                self.show_notice(address.problem, "bad")
                return
            bar = self.query_one(AddressBar)
            bar.address, bar.display = address, True
            bar.repaint()
            self.relayout()
            self.show_notice("opened in a browser" if address.opened else "open the address below in a browser", "good")

        self.run_worker(work())
