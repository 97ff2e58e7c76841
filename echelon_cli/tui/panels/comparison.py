"""Panels of several runs: who is who, a figure of all of them over each other, where their configurations differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from textual.reactive import reactive

from echelon_cli.tui.charts.chart import AxisState, Chart, draw_overlay, newest
from echelon_cli.tui.charts.plot import Trace
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import brief, count, measured, percent, short_run_id, speed
from echelon_cli.tui.panels.base import PanelChart
from echelon_cli.tui.theme import RUN_ROLES, STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate

Runs = tuple[RunView, ...]

FIGURES: tuple[tuple[str, int], ...] = (
    ("wins", 5),
    ("eval", 5),
    ("steps/s", 7),
    ("return", 7),
    ("best", 5),
    ("steps", 6),
    ("took", 6),
)
"""Names and widths of what the head says of each run; the last ones are left out first."""

STATE_CELLS = 11
NAME_CELLS = 14
"""Least columns of state and name."""

KEY_SHARE = 0.4
"""Share of the columns that the key of a configuration gets at most."""

VALUE_GAP = 4
"""Columns between the values of a configuration that are as wide as what stands in them."""

SAME = "no difference: all settings are the same"

DASHES = (0, 6, 3, 2, 9, 1)
"""Columns of a dash of each run where no colour tells them apart."""


class CompareHeader(CellView):
    """One line for each run: its number and colour in the charts, its name, state and figures."""

    runs: reactive[Runs] = reactive((), repaint=False, init=False)
    note: reactive[str] = reactive("", repaint=False, init=False)
    """What stands at the right of the head line where there is room."""

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
    """Return the table of runs, a head line first."""
    grid = Grid(width, height)
    kept = list(FIGURES)
    while kept and 4 + NAME_CELLS + 2 + STATE_CELLS + sum(w + 2 for _, w in kept) > width:
        kept.pop()
    room = width - 4 - 2 - STATE_CELLS - sum(w + 2 for _, w in kept) - 1
    name_width = max(NAME_CELLS, min(room, max((len(view.id) for view in runs), default=0)))
    at_state = 4 + name_width + 2
    grid.put(4, 0, "run", "dim")
    grid.put(at_state, 0, "state", "dim")
    ends, x = {}, at_state + STATE_CELLS
    for name, wide in kept:
        x += wide + 2
        ends[name] = x
        grid.right(x, 0, name, "dim")
    for number, view in enumerate(runs, start=1):
        role = RUN_ROLES[number - 1]
        grid.put(1, number, f"{number}{theme.symbols.square}", role)
        name = view.id if len(view.id) <= name_width else short_run_id(view.id)
        grid.put(4, number, truncate(name, name_width, theme.symbols.cut), role)
        state = f"{theme.state_symbol(view.state)} {view.state}" if view.state else ""
        grid.put(at_state, number, state, STATE_ROLES.get(view.state, ""))
        for figure, text in figures(view).items():
            if figure in ends:
                grid.right(ends[figure], number, text)
    return grid


def figures(view: RunView) -> dict[str, str]:
    """Return what the head says of a run."""
    update, evals, best = view.snapshot.update, view.snapshot.evals, view.snapshot.best
    return {
        "wins": percent(update.win_rate) if update else "-",
        "eval": percent(evals[-1].win_rate) if evals else "-",
        "best": percent(best.win_rate) if best else "-",
        "return": measured(update.avg_return) if update else "-",
        "steps/s": speed(update.steps_per_s) if update else "-",
        "steps": count(view.snapshot.global_step),
        "took": brief(update.elapsed_s if update else math.nan),
    }


class PanelOverlay(PanelChart):
    """One figure of all runs over each other."""

    runs: reactive[Runs] = reactive((), repaint=False, init=False)

    def watch_runs(self) -> None:
        self.redraw()

    def body(self, width: int, height: int) -> Grid:
        traces = run_traces(self.chart, self.runs, self.viewport)
        if self.axes.run != (together := " ".join(view.id for view in self.runs)):
            self.axes = AxisState(run=together)
        return draw_overlay(self.chart, traces, (width, height), self.theme, self.axes, self.viewport)


def run_traces(chart: Chart, runs: Sequence[RunView], viewport: Viewport) -> list[Trace]:
    """Return the first curve of a chart for each run, labelled by its number."""
    metric = chart.series[0].metric
    return [
        Trace(
            label=str(number),
            role=RUN_ROLES[number - 1],
            curve=view.curves.curve(metric),
            places=view.curves.positions.get(viewport.x_axis, ()),
            dash=DASHES[number - 1],
            raw=False,
            newest=newest(view.snapshot, metric),
        )
        for number, view in enumerate(runs, start=1)
    ]


def differences(starts: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return where the configurations of the sessions differ, None while not all of them are known."""
    from echelon.jobs.config_layers import flatten

    if not starts or any(start is None or not start.config for start in starts):
        return None
    return differing_keys([flatten(start.config) for start in starts])


class PanelDifference(PanelOverlay):
    """Where the configurations of the runs differ."""

    def body(self, width: int, height: int) -> Grid:
        return draw_difference([view.snapshot.start for view in self.runs], width, height, self.theme)

    def note(self) -> str:
        return ""


def draw_difference(starts: Sequence[Any], width: int, height: int, theme: Theme) -> Grid:
    """Return the keys in which the configurations of the sessions differ, with a value for each run."""
    grid, found = Grid(width, height), differences(starts)
    if found is None:
        grid.put(0, 0, truncate("known once every run has begun", width, theme.symbols.cut), "dim")
        return grid
    rows = list(found.items())
    if not rows:
        grid.put(0, 0, truncate(SAME, width, theme.symbols.cut), "dim")
        return grid
    key_width = min(max(len(key) for key, _ in rows) + 1, max(4, round(width * KEY_SHARE)))
    longest = max(cell_len(_plain(value)) for _, values in rows for value in values)
    cell = max(3, min((width - key_width) // len(starts), longest + VALUE_GAP))
    for number in range(len(starts)):
        grid.right(key_width + (number + 1) * cell, 0, str(number + 1), RUN_ROLES[number])
    room = height - 1
    shown = rows if len(rows) <= room else rows[: max(0, room - 1)]
    for y, (key, values) in enumerate(shown, start=1):
        grid.put(0, y, truncate(key, key_width - 1, theme.symbols.cut))
        for number, value in enumerate(values):
            text = truncate(_plain(value), cell - 1, theme.symbols.cut)
            grid.right(key_width + (number + 1) * cell, y, text, RUN_ROLES[number])
    if len(shown) < len(rows):
        grid.put(0, height - 1, truncate(f"and {len(rows) - len(shown)} more: echelon runs compare", width), "dim")
    return grid


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return every key whose values are not all the same, with the value of each configuration."""
    keys = sorted({key for config in configs for key in config})
    return {key: [c.get(key) for c in configs] for key in keys if len({repr(c.get(key)) for c in configs}) > 1}


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
