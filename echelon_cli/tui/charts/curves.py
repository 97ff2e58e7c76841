"""The history of a run's figures in constant memory: buckets of updates that pair up when there are too many.

A bucket keeps smallest, largest and mean value of each figure, so a day-long run is drawn from as many points as a
minute-long one. ``History`` takes updates in, ``Curves`` is the frozen picture of it that charts draw.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from echelon.telemetry.events import EventUpdate

MAX_BUCKETS = 200
"""About what the widest chart has columns of dots; at twice this, neighbours are joined."""

DEFAULT_SMOOTHING = 12.0
"""Buckets over which a curve is averaged."""

METRICS: tuple[str, ...] = (
    "win_rate",
    "avg_return",
    "steps_per_s",
    "grad_norm",
    "grad_norm_max",
    "pg_loss",
    "vf_loss",
    "approx_kl",
    "clip_frac",
    "entropy",
    "lr",
    "explained_variance",
    "elo",
    "cpu_cores",
    "memory_mb",
    "memory_free_mb",
    "disk_free_mb",
    "gpu_share",
    "gpu_memory_mb",
)
"""Fields of an update that are kept."""

UNITS: dict[str, float] = {name: 1 / 1024 for name in ("memory_mb", "memory_free_mb", "disk_free_mb", "gpu_memory_mb")}
"""What values are multiplied by: a chart of memory has round numbers of GiB at its axis."""

FACTORS: tuple[float, ...] = tuple(UNITS.get(name, 1.0) for name in METRICS)

XAxis = Literal["steps", "time", "episodes", "rounds"]
"""What a chart's horizontal axis counts."""

X_AXES: tuple[XAxis, ...] = ("steps", "time", "episodes")

X_AXIS_FIELDS: dict[XAxis, str] = {"steps": "global_step", "time": "elapsed_s", "episodes": "episodes"}
"""Field of an update behind each axis."""

Values = tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """One figure, bucket by bucket; not a number where no update of the bucket had a value."""

    low: Values = ()
    mean: Values = ()
    high: Values = ()
    smooth: Values = ()
    """The mean, averaged over about ``DEFAULT_SMOOTHING`` buckets before it too."""


@dataclass(frozen=True)
class Curves:
    """Every figure of a run so far."""

    updates: tuple[int, ...] = ()
    """Last update of each bucket, ascending."""
    positions: dict[XAxis, Values] = field(default_factory=dict)
    """Position of each bucket's last update on each axis."""
    metrics: dict[str, Curve] = field(default_factory=dict)
    stride: int = 1
    """Updates in a full bucket."""

    def curve(self, metric: str) -> Curve:
        return self.metrics.get(metric, Curve())

    def position(self, update: int, x_axis: XAxis) -> float:
        """Return where an update lies on an axis; 0 before the first, the newest after the last."""
        places = self.positions.get(x_axis, ())
        if not places or update <= 0:
            return 0.0
        return places[min(bisect_left(self.updates, update), len(places) - 1)]


class _Bucket:
    """A few consecutive updates."""

    __slots__ = ("count", "high", "low", "places", "seen", "total", "update")

    def __init__(self) -> None:
        size = len(METRICS)
        self.count = 0
        self.update = 0
        self.places: list[float] = [0.0] * len(X_AXES)
        self.low, self.high = [math.inf] * size, [-math.inf] * size
        self.total, self.seen = [0.0] * size, [0] * size

    def add(self, event: EventUpdate) -> None:
        self.count += 1
        self.update = event.update
        self.places = [float(getattr(event, X_AXIS_FIELDS[x_axis])) for x_axis in X_AXES]
        for i, name in enumerate(METRICS):
            value = getattr(event, name)
            if math.isfinite(value):
                value *= FACTORS[i]
                self.low[i], self.high[i] = min(self.low[i], value), max(self.high[i], value)
                self.total[i] += value
                self.seen[i] += 1

    def figures(self, i: int) -> tuple[float, float, float]:
        """Return smallest, mean and largest value of a figure; not a number where no update had one."""
        if not self.seen[i]:
            return math.nan, math.nan, math.nan
        return self.low[i], self.total[i] / self.seen[i], self.high[i]

    def join(self, later: _Bucket) -> None:
        """Take in the bucket that follows."""
        self.count += later.count
        self.update, self.places = later.update, later.places
        self.low = [min(a, b) for a, b in zip(self.low, later.low, strict=True)]
        self.high = [max(a, b) for a, b in zip(self.high, later.high, strict=True)]
        self.total = [a + b for a, b in zip(self.total, later.total, strict=True)]
        self.seen = [a + b for a, b in zip(self.seen, later.seen, strict=True)]


class _Average:
    """An exponential moving average; its first values are averaged evenly, so that no accident starts it."""

    __slots__ = ("keep", "value", "weight")

    def __init__(self, span: float) -> None:
        self.keep = 1.0 - 2.0 / (span + 1.0)
        self.value, self.weight = math.nan, 0.0

    def after(self, value: float) -> tuple[float, float]:
        """Return the average and its weight after one more value; a gap keeps both."""
        if not math.isfinite(value):
            return self.value, self.weight
        weight = self.weight * self.keep + 1.0
        return (value if math.isnan(self.value) else self.value + (value - self.value) / weight), weight

    def add(self, value: float) -> float:
        """Take in one more value and return the average."""
        self.value, self.weight = self.after(value)
        return self.value


class _Column:
    """One figure of the buckets that no longer change; an update costs the newest bucket alone."""

    __slots__ = ("average", "high", "low", "mean", "smooth")

    def __init__(self) -> None:
        self.low: list[float] = []
        self.mean: list[float] = []
        self.high: list[float] = []
        self.smooth: list[float] = []
        self.average = _Average(DEFAULT_SMOOTHING)

    def add(self, bucket: _Bucket, i: int) -> None:
        """Take in a bucket that is full."""
        low, mean, high = bucket.figures(i)
        self.low.append(low)
        self.mean.append(mean)
        self.high.append(high)
        self.smooth.append(self.average.add(mean))

    def curve(self, bucket: _Bucket, i: int) -> Curve:
        """Return the curve with the newest bucket at its end."""
        low, mean, high = bucket.figures(i)
        return Curve(
            low=(*self.low, low),
            mean=(*self.mean, mean),
            high=(*self.high, high),
            smooth=(*self.smooth, self.average.after(mean)[0]),
        )


class History:
    """The accumulator behind ``Curves``."""

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max = max_buckets
        self._buckets: list[_Bucket] = []
        self._stride = 1
        self._columns: list[_Column] = []
        self._full = 0
        """Buckets that are in the columns."""

    def add(self, event: EventUpdate) -> None:
        """Take in the next update."""
        if not self._buckets or self._buckets[-1].count >= self._stride:
            if len(self._buckets) >= 2 * self._max:
                self._merge_pairs()
            self._buckets.append(_Bucket())
        self._buckets[-1].add(event)

    def rewind(self, update: int) -> None:
        """Forget what came after ``update``, and the bucket it lies in unless it ends there."""
        while self._buckets and self._buckets[-1].update > update:
            self._buckets.pop()
            self._columns, self._full = [], 0

    def _merge_pairs(self) -> None:
        for first, second in zip(self._buckets[::2], self._buckets[1::2], strict=True):
            first.join(second)
        self._buckets = self._buckets[::2]
        self._stride *= 2
        self._columns, self._full = [], 0

    def curves(self) -> Curves:
        """Return the picture so far."""
        buckets = self._buckets
        if not buckets:
            return Curves(stride=self._stride)
        self._columns = self._columns or [_Column() for _ in METRICS]
        for bucket in buckets[self._full : -1]:
            for i, column in enumerate(self._columns):
                column.add(bucket, i)
        self._full = len(buckets) - 1
        return Curves(
            updates=tuple(b.update for b in buckets),
            positions={x_axis: tuple(b.places[i] for b in buckets) for i, x_axis in enumerate(X_AXES)},
            metrics={name: self._columns[i].curve(buckets[-1], i) for i, name in enumerate(METRICS)},
            stride=self._stride,
        )


def smooth(values: Sequence[float], span: float) -> list[float]:
    """Return the exponential moving average over about ``span`` values; gaps keep the last average."""
    average = _Average(span)
    return [average.add(value) for value in values]
