"""The viewport shared by all charts of a screen: x axis, window, crosshair, scale and smoothing.

All functions are pure and return a new ``Viewport``.
"""

from dataclasses import dataclass, replace

from echelon_cli.tui.charts.axis import Range
from echelon_cli.tui.charts.curves import DEFAULT_SMOOTHING, X_AXES, XAxis

SMOOTHING_SPANS = (DEFAULT_SMOOTHING, 40.0, 1.0, 4.0)
"""Smoothing spans [buckets] in the order the key cycles through them; 1 is no smoothing."""

ZOOM_FACTOR = 2.0
MIN_WINDOW_SHARE = 1 / 256
PAN_STEP = 0.25
CROSSHAIR_STEP = 1 / 64
"""Steps of the window and of the crosshair, as shares of the window."""


@dataclass(frozen=True, kw_only=True)
class Viewport:
    """What all charts of a screen show."""

    x_axis: XAxis = "steps"
    """What the horizontal axis counts."""
    window: Range | None = None
    """Visible part of the horizontal axis; all of it if None."""
    crosshair: float | None = None
    """Position whose values the legends show; the newest values if None."""
    log: bool = False
    """Whether vertical axes with only positive values are logarithmic."""
    span: float = DEFAULT_SMOOTHING

    def visible_range(self, end: float) -> Range:
        return self.window or (0.0, end)

    def without_crosshair(self) -> "Viewport":
        """Return the part of the viewport that determines the axis ranges."""
        return replace(self, crosshair=None)


DEFAULT_VIEWPORT = Viewport()


def next_x_axis(viewport: Viewport) -> Viewport:
    """Switch to the next x axis; window and crosshair are positions on the old one and are cleared."""
    x_axis = X_AXES[(X_AXES.index(viewport.x_axis) + 1) % len(X_AXES)]
    return replace(viewport, x_axis=x_axis, window=None, crosshair=None)


def next_smoothing(viewport: Viewport) -> Viewport:
    at = SMOOTHING_SPANS.index(viewport.span) + 1 if viewport.span in SMOOTHING_SPANS else 0
    return replace(viewport, span=SMOOTHING_SPANS[at % len(SMOOTHING_SPANS)])


def zoom(viewport: Viewport, end: float, steps: int, at: float | None = None) -> Viewport:
    """Zoom in on an axis from 0 to ``end`` by ``steps``, or out where they are negative.

    The position ``at`` stays fixed on the screen; by default the crosshair, else the newest values.
    """
    low, high = viewport.visible_range(end)
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
    """Move the window by ``by`` steps of ``PAN_STEP``; the whole axis does not move."""
    if viewport.window is None:
        return viewport
    low, high = viewport.window
    size = high - low
    return replace(viewport, window=_within(low + by * PAN_STEP * size, size, end))


def move_crosshair(viewport: Viewport, end: float, by: int = 0, at: float | None = None) -> Viewport:
    """Move the crosshair to ``at``, or by ``by`` steps; a new one starts at the right edge."""
    low, high = viewport.visible_range(end)
    position = at if at is not None else high if viewport.crosshair is None else viewport.crosshair
    return replace(viewport, crosshair=min(high, max(low, position + by * CROSSHAIR_STEP * (high - low))))


def _within(start: float, size: float, end: float) -> Range:
    start = min(max(0.0, start), end - size)
    return start, start + size
