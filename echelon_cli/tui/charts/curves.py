"""Metric history of a run in constant memory: buckets of updates, merged in pairs when there are too many.

A bucket keeps minimum, mean and maximum of each metric, so a day of training is drawn from as many points as a minute.
``History`` accumulates updates; ``Curves`` is the frozen result that charts draw.
"""

from __future__ import annotations  # array[float] cannot be evaluated

import dataclasses
import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import add, attrgetter
from typing import Literal

from echelon.telemetry.events import EventUpdate

MAX_BUCKETS = 200
"""About the dot columns of the widest chart; at twice this number, buckets are merged in pairs."""

DEFAULT_SMOOTHING = 12.0

METRICS: tuple[str, ...] = tuple(f.name for f in dataclasses.fields(EventUpdate) if f.type in (float, int))
"""Every numeric field of an update: a chart can draw any of them, and a new field needs no entry here."""

COUNTS: frozenset[str] = frozenset(f.name for f in dataclasses.fields(EventUpdate) if f.type is int)

UNITS: dict[str, tuple[str, float]] = {"_mb": ("GiB", 1 / 1024), "_per_s": ("", 1.0), "_s": ("s", 1.0)}
"""Unit of a charted metric, and the factor from its field, by suffix of the field: memory in round numbers of GiB."""


def metric_unit(metric: str) -> str:
    return _unit_and_scale(metric)[0]


def metric_scale(metric: str) -> float:
    """Return the factor from an update's field to the unit of its chart."""
    return _unit_and_scale(metric)[1]


def _unit_and_scale(metric: str) -> tuple[str, float]:
    return next((unit for suffix, unit in UNITS.items() if metric.endswith(suffix)), ("", 1.0))


_SCALES: tuple[float, ...] = tuple(map(metric_scale, METRICS))
_metric_values = attrgetter(*METRICS)

XAxis = Literal["steps", "time", "episodes", "rounds"]
X_AXES: tuple[XAxis, ...] = ("steps", "time", "episodes")

X_AXIS_FIELDS: dict[XAxis, str] = {"steps": "global_step", "time": "elapsed_s", "episodes": "episodes"}
"""Field of an update behind each horizontal axis."""

_axis_values = attrgetter(*(X_AXIS_FIELDS[x_axis] for x_axis in X_AXES))

Values = Sequence[float]
"""Values by bucket: arrays for metrics, which take a quarter of the memory of tuples."""


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
    positions: dict[XAxis, Values] = field(default_factory=dict)
    """Position of each bucket's last update on each horizontal axis."""
    metrics: dict[str, Curve] = field(default_factory=dict)
    stride: int = 1

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
        self.value, self.weight = self.after(value)
        return self.value


class _MetricHistory:
    """One metric by bucket; only the last bucket changes, so a new update costs one bucket."""

    __slots__ = ("average", "finite", "high", "low", "mean", "smooth", "total")

    def __init__(self) -> None:
        self.low, self.high, self.total = array("d"), array("d"), array("d")
        self.finite = array("L")
        """Updates with a value in each bucket; without one, the bounds of the bucket are NaN."""
        self.mean, self.smooth = array("d"), array("d")
        """Of the full buckets."""
        self.average = _Average(DEFAULT_SMOOTHING)

    def open_bucket(self) -> None:
        self.low.append(math.nan)
        self.high.append(math.nan)
        self.total.append(0.0)
        self.finite.append(0)

    def add(self, value: float) -> None:
        """Add a value to the last bucket; one that is not finite changes nothing."""
        if not math.isfinite(value):
            return
        finite = self.finite[-1]
        self.low[-1] = min(self.low[-1], value) if finite else value
        self.high[-1] = max(self.high[-1], value) if finite else value
        self.total[-1] += value
        self.finite[-1] = finite + 1

    def mean_of(self, bucket: int) -> float:
        """Return the mean of a bucket; NaN where no update has a value."""
        return self.total[bucket] / self.finite[bucket] if self.finite[bucket] else math.nan

    def drop_last(self) -> None:
        for values in (self.low, self.high, self.total, self.finite):
            values.pop()
        self.mean, self.smooth, self.average = array("d"), array("d"), _Average(DEFAULT_SMOOTHING)

    def merge_pairs(self) -> None:
        """Merge every two adjacent buckets of an even number."""
        self.low, self.high = _pairwise(min, self.low), _pairwise(max, self.high)
        self.total = array("d", map(add, self.total[::2], self.total[1::2]))
        self.finite = array("L", map(add, self.finite[::2], self.finite[1::2]))
        self.mean, self.smooth, self.average = array("d"), array("d"), _Average(DEFAULT_SMOOTHING)

    def curve(self) -> Curve:
        for bucket in range(len(self.mean), len(self.total) - 1):
            self.mean.append(self.mean_of(bucket))
            self.smooth.append(self.average.add(self.mean[-1]))
        last = self.mean_of(-1)
        return Curve(
            low=self.low[:],
            mean=self.mean + array("d", (last,)),
            high=self.high[:],
            smooth=self.smooth + array("d", (self.average.after(last)[0],)),
        )


def _pairwise(choose: Callable[[float, float], float], values: array[float]) -> array[float]:
    """Return one of every two adjacent values: the chosen one, or the only one that is not NaN."""
    pairs = zip(values[::2], values[1::2], strict=True)
    return array("d", (b if math.isnan(a) else a if math.isnan(b) else choose(a, b) for a, b in pairs))


class History:
    """Accumulates updates into ``Curves``."""

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max_buckets = max_buckets
        self._stride = 1
        self._updates: list[int] = []
        self._counts: list[int] = []
        self._positions: list[tuple[float, ...]] = []
        self._metrics = [_MetricHistory() for _ in METRICS]

    def add(self, event: EventUpdate) -> None:
        if not self._counts or self._counts[-1] >= self._stride:
            if len(self._counts) >= 2 * self._max_buckets:
                self._merge_pairs()
            self._updates.append(0)
            self._counts.append(0)
            self._positions.append(())
            for metric in self._metrics:
                metric.open_bucket()
        self._updates[-1] = event.update
        self._counts[-1] += 1
        self._positions[-1] = tuple(map(float, _axis_values(event)))
        for metric, value, scale in zip(self._metrics, _metric_values(event), _SCALES, strict=True):
            metric.add(value * scale)

    def rewind(self, update: int) -> None:
        """Drop what came after ``update``, and the bucket that contains it unless it ends there."""
        while self._updates and self._updates[-1] > update:
            for values in (self._updates, self._counts, self._positions):
                values.pop()
            for metric in self._metrics:
                metric.drop_last()

    def _merge_pairs(self) -> None:
        self._updates, self._positions = self._updates[1::2], self._positions[1::2]
        self._counts = list(map(add, self._counts[::2], self._counts[1::2]))
        for metric in self._metrics:
            metric.merge_pairs()
        self._stride *= 2

    def curves(self) -> Curves:
        if not self._updates:
            return Curves(stride=self._stride)
        return Curves(
            updates=tuple(self._updates),
            positions=dict(zip(X_AXES, zip(*self._positions, strict=True), strict=True)),
            metrics={name: metric.curve() for name, metric in zip(METRICS, self._metrics, strict=True)},
            stride=self._stride,
        )


def smooth(values: Sequence[float], span: float) -> list[float]:
    """Return the exponential moving average over about ``span`` values; values that are not finite repeat the last."""
    average = _Average(span)
    return [average.add(value) for value in values]
