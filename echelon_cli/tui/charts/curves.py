"""Metric history of a run in constant memory: buckets of updates, merged in pairs when there are too many.

A bucket keeps minimum, mean and maximum of each metric, so a day of training is drawn from as many points as a minute.
``History`` accumulates updates; ``Curves`` is the frozen result that charts draw.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from echelon.telemetry.events import EventUpdate

MAX_BUCKETS = 200
"""About the dot columns of the widest chart; at twice this number, buckets are merged in pairs."""

DEFAULT_SMOOTHING = 12.0
"""Span of the exponential moving average of a curve [buckets]."""

METRICS: tuple[str, ...] = tuple(f.name for f in dataclasses.fields(EventUpdate) if f.type in ("float", "int"))
"""Every numeric field of an update: a chart can draw any of them, and a new field needs no entry here."""

COUNTS: frozenset[str] = frozenset(f.name for f in dataclasses.fields(EventUpdate) if f.type == "int")
"""The metrics that are whole numbers."""

UNITS: dict[str, tuple[str, float]] = {"_mb": ("GiB", 1 / 1024), "_per_s": ("", 1.0), "_s": ("s", 1.0)}
"""Unit of a charted metric, and the factor from its field, by suffix of the field: memory in round numbers of GiB."""


def metric_unit(metric: str) -> str:
    """Return the unit in which a metric is charted, empty for a plain number."""
    return _unit_and_scale(metric)[0]


def metric_scale(metric: str) -> float:
    """Return the factor from an update's field to the unit of its chart."""
    return _unit_and_scale(metric)[1]


def _unit_and_scale(metric: str) -> tuple[str, float]:
    return next((unit for suffix, unit in UNITS.items() if metric.endswith(suffix)), ("", 1.0))


_SCALES: tuple[float, ...] = tuple(map(metric_scale, METRICS))
_metric_values = attrgetter(*METRICS)

XAxis = Literal["steps", "time", "episodes", "rounds"]
"""What the horizontal axis of a chart counts."""

X_AXES: tuple[XAxis, ...] = ("steps", "time", "episodes")

X_AXIS_FIELDS: dict[XAxis, str] = {"steps": "global_step", "time": "elapsed_s", "episodes": "episodes"}
"""Field of an update behind each horizontal axis."""

Values = tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """One metric by bucket; NaN where no update of the bucket has a value."""

    low: Values = ()
    mean: Values = ()
    high: Values = ()
    smooth: Values = ()
    """Moving average of ``mean`` over about ``DEFAULT_SMOOTHING`` buckets."""


@dataclass(frozen=True)
class Curves:
    """All metrics of a run by bucket."""

    updates: tuple[int, ...] = ()
    """Last update of each bucket, ascending."""
    positions: dict[XAxis, Values] = field(default_factory=dict)
    """Position of each bucket's last update on each horizontal axis."""
    metrics: dict[str, Curve] = field(default_factory=dict)
    stride: int = 1
    """Updates in a full bucket."""

    def curve(self, metric: str) -> Curve:
        """Return the curve of a metric, empty before the first update; ``ValueError`` for an unknown metric."""
        if metric not in METRICS:
            raise ValueError(f"metric {metric!r} is unknown, expected a numeric field of EventUpdate")
        return self.metrics.get(metric, Curve())

    def position(self, update: int, x_axis: XAxis) -> float:
        """Return the position of an update on a horizontal axis, clamped to the known range."""
        positions = self.positions.get(x_axis, ())
        if not positions or update <= 0:
            return 0.0
        return positions[min(bisect_left(self.updates, update), len(positions) - 1)]


class _Bucket:
    """Statistics of a few consecutive updates."""

    __slots__ = ("count", "finite", "high", "low", "positions", "total", "update")

    def __init__(self) -> None:
        size = len(METRICS)
        self.count = 0
        self.update = 0
        self.positions: list[float] = [0.0] * len(X_AXES)
        self.low, self.high = [math.inf] * size, [-math.inf] * size
        self.total, self.finite = [0.0] * size, [0] * size

    def add(self, event: EventUpdate) -> None:
        self.count += 1
        self.update = event.update
        self.positions = [float(getattr(event, X_AXIS_FIELDS[x_axis])) for x_axis in X_AXES]
        for i, value in enumerate(_metric_values(event)):
            if math.isfinite(value):
                value *= _SCALES[i]
                self.low[i], self.high[i] = min(self.low[i], value), max(self.high[i], value)
                self.total[i] += value
                self.finite[i] += 1

    def summary(self, i: int) -> tuple[float, float, float]:
        """Return minimum, mean and maximum of metric ``i``; NaN where no update has a value."""
        if not self.finite[i]:
            return math.nan, math.nan, math.nan
        return self.low[i], self.total[i] / self.finite[i], self.high[i]

    def merge(self, later: _Bucket) -> None:
        """Add the statistics of the bucket that follows."""
        self.count += later.count
        self.update, self.positions = later.update, later.positions
        self.low = [min(a, b) for a, b in zip(self.low, later.low, strict=True)]
        self.high = [max(a, b) for a, b in zip(self.high, later.high, strict=True)]
        self.total = [a + b for a, b in zip(self.total, later.total, strict=True)]
        self.finite = [a + b for a, b in zip(self.finite, later.finite, strict=True)]


class _Average:
    """An exponential moving average; the first values have equal weights, so that no single one dominates the start."""

    __slots__ = ("decay", "value", "weight")

    def __init__(self, span: float) -> None:
        self.decay = 1.0 - 2.0 / (span + 1.0)
        self.value, self.weight = math.nan, 0.0

    def after(self, value: float) -> tuple[float, float]:
        """Return average and weight after one more value; a value that is not finite changes neither."""
        if not math.isfinite(value):
            return self.value, self.weight
        weight = self.weight * self.decay + 1.0
        return (value if math.isnan(self.value) else self.value + (value - self.value) / weight), weight

    def add(self, value: float) -> float:
        """Add a value and return the average."""
        self.value, self.weight = self.after(value)
        return self.value


class _MetricHistory:
    """One metric over the full buckets, which no longer change; a new update costs only the last bucket."""

    __slots__ = ("average", "high", "low", "mean", "smooth")

    def __init__(self) -> None:
        self.low: list[float] = []
        self.mean: list[float] = []
        self.high: list[float] = []
        self.smooth: list[float] = []
        self.average = _Average(DEFAULT_SMOOTHING)

    def add(self, bucket: _Bucket, i: int) -> None:
        """Append a full bucket."""
        low, mean, high = bucket.summary(i)
        self.low.append(low)
        self.mean.append(mean)
        self.high.append(high)
        self.smooth.append(self.average.add(mean))

    def curve(self, bucket: _Bucket, i: int) -> Curve:
        """Return the curve with the newest bucket at its end."""
        low, mean, high = bucket.summary(i)
        return Curve(
            low=(*self.low, low),
            mean=(*self.mean, mean),
            high=(*self.high, high),
            smooth=(*self.smooth, self.average.after(mean)[0]),
        )


class History:
    """Accumulates updates into ``Curves``."""

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max_buckets = max_buckets
        self._buckets: list[_Bucket] = []
        self._stride = 1
        self._metrics: list[_MetricHistory] = []
        self._full = 0
        """Buckets already in ``_metrics``."""

    def add(self, event: EventUpdate) -> None:
        """Add the next update."""
        if not self._buckets or self._buckets[-1].count >= self._stride:
            if len(self._buckets) >= 2 * self._max_buckets:
                self._merge_pairs()
            self._buckets.append(_Bucket())
        self._buckets[-1].add(event)

    def rewind(self, update: int) -> None:
        """Drop what came after ``update``, and the bucket that contains it unless it ends there."""
        while self._buckets and self._buckets[-1].update > update:
            self._buckets.pop()
            self._metrics, self._full = [], 0

    def _merge_pairs(self) -> None:
        for first, second in zip(self._buckets[::2], self._buckets[1::2], strict=True):
            first.merge(second)
        self._buckets = self._buckets[::2]
        self._stride *= 2
        self._metrics, self._full = [], 0

    def curves(self) -> Curves:
        """Return the curves so far."""
        buckets = self._buckets
        if not buckets:
            return Curves(stride=self._stride)
        self._metrics = self._metrics or [_MetricHistory() for _ in METRICS]
        for bucket in buckets[self._full : -1]:
            for i, metric in enumerate(self._metrics):
                metric.add(bucket, i)
        self._full = len(buckets) - 1
        return Curves(
            updates=tuple(b.update for b in buckets),
            positions={x_axis: tuple(b.positions[i] for b in buckets) for i, x_axis in enumerate(X_AXES)},
            metrics={name: self._metrics[i].curve(buckets[-1], i) for i, name in enumerate(METRICS)},
            stride=self._stride,
        )


def smooth(values: Sequence[float], span: float) -> list[float]:
    """Return the exponential moving average over about ``span`` values; values that are not finite repeat the last."""
    average = _Average(span)
    return [average.add(value) for value in values]
