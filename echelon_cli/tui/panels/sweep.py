"""Panels of the sweep screen: trials, parallel coordinates, importance of options, finalists, performance profiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.reactive import reactive

from echelon.jobs.sweeps.plan import RATES
from echelon.jobs.sweeps.results import Finalist, SweepResults, TrialRow
from echelon.statistics import Estimate
from echelon_cli.tui.charts.canvas import Canvas
from echelon_cli.tui.feed.messages import SweepView
from echelon_cli.tui.format import axis_label, count, interval, measured, percent, short_run_id, wrap
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.panels.league import first_visible
from echelon_cli.tui.theme import RUN_ROLES, Theme
from echelon_cli.tui.widgets.cells import Grid, share_bar, truncate

NAME_CELLS = 14
"""Fewest columns of a trial's options."""
AXIS_CELLS = 12
"""Fewest columns between two axes of parallel coordinates."""
INTERVAL_CELLS = 12
"""Fewest columns of the interval plot of a finalist."""
NUMBER_CELLS = 4
PROFILE_LABELS = 5
"""Columns of the labels left of a profile."""

STATE_ROLES = {"running": "good", "complete": "info", "failed": "bad", "paused": "", "pruned": "dim", "queued": "dim"}
"""Role of each state of a trial."""


def metric_text(metric: str, value: float) -> str:
    """Return a value of a sweep's metric."""
    return percent(value) if metric in RATES else measured(value)


class SweepPanel(Panel):
    """A panel about a sweep, with one trial selected."""

    sweep: reactive[SweepView] = reactive(SweepView(), repaint=False, init=False)
    selected: reactive[int] = reactive(-1, repaint=False, init=False)
    """Number of the selected trial; negative for none."""

    def watch_sweep(self) -> None:
        self.redraw()

    def watch_selected(self) -> None:
        self.redraw()

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        """Return the body for a sweep with trials."""
        return Grid(width, height)

    def body(self, width: int, height: int) -> Grid:
        results = self.sweep.results
        if results is not None and results.trials:
            return self.results_body(results, width, height)
        text = self.sweep.problem or ("no trial yet" if self.sweep.loaded else "loading the sweep")
        return note_grid(text, width, height, "bad" if self.sweep.problem else "dim")


def note_grid(text: str, width: int, height: int, role: str = "dim") -> Grid:
    """Return a grid with a text in its middle."""
    grid, lines = Grid(width, height), wrap(text, max(1, width))
    for y, line in enumerate(lines, start=max(0, (height - len(lines)) // 2)):
        grid.put(max(0, (width - cell_len(line)) // 2), y, line, role)
    return grid


def ordered(results: SweepResults) -> list[TrialRow]:
    """Return the trials as the table shows them: evaluated ones best first, then the others by number."""
    by_number = {row.number: row for row in results.trials}
    others = [number for number in by_number if number not in set(results.ranking)]
    return [by_number[number] for number in (*results.ranking, *others)]


@dataclass(frozen=True)
class Column:
    """One column of the table of trials."""

    name: str
    width: int
    text: Callable[[TrialRow, SweepResults], str]
    rank: int
    """Columns with the highest rank are dropped first in a narrow table."""


DETAIL_RANK = 4
"""Rank from which columns are dropped where the options do not fit beside them."""

COLUMNS: tuple[Column, ...] = (
    Column("state", 9, lambda row, _: row.state, 2),
    Column("rung", 5, lambda row, r: f"{row.rung + 1}/{r.plan.last_rung + 1}" if row.rung >= 0 else "", 3),
    Column("steps", 6, lambda row, _: count(row.global_step) if row.rung >= 0 else "", 4),
    Column("value", 7, lambda row, r: metric_text(r.plan.metric, row.value) if row.rung >= 0 else "", 0),
    Column("95 %", 7, lambda row, _: interval(row.low, row.high) if row.rung >= 0 else "", 1),
    Column("run", 16, lambda row, _: short_run_id(row.run), 5),
)


class PanelTrials(SweepPanel):
    """All trials, best first."""

    class Selected(Message):
        """A trial was clicked."""

        def __init__(self, trial: int) -> None:
            super().__init__()
            self.trial = trial

    def note(self) -> str:
        results = self.sweep.results
        return results.plan.metric.replace("_", " ") if results else ""

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_trials(results, self.selected, (width, height), self.theme)

    def on_click(self, event: events.Click) -> None:
        results = self.sweep.results
        if results is None:
            return
        rows = ordered(results)
        index = first_visible(position(rows, self.selected), len(rows), self.size.height - 3) + event.y - 2
        if event.y >= 2 and index < len(rows):
            self.post_message(self.Selected(rows[index].number))


def position(rows: Sequence[TrialRow], number: int) -> int:
    """Return the position of a trial in the table, 0 where it is missing."""
    return next((i for i, row in enumerate(rows) if row.number == number), 0)


def draw_trials(results: SweepResults, selected: int, size: tuple[int, int], theme: Theme) -> Grid:
    """Return a row per trial: number, options, state, rung, steps, value with interval, run."""
    grid, (width, height), rows = Grid(*size), size, ordered(results)
    columns = list(COLUMNS)
    longest = max((cell_len(row.name) for row in rows), default=0)
    while len(columns) > 1:
        first_dropped = max(columns, key=lambda column: column.rank)
        needed = longest if first_dropped.rank >= DETAIL_RANK else NAME_CELLS
        if NUMBER_CELLS + 1 + needed + sum(column.width + 1 for column in columns) <= width:
            break
        columns.remove(first_dropped)
    name_end = width - sum(column.width + 1 for column in columns)
    grid.put(NUMBER_CELLS + 1, 0, "options", "dim")
    x = name_end
    for column in columns:
        x += column.width + 1
        grid.right(x, 0, column.name, "dim")
    cursor = position(rows, selected)
    first = first_visible(cursor, len(rows), height - 1)
    for y, row in enumerate(rows[first : first + height - 1], start=1):
        grid.right(NUMBER_CELLS, y, str(row.number), "dim")
        role = STATE_ROLES.get(row.state, "")
        text = f"{row.name}: {row.message}" if row.message else row.name
        name_cells = name_end - NUMBER_CELLS - 1
        grid.put(
            NUMBER_CELLS + 1, y, truncate(text, name_cells, theme.symbols.ellipsis), "dim" if role == "dim" else ""
        )
        x = name_end
        for column in columns:
            x += column.width + 1
            grid.right(x, y, column.text(row, results), role if column.name in ("state", "value") else "dim")
        if first + y - 1 == cursor:
            grid.put(0, y, theme.symbols.cursor)
            grid.fill(y, "cursor")
    return grid


class PanelParallel(SweepPanel):
    """Parallel coordinates: a line per trial through its options to its value."""

    def note(self) -> str:
        return "best third in colour"

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_parallel(results, self.selected, (width, height), self.theme)


@dataclass(frozen=True)
class Axis:
    """A vertical axis: its label, the texts at its ends, and the position of each trial on it, 0 to 1."""

    label: str
    low: str
    high: str
    shares: dict[int, float]


def axes_of(results: SweepResults, most: int) -> list[Axis]:
    """Return the axes of the options, at most ``most`` by importance, and of the value at the first rung."""
    first = {row.number: row.values[0] for row in results.trials if math.isfinite(row.values.get(0, math.nan))}
    dimensions = list(results.plan.dimensions)
    if len(dimensions) >= most:
        by_importance = sorted(dimensions, key=lambda d: -(results.importance.get(d.key, 0.0) or 0.0))[: most - 1]
        dimensions = [d for d in dimensions if d in by_importance]
    axes = []
    for d in dimensions:
        shares = {row.number: d.share(row.params.get(d.key)) for row in results.trials}
        ends = (str(d.choices[0]), str(d.choices[-1])) if d.choices else (f"{d.low:g}", f"{d.high:g}")
        axes.append(Axis(d.key.rpartition(".")[2], *ends, shares))
    low, high = min(first.values(), default=0.0), max(first.values(), default=1.0)
    span = high - low or 1.0
    metric = results.plan.metric
    shares = {number: (value - low) / span for number, value in first.items()}
    label = f"{metric.replace('_', ' ')} at {count(results.plan.rung_steps[0])}"
    return [*axes, Axis(label, metric_text(metric, low), metric_text(metric, high), shares)]


def draw_parallel(results: SweepResults, selected: int, size: tuple[int, int], theme: Theme) -> Grid:
    """Return a line per trial across one axis per option and one for its value at the first rung."""
    grid, (width, height) = Grid(*size), size
    if not results.plan.dimensions:
        return note_grid("a list of variants has no axes", width, height)
    axes = axes_of(results, max(2, width // AXIS_CELLS))
    plot_rows = height - 3
    if plot_rows < 2:
        return grid
    canvas = Canvas(width, plot_rows, theme.glyphs)
    xs = [round(i / (len(axes) - 1) * (width - 1)) for i in range(len(axes))]
    frame = canvas.layer("frame", is_background=True)
    for x in xs:
        frame.vertical(min(canvas.width - 1, x * canvas.columns), 0, canvas.height - 1)
    values = axes[-1].shares
    by_value = sorted(values, key=lambda number: values[number])
    good = set(by_value[-max(1, len(by_value) // 3) :]) if by_value else set()
    for number in [*by_value, *([selected] if selected in values else [])]:
        role = "key" if number == selected else "series1" if number in good else "ghost"
        layer = canvas.layer(role)
        points = [
            (min(canvas.width - 1, x * canvas.columns), round((1.0 - axis.shares[number]) * (canvas.height - 1)))
            for x, axis in zip(xs, axes, strict=True)
            if math.isfinite(axis.shares.get(number, math.nan))
        ]
        for (x1, y1), (x2, y2) in zip(points, points[1:], strict=False):
            layer.line(x1, y1, x2, y2)
    for x, y, char, role in canvas.cells():
        grid.put(x, 2 + y, char, role)
    # a label at an end reaches inwards, one in the middle to both sides
    spacing = (width - 1) / (len(axes) - 1)
    room = max(4, int((spacing - 1) * (2 / 3 if len(axes) > 2 else 1 / 2)))
    for i, (x, axis) in enumerate(zip(xs, axes, strict=True)):
        for y, text, role in ((0, axis.label, "bold"), (1, axis.high, "dim"), (height - 1, axis.low, "dim")):
            shown = truncate(text, room, theme.symbols.ellipsis)
            half = cell_len(shown) // 2
            at = x - half if 0 < i < len(axes) - 1 else x if i == 0 else x + 1 - cell_len(shown)
            grid.put(at, y, shown, role)
    return grid


class PanelImportance(SweepPanel):
    """Importance of each option."""

    def note(self) -> str:
        results = self.sweep.results
        return f"variance at {count(results.plan.rung_steps[0])} steps" if results else ""

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_importance(results, (width, height), self.theme)


def draw_importance(results: SweepResults, size: tuple[int, int], theme: Theme) -> Grid:
    """Return a bar per option with the fraction of the variance that it explains alone."""
    grid, (width, height) = Grid(*size), size
    known = {key: value for key, value in results.importance.items() if math.isfinite(value)}
    if not known:
        return note_grid("known after four trials with different results", width, height)
    name_width = min(max(len(key) for key in known), width // 2)
    for y, (key, value) in enumerate(sorted(known.items(), key=lambda pair: -pair[1])[:height]):
        grid.put(0, y, truncate(key, name_width, theme.symbols.ellipsis))
        grid.spans(name_width + 1, y, share_bar(value, width - name_width - 6, theme))
        grid.right(width, y, percent(value), "series1")
    return grid


class PanelFinalists(SweepPanel):
    """Finalists: interquartile mean over training seeds with its interval, and probability of improvement."""

    def note(self) -> str:
        results = self.sweep.results
        reference = results.plan.unchanged if results else ""
        return f"better: than {reference}" if reference else ""

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_finalists(results, (width, height), self.theme)


def draw_finalists(results: SweepResults, size: tuple[int, int], theme: Theme) -> Grid:
    """Return two rows per finalist: name with value and interval, then seeds and the probability of improvement."""
    grid, (width, height) = Grid(*size), size
    if not results.finalists:
        plan = results.plan
        text = f"after the search, {plan.final_seeds} seeds of each" if plan.final_runs else "this sweep has none"
        text = "one seed of each variant: no statistics over seeds" if plan.variants else text
        return note_grid(text, width, height)
    metric, y = results.plan.metric, 0
    for number, finalist in enumerate(results.finalists):
        if y >= height:
            break
        role = RUN_ROLES[number % len(RUN_ROLES)]
        value = estimate_text(metric, finalist.score)
        is_named = results.plan.variants or finalist.trial < 0
        label = finalist.name if is_named else f"{finalist.trial} {finalist.name}"
        grid.put(0, y, theme.symbols.square, role)
        grid.put(2, y, truncate(label, width - 4 - cell_len(value), theme.symbols.ellipsis))
        grid.right(width, y, value, role)
        y += 1
        if height >= 2 * len(results.finalists):
            detail = f"{len(finalist.scores)}/{finalist.planned} seeds"
            if finalist.improvement is not None:
                detail += f", better {estimate_text('win_rate', finalist.improvement)}"
            grid.put(2, y, truncate(detail, width - 2, theme.symbols.ellipsis), "dim")
            y += 1
    return grid


def estimate_text(metric: str, estimate: Estimate | None) -> str:
    """Return an estimate with its interval, ``-`` where there is none."""
    if estimate is None:
        return "-"
    value = metric_text(metric, estimate.value)
    if not math.isfinite(estimate.low):
        return value
    if metric in RATES:
        return f"{value} ({interval(estimate.low, estimate.high)})"
    return f"{value} ({measured(estimate.low)} to {measured(estimate.high)})"


class PanelProfiles(SweepPanel):
    """Performance profiles: the fraction of each finalist's seeds above every threshold."""

    def note(self) -> str:
        return "fraction of seeds above"

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_profiles(results, (width, height), self.theme)


def draw_profiles(results: SweepResults, size: tuple[int, int], theme: Theme) -> Grid:
    """Return a curve per finalist over the thresholds of the metric."""
    grid, (width, height) = Grid(*size), size
    shown: list[Finalist] = [finalist for finalist in results.finalists if finalist.profile]
    wide, high = width - PROFILE_LABELS, height - 1
    if not shown:
        return note_grid("known when finalists have ended", width, height)
    if wide < 4 or high < 2:
        return grid
    canvas, thresholds = Canvas(wide, high, theme.glyphs), results.thresholds
    low, span = thresholds[0], thresholds[-1] - thresholds[0]
    for number, finalist in reversed(list(enumerate(results.finalists))):
        layer = canvas.layer(RUN_ROLES[number % len(RUN_ROLES)], alternates=True)
        points = [
            (round((t - low) / span * (canvas.width - 1)), round((1.0 - e.value) * (canvas.height - 1)))
            for t, e in zip(thresholds, finalist.profile, strict=False)
        ]
        for (x1, y1), (x2, y2) in zip(points, points[1:], strict=False):
            layer.line(x1, y1, x2, y2, dash=0 if theme.colour else 2 * number)
    for x, y, char, role in canvas.cells():
        grid.put(PROFILE_LABELS + x, y, char, role)
    for y, text in ((0, "100%"), (high - 1, "0%")):
        grid.right(PROFILE_LABELS - 1, y, text, "dim")
    metric = results.plan.metric
    ends = [metric_text(metric, x) if metric in RATES else axis_label(x, span) for x in (low, thresholds[-1])]
    grid.put(PROFILE_LABELS, height - 1, ends[0], "dim")
    grid.right(width, height - 1, f"{ends[1]} {metric.replace('_', ' ')}", "dim")
    return grid
