"""The sweep screen: trials, and what they have shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from textual.containers import Container
from textual.widget import Widget

from echelon.jobs.status import ALIVE
from echelon_cli.tui import actions
from echelon_cli.tui.feed.messages import SweepView
from echelon_cli.tui.format import count, percent, short_run_id
from echelon_cli.tui.keys import Key, bindings, move_keys
from echelon_cli.tui.layout import Slot
from echelon_cli.tui.panels.sweep import PanelResults, PanelTrials, SweepPanel, position
from echelon_cli.tui.screens.chart_screen import PANEL_KEYS, ChartScreen
from echelon_cli.tui.theme import STATE_ROLES
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.tabs import Tabs

PANELS: dict[str, type[SweepPanel]] = {"trials": PanelTrials, "results": PanelResults}
"""Class of each panel; its name is its title and its page on small screens."""

FULL_ID_FROM = 110
"""Columns from which the title has the whole id."""
TITLE_ROWS = 2
"""Rows above the panels."""


class SweepTitle(CellView):
    """The lines above the panels: name, state and progress, and the best configuration so far."""

    view = SweepView()

    def draw(self, width: int, height: int) -> Grid:
        grid, view, results = Grid(width, height), self.view, self.view.results
        x = grid.put(1, 0, "sweep", "bold") + 1
        x = grid.put(x, 0, view.id if width >= FULL_ID_FROM else short_run_id(view.id), "bold") + 2
        if view.state:
            state = f"{self.theme.state_symbol(view.state)} {view.state}"
            x = grid.put(x, 0, state, STATE_ROLES.get(view.state, "")) + 2
        if results is None:
            return grid
        ended = sum(row.state in ("pruned", "complete", "failed") for row in results.trials)
        planned = results.plan.search_trials + results.plan.repeated
        text = f"{percent(results.progress)}, {ended} of {planned} trials ended, {count(results.done)} steps"
        grid.put(x, 0, truncate(text, width - x - 1, self.theme.symbols.ellipsis), "dim")
        if results.best and height > 1:
            x = grid.put(1, 1, "best", "dim") + 1
            grid.put(x, 1, truncate(results.best, width - x - 1, self.theme.symbols.ellipsis), "good")
        return grid


class SweepScreen(ChartScreen):
    """One sweep, with one of its trials selected."""

    KEYS = (
        Key(keys="escape", shown="esc", action="back", label="runs", help="back to the runs", rank=2),
        *move_keys("trial"),
        Key(keys="enter", action="open_trial", label="open", help="open the run of the trial", rank=3),
        Key(keys="s", action="stop", label="stop", help="save and stop the running trials and the sweep", rank=4),
        Key(keys="r", action="resume", label="resume", help="resume a sweep that was stopped", rank=4),
        *(key for key in PANEL_KEYS if key.action != "filter"),
    )
    BINDINGS = bindings(KEYS)
    PAGES = tuple(PANELS)
    SLOTS = (Slot("trials", "trials", 5), Slot("results", "results", 3))

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self._view = SweepView(id=root.name)
        self._selected = -1

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield SweepTitle(theme=theme, id="head")
        yield Tabs(self.PAGES, {name: name for name in PANELS}, theme=theme, id="tabs")
        self.panels = {name: kind(name, theme=theme, id=f"panel-{name}") for name, kind in PANELS.items()}
        yield Container(*self.panels.values(), id="body")

    def prepare(self) -> None:
        self.query_one(SweepTitle).styles.height = TITLE_ROWS

    def activate(self) -> None:
        self._show()
        self.subscribe(("sweep", self.root))

    def lay_out(self, width: int, height: int) -> None:
        self.lay_out_panels(width, height, TITLE_ROWS)

    def show_sweep(self, view: SweepView) -> None:
        if view.root != self.root:
            return
        self._view = view
        if self._selected < 0 and view.results and view.results.trials:
            self._selected = view.results.trials[0].number
        self._show()

    def _show(self) -> None:
        title = self.query_one(SweepTitle)
        title.view = self._view
        with self.app.batch_update():
            title.redraw()
            for panel in self.query(SweepPanel):
                panel.set_reactive(SweepPanel.selected, self._selected)
                panel.set_reactive(SweepPanel.sweep, self._view)
                panel.redraw()

    def lines_to_copy(self) -> list[str]:
        """Return the command that trains the best configuration, or the name of the sweep before there is one."""
        results = self._view.results
        return [results.best_command if results and results.best_command else shlex.quote(self.root.name)]

    def leave(self) -> None:
        self.dashboard.open_runs()

    def on_panel_trials_selected(self, message: PanelTrials.Selected) -> None:
        self._selected = message.trial
        self._show()

    def action_move(self, by: int) -> None:
        rows = self._view.results.trials if self._view.results else ()
        if rows:
            index = position(rows, self._selected)
            self._selected = rows[max(0, min(len(rows) - 1, index + by))].number
            self._show()

    def action_open_trial(self) -> None:
        results = self._view.results
        row = next((row for row in results.trials if row.number == self._selected), None) if results else None
        if row is None:
            self.show_notice("no trial yet")
            return
        self.dashboard.open_run(self.root.parent / row.run)

    def action_stop(self) -> None:
        if self._view.state not in ALIVE:
            self.show_notice("the sweep is not running")
            return
        question = "Stop the sweep? Its running trials save and stop. It can be resumed."
        self.dashboard.confirm(question, lambda: self.dashboard.run_command(actions.stop, self.root))

    def action_resume(self) -> None:
        if self._view.state in ALIVE:
            self.show_notice("the sweep is running")
            return
        self.dashboard.confirm("Resume the sweep?", lambda: self.dashboard.run_command(actions.resume, self.root))
