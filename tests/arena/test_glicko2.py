"""Glicko-2: the published example, symmetries and invariants."""

import itertools
import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from echelon.arena.glicko2 import (
    DEFAULT,
    MAX_RATING,
    MIN_EPSILON,
    GameResult,
    Glicko2Config,
    Glicko2Rating,
    expected_score,
    rate,
    win_probability,
)

RATINGS = st.builds(Glicko2Rating, rating=st.floats(0, 3000), rd=st.floats(10, 350), vol=st.floats(0.01, 0.2))
GAMES = st.lists(
    st.builds(GameResult, opponent=RATINGS, score=st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=12
)
OTHER = Glicko2Config(scale=200.0, rating=1000.0, tau=1.1, epsilon=1e-9)


def test_rate_reproduces_glickman_example():
    games = [
        GameResult(Glicko2Rating(1400, 30), 1.0),
        GameResult(Glicko2Rating(1550, 100), 0.0),
        GameResult(Glicko2Rating(1700, 300), 0.0),
    ]
    got = rate(Glicko2Rating(1500, 200, 0.06), games)
    assert (round(got.rating, 2), round(got.rd, 2), round(got.vol, 5)) == (1464.05, 151.52, 0.06)
    assert got.vol == pytest.approx(0.05999, abs=1e-5)


def test_rate_equal_players_single_win():
    one = Glicko2Rating(1500, 50)
    won, lost = rate(one, [GameResult(one, 1.0)]), rate(one, [GameResult(one, 0.0)])
    assert (round(won.rating, 2), round(lost.rating, 2)) == (1507.26, 1492.74)
    assert round(won.rd, 3) == round(lost.rd, 3) == 50.545


def test_rate_without_games_only_increases_deviation():
    idle = rate(Glicko2Rating(1500, 50), [])
    assert round(idle.rd, 2) == 51.07 and (idle.rating, idle.vol) == (1500, 0.06)
    assert idle.rd == pytest.approx(173.7178 * math.hypot(50 / 173.7178, 0.06))
    idle = rate(Glicko2Rating(1500, 50, 0.1), [], OTHER)
    assert idle.rd == pytest.approx(200 * math.hypot(50 / 200, 0.1)) and idle.vol == 0.1


def test_conservative_rating_subtracts_two_deviations():
    assert Glicko2Rating(1520, 100).conservative_rating() == 1320
    assert Glicko2Rating(1520, 100).conservative_rating(0.5) == 1470


@given(RATINGS, GAMES, st.integers(0, 1000))
def test_rate_is_independent_of_result_order(player, games, seed):
    shuffled = list(games)
    random.Random(seed).shuffle(shuffled)
    assert rate(player, shuffled) == rate(player, games)


@given(RATINGS, GAMES)
def test_rate_returns_finite_values(player, games):
    got = rate(player, games)
    assert all(math.isfinite(v) for v in (got.rating, got.rd, got.vol)) and got.rd > 0 and got.vol > 0


def oracle_score(rating: float, opponent: Glicko2Rating, rd: float, c: Glicko2Config) -> tuple[float, float]:
    """Return weight and expected score against an opponent, with a deviation [points], as Glickman writes them."""
    g = 1 / math.sqrt(1 + 3 * (rd / c.scale) ** 2 / math.pi**2)
    return g, 1 / (1 + math.exp(-g * (rating - opponent.rating) / c.scale))


def oracle_rate(player: Glicko2Rating, games: list[GameResult], c: Glicko2Config) -> Glicko2Rating | None:
    """Return the rating after a period, with the volatility found by bisection.

    None where the equation of the volatility has several roots, as after an upset of many deviations.
    """
    phi = player.rd / c.scale
    terms = [(*oracle_score(player.rating, game.opponent, game.opponent.rd, c), game.score) for game in games]
    v = 1 / sum(g * g * e * (1 - e) for g, e, _ in terms)
    surprise = sum(g * (score - e) for g, e, score in terms)
    delta, a = v * surprise, math.log(player.vol**2)

    def f(x: float) -> float:
        d = phi**2 + v + math.exp(x)
        return math.exp(x) * (delta**2 - d) / (2 * d**2) - (x - a) / c.tau**2

    signs = [(a + k / 10, f(a + k / 10) > 0) for k in range(-250, 250)]
    roots = [(low, high) for (low, one), (high, other) in itertools.pairwise(signs) if one and not other]
    if len(roots) > 1:
        return None
    low, high = roots[0]
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    vol = math.exp(low / 2)
    new_phi = 1 / math.sqrt(1 / (phi**2 + vol**2) + 1 / v)
    return Glicko2Rating(player.rating + c.scale * new_phi**2 * surprise, c.scale * new_phi, vol)


def assert_same_rating(found: Glicko2Rating, expected: Glicko2Rating | None) -> None:
    assert expected is not None
    assert found.vol == pytest.approx(expected.vol, rel=2e-6)
    assert found.rd == pytest.approx(expected.rd, rel=1e-6)
    assert found.rating == pytest.approx(expected.rating, rel=1e-6, abs=1e-3)


@given(RATINGS, GAMES, st.sampled_from([DEFAULT, OTHER]))
def test_rate_matches_the_oracle(player, games, config):
    expected = oracle_rate(player, games, config)
    assume(expected is not None)
    assert_same_rating(rate(player, games, config), expected)


@pytest.mark.parametrize("config", [DEFAULT, OTHER, Glicko2Config(tau=8.0)], ids=["default", "other", "loose"])
@pytest.mark.parametrize(
    ("player", "opponent", "score", "games"),
    [
        (Glicko2Rating(1500, 30, 0.06), Glicko2Rating(1500, 30), 0.5, 3),
        (Glicko2Rating(1500, 200, 0.06), Glicko2Rating(1500, 30), 1.0, 3),
        (Glicko2Rating(1500, 30, 0.5), Glicko2Rating(1500, 30), 1.0, 60),
        (Glicko2Rating(1200, 300, 3.0), Glicko2Rating(1200, 30), 1.0, 2),
        (Glicko2Rating(1200, 300, 1e4), Glicko2Rating(1200, 30), 0.5, 20),
    ],
    ids=["draws", "upset", "many upsets", "volatile", "volatility falls far"],
)
def test_rate_matches_the_oracle_with_every_bracket(player, opponent, score, games, config):
    results = [GameResult(opponent, score)] * games
    assert_same_rating(rate(player, results, config), oracle_rate(player, results, config))


@given(RATINGS, RATINGS, st.sampled_from([DEFAULT, OTHER]))
def test_expected_scores_match_the_oracle(one, other, config):
    assert expected_score(one, other, config) == pytest.approx(oracle_score(one.rating, other, other.rd, config)[1])
    both = math.sqrt(one.rd**2 + other.rd**2)
    assert win_probability(one, other, config) == pytest.approx(oracle_score(one.rating, other, both, config)[1])


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_rate_of_games_without_information_stays_finite(score):
    far, config = Glicko2Rating(1e8, 30), Glicko2Config(min_information=1e-3)
    got = rate(Glicko2Rating(1500, 50), [GameResult(far, score)], config)
    assert math.isfinite(got.rating) and 50 < got.rd < 52
    assert (got.rating > 1500) is (score == 1.0)
    assert expected_score(far, Glicko2Rating()) == 1.0 and expected_score(Glicko2Rating(), far) == 0.0


@pytest.mark.parametrize("name", ["rating", "rd", "vol"])
@pytest.mark.parametrize("value", [math.nan, math.inf, MAX_RATING, -MAX_RATING, 10**400])
def test_rating_rejects_numbers_that_no_games_lead_to(name, value):
    with pytest.raises(ValueError, match=r"^rating is .*, rd .*, vol .*, expected numbers, two > 0$"):
        Glicko2Rating(**{"rating": 1500.0, "rd": 50.0, "vol": 0.06, name: value})


def test_constants_round_trip_as_dict():
    assert Glicko2Config.from_dict({}) == DEFAULT
    assert Glicko2Config.from_dict({"tau": 1, "scale": 200}) == Glicko2Config(tau=1.0, scale=200.0)
    assert Glicko2Config.from_dict({"epsilon": MIN_EPSILON}).epsilon == MIN_EPSILON


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Glicko2Config.from_dict([]), r"glicko2 is \[\], expected its constants scale, rating, rd, vol, tau"),
        (lambda: Glicko2Config.from_dict({"k": 32}), "glicko2 is {'k': 32}, expected its constants"),
        (lambda: Glicko2Config.from_dict("x" * 99), f"glicko2 is '{'x' * 59}, expected its constants"),
        (lambda: Glicko2Config.from_dict({"tau": -1.0}), "glicko2.tau is -1.0, expected a number > 0"),
        (lambda: Glicko2Config.from_dict({"tau": "high"}), "glicko2 is {'tau': 'high'}, expected its constants"),
        (lambda: Glicko2Config.from_dict({"epsilon": 1e-13}), "glicko2.epsilon is 1e-13, expected at least 1e-12"),
        (lambda: GameResult(Glicko2Rating(), 1.1), "score is 1.1, expected 0 to 1"),
        (lambda: GameResult(Glicko2Rating(), -0.1), "score is -0.1, expected 0 to 1"),
        (lambda: GameResult(Glicko2Rating(), math.nan), "score is nan, expected 0 to 1"),
        (lambda: Glicko2Config(vol=math.inf), "glicko2.vol is inf, expected a number > 0"),
        (lambda: Glicko2Rating(1500, -1, 0.06), "rd -1, vol 0.06, expected numbers, two > 0"),
        (lambda: Glicko2Rating(1500, 50, 0), "vol 0, expected numbers, two > 0"),
    ],
)
def test_invalid_values_raise_one_line_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
