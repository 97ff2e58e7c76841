"""Panels that compare runs: a header with one line per run, overlaid charts, and configuration differences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from textual.reactive import reactive

from echelon.telemetry.evaluations import ladder_score
from echelon_cli.listing import opponent_name
from echelon_cli.output import count, duration, interval, percent
from echelon_cli.tui.charts.chart import AxisState, Chart, draw_overlay, trace_of
from echelon_cli.tui.charts.plot import RunMarks, Trace
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import difference, short_run_id, speed
from echelon_cli.tui.panels.base import PanelChart
from echelon_cli.tui.panels.win_rate import evaluated
from echelon_cli.tui.theme import RUN_ROLES, STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate

Runs = tuple[RunView, ...]

FIGURES: tuple[tuple[str, int], ...] = (
    ("eval", 5),
    ("interval", 8),
    ("against", 8),
    ("diff", 7),
    ("best", 5),
    ("steps", 6),
    ("ladder", 6),
    ("steps/s", 7),
    ("took", 6),
)
"""Label and width of each column of the header; the last ones are dropped first in a narrow one."""

STATE_CELLS = 11
NAME_CELLS = 14
"""Columns of the state, and the fewest columns of the name."""

KEY_SHARE = 0.4
VALUE_GAP = 4
NO_DIFFERENCE = "no difference in options"

DASHES = (0, 6, 3, 2, 9, 1)
"""Dot columns per dash of each run's curve in a theme without colour."""


class CompareHeader(CellView):
    """One line per run: number and colour in the charts, name, state and headline figures."""

    runs: reactive[Runs] = reactive((), repaint=False, init=False)
    note: reactive[str] = reactive("", repaint=False, init=False)

    def watch_runs(self) -> None:
        self.redraw()

    def watch_note(self) -> None:
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = draw_compare_header(self.runs, width, height, self.theme)
        if not "".join(grid.chars[0][-len(self.note) - 3 :]).strip():
            grid.right(width - 1, 0, self.note, "dim")
        return grid


def draw_compare_header(runs: Sequence[RunView], width: int, height: int, theme: Theme) -> Grid:
    grid = Grid(width, height)
    columns = list(FIGURES)
    while columns and 4 + NAME_CELLS + 2 + STATE_CELLS + sum(w + 2 for _, w in columns) > width:
        columns.pop()
    spare = width - 4 - 2 - STATE_CELLS - sum(w + 2 for _, w in columns) - 1
    name_width = max(NAME_CELLS, min(spare, max((len(view.id) for view in runs), default=0)))
    state_start = 4 + name_width + 2
    grid.put(4, 0, "run", "dim")
    grid.put(state_start, 0, "state", "dim")
    ends, x = {}, state_start + STATE_CELLS
    for name, column_width in columns:
        x += column_width + 2
        ends[name] = x
        grid.right(x, 0, name, "dim")
    for number, view in enumerate(runs, start=1):
        role = RUN_ROLES[number - 1]
        grid.put(1, number, f"{number}{theme.symbols.square}", role)
        name = view.id if len(view.id) <= name_width else short_run_id(view.id)
        grid.put(4, number, truncate(name, name_width, theme.symbols.ellipsis), role)
        state = f"{theme.state_symbol(view.state)} {view.state}" if view.state else ""
        grid.put(state_start, number, state, STATE_ROLES.get(view.state, ""))
        figures = dict.fromkeys(ends, ("", "")) | {key: (text, "") for key, text in headline_figures(view).items()}
        if number > 1:
            figures["diff"] = difference(evaluated(view.snapshot), evaluated(runs[0].snapshot))
        for figure, end in ends.items():
            grid.right(end, number, *figures[figure])
    return grid


def headline_figures(view: RunView) -> dict[str, str]:
    update, last = view.snapshot.update, view.snapshot.evaluation
    best = view.snapshot.other_best or last
    return {
        "eval": percent(last.win_rate) if last else "-",
        "interval": interval(last.win_low, last.win_high) if last else "-",
        "against": truncate(opponent_name(last.opponent), 8) if last else "-",
        "ladder": percent(ladder_score(view.snapshot.reports).value),
        "best": percent(best.win_rate) if best else "-",
        "steps/s": speed(update.steps_per_s) if update else "-",
        "steps": count(view.snapshot.global_step),
        "took": duration(update.elapsed_s if update else None),
    }


class PanelOverlay(PanelChart):
    """One metric of all runs in one chart."""

    runs: reactive[Runs] = reactive((), repaint=False, init=False)

    def watch_runs(self) -> None:
        self.redraw()

    def body(self, width: int, height: int) -> Grid:
        traces = run_traces(self.chart, self.runs, self.viewport)
        if self.axes.run != (run_ids := " ".join(view.id for view in self.runs)):
            self.axes = AxisState(run=run_ids)
        marked = run_marks(self.chart, self.runs)
        self.axes.empty_text = next((view.empty_text for view in self.runs if view.is_loading), "no update")
        return draw_overlay(self.chart, traces, (width, height), self.theme, self.axes, self.viewport, marked)


def run_traces(chart: Chart, runs: Sequence[RunView], viewport: Viewport) -> list[Trace]:
    """Return the first curve of a chart for each run, labelled with the run's number."""
    series = replace(chart.series[0], right=False, raw=False, unit="")
    return [
        trace_of(
            replace(series, label=str(number), role=RUN_ROLES[number - 1], dash=DASHES[number - 1]),
            view.curves,
            view.snapshot,
            viewport.x_axis,
        )
        for number, view in enumerate(runs, start=1)
    ]


def run_marks(chart: Chart, runs: Sequence[RunView]) -> list[RunMarks]:
    """Return the marks of a chart for each run; none of a chart without marks."""
    if chart.marks is None:
        return []
    return [
        RunMarks(
            label=str(number), role=RUN_ROLES[number - 1], curves=view.curves, marks=tuple(chart.marks(view.snapshot))
        )
        for number, view in enumerate(runs, start=1)
    ]


def differences(starts: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return the differing keys of the sessions' configurations; None until all of them are known."""
    from echelon.jobs.config_layers import flatten

    if not starts or any(start is None or not start.config for start in starts):
        return None
    return differing_keys([flatten(start.config) for start in starts])


class PanelDifference(PanelOverlay):
    """Configuration keys that differ between the runs."""

    def body(self, width: int, height: int) -> Grid:
        if loading := next((view.empty_text for view in self.runs if view.is_loading), ""):
            return Grid(width, height).centre([loading])
        return draw_difference([view.snapshot.start for view in self.runs], width, height, self.theme)

    def note(self) -> str:
        return ""


def draw_difference(starts: Sequence[Any], width: int, height: int, theme: Theme) -> Grid:
    """Return a row per differing configuration key with the value of each run."""
    grid, found = Grid(width, height), differences(starts)
    if found is None:
        grid.put(0, 0, truncate("available once every run has started", width, theme.symbols.ellipsis), "dim")
        return grid
    rows = list(found.items())
    if not rows:
        grid.put(0, 0, truncate(NO_DIFFERENCE, width, theme.symbols.ellipsis), "dim")
        return grid
    key_width = min(max(len(key) for key, _ in rows) + 1, max(4, round(width * KEY_SHARE)))
    longest = max(cell_len(_plain(value)) for _, values in rows for value in values)
    cell = max(3, min((width - key_width) // len(starts), longest + VALUE_GAP))
    for number in range(len(starts)):
        grid.right(key_width + (number + 1) * cell, 0, str(number + 1), RUN_ROLES[number])
    shown = rows if len(rows) < height else rows[: max(0, height - 2)]
    for y, (key, values) in enumerate(shown, start=1):
        grid.put(0, y, truncate(key, key_width - 1, theme.symbols.ellipsis))
        for number, value in enumerate(values):
            text = truncate(_plain(value), cell - 1, theme.symbols.ellipsis)
            grid.right(key_width + (number + 1) * cell, y, text, RUN_ROLES[number])
    if len(shown) < len(rows):
        grid.put(0, height - 1, truncate(f"and {len(rows) - len(shown)} more: echelon runs compare", width), "dim")
    return grid


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys whose values are not all equal, with the value in each configuration."""
    keys = sorted({key for config in configs for key in config})
    return {key: [c.get(key) for c in configs] for key in keys if len({repr(c.get(key)) for c in configs}) > 1}


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
