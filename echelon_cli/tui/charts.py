"""Charts: curves of a run over steps, time or episodes, drawn into a grid of cells.

``draw_chart`` is a pure function of data and size, but for the ranges it holds still from one picture to the next,
which live in ``Held``. A chart is a row of a table: a ``Chart`` names series, reference line and format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from echelon.telemetry.events import EventEval
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.axis import TINY, Range, data_range, hold_end, hold_range
from echelon_cli.tui.canvas import Canvas
from echelon_cli.tui.cells import Grid, Span, fit
from echelon_cli.tui.curves import Along, Curve, Curves
from echelon_cli.tui.format import LABEL_WIDTH, axis_label, count, duration, measured
from echelon_cli.tui.look import Look

REFERENCE_GAP = 3
"""A reference line is a dot in so many columns."""

REFERENCE_REACH = 4.0
"""A reference line further away than so many times the largest value is named, but not drawn."""

LABELLED = ((17, 4), (6, 2), (0, 1))
"""Parts that labels divide a vertical range into, by the rows from which it holds."""

LEAST_PLOT = (8, 2)
"""Columns and rows below which only the figures are shown."""

GAP = "  "


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
    evaluations: bool = False
    """Whether evaluations are marked with their intervals."""


@dataclass
class Held:
    """Ranges that stay as they are until the data leave them."""

    left: Range | None = None
    right: Range | None = None
    end: float = 0.0
    along: Along | None = None
    run: str = ""


@dataclass(frozen=True)
class _Plot:
    """Places of values on a canvas."""

    canvas: Canvas
    end: float
    vertical: Range

    def x(self, value: float) -> int:
        return min(self.canvas.width - 1, int(value / self.end * self.canvas.width)) if self.end > 0 else 0

    def y(self, value: float) -> int:
        low, high = self.vertical
        return round((high - value) / (high - low) * (self.canvas.height - 1))


def draw_chart(
    chart: Chart,
    curves: Curves,
    snapshot: RunSnapshot,
    size: tuple[int, int],
    look: Look,
    held: Held,
    along: Along = "steps",
) -> Grid:
    """Return the chart in ``size`` cells; ``held`` keeps its ranges for the next call."""
    grid = Grid(*size)
    reference = chart.reference(snapshot) if chart.reference else 0.0
    grid.spans(0, 0, legend(chart, curves, snapshot, reference, grid.width))
    if not curves.updates and not (chart.evaluations and snapshot.evals):
        message = "no update yet"
        grid.put(max(0, (grid.width - len(message)) // 2), grid.height // 2, message, "dim")
        return grid
    if held.along != along:
        held.along, held.end = along, 0.0
    _hold(chart, curves, snapshot, reference, held, along)
    two_sided = held.right is not None and grid.width >= 3 * LABEL_WIDTH + LEAST_PLOT[0]
    left, right = LABEL_WIDTH + 1, grid.width - (LABEL_WIDTH + 1 if two_sided else 0)
    wide, high = right - left, grid.height - 2
    if wide < LEAST_PLOT[0] or high < LEAST_PLOT[1]:
        return grid
    _labels(grid, chart, held, (left, right), high, two_sided)
    _ends(grid, held, along, left, right)
    canvas = Canvas(wide, high, look.detail)
    _curves(canvas, chart, curves, reference, held, along, look.colour)
    for x, y, char, role in canvas.cells():
        grid.put(left + x, 1 + y, char, role)
    if chart.evaluations and held.left:
        _marks(grid, _Plot(canvas, held.end, held.left), curves, snapshot.evals, look, along, left)
    return grid


def legend(chart: Chart, curves: Curves, snapshot: RunSnapshot, reference: float, width: int) -> list[Span]:
    """Return the figures above the curves: series, reference line and evaluation, as many as fit whole."""
    entries: list[tuple[str, str, str]] = []
    for series in chart.series:
        values = curves.curve(series.metric).smooth
        entries.append((series.label, chart.text(values[-1] if values else math.nan), series.role))
    if reference > 0:
        entries.insert(1, (chart.reference_label, axis_label(reference, reference), "rule"))
    if chart.evaluations and snapshot.evals:
        entries.insert(1, ("eval", chart.text(snapshot.evals[-1].win_rate), "mark"))
    spans: list[Span] = []
    for label, value, role in entries:
        width -= len(label) + 1 + len(value)
        if width < 0:
            break
        width -= len(GAP)
        spans += [(f"{label} ", "dim"), (value, role), (GAP, "")]
    return spans


def _hold(
    chart: Chart,
    curves: Curves,
    snapshot: RunSnapshot,
    reference: float,
    held: Held,
    along: Along,
) -> None:
    """Move the held ranges where the data have left them."""
    places = curves.along.get(along, ())
    furthest = places[-1] if places else 0.0
    if chart.evaluations and snapshot.evals:
        furthest = max(furthest, curves.position(snapshot.evals[-1].update, along))
    held.end = hold_end(held.end, furthest, time=along == "time")
    for right in (False, True):
        mine = [s for s in chart.series if s.right == right]
        ranges = [data_range(curves.curve(s.metric).mean) for s in mine]
        ranges += [data_range(curves.curve(s.metric).smooth[-1:]) for s in mine]
        found = [r for r in ranges if r is not None]
        before = held.right if right else held.left
        if not found:
            after = before or ((0.0, 1.0) if mine else None)
        else:
            low, high = min(r[0] for r in found), max(r[1] for r in found)
            if not right and 0 < reference <= REFERENCE_REACH * max(high, TINY):
                low, high = min(low, reference), max(high, reference)
            after = hold_range(before, low, high)
        if right:
            held.right = after
        else:
            held.left = chart.bounds or after


def _labels(grid: Grid, chart: Chart, held: Held, sides: tuple[int, int], high: int, two_sided: bool) -> None:
    """Write the ends and, where there is room, the middle or the quarters of the vertical ranges."""
    left, right = sides
    parts = next(n for least, n in LABELLED if high >= least)
    right_role = next((s.role for s in chart.series if s.right), "dim")
    for bounds, is_right in ((held.left, False), (held.right if two_sided else None, True)):
        if bounds is None:
            continue
        span, below = bounds[1] - bounds[0], ""
        for share in (i / parts for i in range(parts + 1)):
            row = 1 + round((1.0 - share) * (high - 1))
            label = axis_label(bounds[0] + share * span, span)
            if label == below:
                continue  # too close together to be told apart in so few characters
            below = label
            if is_right:
                grid.put(right + 1, row, label, right_role)
            else:
                grid.right(left - 1, row, label, chart.series[0].role if two_sided else "dim")


def _ends(grid: Grid, held: Held, along: Along, left: int, right: int) -> None:
    """Write the ends of the horizontal axis."""
    end = duration(held.end) if along == "time" else f"{count(held.end)} {along}"
    grid.put(left, grid.height - 1, "0", "dim")
    grid.right(right, grid.height - 1, fit(end, right - left - 2), "dim")


def _curves(
    canvas: Canvas,
    chart: Chart,
    curves: Curves,
    reference: float,
    held: Held,
    along: Along,
    coloured: bool,
) -> None:
    plots = {
        s.metric: _Plot(canvas, held.end, (held.right if s.right else held.left) or (0.0, 1.0)) for s in chart.series
    }
    edges = _edges([_Plot(canvas, held.end, (0.0, 1.0)).x(place) for place in curves.along.get(along, ())])
    for series in chart.series:
        if series.raw:
            _raw(plots[series.metric], curves.curve(series.metric), edges)
    if reference > 0 and held.left and held.left[0] <= reference <= held.left[1]:
        canvas.layer("rule").horizontal(_Plot(canvas, held.end, held.left).y(reference), REFERENCE_GAP)
    for series in reversed(chart.series):
        dash = 0 if coloured else series.dash
        _line(plots[series.metric], series.role, curves.curve(series.metric).smooth, edges, dash)


def _edges(columns: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return each column of dots with the half-open run of buckets that falls into it."""
    found: list[tuple[int, int, int]] = []
    for i, x in enumerate(columns):
        if found and found[-1][0] == x:
            found[-1] = (x, found[-1][1], i + 1)
        else:
            found.append((x, i, i + 1))
    return found


def _raw(plot: _Plot, curve: Curve, edges: Sequence[tuple[int, int, int]]) -> None:
    """Draw the spread of the values as they were."""
    layer = plot.canvas.layer("ghost", alone=True)
    for x, first, after in edges:
        low, high = min(curve.low[first:after]), max(curve.high[first:after])
        if math.isfinite(low) and math.isfinite(high):
            layer.vertical(x, plot.y(high), plot.y(low))


def _line(plot: _Plot, role: str, values: Sequence[float], edges: Sequence[tuple[int, int, int]], dash: int) -> None:
    """Draw the smoothed curve: the mean of what falls into a column, joined with straight lines."""
    layer = plot.canvas.layer(role)
    points: list[tuple[int, int]] = []
    for x, first, after in edges:
        value = sum(values[first:after]) / (after - first)
        if math.isfinite(value):
            points.append((x, plot.y(value)))
    for (x1, y1), (x2, y2) in zip(points, points[1:] or points, strict=False):
        layer.line(x1, y1, x2, y2, dash=dash)


def _marks(
    grid: Grid, plot: _Plot, curves: Curves, evals: Iterable[EventEval], look: Look, along: Along, left: int
) -> None:
    """Mark each evaluation at its place, with its interval as a thin line."""
    canvas = plot.canvas
    for event in evals:
        x = left + plot.x(curves.position(event.update, along)) // canvas.columns
        if math.isfinite(event.win_low) and math.isfinite(event.win_high):
            for row in range(plot.y(event.win_high) // canvas.rows, plot.y(event.win_low) // canvas.rows + 1):
                if grid.roles[1 + row][x] in ("", "ghost"):
                    grid.put(x, 1 + row, look.symbols.vertical, "dim")
    for event in evals:
        x = left + plot.x(curves.position(event.update, along)) // canvas.columns
        grid.put(x, 1 + plot.y(event.win_rate) // canvas.rows, look.symbols.mark, "mark")
