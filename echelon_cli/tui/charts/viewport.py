"""How the charts of a screen are looked at: axis, window, crosshair, scale and averaging; the same for all of them.

Pure functions from one ``Sight`` to the next. What is drawn of it belongs to ``charts``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from echelon_cli.tui.charts.axis import Range
from echelon_cli.tui.charts.curves import ALONGS, SMOOTH_SPAN, Along

SPANS = (SMOOTH_SPAN, 40.0, 1.0, 4.0)
"""Buckets that curves are averaged over, one after another; 1 is not at all."""

ZOOM = 2.0
"""A step of zooming shows so many times less, or more, of the axis."""

CLOSEST = 1 / 256
"""Least share of the axis that a window shows."""

PAN_SHARE = 0.25
CROSS_SHARE = 1 / 64
"""Shares of the window by which it and the crosshair move."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """One way to look at charts."""

    along: Along = "steps"
    """What the horizontal axis counts."""
    window: Range | None = None
    """Part of the axis that is shown; all of it where there is none."""
    cross: float | None = None
    """Place on the axis whose values are told instead of the newest."""
    log: bool = False
    """Whether vertical axes are logarithmic where all values are above 0."""
    span: float = SMOOTH_SPAN

    def shown(self, end: float) -> Range:
        """Return the part of an axis from 0 to ``end`` that is seen."""
        return self.window or (0.0, end)

    def framing(self) -> Sight:
        """Return what decides about the ranges of axes, and nothing else."""
        return replace(self, cross=None)


PLAIN = Sight()
"""Everything there is, along steps."""


def next_along(sight: Sight) -> Sight:
    """Count something else along the axis; window and crosshair would mean another place, so they go."""
    along = ALONGS[(ALONGS.index(sight.along) + 1) % len(ALONGS)]
    return replace(sight, along=along, window=None, cross=None)


def next_span(sight: Sight) -> Sight:
    """Average over more or fewer values."""
    return replace(sight, span=SPANS[(SPANS.index(sight.span) + 1) % len(SPANS)] if sight.span in SPANS else SPANS[0])


def zoomed(sight: Sight, end: float, steps: int, at: float | None = None) -> Sight:
    """Show less of an axis from 0 to ``end``, or with negative ``steps`` more of it.

    The place ``at`` stays where it is, else the crosshair, else the newest values.
    """
    low, high = sight.shown(end)
    if end <= 0 or high <= low:
        return sight
    fixed = at if at is not None else sight.cross if sight.cross is not None else high
    fixed = min(high, max(low, fixed))
    size = max(CLOSEST * end, (high - low) / ZOOM**steps)
    if size >= end * (1 - CLOSEST / 2):
        return replace(sight, window=None)
    start = fixed - (fixed - low) / (high - low) * size
    return replace(sight, window=_within(start, size, end))


def panned(sight: Sight, end: float, by: int) -> Sight:
    """Move the window by so many quarters of its width."""
    if sight.window is None:
        return sight
    low, high = sight.window
    size = high - low
    return replace(sight, window=_within(low + by * PAN_SHARE * size, size, end))


def crossed(sight: Sight, end: float, by: int = 0, at: float | None = None) -> Sight:
    """Put the crosshair to ``at``, or move it by so many steps; it comes up at the right edge."""
    low, high = sight.shown(end)
    place = at if at is not None else high if sight.cross is None else sight.cross
    return replace(sight, cross=min(high, max(low, place + by * CROSS_SHARE * (high - low))))


def _within(start: float, size: float, end: float) -> Range:
    start = min(max(0.0, start), end - size)
    return start, start + size
