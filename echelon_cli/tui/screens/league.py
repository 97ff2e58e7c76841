"""The league screen: ratings with intervals, head-to-head scores, matches, and the selected entry in detail."""

import shlex
from collections.abc import Iterable
from functools import partial

from textual.widget import Widget

from echelon_cli.tui import actions
from echelon_cli.tui.feed.messages import LeagueView
from echelon_cli.tui.keys import Key, back_key, bindings, move_keys
from echelon_cli.tui.layout import Slot
from echelon_cli.tui.panels.league import PanelEntry, PanelHeadToHead, PanelMatches, PanelRatings, entry_matches
from echelon_cli.tui.screens.chart_screen import PANEL_KEYS, SelectionScreen
from echelon_cli.tui.screens.matches import AddressBar, show_address
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate

SLOTS: tuple[Slot, ...] = (
    Slot("ratings", "ratings", 5),
    Slot("entry", "entry", 3),
    Slot("pairs", "head to head", 4),
    Slot("matches", "matches", 4),
)


class LeagueTitle(CellView):
    """The line above the panels: number of entries, and the round in progress."""

    view = LeagueView()

    def draw(self, width: int, height: int) -> Grid:
        grid, view = Grid(width, height), self.view
        x = grid.put(1, 0, "league", "bold") + 2
        if view.entries:
            x = grid.put(x, 0, f"{len(view.entries)} entries", "dim") + 2
        for row in view.unfinished[-1:]:
            text = f"{self.theme.state_symbol('running')} round {row['round']}: {row['played']} of {row['matches']}"
            grid.put(x, 0, truncate(f"{text} matches", width - x - 1, self.theme.symbols.ellipsis), "good")
        return grid


class LeagueScreen(SelectionScreen):
    """All entries of the league, one of them selected."""

    KEYS = (
        back_key("close the league"),
        *move_keys("entry"),
        Key("enter", "watch", "watch", "watch the newest recorded match of the entry", rank=3),
        Key("p", "play", "play", "play a round in the background", rank=4),
        *(key for key in PANEL_KEYS if key.action != "filter"),
    )
    BINDINGS = bindings(KEYS)
    PAGES, SLOTS = tuple(slot.page for slot in SLOTS), SLOTS
    HEAD = LeagueTitle
    PANEL_CLASSES = {"ratings": PanelRatings, "entry": PanelEntry, "pairs": PanelHeadToHead, "matches": PanelMatches}
    TITLES = {slot.name: slot.page for slot in SLOTS}

    def __init__(self) -> None:
        super().__init__(LeagueView())

    def keys_of_rows(self) -> list[str]:
        return [row["id"] for row in self.view.entries]

    def compose_content(self) -> Iterable[Widget]:
        yield from super().compose_content()
        yield AddressBar(theme=self.dashboard.terminal_theme, id="address")

    def prepare(self) -> None:
        super().prepare()
        self.query_one(AddressBar).display = False

    def activate(self) -> None:
        self.subscribe(("league", None))

    def lay_out(self, width: int, height: int) -> None:
        bar = self.query_one(AddressBar)
        super().lay_out(width, height - 2 * int(bar.display))

    def show_league(self, view: LeagueView) -> None:
        self.show_rows(view)

    def lines_to_copy(self) -> list[str]:
        row, url = self.view.entry(self.selected), self.query_one(AddressBar).address.url
        return [url] if url else [shlex.quote(str(row["name"]))] if row else []

    def action_play(self) -> None:
        question = "Play a round of the league in the background?"
        self.dashboard.confirm(question, lambda: self.dashboard.run_command(actions.play_round, self.dashboard.home))

    def action_watch(self) -> None:
        match = next((row for row in entry_matches(self.view, self.selected) if row["replay"]), None)
        if match is None:
            self.show_notice("no recorded match of this entry; to record some: echelon arena run --record-share 0.1")
            return
        name = match["replay"].rpartition("/")[2]
        show_address(self, partial(self.dashboard.viewer.open_replay, match["job"], name))
