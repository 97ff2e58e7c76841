"""One run, live: its head, and its panels all at once, a page at a time, or one alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual import events
from textual.containers import Container
from textual.widget import Widget

from echelon_cli.tui.cells import CellView, Grid
from echelon_cli.tui.keys import Key, bindings
from echelon_cli.tui.layout import arrange, is_wide
from echelon_cli.tui.messages import RunView
from echelon_cli.tui.panels import PAGES, PANELS, PLACES
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.panels.header import LARGE_FROM, SHORT, TALL, Header
from echelon_cli.tui.screens.base import RUN_KEYS, RunActions
from echelon_cli.tui.screens.charted import SIGHT_KEYS, Charted
from echelon_cli.tui.sight import crossed

TALL_FROM = 36
"""Rows of the screen from which the head has large figures."""


class Tabs(CellView):
    """The pages of a small screen; a click goes there."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.page, self.zoomed = PAGES[0], ""
        self._places: list[tuple[int, int, int]] = []

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        x, self._places = 1, []
        if self.zoomed:
            x = grid.put(x, 0, PANELS[self.zoomed].title, "title") + 2
            grid.put(x, 0, "tab shows the next, escape all", "dim")
            return grid
        for number, name in enumerate(PAGES, start=1):
            start = x
            x = grid.put(x, 0, f" {number} ", "pill-info" if name == self.page else "key")
            x = grid.put(x + 1, 0, name, "bold" if name == self.page else "dim")
            self._places.append((start, x, number))
            x += 3
        return grid

    async def on_click(self, event: events.Click) -> None:
        for start, end, number in self._places:
            if start <= event.x < end:
                await self.run_action(f"screen.page({number})")


class RunScreen(RunActions, Charted):
    """Everything about one run."""

    KEYS = (
        Key(
            keys="escape", shown="esc", action="back", label="runs", help="back to all panels, then to all runs", rank=4
        ),
        Key(keys="z", action="zoom", label="zoom", help="show one panel alone, and all again", rank=4),
        Key(keys="tab", action="next(1)", label="", help="the next panel"),
        Key(keys="shift+tab", action="next(-1)", label="", help="the panel before"),
        Key(keys="1", action="page(1)", label="", help="page of results (small screens)"),
        Key(keys="2", action="page(2)", label="", help="page of learning (small screens)"),
        Key(keys="3", action="page(3)", label="", help="page of battles (small screens)"),
        Key(keys="right", action="turn(1)", label="", help="the next page, or the crosshair to the right"),
        Key(keys="left", action="turn(-1)", label="", help="the page before, or the crosshair to the left"),
        Key(keys="h", action="hide", label="", help="hide the panel with the bright frame"),
        Key(keys="H", action="unhide", label="", help="show hidden panels again"),
        Key(keys="l", action="log", label="log", help="the whole log", rank=5),
        *RUN_KEYS,
        *SIGHT_KEYS,
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.page = PAGES[0]
        self.zoomed = ""
        self.hidden: frozenset[str] = frozenset()
        self.panels: dict[str, Panel] = {}
        self._view = RunView(id=root.name, root=root)

    def content(self) -> Iterable[Widget]:
        look = self.dashboard.look
        yield Header(look=look, id="head")
        yield Tabs(look=look, id="tabs")
        self.panels = {name: row.make(row.title, look=look, id=f"panel-{name}") for name, row in PANELS.items()}
        yield Container(*self.panels.values(), id="body")

    def begin(self) -> None:
        seen = self.dashboard.run_view
        self.show_run(seen if seen.root == self.root else self._view)

    def resume(self) -> None:
        seen = self.dashboard.run_view
        if seen.root == self.root:
            self.show_run(seen)
        self.dashboard.feed.watch(self.root, runs=False)

    def chosen(self) -> tuple[Path, str, str] | None:
        return self.root, self._view.id, self._view.state

    def show_run(self, view: RunView) -> None:
        if view.root != self.root:
            return
        self._view = view
        with self.app.batch_update():
            self.query_one(Header).view = view
            for panel in self.panels.values():
                panel.view = view

    def lay_out(self, width: int, height: int) -> None:
        tall = width >= LARGE_FROM and height >= TALL_FROM
        head = TALL if tall else SHORT
        wide = is_wide(width, height - head - 1)
        tabs = self.query_one(Tabs)
        tabs.display = not wide or bool(self.zoomed)
        tabs.page, tabs.zoomed = self.page, self.zoomed
        tabs.redraw()
        self.query_one(Header).styles.height = head
        room = height - head - 1 - int(tabs.display)
        shown = arrange(width, room, PLACES, page=self.page, zoomed=self.zoomed, hidden=self.hidden, wide=wide)
        for name, panel in self.panels.items():
            region = shown.get(name)
            panel.display = region is not None
            if region is not None:
                panel.styles.offset = region.offset
                panel.styles.width, panel.styles.height = region.width, region.height
        if isinstance(self.focused, Panel) and not self.focused.display:
            self.set_focus(None)

    def rearrange(self) -> None:
        """Fit the panels anew after something about them changed."""
        self.lay_out(*self.app.size)

    def _focused(self) -> str:
        return next((name for name, panel in self.panels.items() if panel is self.focused), "")

    def action_zoom(self) -> None:
        first = next((name for name, panel in self.panels.items() if panel.display), "")
        self.zoomed = "" if self.zoomed else self._focused() or first
        self.rearrange()

    def action_next(self, by: int) -> None:
        names = [n for n in self.panels if n not in self.hidden] if self.zoomed else self._shown()
        if not names:
            return
        at = self.zoomed or self._focused()
        index = (names.index(at) + by) % len(names) if at in names else 0 if by > 0 else len(names) - 1
        if self.zoomed:
            self.zoomed = names[index]
            self.rearrange()
        self.set_focus(self.panels[names[index]])

    def _shown(self) -> list[str]:
        return [name for name, panel in self.panels.items() if panel.display]

    def action_page(self, number: int) -> None:
        self.page, self.zoomed = PAGES[number - 1], ""
        self.rearrange()

    def action_turn(self, by: int) -> None:
        if self.sight.cross is not None:
            self.see(crossed(self.sight, self.end_of_axis(), by))
        elif self.zoomed:
            self.action_next(by)
        else:
            self.action_page((PAGES.index(self.page) + by) % len(PAGES) + 1)

    def charts(self) -> Iterable[Panel]:
        return self.panels.values()

    def action_hide(self) -> None:
        if not self._focused():
            self.say("tab chooses a panel to hide")
            return
        self.hidden, self.zoomed = self.hidden | {self._focused()}, ""
        self.rearrange()

    def action_unhide(self) -> None:
        self.hidden = frozenset()
        self.rearrange()

    def action_log(self) -> None:
        self.dashboard.open_log(self.root)

    def action_back(self) -> None:
        if self.sight.cross is not None:
            self.action_cross()
        elif self.zoomed:
            self.zoomed = ""
            self.rearrange()
        elif self.focused is not None:
            self.set_focus(None)
        else:
            self.dashboard.open_runs()

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and isinstance(event.widget, Panel):
            self.action_zoom()
