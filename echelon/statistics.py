"""Statistics of experiments: intervals of win rates, and aggregates over training seeds and tasks.

Scores of an algorithm are an array ``[N, K]``: N training seeds, K tasks (such as win rates against K opponents). Few
seeds are usual, so aggregates are interquartile means with bootstrap intervals that are stratified by task, and two
algorithms are compared by the probability of improvement (Agarwal et al., 2021). numpy is loaded on first use: light
modules need only the Wilson interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

Z_95 = 1.959963984540054
"""Standard normal quantile of a 95 % interval."""
LEVEL = 0.95
"""Confidence level of bootstrap intervals."""
RESAMPLES = 2000
"""Bootstrap samples of an interval."""
QUARTER = 0.25
"""Fraction of the scores that an interquartile mean leaves out at each end."""


class Estimate(NamedTuple):
    """A statistic and its confidence interval; the bounds are NaN where one seed allows no interval."""

    value: float
    low: float
    high: float


def wilson_interval(wins: int, episodes: int, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson score interval (1927) of a win rate; [0, 1] without episodes."""
    if episodes == 0:
        return 0.0, 1.0
    rate, z2 = wins / episodes, z * z
    centre = rate + z2 / (2 * episodes)
    half = z * math.sqrt(rate * (1 - rate) / episodes + z2 / (4 * episodes * episodes))
    low, high = (centre - half) / (1 + z2 / episodes), (centre + half) / (1 + z2 / episodes)
    return max(0.0, min(rate, low)), min(1.0, max(rate, high))


def interquartile_mean(scores: ArrayLike) -> float:
    """Return the mean of the middle half of all scores, an array of any shape."""
    import numpy as np

    ordered = np.sort(np.asarray(scores, float), axis=None)
    cut = int(QUARTER * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean())


def aggregate(
    scores: ArrayLike,
    statistic: Callable[[Any], float] = interquartile_mean,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Estimate:
    """Return ``statistic`` of scores ``[N, K]`` and its percentile interval over stratified bootstrap samples.

    A sample draws N seeds with replacement for each task separately. Raises ``ValueError`` for empty, non-finite or
    wrongly shaped scores.
    """
    x = _scores("scores", scores)
    return _estimate(lambda draw: statistic(draw(x)), [x], resamples, level, seed)


def probability_of_improvement(
    x: ArrayLike, y: ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Estimate:
    """Return the probability that a run of ``x [N, K]`` beats one of ``y [M, K]`` on a task, with its interval.

    Ties count one half. It is the mean over tasks of the Mann-Whitney statistic U / (N M), for seeds that have nothing
    in common.
    """
    a, b = _scores("x", x), _scores("y", y)
    _require_equal("tasks", a.shape[1], b.shape[1])
    return _estimate(lambda draw: _improvement(draw(a)[:, None], draw(b)[None]), [a, b], resamples, level, seed)


def paired_improvement(
    x: ArrayLike, y: ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Estimate:
    """Return the probability that ``x [N, K]`` beats ``y [N, K]`` with the same seed on a task, with its interval.

    Row n of both was trained with the same seed; ties count one half. A bootstrap sample draws pairs.
    """
    a, b = _scores("x", x), _scores("y", y)
    _require_equal("tasks", a.shape[1], b.shape[1])
    _require_equal("seeds", a.shape[0], b.shape[0])
    outcomes = _wins(a, b)
    return _estimate(lambda draw: float(draw(outcomes).mean()), [outcomes], resamples, level, seed)


def _wins(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return 1 where x is larger, 0.5 where equal, else 0."""
    return (x > y) + 0.5 * (x == y)


def _improvement(x: np.ndarray, y: np.ndarray) -> float:
    return float(_wins(x, y).mean())


Draw = Callable[[Any], Any]
"""Return the scores ``[N, K]`` themselves or a bootstrap sample of them."""


def _estimate(
    statistic: Callable[[Draw], float], scores: list[np.ndarray], resamples: int, level: float, seed: int
) -> Estimate:
    import numpy as np

    value = statistic(lambda x: x)
    if min(len(x) for x in scores) < 2:
        return Estimate(value, math.nan, math.nan)
    rng = np.random.default_rng(seed)

    def resample(x: np.ndarray) -> np.ndarray:
        return np.take_along_axis(x, rng.integers(0, len(x), x.shape), axis=0)

    tail = (1.0 - level) / 2.0
    low, high = np.quantile([statistic(resample) for _ in range(resamples)], [tail, 1.0 - tail])
    return Estimate(value, float(low), float(high))


def _scores(name: str, scores: ArrayLike) -> np.ndarray:
    """Return scores as a float array ``[N, K]``; a vector is one task."""
    import numpy as np

    found = np.asarray(scores, float)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or found.size == 0:
        raise ValueError(f"{name} has shape {found.shape}, expected seeds x tasks, at least one of each")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} contains a value that is not finite, expected numbers")
    return found


def _require_equal(what: str, x: int, y: int) -> None:
    if x != y:
        raise ValueError(f"x has {x} {what} and y has {y}, expected equal numbers")
