"""The run list: a table of all runs and, where rows allow, charts of the selected one below it."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from textual.containers import Container
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from echelon.jobs.labels import BASELINE
from echelon.jobs.status import QUEUED
from echelon_cli.tui import actions
from echelon_cli.tui.feed.messages import RunsView, RunView
from echelon_cli.tui.feed.thread import RUNS
from echelon_cli.tui.keys import Key, bindings, move_keys
from echelon_cli.tui.panels import PANELS, PREVIEW
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.screens.base import RUN_KEYS, RunActions, TableScreen
from echelon_cli.tui.theme import RUN_ROLES
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.filter import PromptField
from echelon_cli.tui.widgets.run_table import SORT_COLUMNS, VIEWS, RunTable, columns_of
from echelon_cli.tui.widgets.tabs import Tabs

PREVIEW_FROM = (110, 34)
"""Columns and rows of the screen from which the charts of the selected run are always shown."""

PREVIEW_SHARES = (0.4, 0.62)
"""Smallest and largest share of the rows for these charts."""

CHART_ROWS = 9
OTHER_ROWS = 5
PLACEHOLDER = "words or fields: state:running eval>50% -age>2h"

SETTLE_S = 0.15
"""How long the cursor must stay on a run before its records are read."""


def preview_of(width: int, height: int, runs: int) -> tuple[int, int, int]:
    """Return the rows for charts of the selected run, their number, and how many are side by side; zeros for none.

    ``runs`` is the number of runs in the list: on a small screen the charts only get the rows it leaves free.
    """
    free = height - OTHER_ROWS - runs
    wide = width >= PREVIEW_FROM[0]
    if wide and height >= PREVIEW_FROM[1]:
        smallest, largest = (round(height * share) for share in PREVIEW_SHARES)
        free = max(smallest, min(largest, free))
    if not runs or free < CHART_ROWS:
        return 0, 0, 0
    if free >= 2 * CHART_ROWS + (CHART_ROWS if wide else 0):
        return free, len(PREVIEW), 2
    return free, len(PREVIEW) if wide else 2, len(PREVIEW) if wide else 2


class RunsSummary(CellView):
    """The line above the list: number of runs, running ones, query error, folder."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.view = RunsView()
        self.shown = 0
        self.query_text = ""
        self.problem = ""
        """Error message of the query; empty where it is valid."""

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        alive = sum(row.is_working for row in self.view.rows)
        total = len(self.view.rows)
        x = grid.put(1, 0, "Echelon", "bold") + 2
        text = f"{total} run{'s' * (total != 1)}"
        if self.query_text:
            text = f"{self.shown} of {text}"
        x = grid.put(x, 0, text, "dim") + 2
        if self.problem:
            grid.put(x, 0, truncate(self.problem, max(0, width - x - 1), self.theme.symbols.ellipsis), "warn")
            return grid
        x = grid.put(x, 0, f"{self.theme.state_symbol('running')} {alive} running", "good" if alive else "dim") + 2
        if queued := sum(row.state == QUEUED for row in self.view.rows):
            x = grid.put(x, 0, f"{self.theme.state_symbol(QUEUED)} {queued} queued", "info") + 2
        home = truncate(self.view.home, max(0, width - x - 2), self.theme.symbols.ellipsis)
        grid.right(width - 1, 0, home, "dim")
        return grid


class RunsScreen(RunActions, TableScreen):
    """All runs of a folder."""

    KEYS = (
        Key("enter", "open", "open", "open the selected run", rank=2),
        Key("a", "league", "league", "the league: ratings, head-to-head scores, matches", rank=5),
        Key("n", "new", "new", "configure and start a run", rank=4),
        Key("slash", "filter", "filter", "filter runs: words, state:running, eval>50%", shown="/", rank=4),
        Key("o", "order", "order", "sort by the next column", rank=5),
        Key("O", "reverse", "", "reverse the order"),
        Key("e", "seeds", "seeds", "one row for runs that differ in their seed: mean with 95 % interval", rank=8),
        *RUN_KEYS,
        Key("space", "mark", "mark", "mark or unmark the run for comparison", rank=7),
        Key("m", "compare", "compare", "compare the marked runs", rank=6),
        Key("b", "baseline", "baseline", "make it the baseline of lists, charts and comparisons", rank=8),
        *(
            Key(str(n), f"view({n})", "", help, shown=f"1 to {len(VIEWS)}")
            for n, help in enumerate(("kind of job", *[""] * (len(VIEWS) - 1)), start=1)
        ),
        Key("right", "turn(1)", "", "next kind of job"),
        Key("left", "turn(-1)", "", "previous kind of job"),
        *move_keys("run", pages=True),
        Key("escape", "clear", "", "clear the filter"),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self._settle_timer: Timer | None = None
        self._preview: list[Panel] = []

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield RunsSummary(theme=theme, id="summary")
        yield PromptField("filter", theme=theme, placeholder=PLACEHOLDER, id="filter")
        yield Tabs(tuple(VIEWS), {}, "view", theme=theme, id="tabs")
        yield RunTable(theme=theme, id="runs")
        self._preview = [PANELS[name].make(PANELS[name].title, theme=theme) for name in PREVIEW]
        yield Container(*self._preview, id="preview")

    def prepare(self) -> None:
        self.query_one(RunTable).focus()
        for panel in self._preview:
            panel.can_focus = False

    def activate(self) -> None:
        self.show_runs(self.dashboard.runs)
        self._follow()

    def lay_out(self, width: int, height: int) -> None:
        filter_rows = int(self.query_one(Input).display)
        runs = len(self.table.rows) if self.table.view_name == "training" and not self.table.is_collapsed else 0
        rows, charts, per_row = preview_of(width, height - filter_rows, runs)
        preview = self.query_one("#preview")
        preview.styles.height = rows
        if charts:
            preview.styles.grid_size_columns, preview.styles.grid_size_rows = per_row, charts // per_row
        for i, panel in enumerate(self._preview):
            panel.display = i < charts
        if preview.display != bool(charts):
            preview.display = bool(charts)
            self._follow()

    def show_runs(self, view: RunsView) -> None:
        before = len(self.table.rows), self.table.view_name
        self.table.view = view
        if before != (len(self.table.rows), self.table.view_name):
            self.relayout()
        self._update_summary()

    def show_run(self, view: RunView) -> None:
        row = self.table.row
        if row is not None and view.root == row.root:
            for panel in self._preview:
                panel.view = view

    def selected_run(self) -> tuple[Path, str, str] | None:
        row = self.table.row
        if row and row.root in self.table.seeds:
            self.show_notice("this row has several runs; e shows each of them")
            return None
        return (row.root, row.id, row.state) if row else None

    def _update_summary(self) -> None:
        summary = self.query_one(RunsSummary)
        summary.view, summary.shown = self.table.view, sum(self.table.counts.values())
        summary.query_text, summary.problem = self.table.query_text, self.table.problem
        summary.redraw()
        tabs, shown = self.query_one(Tabs), self.shown_views
        labels = {name: f"{name} {self.table.counts[name]}" for name in shown}
        tabs.pages, tabs.page = tuple(labels.values()), labels.get(self.table.view_name, "")
        tabs.redraw()

    @property
    def shown_views(self) -> list[str]:
        """The views that have runs; none where there is only one kind."""
        shown = [name for name, runs in self.table.counts.items() if runs]
        return shown if len(shown) > 1 else []

    def _follow(self) -> None:
        row = self.table.row
        root = row.root if row is not None and self.query_one("#preview").display else None
        self.subscribe(*([("run", root)] if root else ()), RUNS)

    def on_row_list_selected(self) -> None:
        for panel in self._preview:
            panel.view = RunView()
        if self._settle_timer is not None:
            self._settle_timer.stop()
        self._settle_timer = self.set_timer(SETTLE_S, self._follow)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.table.query_text = event.value
        self._update_summary()

    def on_input_submitted(self) -> None:
        self.query_one(Input).display = bool(self.query_one(Input).value)
        self.table.focus()
        self.relayout()

    def action_view(self, number: int) -> None:
        if number <= len(self.shown_views):
            self.table.show_view(self.shown_views[number - 1])
            self._update_summary()
            self.relayout()

    def action_turn(self, by: int) -> None:
        if shown := self.shown_views:
            self.action_view((shown.index(self.table.view_name) + by) % len(shown) + 1)

    def action_open(self) -> None:
        row = self.table.row
        if row is not None and row.root in self.table.seeds:
            self.dashboard.open("compare", self.table.compared_with(self.table.seeds[row.root])[: len(RUN_ROLES)])
        elif row is not None:
            self.dashboard.open_run(row.root)

    def action_seeds(self) -> None:
        self.table.is_collapsed = not self.table.is_collapsed
        self.table.sort()
        self.show_notice("one row a configuration, means over seeds" if self.table.is_collapsed else "one row a run")
        self.relayout()

    def action_new(self) -> None:
        self.dashboard.open("new_run")

    def action_league(self) -> None:
        self.dashboard.open("league")

    def action_mark(self) -> None:
        if not self.table.mark():
            self.show_notice(f"at most {len(RUN_ROLES)} runs can be compared", "warn")
        elif len(self.table.compared) > 1:
            self.show_notice(f"m compares {len(self.table.compared)} runs")
        elif self.table.marked:
            self.show_notice("mark one more run, then m compares them")

    def action_compare(self) -> None:
        roots = self.table.compared[: len(RUN_ROLES)]
        if len(roots) < 2:
            self.show_notice("mark two or more runs with space to compare them")
            return
        self.dashboard.open("compare", roots)

    def action_baseline(self) -> None:
        row = self.table.row
        if row is None:
            return
        pinned = [other.root for other in self.table.view.rows if BASELINE in other.tags]
        self.dashboard.run_command(partial(actions.pin, pinned=pinned), row.root)

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()
        self.relayout()

    def action_clear(self) -> None:
        field = self.query_one(Input)
        field.value = ""
        field.display = False
        self.table.focus()
        self.relayout()

    def action_order(self) -> None:
        visible = {column.name for column in columns_of(self.table.rows)}
        at = SORT_COLUMNS.index(self.table.order) + 1
        order = next(name for name in (*SORT_COLUMNS[at:], *SORT_COLUMNS) if name in visible)
        self.table.sort(order, is_reversed=False)

    def action_reverse(self) -> None:
        self.table.sort(is_reversed=not self.table.is_reversed)
