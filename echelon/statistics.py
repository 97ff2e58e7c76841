"""Statistics of experiments: intervals of win rates, aggregates over training seeds and tasks, values of a meta-game.

Few training seeds are usual: a mean of seeds has an interval by Student's t, since a bootstrap of five seeds covers too
little. Two algorithms are compared by the probability of improvement (Agarwal et al., 2021) over N seeds and K tasks,
such as win rates against K opponents.

A meta-game of N policies is the array ``[N, N]`` of their scores per match, ``[i, j]`` that of i against j: wins plus
half the draws. It is symmetric with value 1/2. Policies are compared by its Nash equilibrium of maximum entropy
(Balduzzi et al., 2018), which duplicates do not change, and by alpha-rank (Omidshafiei et al., 2019).

numpy is loaded on first use: light modules need only the Wilson interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import stdev
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

Z_95 = 1.959963984540054
"""Standard normal quantile of a 95 % interval."""
T_95 = (12.706, 4.303, 3.182, 2.776)
"""The same of Student's t with 1 to 4 degrees of freedom; with more its expansion in their inverse is exact to 0.01."""
RESAMPLES = 2000
"""Bootstrap samples of a meta-game."""
POPULATION = 50
"""Population size of alpha-rank."""
TIE = 1e-9
"""Distance from 1/2 below which a score is a tie, and of a policy's score from the value below which it is attained."""
GAP, CENTRING, BOUNDARY = 1e-13, 0.1, 0.95
"""Interior-point method: duality gap per variable at its end, factor of it aimed at in a step, share of the way to the
boundary that a step may go."""
MAX_STEPS = 60
"""Most steps of it; a game of 60 policies takes 25."""
SMALLEST, MOST_STEPS = 1e-300, 1000
"""Least weight whose entropy is computed, and most steps of its maximisation."""
CHUNK = 1 << 20
"""Scores of bootstrap samples that are held at a time."""
ELO_SCALE = 400.0 / math.log(10.0)
"""Points of a rating for a factor e in the odds of winning."""
NEWTON_STEPS = 50
"""Steps of the fit of ratings; 20 players that beat each other in order take 15."""


class Estimate(NamedTuple):
    """A statistic and its confidence interval; the bounds are NaN where one seed allows no interval."""

    value: float
    low: float
    high: float


def wilson_interval(wins: float, episodes: int, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson score interval (1927) of a win rate; [0, 1] without episodes.

    With draws as half a win it is the interval of a score, and too wide rather than too narrow.
    """
    if episodes == 0:
        return 0.0, 1.0
    rate, z2 = wins / episodes, z * z
    centre = rate + z2 / (2 * episodes)
    half = z * math.sqrt(rate * (1 - rate) / episodes + z2 / (4 * episodes * episodes))
    low, high = (centre - half) / (1 + z2 / episodes), (centre + half) / (1 + z2 / episodes)
    return max(0.0, min(rate, low)), min(1.0, max(rate, high))


def mean_of_seeds(scores: Sequence[float], *, are_rates: bool = False) -> Estimate:
    """Return the mean of scores of training seeds and its 95 % interval by Student's t; none where all agree.

    The interval of rates is one of their logit, which stays between 0 and 1.
    """
    count, z = len(scores), Z_95
    value = sum(scores) / count if count else math.nan
    if len(set(scores)) < 2:
        return Estimate(value, math.nan, math.nan)
    n = count - 1
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    t = T_95[n - 1] if n <= len(T_95) else z + sum(term / n**power for power, term in enumerate(terms, start=1))
    half = t * stdev(scores) / math.sqrt(count)
    if not are_rates or not 0.0 < value < 1.0:
        return Estimate(value, value - half, value + half)
    logit, half = math.log(value / (1.0 - value)), half / (value * (1.0 - value))
    return Estimate(value, *(0.5 + 0.5 * math.tanh(bound / 2.0) for bound in (logit - half, logit + half)))


def paired_difference(differences: ArrayLike, z: float = Z_95) -> Estimate:
    """Return the mean of paired differences of scores ``[N]``, each -1 to 1, and its adjusted Wald interval.

    One pair of each sign is added, after Bonett and Price (2012): pairs that all agree still have an interval.
    """
    import numpy as np

    x = _scores("differences", differences)[:, 0]
    count = len(x) + 2
    centre = float(x.sum()) / count
    half = z * math.sqrt(max(0.0, (float((x * x).sum()) + 2.0) / count - centre * centre) / count)
    return Estimate(float(np.mean(x)), max(-1.0, centre - half), min(1.0, centre + half))


def jackknife(statistic: Callable[[np.ndarray], float], samples: np.ndarray) -> tuple[Estimate, float]:
    """Return a smooth statistic of ``samples [N, ...]`` with its 95 % interval, and the p value of 0, two-sided.

    Each sample is left out in turn (Tukey, 1958), with Student's t; NaN where that changes nothing.
    """
    import numpy as np
    from scipy.stats import t

    value, n = float(statistic(samples)), len(samples)
    without = np.array([statistic(np.delete(samples, i, axis=0)) for i in range(n)]) if n > 1 else np.zeros(1)
    error = math.sqrt((n - 1) * float(without.var()))
    if not error > 0.0:
        return Estimate(value, math.nan, math.nan), math.nan
    half = float(t.ppf(0.975, n - 1)) * error
    return Estimate(value, value - half, value + half), float(2 * t.sf(abs(value) / error, n - 1))


def team_excess(wins: np.ndarray) -> float:
    """Return by how much the gain of a whole team exceeds the sum of single gains, in logits of the win rate.

    ``wins [N, K, S]`` are the matches of N seeds won by teams with 0 to K - 1 mechs of a policy. Empirical logits (Cox,
    1970), weighted by inverse variance, are fitted by ``a + b k + c k^2``: k mechs gain ``c k (k - 1)`` more than k
    times one mech. That is 0 in an additive game, above 0 in a convex one, which is superadditive (Shapley, 1971).
    """
    import numpy as np

    won, sizes = wins.sum((0, 2)) + 0.5, np.arange(wins.shape[1])
    lost = wins.shape[0] * wins.shape[2] + 1.0 - won
    curvature = np.polyfit(sizes, np.log(won / lost), 2, w=np.sqrt(won * lost))[0]
    return float(curvature * sizes[-1] * (sizes[-1] - 1))


def time_spread(times: np.ndarray) -> tuple[float, float]:
    """Return the spread of ``times [M, K]`` among the K members of a match, and its expectation by chance.

    It is the standard deviation over members, as a root mean square over M matches; a pair of members counts where
    neither time is NaN. By chance, each member's times are permuted over the matches.
    """
    import numpy as np

    known = np.ma.masked_invalid(times)
    means, variances = known.mean(0).filled(0.0), known.var(0).filled(0.0)
    apart = times[:, :, None] - times[:, None]
    counts = (~np.isnan(apart)).sum(0) * (1 - np.eye(len(means)))
    expected = variances[:, None] + variances + (means[:, None] - means) ** 2
    total = 2 * counts.sum() or math.nan
    return math.sqrt(np.nansum(apart**2) / total), math.sqrt((counts * expected).sum() / total)


def paired_improvement(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Return the probability that ``x [N, K]`` beats ``y [N, K]`` with the same seed on a task, and its 95 % interval.

    Row n of both was trained with the same seed; ties count one half. The interval is Wilson's, of N pairs.
    """
    a, b = _scores("x", x), _scores("y", y)
    _require_equal("tasks", a.shape[1], b.shape[1])
    _require_equal("seeds", a.shape[0], b.shape[0])
    value = float(((a > b) + 0.5 * (a == b)).mean())
    bounds = wilson_interval(value * len(a), len(a)) if len(a) > 1 else (math.nan, math.nan)
    return Estimate(value, *bounds)


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


def bradley_terry(points: ArrayLike, anchor: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return ratings ``[N]`` on the Elo scale and their covariances ``[N, N]``; those of the ``anchor`` are 0.

    ``points [N, N]`` are those of each row against each column, a draw half a point for both. Each pair that played has
    an additional draw, so that a player who won every match has a rating (Bradley and Terry, 1952).
    """
    import numpy as np

    won = np.array(points, float)
    won += 0.5 * ((won + won.T > 0) & ~np.eye(len(won), dtype=bool))
    games, free = won + won.T, np.arange(len(won)) != anchor
    strengths = np.zeros(len(won))
    for _ in range(NEWTON_STEPS):
        expected = 1.0 / (1.0 + np.exp(strengths[None] - strengths[:, None]))
        weights = games * expected * (1.0 - expected)
        information = (np.diag(weights.sum(1)) - weights)[np.ix_(free, free)]
        step = np.linalg.pinv(information) @ (won - games * expected).sum(1)[free]
        strengths[free] += np.clip(step, -1.0, 1.0)
    covariances = np.zeros((len(won), len(won)))
    covariances[np.ix_(free, free)] = np.linalg.pinv(information)
    return ELO_SCALE * strengths, ELO_SCALE**2 * covariances


def nash_weights(scores: ArrayLike) -> np.ndarray:
    """Return the weights ``[N]`` of the Nash equilibrium of maximum entropy of a meta-game ``[N, N]``.

    No policy scores more than 1/2 against the mixture. It has weight on every policy that any equilibrium plays.
    An interior-point method finds the equilibria: the support is exact, weights are to 1e-6 where there are several
    equilibria. Raises ``ValueError`` where the scores are no such game.
    """
    import numpy as np

    gains = _gains(scores)
    weights, slack = _central_equilibrium(gains[None])
    found = np.zeros(len(gains))
    support = weights[0] > slack[0]
    found[support] = _most_even(gains, support, weights[0, support])
    return found


def nash_support(scores: ArrayLike) -> np.ndarray:
    """Return whether each policy is in the support of the equilibrium ``[..., N]`` of meta-games ``[..., N, N]``."""
    gains = _gains(scores)
    weights, slack = _central_equilibrium(gains.reshape(-1, *gains.shape[-2:]))
    return (weights > slack).reshape(gains.shape[:-1])


def support_frequency(
    results: ArrayLike, scores: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """Return the share ``[N]`` of bootstrap samples in which each policy is in the support of the equilibrium.

    ``results [N, N, 3]`` counts wins, draws and losses of each row against each column. A sample draws the matches of
    every pair with replacement; a pair without matches keeps its ``scores [N, N]``.
    """
    import numpy as np

    games, counts = _gains(scores) + 0.5, np.asarray(results, np.int64)
    n, rng = len(games), np.random.default_rng(seed)
    rows, columns = np.nonzero(np.triu(counts.sum(-1) > 0, 1))
    played = counts[rows, columns]
    matches = played.sum(-1)
    found, per_chunk = np.zeros(n), max(1, CHUNK // (n * n))
    for first in range(0, resamples, per_chunk):
        size = min(per_chunk, resamples - first)
        drawn = rng.multinomial(matches, played / matches[:, None], size=(size, len(rows)))
        sample = np.broadcast_to(games, (size, n, n)).copy()
        sample[:, rows, columns] = (drawn[..., 0] + drawn[..., 1] / 2) / matches
        sample[:, columns, rows] = 1.0 - sample[:, rows, columns]
        found += nash_support(sample).sum(0)
    return found / resamples


def alpha_rank(scores: ArrayLike, population: int = POPULATION) -> np.ndarray:
    """Return the mass ``[N]`` of each policy of a meta-game under alpha-rank, in the limit of strong selection.

    In a population of one policy a mutant takes over with probability 1 where it scores more than 1/2 against the
    residents, 1 / ``population`` where exactly 1/2, and else 0. The mass is the stationary distribution of these
    transitions. It is unique: between any two policies there is a transition.
    """
    import numpy as np

    gains = _gains(scores)
    n = len(gains)
    takes_over = np.where(gains > TIE, 1.0, np.where(gains < -TIE, 0.0, 1.0 / population))
    np.fill_diagonal(takes_over, 0.0)
    # mutants are drawn evenly from the other policies; a column is the residents' policy
    flow = takes_over / max(1, n - 1)
    flow -= np.diag(flow.sum(0))
    flow[0] = 1.0
    mass = np.clip(np.linalg.solve(flow, np.eye(n)[0]), 0.0, None)
    return mass / mass.sum()


def _gains(scores: ArrayLike) -> np.ndarray:
    """Return the scores of meta-games ``[..., N, N]`` above 1/2, exactly antisymmetric."""
    import numpy as np

    games = np.asarray(scores, float)
    if games.ndim < 2 or games.shape[-1] != games.shape[-2] or games.size == 0:
        raise ValueError(f"scores has shape {games.shape}, expected policies x policies, at least one")
    if not np.isfinite(games).all():
        raise ValueError("scores contains a value that is not finite, expected numbers")
    transposed = np.swapaxes(games, -1, -2)
    if np.abs(games + transposed - 1.0).max() > TIE:
        raise ValueError("scores of a pair do not add up to 1, expected wins plus half the draws per match")
    return (games - transposed) / 2.0


def _central_equilibrium(gains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an equilibrium of each meta-game with ``gains [B, N, N]``, not normalised, and the losses of each policy.

    Of a policy's weight and its loss against the mixture, ``[B, N]`` each, exactly one is 0; the weights are positive
    where those of any equilibrium are. A path-following method on the self-dual embedding of ``-gains @ x >= 0``, which
    starts at its centre (Ye, Todd and Mizuno, 1994): ``s = m @ x + q`` with a skew-symmetric m and ``x_i s_i`` equal.
    """
    import numpy as np

    batch, n, _ = gains.shape
    m = np.zeros((batch, n + 1, n + 1))
    m[:, :n, :n], m[:, :n, n] = -gains, 1.0 + gains.sum(-1)
    m[:, n, :n] = -m[:, :n, n]
    x, s, diagonal = np.ones((batch, n + 1)), np.ones((batch, n + 1)), np.arange(n + 1)
    for _ in range(MAX_STEPS):
        gap = (x * s).mean(-1, keepdims=True)
        if gap.max() < GAP:
            break
        system = x[:, :, None] * m
        system[:, diagonal, diagonal] += s
        target = np.where(gap < GAP, gap, CENTRING * gap)
        dx = np.linalg.solve(system, (target - x * s)[..., None])[..., 0]
        ds = (m @ dx[..., None])[..., 0]
        fastest = np.minimum((dx / x).min(-1, keepdims=True), (ds / s).min(-1, keepdims=True))
        step = np.minimum(1.0, BOUNDARY / np.maximum(-fastest, TIE))
        x, s = x + step * dx, s + step * ds
    return x[:, :n], s[:, :n]


def _most_even(gains: np.ndarray, support: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights ``[S]`` of the equilibrium of maximum entropy, given positive ones of all ``support [N]``.

    Sequential quadratic programming within the plane of the equalities: policies in the support lose nothing, weights
    add up to 1. Weights are not negative, and the other policies do not win.
    """
    import numpy as np

    p = weights / weights.sum()
    losses = -gains[:, support]
    tight = support | (losses @ p < TIE)
    equal = np.vstack([losses[tight], np.ones(len(p))])
    _, singular, basis = np.linalg.svd(equal)
    free = basis[np.count_nonzero(singular > TIE * singular[0]) :].T
    p = p - np.linalg.pinv(equal, rcond=TIE) @ (equal @ p - np.eye(len(equal))[-1])
    if not free.size:
        return p
    from scipy.optimize import minimize

    bounds = np.vstack([np.eye(len(p)), losses[~tight]])

    def disorder(step: np.ndarray) -> tuple[float, np.ndarray]:
        found = np.maximum(p + free @ step, SMALLEST)
        return float(found @ np.log(found)), free.T @ (np.log(found) + 1.0)

    within = {"type": "ineq", "fun": lambda step: bounds @ (p + free @ step), "jac": lambda step: bounds @ free}
    start, options = np.zeros(free.shape[1]), {"ftol": GAP * GAP, "maxiter": MOST_STEPS}
    return p + free @ minimize(disorder, start, jac=True, method="SLSQP", constraints=within, options=options).x
