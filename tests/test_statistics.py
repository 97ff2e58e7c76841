"""Statistics of experiments against scipy and hand-worked values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from echelon.statistics import (
    aggregate,
    interquartile_mean,
    paired_improvement,
    probability_of_improvement,
    wilson_interval,
)

RNG = np.random.default_rng(7)
TRAINED, BASE = RNG.normal(0.7, 0.1, (6, 3)), RNG.normal(0.6, 0.1, (5, 3))


@pytest.mark.parametrize(("wins", "episodes"), [(0, 10), (3, 10), (10, 10), (83, 200), (1, 1)])
def test_wilson_interval_equals_scipy(wins, episodes):
    expected = scipy.stats.binomtest(wins, episodes).proportion_ci(0.95, method="wilson")
    assert wilson_interval(wins, episodes) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_interval_contains_the_rate_to_the_last_bit():
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert all(wilson_interval(0, n)[0] == 0.0 and wilson_interval(n, n)[1] == 1.0 for n in range(1, 200))


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (4, 1), (5, 3), (10, 26)])
def test_interquartile_mean_equals_trimmed_mean_of_all_scores(shape):
    scores = RNG.normal(size=shape)
    assert interquartile_mean(scores) == pytest.approx(scipy.stats.trim_mean(scores, 0.25, axis=None), abs=1e-12)


def test_interquartile_mean_ignores_outliers():
    assert interquartile_mean([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 1e9]]) == 3.5


def test_aggregate_interval_agrees_with_scipy_bootstrap_of_one_task():
    scores = RNG.normal(size=12)
    found = aggregate(scores, resamples=20_000)
    result = scipy.stats.bootstrap(
        (scores,), lambda x: scipy.stats.trim_mean(x, 0.25), n_resamples=20_000, method="percentile",
        vectorized=False, rng=np.random.default_rng(0),
    )  # fmt: skip
    expected = result.confidence_interval
    assert found.value == pytest.approx(scipy.stats.trim_mean(scores, 0.25))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.03)


def test_aggregate_samples_within_each_task():
    """Equal seeds within a task leave nothing to sample, however much tasks differ."""
    found = aggregate([[0.1, 0.5, 0.9]] * 4, lambda x: float(np.mean(x)))
    assert found == pytest.approx((0.5, 0.5, 0.5))


def test_aggregate_enumerates_all_samples_of_two_seeds():
    """Two seeds 0 and 1: the mean of a sample is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4."""
    found = aggregate([0.0, 1.0], lambda x: float(np.mean(x)), level=0.4)
    assert found == (0.5, 0.5, 0.5)
    assert aggregate([0.0, 1.0], lambda x: float(np.mean(x)), level=0.6) == (0.5, 0.0, 1.0)


def test_aggregate_repeats_with_its_seed_and_needs_two_seeds_for_an_interval():
    assert aggregate(TRAINED) == aggregate(TRAINED) != aggregate(TRAINED, seed=1)
    one = aggregate([[0.4, 0.6]])
    assert one.value == pytest.approx(0.5) and math.isnan(one.low) and math.isnan(one.high)


def test_probability_of_improvement_is_the_mean_mann_whitney_statistic():
    expected = np.mean(
        [scipy.stats.mannwhitneyu(TRAINED[:, k], BASE[:, k]).statistic / (len(TRAINED) * len(BASE)) for k in range(3)]
    )
    found = probability_of_improvement(TRAINED, BASE)
    assert found.value == pytest.approx(expected)
    assert 0.5 < found.low < found.value < found.high <= 1.0
    opposite = probability_of_improvement(BASE, TRAINED)
    assert opposite.value == pytest.approx(1.0 - found.value)


def test_probability_of_improvement_counts_ties_half():
    """Of nine pairs of (1, 2, 2) and (2, 2, 3) four are ties and none is a win."""
    assert probability_of_improvement([1.0, 2.0, 2.0], [2.0, 2.0, 3.0]).value == pytest.approx(2 / 9)


def test_paired_improvement_compares_equal_seeds_only():
    x, y = [[0.2, 0.9], [0.5, 0.9], [0.8, 0.4]], [[0.1, 0.9], [0.4, 0.8], [0.7, 0.6]]
    assert paired_improvement(x, y).value == pytest.approx((3 + 1.5) / 6)
    better = paired_improvement([0.2, 0.5, 0.8], [0.1, 0.4, 0.7])
    assert better == (1.0, 1.0, 1.0), "every seed gained, though the seeds differ more than the algorithms"
    assert probability_of_improvement([0.2, 0.5, 0.8], [0.1, 0.4, 0.7]).value == pytest.approx(6 / 9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: aggregate([]), "scores has shape"),
        (lambda: aggregate([[0.1, math.nan]]), "not finite"),
        (lambda: probability_of_improvement([[1.0, 2.0]], [[1.0]]), "2 tasks and y has 1"),
        (lambda: paired_improvement([1.0, 2.0], [1.0]), "2 seeds and y has 1"),
    ],
)
def test_impossible_scores_raise_value_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
