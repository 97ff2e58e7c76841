"""Charts: curves of a run over steps, time or episodes, or of several runs over each other, drawn into a grid of cells.

``draw_chart`` and ``draw_overlay`` are pure functions of data and size, but for the ranges they hold still from one
picture to the next, which live in ``AxisState``. A chart is a row of a table: a ``Chart`` names series, reference line and
format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.charts.axis import EPSILON, Range, data_range, stable_end, stable_range
from echelon_cli.tui.charts.canvas import Canvas
from echelon_cli.tui.charts.curves import UNITS, Curves
from echelon_cli.tui.charts.plot import (
    Mark,
    Plot,
    Trace,
    draw_crosshair,
    draw_marks,
    draw_reference,
    draw_spread,
    draw_trace,
)
from echelon_cli.tui.charts.viewport import PLAIN, Viewport
from echelon_cli.tui.format import LABEL_WIDTH, axis_label, count, duration, log_label, measured
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, Span

REFERENCE_REACH = 4.0
"""A reference line further away than so many times the largest value is named, but not drawn."""

Y_LABEL_DIVISIONS = ((17, 4), (6, 2), (0, 1))
"""Parts that labels divide a vertical range into, by the rows from which it holds."""

MIN_PLOT = (8, 2)
"""Columns and rows below which only the figures are shown."""

GAP = "  "

EMPTY_TEXT = "no update yet"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One curve of a chart."""

    metric: str
    label: str
    role: str = "series1"
    right: bool = False
    """Has a range of its own, written at the right edge."""
    dash: int = 0
    """Columns of a dash where there is no colour to tell curves apart; 0 is a whole line."""
    raw: bool = True
    """Whether the unsmoothed values lie behind it."""
    text: Callable[[float], str] | None = None
    """How its values are written; as the chart says where there is none."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What one chart shows."""

    series: tuple[Series, ...]
    text: Callable[[float], str] = measured
    """How a value is written in the line above the curves."""
    bounds: Range | None = None
    """Fixed vertical range, where a measured has one."""
    reference: Callable[[RunSnapshot], float] | None = None
    """Height of a horizontal line; none is drawn where it is not above 0."""
    reference_label: str = ""
    marks: Callable[[RunSnapshot], Sequence[Mark]] | None = None
    """What is marked at single updates, with its interval."""
    marks_label: str = ""
    """What the newest mark is called beside its value; it is left out where there is no name."""


@dataclass
class AxisState:
    """Ranges that stay as they are until the data leave them, and where the curves stand."""

    left: Range | None = None
    right: Range | None = None
    end: float = 0.0
    newest: float = 0.0
    """Place of the newest values on the horizontal axis."""
    viewport: Viewport = field(default_factory=Viewport)
    run: str = ""
    log: tuple[bool, bool] = (False, False)
    """Whether the left and the right axis are logarithmic."""
    columns: tuple[int, int] = (0, 0)
    """First column of the curves and the one after the last."""

    def place(self, x: int) -> float | None:
        """Return the place on the horizontal axis that a column shows, None beside the curves."""
        first, after = self.columns
        if not first <= x < after:
            return None
        low, high = self.viewport.shown(self.end)
        return low + (x - first + 0.5) / (after - first) * (high - low)


def draw_chart(
    chart: Chart,
    curves: Curves,
    snapshot: RunSnapshot,
    size: tuple[int, int],
    theme: Theme,
    axes: AxisState,
    viewport: Viewport = PLAIN,
) -> Grid:
    """Return the chart of one run in ``size`` cells; ``axes`` keeps its ranges for the next call."""
    grid = Grid(*size)
    reference = chart.reference(snapshot) if chart.reference else 0.0
    traces = traces_of(chart, curves, viewport, snapshot)
    marks = chart.marks(snapshot) if chart.marks else ()
    grid.spans(0, 0, legend(chart, traces, marks, reference, grid.width, viewport))
    if not curves.updates and not marks:
        return _say(grid, EMPTY_TEXT)
    furthest = curves.position(marks[-1].update, viewport.x_axis) if marks else 0.0
    _hold(chart, traces, furthest, reference, axes, viewport)
    plot = _frame(grid, chart, traces, theme, axes, viewport)
    if plot is None:
        return grid
    _draw(grid, plot, traces, reference, theme, axes, viewport)
    if marks:
        draw_marks(grid, plot, curves, marks, theme, viewport.x_axis, axes.columns[0])
    return grid


def draw_overlay(
    chart: Chart,
    traces: Sequence[Trace],
    size: tuple[int, int],
    theme: Theme,
    axes: AxisState,
    viewport: Viewport = PLAIN,
) -> Grid:
    """Return one figure of several runs over each other; the legend has their labels."""
    grid = Grid(*size)
    grid.spans(0, 0, legend(chart, traces, (), 0.0, grid.width, viewport))
    if not any(trace.places for trace in traces):
        return _say(grid, EMPTY_TEXT)
    _hold(chart, traces, 0.0, 0.0, axes, viewport)
    plot = _frame(grid, chart, traces, theme, axes, viewport)
    if plot is not None:
        _draw(grid, plot, traces, 0.0, theme, axes, viewport)
    return grid


def traces_of(chart: Chart, curves: Curves, viewport: Viewport, snapshot: RunSnapshot) -> list[Trace]:
    """Return the curves of one run that a chart shows."""
    places = curves.positions.get(viewport.x_axis, ())
    return [
        Trace(
            label=s.label,
            role=s.role,
            curve=curves.curve(s.metric),
            places=places,
            right=s.right,
            dash=s.dash,
            raw=s.raw,
            text=s.text,
            newest=newest(snapshot, s.metric),
        )
        for s in chart.series
    ]


def newest(snapshot: RunSnapshot, metric: str) -> float:
    """Return a figure of the newest update in the unit of its curve, not a number while there is none."""
    value = getattr(snapshot.update, metric, math.nan)
    return value * UNITS.get(metric, 1.0)


def legend(
    chart: Chart, traces: Sequence[Trace], marks: Sequence[Mark], reference: float, width: int, viewport: Viewport
) -> list[Span]:
    """Return the figures above the curves, as many as fit whole: the newest, or those at the crosshair.

    Of the first that does not fit, its name stands there in its colour if that does.
    """
    entries: list[tuple[str, str, str]] = []
    for trace in traces:
        values = trace.line(viewport.span)
        at = len(values) - 1 if viewport.crosshair is None else trace.at(viewport.crosshair)
        value = values[at] if 0 <= at < len(values) else math.nan
        if viewport.crosshair is None and math.isfinite(trace.newest):
            value = trace.newest
        entries.append((trace.label, (trace.text or chart.text)(value), trace.role))
    if reference > 0:
        entries.insert(1, (chart.reference_label, axis_label(reference, reference), "rule"))
    if marks and chart.marks_label and viewport.crosshair is None:
        entries.insert(1, (chart.marks_label, chart.text(marks[-1].value), "mark"))
    spans: list[Span] = []
    for label, value, role in entries:
        if len(label) + 1 + len(value) > width:
            spans += [(label, role)] if len(label) <= width else []
            break
        width -= len(label) + 1 + len(value) + len(GAP)
        spans += [(f"{label} ", "dim"), (value, role), (GAP, "")]
    return spans


def _say(grid: Grid, text: str) -> Grid:
    grid.put(max(0, (grid.width - len(text)) // 2), grid.height // 2, text, "dim")
    return grid


def _hold(
    chart: Chart, traces: Sequence[Trace], furthest: float, reference: float, axes: AxisState, viewport: Viewport
) -> None:
    """Move the held ranges where the data, or those who look at them, have left them."""
    if axes.viewport.without_crosshair() != viewport.without_crosshair():
        end = axes.end if axes.viewport.x_axis == viewport.x_axis else 0.0
        axes.left, axes.right, axes.end = None, None, end
    axes.viewport = viewport
    furthest = max([furthest, *(trace.places[-1] for trace in traces if trace.places)])
    axes.newest = furthest
    axes.end = stable_end(axes.end, furthest, time=viewport.x_axis == "time")
    logs = []
    for right in (False, True):
        mine = [s for s in traces if s.right == right]
        values = [_values(trace, viewport.shown(axes.end), viewport.span) for trace in mine]
        least = min((v for known in values for v in known), default=0.0)
        log = viewport.log and least > 0 and not (chart.bounds and not right)
        ranges = [data_range([math.log10(v) for v in known] if log else known) for known in values]
        found = [r for r in ranges if r is not None]
        before = axes.right if right else axes.left
        if not found:
            after = before or ((0.0, 1.0) if mine else None)
        else:
            low, high = min(r[0] for r in found), max(r[1] for r in found)
            if not right and not log and 0 < reference <= REFERENCE_REACH * max(high, EPSILON):
                low, high = min(low, reference), max(high, reference)
            after = stable_range(before, low, high)
        logs.append(log)
        if right:
            axes.right = after
        else:
            axes.left = chart.bounds or after
    axes.log = (logs[0], logs[1])


def _values(trace: Trace, window: Range, span: float) -> list[float]:
    """Return what a vertical range has to hold: every mean in the window, and where the averaged curve ends."""
    inside = trace.inside(window)
    values = [*trace.curve.mean[inside.start : inside.stop], *list(trace.line(span)[: inside.stop][-1:])]
    return [value for value in values if math.isfinite(value)]


def _frame(
    grid: Grid, chart: Chart, traces: Sequence[Trace], theme: Theme, axes: AxisState, viewport: Viewport
) -> Plot | None:
    """Write the axes and return the plot of the left one, None where there is no room for curves."""
    two_sided = axes.right is not None and grid.width >= 3 * LABEL_WIDTH + MIN_PLOT[0]
    left, right = LABEL_WIDTH + 1, grid.width - (LABEL_WIDTH + 1 if two_sided else 0)
    wide, high = right - left, grid.height - 2
    axes.columns = (left, right)
    if wide < MIN_PLOT[0] or high < MIN_PLOT[1]:
        axes.columns = (0, 0)
        return None
    _labels(grid, traces, axes, (left, right), high, two_sided)
    _ends(grid, axes, viewport, left, right)
    window = viewport.shown(axes.end)
    return Plot(Canvas(wide, high, theme.glyphs), window, axes.left or (0.0, 1.0), axes.log[0])


def _labels(
    grid: Grid, traces: Sequence[Trace], axes: AxisState, sides: tuple[int, int], high: int, two_sided: bool
) -> None:
    """Write the ends and, where there is room, the middle or the quarters of the vertical ranges."""
    left, right = sides
    parts = next(n for least, n in Y_LABEL_DIVISIONS if high >= least)
    right_role = next((s.role for s in traces if s.right), "dim")
    for bounds, is_right in ((axes.left, False), (axes.right if two_sided else None, True)):
        if bounds is None:
            continue
        span, below = bounds[1] - bounds[0], ""
        for share in (i / parts for i in range(parts + 1)):
            row = 1 + round((1.0 - share) * (high - 1))
            value = bounds[0] + share * span
            label = log_label(10.0**value) if axes.log[is_right] else axis_label(value, span)
            if label == below:
                continue  # too close together to be told apart in so few characters
            below = label
            if is_right:
                grid.put(right + 1, row, label, right_role)
            else:
                grid.right(left - 1, row, label, traces[0].role if two_sided else "dim")


def _ends(grid: Grid, axes: AxisState, viewport: Viewport, left: int, right: int) -> None:
    """Write the ends of the horizontal axis, and between them where the crosshair stands."""
    row = grid.height - 1
    low, high = viewport.shown(axes.end)
    grid.put(left, row, position(low, viewport, unit=False), "dim")
    room = right - left - 2
    end = next((text for unit in (True, False) if len(text := position(high, viewport, unit=unit)) <= room), "")
    grid.right(right, row, end, "dim")
    if viewport.crosshair is not None:
        text = position(viewport.crosshair, viewport, unit=False)
        at = left + round((viewport.crosshair - low) / (high - low) * (right - left)) - len(text) // 2
        first = left + len(position(low, viewport, unit=False)) + 1
        at = max(first, min(at, right - len(end) - len(text) - 1))
        if at + len(text) < right - len(end):
            grid.put(at, row, text, "key")


def position(value: float, viewport: Viewport, *, unit: bool = True) -> str:
    """Return a place on the horizontal axis in words."""
    if viewport.x_axis == "time":
        return duration(value) if value or unit else "0"
    return f"{count(value)} {viewport.x_axis}" if unit else count(value)


def _draw(
    grid: Grid, plot: Plot, traces: Sequence[Trace], reference: float, theme: Theme, axes: AxisState, viewport: Viewport
) -> None:
    """Draw spreads, reference, curves and crosshair, the first curve over the others."""
    other = Plot(plot.canvas, plot.window, axes.right or (0.0, 1.0), axes.log[1])
    for trace in traces:
        if trace.raw and viewport.span > 1:
            draw_spread(other if trace.right else plot, trace)
    height = math.log10(reference) if plot.log and reference > 0 else reference
    if reference > 0 and plot.vertical[0] <= height <= plot.vertical[1]:
        draw_reference(plot, reference)
    for trace in reversed(traces):
        draw_trace(other if trace.right else plot, trace, viewport.span, dashed=not theme.colour)
    if viewport.crosshair is not None:
        draw_crosshair(plot, viewport.crosshair)
    left = axes.columns[0]
    for x, y, char, role in plot.canvas.cells():
        grid.put(left + x, 1 + y, char, role)
