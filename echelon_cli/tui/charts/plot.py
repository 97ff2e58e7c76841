"""Curves on a canvas of dots: where values lie, how they are joined, what lies behind them.

A ``Trace`` is one curve with its places; a chart has strands of one run or of several. Ranges, labels and legends are
the business of ``charts``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from echelon_cli.tui.charts.axis import Range
from echelon_cli.tui.charts.canvas import Canvas
from echelon_cli.tui.charts.curves import DEFAULT_SMOOTHING, Curve, Curves, Values, XAxis, smooth
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid

INTERVALS_FROM = 6
"""Columns a mark has, on average, from which all intervals are drawn; in fewer they would be a fence."""

REFERENCE_GAP = 3
"""A reference line is a dot in so many columns."""

LOG_FLOOR = 1e-12
"""Smaller values are drawn as this on a logarithmic axis."""


COLUMN_CACHE_SIZE = 32
"""Divisions of an axis into columns that are remembered."""

Columns = tuple[tuple[int, int, int], ...]
"""Column of dots, first bucket in it, and the one after the last."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One curve of a chart, of one run."""

    label: str
    role: str
    curve: Curve
    places: Values
    """Position of each bucket on the horizontal axis."""
    right: bool = False
    dash: int = 0
    raw: bool = True
    text: Callable[[float], str] | None = None
    """How its values are written, where not as the chart says."""
    newest: float = math.nan
    """The value of the newest update, as everything else on the screen shows it; not a number while unknown."""

    def line(self, span: float) -> Sequence[float]:
        """Return the values averaged over ``span`` buckets."""
        return self.curve.smooth if span == DEFAULT_SMOOTHING else smooth(self.curve.mean, span)

    def inside(self, window: Range) -> range:
        """Return the buckets whose places lie in a window."""
        found = [i for i, place in enumerate(self.places) if window[0] <= place <= window[1]]
        return range(found[0], found[-1] + 1) if found else range(0)

    def at(self, place: float) -> int:
        """Return the bucket nearest to a place, -1 where there is none."""
        return min(range(len(self.places)), key=lambda i: abs(self.places[i] - place), default=-1)


@dataclass(frozen=True)
class Mark:
    """A value that was measured once, with its interval; not a number where it has none."""

    update: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Plot:
    """Places of values on a canvas; a logarithmic one has its vertical range in powers of ten."""

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
    """Draw the averaged curve: the mean of what falls into a column, joined with straight lines."""
    layer = plot.canvas.layer(trace.role, equal=True)
    values, points = trace.line(span), []
    for x, first, after in columns(plot, trace.places):
        value = sum(values[first:after]) / (after - first)
        if math.isfinite(value):
            points.append((x, plot.y(value)))
    wide = plot.canvas.width
    for (x1, y1), (x2, y2) in zip(points, points[1:] or points, strict=False):
        if x2 >= 0 and x1 < wide:
            layer.line(x1, y1, x2, y2, dash=trace.dash if dashed else 0)


def draw_spread(plot: Plot, trace: Trace) -> None:
    """Draw the values as they were, from the smallest to the largest of each column."""
    layer = plot.canvas.layer("ghost", alone=True)
    curve = trace.curve
    for x, first, after in columns(plot, trace.places):
        low, high = min(curve.low[first:after]), max(curve.high[first:after])
        if math.isfinite(low) and math.isfinite(high):
            layer.vertical(x, plot.y(high), plot.y(low))


def draw_reference(plot: Plot, height: float) -> None:
    """Draw a dotted line at a height."""
    plot.canvas.layer("rule").horizontal(plot.y(height), REFERENCE_GAP)


def draw_crosshair(plot: Plot, place: float) -> None:
    """Draw the crosshair over everything."""
    plot.canvas.layer("key").vertical(plot.x(place), 0, plot.canvas.height - 1)


def columns(plot: Plot, places: Sequence[float]) -> Columns:
    """Return each column of dots with the half-open run of buckets that falls into it."""
    return _columns(tuple(places), plot.window, plot.canvas.width)


@lru_cache(COLUMN_CACHE_SIZE)
def _columns(places: Values, window: Range, width: int) -> Columns:
    """The same; curves of one run share it, as do charts of one width."""
    low, high = window
    scale = width / (high - low) if high > low else 0.0
    found: list[tuple[int, int, int]] = []
    for i, place in enumerate(places):
        x = math.floor((place - low) * scale)
        if place <= high and x >= width:
            x = width - 1
        if found and found[-1][0] == x:
            found[-1] = (x, found[-1][1], i + 1)
        else:
            found.append((x, i, i + 1))
    return tuple(found)


def draw_marks(
    grid: Grid, plot: Plot, curves: Curves, marks: Iterable[Mark], theme: Theme, x_axis: XAxis, left: int
) -> None:
    """Draw each mark at its place, with its interval as a thin line; only that of the newest where marks are dense."""
    canvas = plot.canvas
    placed = [(curves.position(mark.update, x_axis), mark) for mark in marks]
    seen = [(left + plot.x(p) // canvas.columns, m) for p, m in placed if plot.window[0] <= p <= plot.window[1]]
    last = canvas.height // canvas.rows - 1
    dense = len(seen) * INTERVALS_FROM > canvas.cells_wide
    for x, mark in seen[-1:] if dense else seen:
        if math.isfinite(mark.low) and math.isfinite(mark.high):
            top, bottom = (plot.y(edge) // canvas.rows for edge in (mark.high, mark.low))
            for row in range(max(0, top), min(last, bottom) + 1):
                if grid.roles[1 + row][x] in ("", "ghost"):
                    grid.put(x, 1 + row, theme.symbols.vertical, "dim")
    for x, mark in seen:
        row = plot.y(mark.value) // canvas.rows
        if 0 <= row <= last:
            grid.put(x, 1 + row, theme.symbols.mark, "mark")
