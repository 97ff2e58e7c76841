"""Statistics of experiments against scipy and hand-worked values."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from echelon.statistics import (
    alpha_rank,
    jackknife,
    mean_of_seeds,
    nash_support,
    nash_weights,
    paired_improvement,
    support_frequency,
    team_excess,
    time_spread,
    wilson_interval,
)

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(("wins", "episodes"), [(0, 10), (3, 10), (10, 10), (83, 200), (1, 1)])
def test_wilson_interval_equals_scipy(wins, episodes):
    expected = scipy.stats.binomtest(wins, episodes).proportion_ci(0.95, method="wilson")
    assert wilson_interval(wins, episodes) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_interval_contains_the_rate_to_the_last_bit():
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert all(wilson_interval(0, n)[0] == 0.0 and wilson_interval(n, n)[1] == 1.0 for n in range(1, 200))


@pytest.mark.parametrize("seeds", [2, 3, 5, 6, 10, 60])
def test_interval_of_a_mean_of_seeds_equals_that_of_scipy(seeds):
    scores = RNG.normal(size=seeds).tolist()
    expected = scipy.stats.t.interval(0.95, seeds - 1, np.mean(scores), scipy.stats.sem(scores))
    assert mean_of_seeds(scores) == pytest.approx((np.mean(scores), *expected), abs=0.01)
    assert mean_of_seeds([0.5] * seeds) == pytest.approx((0.5, math.nan, math.nan), nan_ok=True)
    assert mean_of_seeds([]) == pytest.approx((math.nan,) * 3, nan_ok=True)


@pytest.mark.parametrize(("logit", "spread"), [(0.0, 0.3), (0.0, 0.8), (1.5, 0.3), (1.5, 0.6), (3.0, 0.3)])
def test_interval_of_the_mean_rate_of_five_seeds_covers_95_percent(logit, spread):
    """Rates of seeds are normal on the logit scale, each measured by 200 matches; a bootstrap covers too little."""
    rng = np.random.default_rng(1)

    def rates(*shape: int) -> np.ndarray:
        return 1 / (1 + np.exp(-rng.normal(logit, spread, shape)))

    true, found = rates(1_000_000).mean(), rng.binomial(200, rates(4000, 5)) / 200
    estimates = [mean_of_seeds(row, are_rates=True) for row in found.tolist()]
    assert np.mean([low <= true <= high for _, low, high in estimates]) >= 0.94
    samples = found[:, rng.integers(0, 5, (500, 5))].mean(-1)
    low, high = np.quantile(samples, [0.025, 0.975], axis=1)
    assert ((low <= true) & (true <= high)).mean() < 0.9


def test_interval_of_rates_stays_between_0_and_1():
    assert mean_of_seeds([1.0, 1.0, 0.9], are_rates=True).high < 1.0 < mean_of_seeds([1.0, 1.0, 0.9]).high
    assert mean_of_seeds([1e-12, 0.0], are_rates=True).low == 0.0


def test_paired_improvement_compares_equal_seeds_only():
    x, y = [[0.2, 0.9], [0.5, 0.9], [0.8, 0.4]], [[0.1, 0.9], [0.4, 0.8], [0.7, 0.6]]
    assert paired_improvement(x, y).value == pytest.approx((3 + 1.5) / 6)
    better = paired_improvement([0.2, 0.5, 0.8], [0.1, 0.4, 0.7])
    assert better.value == 1.0, "every seed gained, though the seeds differ more than the algorithms"


@pytest.mark.parametrize(
    ("x", "expected"),
    [([0.2, 0.5, 0.8], (1.0, 0.438503, 1.0)), ([0.0, 0.0, 0.0], (0.0, 0.0, 0.561497)),
     ([0.1, 0.4, 0.7], (0.5, 0.125334, 0.874666)), ([0.2], (1.0, math.nan, math.nan))],
)  # fmt: skip
def test_paired_improvement_of_equal_outcomes_has_the_wilson_interval(x, expected):
    found = paired_improvement(x, [0.1, 0.4, 0.7][: len(x)])
    assert found == pytest.approx(expected, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_improvement([], []), "x has shape"),
        (lambda: paired_improvement([[0.1]], [[math.nan]]), "not finite"),
        (lambda: paired_improvement([[1.0, 2.0]], [[1.0]]), "2 tasks and y has 1"),
        (lambda: paired_improvement([1.0, 2.0], [1.0]), "2 seeds and y has 1"),
    ],
)
def test_impossible_scores_raise_value_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def game_of(gains) -> np.ndarray:
    """Return the scores of a meta-game from the part above the diagonal of its gains over 1/2."""
    upper = np.triu(np.asarray(gains, float), 1)
    return 0.5 + upper - upper.T


def random_game(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Return a game of 2 to 11 policies: generic scores, those of few matches, or few policies with duplicates."""
    n = int(rng.integers(2, 12))
    if kind == "generic":
        return game_of(rng.uniform(-0.5, 0.5, (n, n)))
    if kind == "few matches":
        return game_of(rng.integers(-2, 3, (n, n)) / 4)
    copies = rng.integers(0, n, n)
    return game_of(rng.uniform(-0.5, 0.5, (n, n)))[copies][:, copies]


KINDS = ("generic", "few matches", "duplicates")
CYCLE = game_of([[0, -0.25, 0.5], [0, 0, -0.05], [0, 0, 0]])
"""The biased rock-paper-scissors of Omidshafiei et al. (2019)."""


def entropy(weights: np.ndarray) -> float:
    return float(scipy.stats.entropy(weights))


@pytest.mark.parametrize(
    ("scores", "nash", "alpha"),
    [
        ([[0.5]], [1], [1]),
        ([[0.5, 0.5], [0.5, 0.5]], [1 / 2, 1 / 2], [1 / 2, 1 / 2]),
        (game_of([[0, -0.5, 0.5], [0, 0, -0.5], [0, 0, 0]]), [1 / 3] * 3, [1 / 3] * 3),
        (CYCLE, [1 / 16, 10 / 16, 5 / 16], [1 / 3] * 3),
        (game_of(np.full((4, 4), 0.1)), [1, 0, 0, 0], [1, 0, 0, 0]),
        # Balduzzi et al. (2018): a copy of C shares its weight
        (game_of([[0, 0.46, -0.46, -0.46], [0, 0, 0.46, 0.46], [0] * 4, [0] * 4]), [1 / 3, 1 / 3, 1 / 6, 1 / 6], None),
        # the first two are equal and beat the third
        (game_of([[0, 0, 0.2], [0, 0, 0.1], [0, 0, 0]]), [1 / 2, 1 / 2, 0], [1 / 2, 1 / 2, 0]),
        # A beats B beats C ties A: B loses as soon as A has more weight than C; balance of flows by hand
        (game_of([[0, 0.2, 0], [0, 0, 0.2], [0, 0, 0]]), [1 / 2, 0, 1 / 2], [51 / 53, 1 / 53, 1 / 53]),
    ],
)
def test_nash_weights_and_alpha_rank_of_known_games(scores, nash, alpha):
    assert nash_weights(scores) == pytest.approx(nash, abs=1e-6)
    if alpha is not None:
        assert alpha_rank(scores) == pytest.approx(alpha, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_nash_weights_equal_linear_and_convex_programs(kind):
    """A policy is in the support where a linear program gives it weight; no equilibrium has more entropy."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        scores = random_game(rng, kind)
        n, gains, found = len(scores), scores - 0.5, nash_weights(scores)
        assert found.min() >= 0 and found.sum() == pytest.approx(1.0) and (scores @ found).max() <= 0.5 + 1e-9
        equal = {"A_ub": gains, "b_ub": np.zeros(n), "A_eq": np.ones((1, n)), "b_eq": [1]}
        most = [-scipy.optimize.linprog(-np.eye(n)[i], **equal).fun for i in range(n)]
        assert [weight > 1e-7 for weight in most] == (found > 0).tolist() == nash_support(scores).tolist()
        # entropy is at its maximum where its gradient is made of those of the conditions that hold with equality
        support, losses = found > 0, -gains @ found
        active = losses < 1e-6
        gradients = np.vstack([gains[active][:, support], np.ones(support.sum())]).T
        least = np.append(np.where(support[active], -np.inf, 0.0), -np.inf)
        fit = scipy.optimize.lsq_linear(gradients, -np.log(found[support]), bounds=(least, np.inf))
        assert fit.cost < 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_meta_game_values_follow_permutations_and_duplicates_share(kind):
    rng = np.random.default_rng(4)
    for _ in range(20):
        scores = random_game(rng, kind)
        order = rng.permutation(len(scores))
        shuffled = scores[order][:, order]
        assert nash_weights(shuffled) == pytest.approx(nash_weights(scores)[order], abs=1e-6)
        assert alpha_rank(shuffled) == pytest.approx(alpha_rank(scores)[order], abs=1e-9)
        twice = np.append(order, order[0])
        found, before = nash_weights(scores[twice][:, twice]), nash_weights(shuffled)
        assert found[0] == pytest.approx(found[-1], abs=1e-6)
        assert entropy(found) >= entropy(before) - 1e-6, "a copy takes nothing from the others by force"
        masses = alpha_rank(scores[twice][:, twice])
        assert masses[0] == pytest.approx(masses[-1], abs=1e-9) and masses.sum() == pytest.approx(1.0)


def finite_alpha_rank(scores: np.ndarray, population: int, alpha: float) -> np.ndarray:
    """Return alpha-rank of a single population as published, by the power method."""
    n = len(scores)
    chain = np.zeros((n, n))
    for resident in range(n):
        for mutant in range(n):
            if mutant != resident:
                fitter = alpha * (scores[mutant, resident] - scores[resident, mutant])
                rho = 1 / population if fitter == 0 else math.expm1(-fitter) / math.expm1(-population * fitter)
                chain[resident, mutant] = rho / (n - 1)
        chain[resident, resident] = 1 - chain[resident].sum()
    return np.linalg.matrix_power(chain, 1 << 20)[0]


@pytest.mark.parametrize("population", [2, 5])
def test_alpha_rank_is_the_limit_of_strong_selection(population):
    rng = np.random.default_rng(6)
    for _ in range(8):
        scores = game_of(rng.integers(-2, 3, (6, 6)) / 10)
        assert alpha_rank(scores, population) == pytest.approx(finite_alpha_rank(scores, population, 100), abs=1e-6)


def test_support_frequency_follows_the_matches():
    """Of ten even matches a sample has at least five wins with a probability of 0.623; a pair of five wins shares."""
    results = np.zeros((3, 3, 3), int)
    for i, j, outcome in ((0, 1, (5, 0, 5)), (0, 2, (40, 0, 0)), (1, 2, (40, 0, 0))):
        results[i, j], results[j, i] = outcome, outcome[::-1]
    scores = game_of([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])
    found = support_frequency(results, scores, resamples=4000)
    assert found[:2] == pytest.approx([scipy.stats.binom.sf(4, 10, 0.5)] * 2, abs=0.025) and found[2] == 0
    assert (found == support_frequency(results, scores, resamples=4000)).all()
    drawn = np.zeros((2, 2, 3), int)
    drawn[0, 1] = drawn[1, 0] = (0, 7, 0)
    assert support_frequency(drawn, CYCLE[:2, :2] * 0 + 0.5).tolist() == [1, 1]
    assert support_frequency(np.zeros((3, 3, 3), int), CYCLE, resamples=3).tolist() == [1, 1, 1], "nothing to draw"


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.5], "policies x policies"),
        (np.zeros((0, 0)), "at least one"),
        ([[0.5, math.nan], [0.5, 0.5]], "not finite"),
        ([[0.5, 0.7], [0.7, 0.5]], "do not add up to 1"),
    ],
)
def test_impossible_meta_games_raise_value_error(scores, message):
    for call in (nash_weights, nash_support, alpha_rank):
        with pytest.raises(ValueError, match=message):
            call(scores)


def test_jackknife_equals_student_and_covers_a_ratio_of_few_seeds():
    rng = np.random.default_rng(1)
    scores = rng.normal(1.0, 1.0, 12)
    expected, (found, p_value) = scipy.stats.ttest_1samp(scores, 0.0), jackknife(np.mean, scores)
    assert (*found[1:], p_value) == pytest.approx((*expected.confidence_interval(), expected.pvalue))
    sums = rng.gamma(4.0, (1.3, 1.0), (1000, 40, 2)) * rng.uniform(0.5, 2.0, (1000, 40, 1))
    bounds = [jackknife(lambda x: np.log(np.divide(*x.sum(0))), row)[0] for row in sums]
    assert 0.93 < np.mean([low <= np.log(1.3) <= high for _, low, high in bounds]) < 0.97
    assert np.isnan(jackknife(np.mean, np.ones(5))[1]) and np.isnan(jackknife(np.mean, np.ones(1))[0].low)


@pytest.mark.parametrize(("gain", "curvature"), [(0.4, 0.0), (0.1, 0.1), (0.5, -0.1)])
def test_team_excess_finds_superadditive_teams(gain, curvature):
    """Teams of k mechs win with a logit of gain k + curvature k^2; conditions share the luck of a seed and side."""
    rng, k = np.random.default_rng(2), np.arange(6)
    rates = 1 / (1 + np.exp(-(gain * k + curvature * k * k)))
    luck = scipy.stats.norm.cdf((rng.normal(size=(300, 100, 1, 2)) + rng.normal(size=(300, 100, 6, 2))) / np.sqrt(2))
    found = [jackknife(team_excess, wins) for wins in luck < rates[:, None]]
    rejected = np.mean([p_value < 0.05 for _, p_value in found])
    assert 0.02 < rejected < 0.08 if curvature == 0 else rejected > 0.85
    assert np.median([estimate.value for estimate, _ in found]) == pytest.approx(20 * curvature, abs=0.25)
    assert np.mean([low <= 20 * curvature <= high for (_, low, high), _ in found]) > 0.92


def test_time_spread_equals_that_of_permuted_members():
    rng = np.random.default_rng(3)
    times = rng.normal((5.0, 6.0, 9.0), (1.0, 2.0, 1.0), (30, 3)) + 3 * rng.normal(size=(30, 1))
    within, chance = time_spread(times)
    assert within == pytest.approx(np.sqrt(times.var(1, ddof=1).mean()))
    permuted = [rng.permuted(times, axis=0).var(1, ddof=1).mean() for _ in range(4000)]
    assert chance == pytest.approx(np.sqrt(np.mean(permuted)), rel=0.01) and within < 0.8 * chance
    assert time_spread(np.where(rng.random((30, 3)) < 0.3, np.nan, times)) == pytest.approx((within, chance), rel=0.15)
    assert np.isnan(time_spread(np.full((4, 3), np.nan))).all()
