"""Axis ranges with hysteresis: they change only when the data leave them, so a new value repaints few cells.

Pure functions of numbers.
"""

import math
from collections.abc import Sequence

Range = tuple[float, float]

NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Distances between axis labels, times a power of ten."""

INTERVALS = 4

FREE_SHARE = 1 / 8
"""Most that a horizontal axis extends beyond its newest value, as a share of it."""

AXIS_UNITS = (1.0, 2.0, 5.0)
"""A horizontal axis ends at a multiple of one of these, times a power of ten."""

DAY_S = 86400.0
TIME_UNITS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21600.0, DAY_S)
"""The same for a time axis [s]."""

SHORTEST = {False: 1.0, True: 60.0}
"""Shortest horizontal axis, of counts and of time [s]."""

MIN_FILL = 0.35
"""A vertical range shrinks when the data fill less than this share of it."""

MIN_SPAN = 0.05
"""Smallest vertical range, as a share of the largest absolute value."""

SHRINK_BELOW = 0.7
"""A range shrinks only if the new one is smaller than this share of it."""

EPSILON = 1e-12
"""Relative differences below this count as equal."""

OUTLIER_SHARE = 0.05
"""Share of the values at either end that may be outliers."""

OUTLIER_REACH = 1.0
"""Most by which outliers extend a range at either end, as a multiple of the range of the other values."""

ROBUST_FROM = 50
"""Number of values from which outliers are limited."""


def round_range(low: float, high: float, *, signed: bool = False, whole: bool = False) -> Range:
    """Return a range with round ends around ``low`` and ``high``, whole numbers if ``whole``.

    Zeros that cannot be negative lie at its low end.
    """
    if low == high == 0.0 and not signed:
        return 0.0, 1.0
    if high - low < EPSILON * max(1.0, abs(low), abs(high)):
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    raw = (high - low) / INTERVALS
    power = 10.0 ** math.floor(math.log10(raw))
    steps = (s * power for s in NICE_STEPS if s * power >= raw * (1 - 1e-9))
    step = next((s for s in steps if not whole or s == round(s)), 1.0)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def widen(low: float, high: float) -> Range:
    """Return a range that spans at least ``MIN_SPAN`` of its values, so that noise does not fill the chart."""
    lack = MIN_SPAN * max(abs(low), abs(high)) - (high - low)
    return (low - lack / 2, high + lack / 2) if lack > 0 else (low, high)


def stable_range(before: Range | None, low: float, high: float, *, signed: bool = False, whole: bool = False) -> Range:
    """Return ``before`` while the data fit into it and fill it, else a new round range."""
    if before is not None:
        span = before[1] - before[0]
        wide = widen(low, high)
        if before[0] <= low and high <= before[1] and wide[1] - wide[0] >= MIN_FILL * span:
            return before
    fresh = round_range(*widen(low, high), signed=signed, whole=whole)
    if (
        before is not None
        and before[0] <= low
        and high <= before[1]
        and fresh[1] - fresh[0] > SHRINK_BELOW * (before[1] - before[0])
    ):
        return before
    return fresh


def divisions(bounds: Range, most: int, *, whole: bool = False) -> int:
    """Return the number of equal intervals, at most ``most``, that labels divide a range into, whole if ``whole``."""
    span = round(bounds[1] - bounds[0])
    return next(n for n in range(most, 0, -1) if span % n == 0) if whole else most


def data_range(values: Sequence[float]) -> Range | None:
    """Return minimum and maximum of the finite values, outliers of a long series limited; None without values."""
    finite = sorted(v for v in values if math.isfinite(v))
    if not finite:
        return None
    trimmed = int(len(finite) * OUTLIER_SHARE) if len(finite) >= ROBUST_FROM else 0
    low, high = finite[trimmed], finite[len(finite) - 1 - trimmed]
    reach = OUTLIER_REACH * (high - low)
    return max(finite[0], low - reach), min(finite[-1], high + reach)


def stable_end(before: float, newest: float, *, time: bool = False) -> float:
    """Return ``before`` while ``newest`` lies within it, else the next round end."""
    if 0 < newest <= before:
        return before
    if newest <= SHORTEST[time]:
        return before or SHORTEST[time]
    free = max(1.0, newest * FREE_SHARE)
    power = 10.0 ** math.floor(math.log10(free))
    units = TIME_UNITS if time else [unit * power for unit in AXIS_UNITS]
    unit = max(unit for unit in units if unit <= free)
    return math.ceil(newest / unit - 1e-9) * unit
