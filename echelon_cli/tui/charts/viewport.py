"""How the charts of a screen are looked at: axis, window, crosshair, scale and averaging; the same for all of them.

Pure functions from one ``Viewport`` to the next. What is drawn of it belongs to ``charts``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from echelon_cli.tui.charts.axis import Range
from echelon_cli.tui.charts.curves import DEFAULT_SMOOTHING, X_AXES, XAxis

SMOOTHING_SPANS = (DEFAULT_SMOOTHING, 40.0, 1.0, 4.0)
"""Buckets that curves are averaged over, one after another; 1 is not at all."""

ZOOM_FACTOR = 2.0
"""A step of zooming shows so many times less, or more, of the axis."""

MIN_WINDOW_SHARE = 1 / 256
"""Least share of the axis that a window shows."""

PAN_STEP = 0.25
CROSSHAIR_STEP = 1 / 64
"""Shares of the window by which it and the crosshair move."""


@dataclass(frozen=True, kw_only=True)
class Viewport:
    """One way to look at charts."""

    x_axis: XAxis = "steps"
    """What the horizontal axis counts."""
    window: Range | None = None
    """Part of the axis that is shown; all of it where there is none."""
    crosshair: float | None = None
    """Place on the axis whose values are told instead of the newest."""
    log: bool = False
    """Whether vertical axes are logarithmic where all values are above 0."""
    span: float = DEFAULT_SMOOTHING

    def shown(self, end: float) -> Range:
        """Return the part of an axis from 0 to ``end`` that is seen."""
        return self.window or (0.0, end)

    def without_crosshair(self) -> Viewport:
        """Return what decides about the ranges of axes, and nothing else."""
        return replace(self, crosshair=None)


PLAIN = Viewport()
"""Everything there is, along steps."""


def next_x_axis(viewport: Viewport) -> Viewport:
    """Count something else along the axis; window and crosshair would mean another place, so they go."""
    x_axis = X_AXES[(X_AXES.index(viewport.x_axis) + 1) % len(X_AXES)]
    return replace(viewport, x_axis=x_axis, window=None, crosshair=None)


def next_smoothing(viewport: Viewport) -> Viewport:
    """Average over more or fewer values."""
    return replace(
        viewport,
        span=SMOOTHING_SPANS[(SMOOTHING_SPANS.index(viewport.span) + 1) % len(SMOOTHING_SPANS)]
        if viewport.span in SMOOTHING_SPANS
        else SMOOTHING_SPANS[0],
    )


def zoom(viewport: Viewport, end: float, steps: int, at: float | None = None) -> Viewport:
    """Show less of an axis from 0 to ``end``, or with negative ``steps`` more of it.

    The place ``at`` stays where it is, else the crosshair, else the newest values.
    """
    low, high = viewport.shown(end)
    if end <= 0 or high <= low:
        return viewport
    fixed = at if at is not None else viewport.crosshair if viewport.crosshair is not None else high
    fixed = min(high, max(low, fixed))
    size = max(MIN_WINDOW_SHARE * end, (high - low) / ZOOM_FACTOR**steps)
    if size >= end * (1 - MIN_WINDOW_SHARE / 2):
        return replace(viewport, window=None)
    start = fixed - (fixed - low) / (high - low) * size
    return replace(viewport, window=_within(start, size, end))


def pan(viewport: Viewport, end: float, by: int) -> Viewport:
    """Move the window by so many quarters of its width."""
    if viewport.window is None:
        return viewport
    low, high = viewport.window
    size = high - low
    return replace(viewport, window=_within(low + by * PAN_STEP * size, size, end))


def move_crosshair(viewport: Viewport, end: float, by: int = 0, at: float | None = None) -> Viewport:
    """Put the crosshair to ``at``, or move it by so many steps; it comes up at the right edge."""
    low, high = viewport.shown(end)
    place = at if at is not None else high if viewport.crosshair is None else viewport.crosshair
    return replace(viewport, crosshair=min(high, max(low, place + by * CROSSHAIR_STEP * (high - low))))


def _within(start: float, size: float, end: float) -> Range:
    start = min(max(0.0, start), end - size)
    return start, start + size
