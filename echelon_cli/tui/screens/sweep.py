"""The sweep screen: trials, and what they have shown."""

import shlex
from pathlib import Path

from echelon_cli.output import count, percent
from echelon_cli.sweep_tables import NO_BEST
from echelon_cli.tui.feed.messages import SweepView
from echelon_cli.tui.format import short_run_id
from echelon_cli.tui.keys import Key, back_key, bindings, move_keys
from echelon_cli.tui.layout import Slot
from echelon_cli.tui.panels.sweep import PanelResults, PanelTrials
from echelon_cli.tui.screens.base import RunActions
from echelon_cli.tui.screens.chart_screen import PANEL_KEYS, SelectionScreen
from echelon_cli.tui.theme import STATE_ROLES
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate

FULL_ID_FROM = 110


class SweepTitle(CellView):
    """The lines above the panels: name, state and progress, and the best configuration so far."""

    view = SweepView()

    def draw(self, width: int, height: int) -> Grid:
        grid, view, results = Grid(width, height), self.view, self.view.results
        what = f"attacks on {results.report.attack.target}" if results and results.report else "sweep"
        x = grid.put(1, 0, what, "bold") + 1
        x = grid.put(x, 0, view.id if width >= FULL_ID_FROM else short_run_id(view.id), "bold") + 2
        if view.state:
            state = f"{self.theme.state_symbol(view.state)} {view.state}"
            x = grid.put(x, 0, state, STATE_ROLES.get(view.state, "")) + 2
        if results is None:
            return grid
        ended = sum(row.state in ("pruned", "completed", "failed") for row in results.trials)
        steps = count(sum(row.global_step for row in results.trials))
        text = f"{percent(results.progress)}, {ended} of {results.planned} {results.plan.unit}s ended, {steps} steps"
        grid.put(x, 0, truncate(text, width - x - 1, self.theme.symbols.ellipsis), "dim")
        if results.report:
            found = results.report.findings or ["no attacker has played on fresh seeds yet"]
            grid.put(1, 1, truncate(found[0], width - 2), "" if results.report.findings else "dim")
        elif results.best and not results.is_clear:
            grid.put(1, 1, truncate(NO_BEST, width - 2, self.theme.symbols.ellipsis), "dim")
        elif results.best and height > 1:
            x = grid.put(1, 1, "best", "dim") + 1
            grid.put(x, 1, truncate(results.best, width - x - 1, self.theme.symbols.ellipsis), "good")
        return grid


class SweepScreen(RunActions, SelectionScreen):
    """One sweep, with one of its trials selected."""

    KEYS = (
        back_key("back to the runs", label="runs"),
        *move_keys("run"),
        Key("enter", "open_trial", "open", "open the selected run", rank=3),
        Key("s", "stop", "stop", "save and stop the running runs and their job", rank=4),
        Key("r", "resume", "resume", "resume a job that was stopped", rank=4),
        *(key for key in PANEL_KEYS if key.action != "filter"),
    )
    BINDINGS = bindings(KEYS)
    PAGES = ("runs", "results")
    HEAD, HEAD_ROWS = SweepTitle, 2
    PANEL_CLASSES = {"runs": PanelTrials, "results": PanelResults}
    TITLES = {"runs": "runs", "results": "results"}
    SLOTS = (Slot("runs", "runs", 5), Slot("results", "results", 3))

    def __init__(self, root: Path) -> None:
        super().__init__(SweepView(id=root.name, root=root))
        self.root = root

    def selected_run(self) -> tuple[Path, str, str]:
        return self.root, self.view.id, self.view.state

    def keys_of_rows(self) -> list[int]:
        return [row.number for row in self.view.results.trials] if self.view.results else []

    def activate(self) -> None:
        self.subscribe(("sweep", self.root))

    def show_sweep(self, view: SweepView) -> None:
        if view.root == self.root:
            self.show_rows(view)

    def lines_to_copy(self) -> list[str]:
        """Return the command that trains the best configuration, or the name of the sweep before there is one."""
        results = self.view.results
        return [results.best_command if results and results.best_command else shlex.quote(self.root.name)]

    def leave(self) -> None:
        self.dashboard.open_runs()

    def action_open_trial(self) -> None:
        results = self.view.results
        row = next((row for row in results.trials if row.number == self.selected), None) if results else None
        if row is None:
            self.show_notice("no run yet")
            return
        self.dashboard.open_run(self.root.parent / row.run)
