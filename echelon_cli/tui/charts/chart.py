"""Charts: curves of one run over steps, time or episodes, or of several runs overlaid, drawn into a grid of cells.

A ``Chart`` declares series, reference line, marks and format. ``draw_chart`` and ``draw_overlay`` are pure functions of
data and size, except for the axis ranges, which ``AxisState`` keeps stable from one frame to the next.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.output import count, duration, measured, percent
from echelon_cli.tui.charts.axis import EPSILON, Range, data_range, divisions, stable_end, stable_range
from echelon_cli.tui.charts.canvas import Canvas
from echelon_cli.tui.charts.curves import Curves, XAxis, metric_scale
from echelon_cli.tui.charts.plot import (
    Mark,
    Plot,
    RunMarks,
    Series,
    Trace,
    draw_band,
    draw_crosshair,
    draw_joined,
    draw_marks,
    draw_reference,
    draw_spread,
    draw_trace,
)
from echelon_cli.tui.charts.viewport import DEFAULT_VIEWPORT, Viewport
from echelon_cli.tui.format import LABEL_WIDTH, axis_label, log_label
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, Span

REFERENCE_REACH = 4.0
"""A reference line above this multiple of the largest value is labelled but not drawn."""

Y_LABEL_DIVISIONS = ((17, 4), (6, 2), (0, 1))
"""Minimum plot rows, and the intervals that the labels divide a vertical range into from that height."""

MIN_PLOT = (8, 2)
"""Columns and rows of the smallest plot; below it only the legend is shown."""

BOUNDED_ENDS = (0.2, 0.4)
"""Upper ends of a bounded axis, as shares of its bounds, that are tried before the whole."""

GAP = "  "

NO_CURVES = Curves()
NO_SNAPSHOT = RunSnapshot()


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The declaration of one chart."""

    series: tuple[Series, ...]
    format_value: Callable[[float], str] = measured
    """Format of the values in the legend, except counts."""
    bounds: Range | None = None
    reference: Callable[[RunSnapshot], float] | None = None
    """Returns the value of a horizontal reference line; none is drawn where it is not positive."""
    reference_label: str = ""
    marks: Callable[[RunSnapshot], Sequence[Mark]] | None = None
    """Returns values measured at single updates, with their intervals."""
    verdict: Callable[[RunSnapshot], str] | None = None
    """Returns what is wrong with the newest value, for the title; empty where nothing is."""
    marks_label: str = ""
    """Legend label of the newest mark; empty omits it."""
    joined: bool = False
    """Whether the marks of one run are joined to a curve, with a band of their intervals behind all curves."""


@dataclass
class AxisState:
    """Axis ranges that stay unchanged until the data leave them, and where the plot lies."""

    left: Range | None = None
    right: Range | None = None
    end: float = 0.0
    newest: float = 0.0
    viewport: Viewport = field(default_factory=Viewport)
    run: str = ""
    empty_text: str = "no update yet"
    """Text instead of the plot where there is none."""
    log: tuple[bool, bool] = (False, False)
    """Whether the left and the right axis are logarithmic."""
    columns: tuple[int, int] = (0, 0)
    """First cell column of the plot, and the one after the last."""

    def position_at(self, x: int) -> float | None:
        """Return the position on the horizontal axis of a cell column; None outside the plot."""
        first, after = self.columns
        if not first <= x < after:
            return None
        low, high = self.viewport.visible_range(self.end)
        return low + (x - first + 0.5) / (after - first) * (high - low)


def draw_chart(
    chart: Chart,
    curves: Curves,
    snapshot: RunSnapshot,
    size: tuple[int, int],
    theme: Theme,
    axes: AxisState,
    viewport: Viewport = DEFAULT_VIEWPORT,
    ghost: Curves = NO_CURVES,
    ghost_snapshot: RunSnapshot = NO_SNAPSHOT,
) -> Grid:
    """Return the chart of one run in ``size`` cells; ``axes`` carries the ranges to the next call.

    The first series of another run, ``ghost``, or its marks where they are joined, are drawn behind it as far as this
    run has come.
    """
    reference = chart.reference(snapshot) if chart.reference else 0.0
    marks = tuple(chart.marks(snapshot)) if chart.marks else ()
    traces = [trace_of(series, curves, snapshot, viewport.x_axis) for series in chart.series]
    head = legend(chart, traces, marks, reference, size[0], viewport)
    marked = [RunMarks(label="", role="mark", curves=curves, marks=marks)]
    behind = ghost_traces(chart, ghost, viewport)
    if chart.joined and chart.marks:
        behind = []
        marked.insert(0, RunMarks(label="", role="ghost", curves=ghost, marks=chart.marks(ghost_snapshot)))
    return _Drawing(chart, traces, marked, Grid(*size), theme, axes, viewport, reference, behind, chart.joined).draw(
        head
    )


def draw_overlay(
    chart: Chart,
    traces: Sequence[Trace],
    size: tuple[int, int],
    theme: Theme,
    axes: AxisState,
    viewport: Viewport = DEFAULT_VIEWPORT,
    marked: Sequence[RunMarks] = (),
) -> Grid:
    """Return a chart with one trace per run in ``size`` cells; the legend shows the labels of the traces.

    The marks of each run have its colour, or its label in a theme without colours.
    """
    head = legend(chart, traces, (), 0.0, size[0], viewport)
    first = next((run for run in marked if run.marks), None)
    if first is not None and chart.marks_label:
        name = f"{first.symbol(theme)} {chart.marks_label}"
        head += [(name, "dim")] if sum(len(text) for text, _ in head) + len(name) <= size[0] else []
    return _Drawing(chart, traces, marked, Grid(*size), theme, axes, viewport).draw(head)


def trace_of(series: Series, curves: Curves, snapshot: RunSnapshot, x_axis: XAxis) -> Trace:
    """Return the trace of a run's metric, with its value in the newest update."""
    newest = getattr(snapshot.update, series.metric, math.nan) * metric_scale(series.metric)
    return Trace(series, curves.curve(series.metric), curves.positions.get(x_axis, ()), newest)


def ghost_traces(chart: Chart, ghost: Curves, viewport: Viewport) -> list[Trace]:
    """Return the trace of another run's first series; none where it has no update or the caller supplies traces."""
    positions, series = ghost.positions.get(viewport.x_axis, ()), chart.series[0]
    if not positions or not series.metric:
        return []
    return [Trace(replace(series, role="ghost", dash=1, raw=False), ghost.curve(series.metric), positions)]


def legend(
    chart: Chart, traces: Sequence[Trace], marks: Sequence[Mark], reference: float, width: int, viewport: Viewport
) -> list[Span]:
    """Return label and value of each trace, as many as fit into ``width`` cells: the newest, or at the crosshair.

    Values at the crosshair are not smoothed.

    Units are omitted unless all entries fit with them; the first entry that does not fit is reduced to its label, if
    that fits.
    """
    entries: list[tuple[str, str, str, str]] = []
    for trace in traces:
        values = trace.smoothed(viewport.span) if viewport.crosshair is None else trace.curve.mean
        at = len(values) - 1 if viewport.crosshair is None else trace.nearest_bucket(viewport.crosshair)
        value = values[at] if 0 <= at < len(values) else math.nan
        if viewport.crosshair is None and math.isfinite(trace.newest):
            value = trace.newest
        series = trace.series
        unit = f" {series.shown_unit}" if series.shown_unit and math.isfinite(value) else ""
        entries.append((series.label, series.value_text(value, chart.format_value), unit, series.role))
    if reference > 0:
        entries.insert(1, (chart.reference_label, axis_label(reference, reference), "", "rule"))
    if marks and chart.marks_label and viewport.crosshair is None:
        entries.insert(1, (marks[-1].label or chart.marks_label, chart.format_value(marks[-1].value), "", "mark"))
    has_units = sum(len(f"{label} {value}{unit}{GAP}") for label, value, unit, _ in entries) - len(GAP) <= width
    spans: list[Span] = []
    for label, number, unit, role in entries:
        value = number + unit if has_units else number
        if len(label) + 1 + len(value) > width:
            spans += [(label, role)] if len(label) <= width else []
            break
        width -= len(label) + 1 + len(value) + len(GAP)
        spans += [(f"{label} ", "dim"), (value, role), (GAP, "")]
    return spans


def _visible_values(trace: Trace, window: Range, span: float) -> list[float]:
    """Return the finite values the vertical axis must show: means in the window, and the end of the smoothed curve."""
    buckets = trace.buckets_in(window)
    values = [*trace.curve.mean[buckets.start : buckets.stop], *list(trace.smoothed(span)[: buckets.stop][-1:])]
    return [value for value in values if math.isfinite(value)]


@dataclass
class _Drawing:
    """One chart on a grid; ``axes`` carries the ranges from one picture to the next."""

    chart: Chart
    traces: Sequence[Trace]
    marked: Sequence[RunMarks]
    grid: Grid
    theme: Theme
    axes: AxisState
    viewport: Viewport
    reference: float = 0.0
    behind: Sequence[Trace] = ()
    joined: bool = False

    def draw(self, head: Sequence[Span]) -> Grid:
        """Return the grid with the legend ``head`` above the plot."""
        self.marked = [run for run in self.marked if run.marks]
        self.grid.spans(0, 0, head)
        if not self.marked and not any(trace.positions for trace in self.traces):
            return self.grid.centre([self.axes.empty_text])
        self._update_axes()
        if plot := self._draw_axes():
            self._draw_curves(plot)
            for run in self.marked:
                left = self.axes.columns[0]
                draw_marks(self.grid, plot, run, self.theme, self.viewport.x_axis, left, len(self.marked))
        return self.grid

    def _update_axes(self) -> None:
        """Adjust the ranges to data that have left them, or to another viewport."""
        axes, viewport = self.axes, self.viewport
        if axes.viewport.without_crosshair() != viewport.without_crosshair():
            end = axes.end if axes.viewport.x_axis == viewport.x_axis else 0.0
            axes.left, axes.right, axes.end = None, None, end
        axes.viewport = viewport
        ends = [run.end(viewport.x_axis) for run in self.marked if run.role != "ghost"]
        axes.newest = max([0.0, *ends, *(trace.positions[-1] for trace in self.traces if trace.positions)])
        axes.end = stable_end(axes.end, axes.newest, time=viewport.x_axis == "time")
        (axes.left, log_left), (axes.right, log_right) = self._range(right=False), self._range(right=True)
        axes.log = log_left, log_right

    def _range(self, *, right: bool) -> tuple[Range | None, bool]:
        """Return the range of a vertical axis, None for one without curves, and whether it is logarithmic."""
        axes, viewport, bounds = self.axes, self.viewport, None if right else self.chart.bounds
        own = [trace for trace in (*self.traces, *self.behind) if trace.series.right == right]
        values = [_visible_values(trace, viewport.visible_range(axes.end), viewport.span) for trace in own]
        if bounds:
            edges = [edge for run in self.marked for mark in run.marks for edge in (mark.value, mark.high)]
            shown = [*filter(math.isfinite, edges), *(v for finite in values for v in finite)]
            ends = (bounds[0] + share * (bounds[1] - bounds[0]) for share in BOUNDED_ENDS)
            return (bounds[0], next((end for end in ends if shown and max(shown) <= end), bounds[1])), False
        smallest = min((v for finite in values for v in finite), default=0.0)
        log = viewport.log and smallest > 0
        ranges = [data_range([math.log10(v) for v in finite] if log else finite) for finite in values]
        found = [r for r in ranges if r is not None]
        before = axes.right if right else axes.left
        if not found:
            return before or ((0.0, 1.0) if own else None), log
        low, high = min(r[0] for r in found), max(r[1] for r in found)
        if not right and not log and 0 < self.reference <= REFERENCE_REACH * max(high, EPSILON):
            low, high = min(low, self.reference), max(high, self.reference)
        signed = log or any(trace.series.signed for trace in own)
        counts = not log and all(trace.series.is_count for trace in own)
        return stable_range(before, low, high, signed=signed, whole=counts), log

    def _draw_axes(self) -> Plot | None:
        """Draw the axes and return the plot of the left one; None where it would be smaller than ``MIN_PLOT``."""
        grid, axes = self.grid, self.axes
        has_right_axis = axes.right is not None and grid.width >= 3 * LABEL_WIDTH + MIN_PLOT[0]
        left, right = LABEL_WIDTH + 1, grid.width - (LABEL_WIDTH + 1 if has_right_axis else 0)
        wide, high = right - left, grid.height - 2
        axes.columns = (left, right)
        if wide < MIN_PLOT[0] or high < MIN_PLOT[1]:
            axes.columns = (0, 0)
            return None
        self._draw_y_labels(high, has_right_axis)
        self._draw_x_labels()
        window = self.viewport.visible_range(axes.end)
        return Plot(Canvas(wide, high, self.theme.glyphs), window, axes.left or (0.0, 1.0), axes.log[0])

    def _draw_y_labels(self, high: int, has_right_axis: bool) -> None:
        """Draw the labels of the vertical axes: both ends and, where rows allow, the middle or the quarters.

        The labels of counts are whole numbers.
        """
        axes, (left, right), is_share = self.axes, self.axes.columns, self.chart.format_value is percent
        most = next(n for smallest, n in Y_LABEL_DIVISIONS if high >= smallest)
        right_role = next((trace.series.role for trace in self.traces if trace.series.right), "dim")
        for bounds, is_right in ((axes.left, False), (axes.right if has_right_axis else None, True)):
            if bounds is None:
                continue
            span, below = bounds[1] - bounds[0], ""
            own = [trace.series for trace in self.traces if trace.series.right == is_right]
            counts = not axes.log[is_right] and all(series.is_count for series in own)
            parts = divisions(bounds, most, whole=counts)
            for share in (i / parts for i in range(parts + 1)):
                row = 1 + round((1.0 - share) * (high - 1))
                value = bounds[0] + share * span
                label = log_label(10.0**value) if axes.log[is_right] else axis_label(value, span)
                label = percent(value) if is_share else label
                if label == below:
                    continue  # rounds to the same label as the one below
                below = label
                if is_right:
                    self.grid.put(right + 1, row, label, right_role)
                else:
                    self.grid.right(left - 1, row, label, self.traces[0].series.role if has_right_axis else "dim")

    def _draw_x_labels(self) -> None:
        """Draw the labels of the horizontal axis: both ends, and the position of the crosshair."""
        grid, viewport, (left, right) = self.grid, self.viewport, self.axes.columns
        row = grid.height - 1
        low, high = viewport.visible_range(self.axes.end)
        grid.put(left, row, position_label(low, viewport, unit=False), "dim")
        room = right - left - 2
        end = next(
            (text for unit in (True, False) if len(text := position_label(high, viewport, unit=unit)) <= room), ""
        )
        grid.right(right, row, end, "dim")
        if viewport.crosshair is not None:
            text = position_label(viewport.crosshair, viewport, unit=False)
            at = left + round((viewport.crosshair - low) / (high - low) * (right - left)) - len(text) // 2
            first = left + len(position_label(low, viewport, unit=False)) + 1
            at = max(first, min(at, right - len(end) - len(text) - 1))
            if at + len(text) < right - len(end):
                grid.put(at, row, text, "key")

    def _draw_curves(self, plot: Plot) -> None:
        """Draw value ranges, reference line, curves and crosshair; joined marks on top, then the first curve."""
        axes, viewport, reference = self.axes, self.viewport, self.reference
        joined = self.marked if self.joined else ()
        right_plot = Plot(plot.canvas, plot.window, axes.right or (0.0, 1.0), axes.log[1])
        for run in joined[-1:]:
            draw_band(plot, run, viewport.x_axis)
        for trace in (*self.traces, *self.behind):
            if trace.series.raw and viewport.span > 1:
                draw_spread(right_plot if trace.series.right else plot, trace)
        height = math.log10(reference) if plot.log and reference > 0 else reference
        if reference > 0 and plot.vertical[0] <= height <= plot.vertical[1]:
            draw_reference(plot, reference)
        for trace in reversed([*self.traces, *self.behind]):
            draw_trace(right_plot if trace.series.right else plot, trace, viewport.span, dashed=not self.theme.colour)
        for run in joined:
            draw_joined(plot, run, viewport.x_axis)
        if viewport.crosshair is not None:
            draw_crosshair(plot, viewport.crosshair)
        left = axes.columns[0]
        for x, y, char, role in plot.canvas.cells():
            self.grid.put(left + x, 1 + y, char, role)


def position_label(value: float, viewport: Viewport, *, unit: bool = True) -> str:
    if viewport.x_axis == "time":
        return duration(value) if value or unit else "0"
    number = count(value)
    return f"{number} {viewport.x_axis.removesuffix('s') if number == '1' else viewport.x_axis}" if unit else number
