"""The run screen: a header and all panels of one run, on one wide screen or on pages."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from textual.containers import Container
from textual.widget import Widget

from echelon_cli.tui.actions import baseline_of
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import short_run_id
from echelon_cli.tui.keys import Key, back_key, bindings
from echelon_cli.tui.panels import PAGES, PANELS, SLOTS, WIDE_PAGES, slots_of, unneeded_panels
from echelon_cli.tui.panels.base import PanelChart
from echelon_cli.tui.panels.header import ROWS, HeaderPanel
from echelon_cli.tui.screens.base import RUN_KEYS, RunActions
from echelon_cli.tui.screens.chart_screen import CHART_KEYS, PANEL_KEYS, ChartScreen
from echelon_cli.tui.widgets.filter import FilterField
from echelon_cli.tui.widgets.tabs import Tabs


class RunScreen(RunActions, ChartScreen):
    """Everything about one run."""

    KEYS = (
        back_key("back to all panels, then to the runs", label="runs", rank=4),
        *PANEL_KEYS,
        Key("h", "hide", "", "hide the focused panel"),
        Key("H", "unhide", "", "show hidden panels"),
        Key("b", "ghost", "baseline", "show or hide the baseline behind every chart", rank=8),
        Key("l", "log", "log", "the whole log", rank=5),
        *RUN_KEYS,
        *CHART_KEYS,
    )
    BINDINGS = bindings(KEYS)
    PAGES, WIDE_PAGES, SLOTS = PAGES, WIDE_PAGES, SLOTS

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self._view = RunView(id=root.name, root=root)
        self._ghost: Path | None = None

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield HeaderPanel(theme=theme, id="head")
        yield Tabs(PAGES, {name: spec.title for name, spec in PANELS.items()}, theme=theme, id="tabs")
        self.panels = {name: spec.make(spec.title, theme=theme, id=f"panel-{name}") for name, spec in PANELS.items()}
        yield Container(*self.panels.values(), id="body")
        yield FilterField(theme=theme)

    def prepare(self) -> None:
        latest = self.dashboard.run_view
        self.show_run(latest if latest.root == self.root else self._view)
        self.run_worker(self._show_behind())

    def activate(self) -> None:
        latest = self.dashboard.run_view
        if latest.root == self.root:
            self.show_run(latest)
        self._subscribe()

    def _subscribe(self) -> None:
        self.subscribe(*(("run", root) for root in (self.root, self._ghost) if root))

    def selected_run(self) -> tuple[Path, str, str] | None:
        return self.root, self._view.id, self._view.state

    def show_run(self, view: RunView) -> None:
        if view.root == self._ghost:
            self._show_ghost(view)
        if view.root != self.root:
            return
        self._view = view
        with self.app.batch_update():
            self.query_one(HeaderPanel).view = view
            for panel in self.panels.values():
                panel.view = view
            if (unneeded := unneeded_panels(view)) != self.unneeded:
                self.unneeded, self.slots = unneeded, slots_of(view)
                self.on_one_page = self.slots is not SLOTS
                self.relayout()

    def _show_ghost(self, view: RunView) -> None:
        with self.app.batch_update():
            for panel in self.panels.values():
                if isinstance(panel, PanelChart):
                    panel.ghost = view
                    panel.redraw()

    def lay_out(self, width: int, height: int) -> None:
        self.query_one(HeaderPanel).styles.height = ROWS
        self.lay_out_panels(width, height, ROWS)

    def leave(self) -> None:
        self.dashboard.open_runs()

    def action_hide(self) -> None:
        if not self.focused_panel():
            self.show_notice("select a panel to hide with tab")
            return
        self.hidden, self.maximised = self.hidden | {self.focused_panel()}, ""
        self.relayout()

    def action_unhide(self) -> None:
        self.hidden = frozenset()
        self.relayout()

    def action_ghost(self) -> None:
        if self._ghost is not None:
            self._ghost = None
            self._show_ghost(RunView())
            self._subscribe()
        else:
            self.run_worker(self._show_behind(is_asked=True))

    async def _show_behind(self, *, is_asked: bool = False) -> None:
        """Show the baseline behind the charts where there is one."""
        if found := await asyncio.to_thread(baseline_of, self.root):
            self._ghost = found
            self._subscribe()
            self.show_notice(f"behind the charts: {short_run_id(found.name)}")
        elif is_asked:
            self.show_notice("no other run is the baseline; b in the list of runs makes one")

    def action_log(self) -> None:
        self.dashboard.open("log", self.root)
