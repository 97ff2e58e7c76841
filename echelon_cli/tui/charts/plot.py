"""Traces, marks and reference lines on a canvas of dots; axes, labels and legends belong to ``chart``."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from echelon_cli.tui.charts.axis import Range
from echelon_cli.tui.charts.canvas import Canvas
from echelon_cli.tui.charts.curves import (
    COUNTS,
    DEFAULT_SMOOTHING,
    METRICS,
    Curve,
    Curves,
    Values,
    XAxis,
    metric_unit,
    smooth,
)
from echelon_cli.tui.format import integer_text
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid

INTERVALS_FROM = 6
"""Average columns per mark from which all intervals are drawn; denser ones would cover the curves."""

REFERENCE_GAP = 3
"""Dot columns per dot of a reference line."""

GHOST_DASH = 2
"""Dot columns per dash of the joined marks of another run."""

LOG_FLOOR = 1e-12
"""Smaller values are clamped to this on a logarithmic axis."""


COLUMN_CACHE_SIZE = 32

Columns = tuple[tuple[int, int, int], ...]
"""Dot column, its first bucket, and the bucket after its last."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One curve of a chart: a numeric field of an update, or an empty metric where the caller supplies the traces."""

    metric: str
    label: str
    role: str = "series1"
    right: bool = False
    dash: int = 0
    """Dot columns per dash where curves have no colours; 0 for a solid line."""
    raw: bool = True
    """Whether the range of the unsmoothed values is drawn behind the curve."""
    format_value: Callable[[float], str] | None = None
    """Format of its values; None takes ``integer_text`` for a count and that of the chart for other metrics."""
    unit: str | None = None
    """Unit after its value in the legend; None takes that of the metric's suffix (``curves.UNITS``)."""
    smooth: bool = True
    """Whether the curve is smoothed; a schedule or a running mean is not."""
    signed: bool = False
    """Whether values may be negative: an axis of zeros alone then ends at -1 and 1, otherwise at 0 and 1."""

    def __post_init__(self) -> None:
        if self.metric and self.metric not in METRICS:
            raise ValueError(
                f"series {self.label!r} has metric {self.metric!r}, expected a numeric field of "
                f"echelon.telemetry.events.EventUpdate: {', '.join(METRICS)}"
            )

    @property
    def is_count(self) -> bool:
        return self.metric in COUNTS

    @property
    def shown_unit(self) -> str:
        return metric_unit(self.metric) if self.unit is None else self.unit

    def value_text(self, value: float, format_other: Callable[[float], str]) -> str:
        """Return a value in the format of the series, of counts, or else in that of the chart."""
        return (self.format_value or (integer_text if self.is_count else format_other))(value)


@dataclass(frozen=True)
class Trace:
    """One curve to draw: a metric of one run, with its position on the horizontal axis."""

    series: Series
    curve: Curve
    positions: Values
    newest: float = math.nan
    """Value of the newest update, unsmoothed, as the header shows it; NaN if unknown."""

    def smoothed(self, span: float) -> Sequence[float]:
        if not self.series.smooth:
            return self.curve.mean
        return self.curve.smooth if span == DEFAULT_SMOOTHING else smooth(self.curve.mean, span)

    def buckets_in(self, window: Range) -> range:
        inside = [i for i, position in enumerate(self.positions) if window[0] <= position <= window[1]]
        return range(inside[0], inside[-1] + 1) if inside else range(0)

    def nearest_bucket(self, position: float) -> int:
        """Return the bucket nearest to a position; -1 without buckets."""
        return min(range(len(self.positions)), key=lambda i: abs(self.positions[i] - position), default=-1)


@dataclass(frozen=True)
class Mark:
    """A value measured at one update, with its interval; ``low`` and ``high`` are NaN without one."""

    update: int
    value: float
    low: float
    high: float
    label: str = ""
    """Legend label instead of that of the chart."""


@dataclass(frozen=True, kw_only=True)
class RunMarks:
    """The marks of one of several runs in a chart."""

    label: str
    """Mark of the run in a theme without colour."""
    role: str
    curves: Curves
    marks: Sequence[Mark]

    def symbol(self, theme: Theme) -> str:
        return theme.symbols.mark if theme.colour else self.label or theme.symbols.mark

    def points(self, plot: "Plot", x_axis: XAxis) -> list[tuple[int, float, float, float]]:
        """Return dot column, value and interval of each mark."""
        return [
            (plot.x(self.curves.position(mark.update, x_axis)), mark.value, mark.low, mark.high) for mark in self.marks
        ]

    def end(self, x_axis: XAxis) -> float:
        """Return the position of the newest mark on the horizontal axis, 0 without marks."""
        return self.curves.position(self.marks[-1].update, x_axis) if self.marks else 0.0


@dataclass(frozen=True)
class Plot:
    """The mapping of values to dots of a canvas; a logarithmic one has its vertical range in powers of ten."""

    canvas: Canvas
    window: Range
    vertical: Range
    log: bool = False

    def x(self, value: float) -> int:
        low, high = self.window
        if high <= low:
            return 0
        x = math.floor((value - low) / (high - low) * self.canvas.width)
        return min(self.canvas.width - 1, x) if value <= high else x

    def y(self, value: float) -> int:
        low, high = self.vertical
        if self.log:
            value = math.log10(max(value, LOG_FLOOR))
        return round((high - value) / (high - low) * (self.canvas.height - 1))


def draw_trace(plot: Plot, trace: Trace, span: float, *, dashed: bool) -> None:
    """Draw the smoothed curve: the mean of each dot column's buckets, joined by straight lines."""
    layer = plot.canvas.layer(trace.series.role, alternates=True)
    values, points = trace.smoothed(span), []
    for x, first, after in columns(plot, trace.positions):
        value = sum(values[first:after]) / (after - first)
        if math.isfinite(value):
            points.append((x, plot.y(value)))
    wide = plot.canvas.width
    for (x1, y1), (x2, y2) in zip(points, points[1:] or points, strict=False):
        if x2 >= 0 and x1 < wide:
            layer.line(x1, y1, x2, y2, dash=trace.series.dash if dashed else 0)


def draw_spread(plot: Plot, trace: Trace) -> None:
    """Draw the range of the unsmoothed values in each dot column."""
    layer = plot.canvas.layer("ghost", is_background=True)
    curve = trace.curve
    for x, first, after in columns(plot, trace.positions):
        low, high = min(curve.low[first:after]), max(curve.high[first:after])
        if math.isfinite(low) and math.isfinite(high):
            layer.vertical(x, plot.y(high), plot.y(low))


def draw_band(plot: Plot, run: RunMarks, x_axis: XAxis) -> None:
    """Draw the band between the intervals of marks, straight from one to the next."""
    layer = plot.canvas.layer("ghost", is_background=True)
    for edges in pairwise(run.points(plot, x_axis)):
        (x1, _, low1, high1), (x2, _, low2, high2) = edges
        for x in range(max(0, x1), min(plot.canvas.width - 1, x2) + 1):
            share = (x - x1) / max(1, x2 - x1)
            low, high = (a + (b - a) * share for a, b in ((low1, low2), (high1, high2)))
            if math.isfinite(low) and math.isfinite(high):
                layer.vertical(x, plot.y(high), plot.y(low))


def draw_joined(plot: Plot, run: RunMarks, x_axis: XAxis) -> None:
    """Draw straight lines from mark to mark."""
    layer = plot.canvas.layer(run.role)
    for (x1, value1, *_), (x2, value2, *_) in pairwise(run.points(plot, x_axis)):
        layer.line(x1, plot.y(value1), x2, plot.y(value2), dash=GHOST_DASH if run.role == "ghost" else 0)


def draw_reference(plot: Plot, height: float) -> None:
    plot.canvas.layer("rule").horizontal(plot.y(height), REFERENCE_GAP)


def draw_crosshair(plot: Plot, position: float) -> None:
    plot.canvas.layer("key").vertical(plot.x(position), 0, plot.canvas.height - 1)


def columns(plot: Plot, positions: Sequence[float]) -> Columns:
    """Return for each dot column the half-open range of buckets that falls into it."""
    return _columns(tuple(positions), plot.window, plot.canvas.width)


@lru_cache(COLUMN_CACHE_SIZE)
def _columns(positions: Values, window: Range, width: int) -> Columns:
    """Cached: the curves of a run share the assignment, and so do charts of equal width."""
    low, high = window
    scale = width / (high - low) if high > low else 0.0
    found: list[tuple[int, int, int]] = []
    for i, position in enumerate(positions):
        x = math.floor((position - low) * scale)
        if position <= high and x >= width:
            x = width - 1
        if found and found[-1][0] == x:
            found[-1] = (x, found[-1][1], i + 1)
        else:
            found.append((x, i, i + 1))
    return tuple(found)


def draw_marks(grid: Grid, plot: Plot, run: RunMarks, theme: Theme, x_axis: XAxis, left: int, runs: int) -> None:
    """Draw each mark of a run with its interval as a thin line; where marks are dense, only the newest interval.

    ``runs`` is the number of runs whose marks share the plot.
    """
    canvas = plot.canvas
    positioned = [(run.curves.position(mark.update, x_axis), mark) for mark in run.marks]
    visible = [(left + plot.x(p) // canvas.columns, m) for p, m in positioned if plot.window[0] <= p <= plot.window[1]]
    last = canvas.height // canvas.rows - 1
    dense = len(visible) * runs * INTERVALS_FROM > canvas.cells_wide
    for x, mark in visible[-1:] if dense else visible:
        if math.isfinite(mark.low) and math.isfinite(mark.high):
            top, bottom = (plot.y(edge) // canvas.rows for edge in (mark.high, mark.low))
            for row in range(max(0, top), min(last, bottom) + 1):
                if grid.roles[1 + row][x] in ("", "ghost"):
                    grid.put(x, 1 + row, theme.symbols.vertical, "dim")
    for x, mark in visible:
        row = plot.y(mark.value) // canvas.rows
        if 0 <= row <= last:
            grid.put(x, 1 + row, run.symbol(theme), run.role)
