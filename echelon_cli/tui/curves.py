"""The history of a run's figures in constant memory: buckets of updates that pair up when there are too many.

A bucket keeps smallest, largest and mean value of each figure, so a day-long run is drawn from as many points as a
minute-long one. ``History`` takes updates in, ``Curves`` is the frozen picture of it that charts draw.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from echelon.telemetry.events import EventUpdate

MAX_BUCKETS = 200
"""About what the widest chart has columns of dots; at twice this, neighbours are joined."""

SMOOTH_SPAN = 12.0
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
)
"""Fields of an update that are kept."""

Along = Literal["steps", "time", "episodes", "rounds"]
"""What a chart's horizontal axis counts."""

ALONGS: tuple[Along, ...] = ("steps", "time", "episodes")

POSITIONS: dict[Along, str] = {"steps": "global_step", "time": "elapsed_s", "episodes": "episodes"}
"""Field of an update behind each axis."""

Values = tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """One figure, bucket by bucket; not a number where no update of the bucket had a value."""

    low: Values = ()
    mean: Values = ()
    high: Values = ()
    smooth: Values = ()
    """The mean, averaged over about ``SMOOTH_SPAN`` buckets before it too."""


@dataclass(frozen=True)
class Curves:
    """Every figure of a run so far."""

    updates: tuple[int, ...] = ()
    """Last update of each bucket, ascending."""
    along: dict[Along, Values] = field(default_factory=dict)
    """Position of each bucket's last update on each axis."""
    metrics: dict[str, Curve] = field(default_factory=dict)
    stride: int = 1
    """Updates in a full bucket."""

    def curve(self, metric: str) -> Curve:
        return self.metrics.get(metric, Curve())

    def position(self, update: int, along: Along) -> float:
        """Return where an update lies on an axis; 0 before the first, the newest after the last."""
        places = self.along.get(along, ())
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
        self.places: list[float] = [0.0] * len(ALONGS)
        self.low, self.high = [math.inf] * size, [-math.inf] * size
        self.total, self.seen = [0.0] * size, [0] * size

    def add(self, event: EventUpdate) -> None:
        self.count += 1
        self.update = event.update
        self.places = [float(getattr(event, POSITIONS[along])) for along in ALONGS]
        for i, name in enumerate(METRICS):
            value = getattr(event, name)
            if math.isfinite(value):
                self.low[i], self.high[i] = min(self.low[i], value), max(self.high[i], value)
                self.total[i] += value
                self.seen[i] += 1

    def join(self, later: _Bucket) -> None:
        """Take in the bucket that follows."""
        self.count += later.count
        self.update, self.places = later.update, later.places
        self.low = [min(a, b) for a, b in zip(self.low, later.low, strict=True)]
        self.high = [max(a, b) for a, b in zip(self.high, later.high, strict=True)]
        self.total = [a + b for a, b in zip(self.total, later.total, strict=True)]
        self.seen = [a + b for a, b in zip(self.seen, later.seen, strict=True)]


class History:
    """The accumulator behind ``Curves``."""

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max = max_buckets
        self._buckets: list[_Bucket] = []
        self._stride = 1

    def add(self, event: EventUpdate) -> None:
        """Take in the next update."""
        if not self._buckets or self._buckets[-1].count >= self._stride:
            if len(self._buckets) >= 2 * self._max:
                self._pair_up()
            self._buckets.append(_Bucket())
        self._buckets[-1].add(event)

    def take_back(self, update: int) -> None:
        """Forget what came after ``update``, and the bucket it lies in unless it ends there."""
        while self._buckets and self._buckets[-1].update > update:
            self._buckets.pop()

    def _pair_up(self) -> None:
        for first, second in zip(self._buckets[::2], self._buckets[1::2], strict=True):
            first.join(second)
        self._buckets = self._buckets[::2]
        self._stride *= 2

    def curves(self) -> Curves:
        """Return the picture so far."""
        buckets = self._buckets
        metrics = {}
        for i, name in enumerate(METRICS):
            seen = [b.seen[i] for b in buckets]
            mean = tuple(b.total[i] / n if n else math.nan for b, n in zip(buckets, seen, strict=True))
            metrics[name] = Curve(
                low=_known(seen, [b.low[i] for b in buckets]),
                mean=mean,
                high=_known(seen, [b.high[i] for b in buckets]),
                smooth=tuple(smooth(mean, SMOOTH_SPAN)),
            )
        return Curves(
            updates=tuple(b.update for b in buckets),
            along={along: tuple(b.places[i] for b in buckets) for i, along in enumerate(ALONGS)},
            metrics=metrics,
            stride=self._stride,
        )


def _known(seen: Iterable[int], values: Iterable[float]) -> Values:
    return tuple(value if n else math.nan for n, value in zip(seen, values, strict=True))


def smooth(values: Sequence[float], span: float) -> list[float]:
    """Return the exponential moving average over about ``span`` values; gaps keep the last average.

    The first values are averaged evenly, so that the curve does not start at an accident.
    """
    result: list[float] = []
    average, weight = math.nan, 0.0
    keep = 1.0 - 2.0 / (span + 1.0)
    for value in values:
        if math.isfinite(value):
            weight = weight * keep + 1.0
            average = value if math.isnan(average) else average + (value - average) / weight
        result.append(average)
    return result
