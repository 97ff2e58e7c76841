"""Charts: curves of a run over steps, time or episodes, or of several runs over each other, drawn into a grid of cells.

``draw_chart`` and ``draw_overlay`` are pure functions of data and size, but for the ranges they hold still from one
picture to the next, which live in ``Held``. A chart is a row of a table: a ``Chart`` names series, reference line and
format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.charts.axis import TINY, Range, data_range, hold_end, hold_range
from echelon_cli.tui.charts.canvas import Canvas
from echelon_cli.tui.charts.curves import UNITS, Curves
from echelon_cli.tui.charts.plot import (
    Mark,
    Plot,
    Strand,
    draw_cross,
    draw_marks,
    draw_reference,
    draw_spread,
    draw_strand,
)
from echelon_cli.tui.charts.viewport import PLAIN, Sight
from echelon_cli.tui.format import LABEL_WIDTH, axis_label, count, duration, log_label, measured
from echelon_cli.tui.theme import Look
from echelon_cli.tui.widgets.cells import Grid, Span

REFERENCE_REACH = 4.0
"""A reference line further away than so many times the largest value is named, but not drawn."""

LABELLED = ((17, 4), (6, 2), (0, 1))
"""Parts that labels divide a vertical range into, by the rows from which it holds."""

LEAST_PLOT = (8, 2)
"""Columns and rows below which only the figures are shown."""

GAP = "  "

NOTHING_YET = "no update yet"


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
class Held:
    """Ranges that stay as they are until the data leave them, and where the curves stand."""

    left: Range | None = None
    right: Range | None = None
    end: float = 0.0
    newest: float = 0.0
    """Place of the newest values on the horizontal axis."""
    sight: Sight = field(default_factory=Sight)
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
        low, high = self.sight.shown(self.end)
        return low + (x - first + 0.5) / (after - first) * (high - low)


def draw_chart(
    chart: Chart,
    curves: Curves,
    snapshot: RunSnapshot,
    size: tuple[int, int],
    look: Look,
    held: Held,
    sight: Sight = PLAIN,
) -> Grid:
    """Return the chart of one run in ``size`` cells; ``held`` keeps its ranges for the next call."""
    grid = Grid(*size)
    reference = chart.reference(snapshot) if chart.reference else 0.0
    strands = strands_of(chart, curves, sight, snapshot)
    marks = chart.marks(snapshot) if chart.marks else ()
    grid.spans(0, 0, legend(chart, strands, marks, reference, grid.width, sight))
    if not curves.updates and not marks:
        return _say(grid, NOTHING_YET)
    furthest = curves.position(marks[-1].update, sight.along) if marks else 0.0
    _hold(chart, strands, furthest, reference, held, sight)
    plot = _frame(grid, chart, strands, look, held, sight)
    if plot is None:
        return grid
    _draw(grid, plot, strands, reference, look, held, sight)
    if marks:
        draw_marks(grid, plot, curves, marks, look, sight.along, held.columns[0])
    return grid


def draw_overlay(
    chart: Chart, strands: Sequence[Strand], size: tuple[int, int], look: Look, held: Held, sight: Sight = PLAIN
) -> Grid:
    """Return one figure of several runs over each other; the legend has their labels."""
    grid = Grid(*size)
    grid.spans(0, 0, legend(chart, strands, (), 0.0, grid.width, sight))
    if not any(strand.places for strand in strands):
        return _say(grid, NOTHING_YET)
    _hold(chart, strands, 0.0, 0.0, held, sight)
    plot = _frame(grid, chart, strands, look, held, sight)
    if plot is not None:
        _draw(grid, plot, strands, 0.0, look, held, sight)
    return grid


def strands_of(chart: Chart, curves: Curves, sight: Sight, snapshot: RunSnapshot) -> list[Strand]:
    """Return the curves of one run that a chart shows."""
    places = curves.along.get(sight.along, ())
    return [
        Strand(
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
    chart: Chart, strands: Sequence[Strand], marks: Sequence[Mark], reference: float, width: int, sight: Sight
) -> list[Span]:
    """Return the figures above the curves, as many as fit whole: the newest, or those at the crosshair.

    Of the first that does not fit, its name stands there in its colour if that does.
    """
    entries: list[tuple[str, str, str]] = []
    for strand in strands:
        values = strand.line(sight.span)
        at = len(values) - 1 if sight.cross is None else strand.at(sight.cross)
        value = values[at] if 0 <= at < len(values) else math.nan
        if sight.cross is None and math.isfinite(strand.newest):
            value = strand.newest
        entries.append((strand.label, (strand.text or chart.text)(value), strand.role))
    if reference > 0:
        entries.insert(1, (chart.reference_label, axis_label(reference, reference), "rule"))
    if marks and chart.marks_label and sight.cross is None:
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


def _hold(chart: Chart, strands: Sequence[Strand], furthest: float, reference: float, held: Held, sight: Sight) -> None:
    """Move the held ranges where the data, or those who look at them, have left them."""
    if held.sight.framing() != sight.framing():
        end = held.end if held.sight.along == sight.along else 0.0
        held.left, held.right, held.end = None, None, end
    held.sight = sight
    furthest = max([furthest, *(strand.places[-1] for strand in strands if strand.places)])
    held.newest = furthest
    held.end = hold_end(held.end, furthest, time=sight.along == "time")
    logs = []
    for right in (False, True):
        mine = [s for s in strands if s.right == right]
        values = [_values(strand, sight.shown(held.end), sight.span) for strand in mine]
        least = min((v for known in values for v in known), default=0.0)
        log = sight.log and least > 0 and not (chart.bounds and not right)
        ranges = [data_range([math.log10(v) for v in known] if log else known) for known in values]
        found = [r for r in ranges if r is not None]
        before = held.right if right else held.left
        if not found:
            after = before or ((0.0, 1.0) if mine else None)
        else:
            low, high = min(r[0] for r in found), max(r[1] for r in found)
            if not right and not log and 0 < reference <= REFERENCE_REACH * max(high, TINY):
                low, high = min(low, reference), max(high, reference)
            after = hold_range(before, low, high)
        logs.append(log)
        if right:
            held.right = after
        else:
            held.left = chart.bounds or after
    held.log = (logs[0], logs[1])


def _values(strand: Strand, window: Range, span: float) -> list[float]:
    """Return what a vertical range has to hold: every mean in the window, and where the averaged curve ends."""
    inside = strand.inside(window)
    values = [*strand.curve.mean[inside.start : inside.stop], *list(strand.line(span)[: inside.stop][-1:])]
    return [value for value in values if math.isfinite(value)]


def _frame(grid: Grid, chart: Chart, strands: Sequence[Strand], look: Look, held: Held, sight: Sight) -> Plot | None:
    """Write the axes and return the plot of the left one, None where there is no room for curves."""
    two_sided = held.right is not None and grid.width >= 3 * LABEL_WIDTH + LEAST_PLOT[0]
    left, right = LABEL_WIDTH + 1, grid.width - (LABEL_WIDTH + 1 if two_sided else 0)
    wide, high = right - left, grid.height - 2
    held.columns = (left, right)
    if wide < LEAST_PLOT[0] or high < LEAST_PLOT[1]:
        held.columns = (0, 0)
        return None
    _labels(grid, strands, held, (left, right), high, two_sided)
    _ends(grid, held, sight, left, right)
    window = sight.shown(held.end)
    return Plot(Canvas(wide, high, look.detail), window, held.left or (0.0, 1.0), held.log[0])


def _labels(
    grid: Grid, strands: Sequence[Strand], held: Held, sides: tuple[int, int], high: int, two_sided: bool
) -> None:
    """Write the ends and, where there is room, the middle or the quarters of the vertical ranges."""
    left, right = sides
    parts = next(n for least, n in LABELLED if high >= least)
    right_role = next((s.role for s in strands if s.right), "dim")
    for bounds, is_right in ((held.left, False), (held.right if two_sided else None, True)):
        if bounds is None:
            continue
        span, below = bounds[1] - bounds[0], ""
        for share in (i / parts for i in range(parts + 1)):
            row = 1 + round((1.0 - share) * (high - 1))
            value = bounds[0] + share * span
            label = log_label(10.0**value) if held.log[is_right] else axis_label(value, span)
            if label == below:
                continue  # too close together to be told apart in so few characters
            below = label
            if is_right:
                grid.put(right + 1, row, label, right_role)
            else:
                grid.right(left - 1, row, label, strands[0].role if two_sided else "dim")


def _ends(grid: Grid, held: Held, sight: Sight, left: int, right: int) -> None:
    """Write the ends of the horizontal axis, and between them where the crosshair stands."""
    row = grid.height - 1
    low, high = sight.shown(held.end)
    grid.put(left, row, position(low, sight, unit=False), "dim")
    room = right - left - 2
    end = next((text for unit in (True, False) if len(text := position(high, sight, unit=unit)) <= room), "")
    grid.right(right, row, end, "dim")
    if sight.cross is not None:
        text = position(sight.cross, sight, unit=False)
        at = left + round((sight.cross - low) / (high - low) * (right - left)) - len(text) // 2
        first = left + len(position(low, sight, unit=False)) + 1
        at = max(first, min(at, right - len(end) - len(text) - 1))
        if at + len(text) < right - len(end):
            grid.put(at, row, text, "key")


def position(value: float, sight: Sight, *, unit: bool = True) -> str:
    """Return a place on the horizontal axis in words."""
    if sight.along == "time":
        return duration(value) if value or unit else "0"
    return f"{count(value)} {sight.along}" if unit else count(value)


def _draw(
    grid: Grid, plot: Plot, strands: Sequence[Strand], reference: float, look: Look, held: Held, sight: Sight
) -> None:
    """Draw spreads, reference, curves and crosshair, the first curve over the others."""
    other = Plot(plot.canvas, plot.window, held.right or (0.0, 1.0), held.log[1])
    for strand in strands:
        if strand.raw and sight.span > 1:
            draw_spread(other if strand.right else plot, strand)
    height = math.log10(reference) if plot.log and reference > 0 else reference
    if reference > 0 and plot.vertical[0] <= height <= plot.vertical[1]:
        draw_reference(plot, reference)
    for strand in reversed(strands):
        draw_strand(other if strand.right else plot, strand, sight.span, dashed=not look.colour)
    if sight.cross is not None:
        draw_cross(plot, sight.cross)
    left = held.columns[0]
    for x, y, char, role in plot.canvas.cells():
        grid.put(left + x, 1 + y, char, role)
