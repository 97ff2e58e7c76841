"""Glicko-2: the published example, symmetries and invariants."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.arena.glicko2 import GameResult, Glicko2Config, Glicko2Rating, expected_score, rate, win_probability

RATINGS = st.builds(
    Glicko2Rating,
    rating=st.floats(0, 3000),
    rd=st.floats(10, 350),
    vol=st.floats(0.01, 0.2),
)
GAMES = st.lists(
    st.builds(GameResult, opponent=RATINGS, score=st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=12
)


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


@given(RATINGS, RATINGS)
def test_rate_is_monotonic_in_result(player, opponent):
    assert rate(player, [GameResult(opponent, 1.0)]).rating >= player.rating
    assert rate(player, [GameResult(opponent, 0.0)]).rating <= player.rating


@given(st.floats(10, 350), st.floats(0, 400), st.sampled_from([0.0, 0.5, 1.0]))
def test_rate_is_symmetric(rd, gap, score):
    high, low = Glicko2Rating(1500 + gap, rd), Glicko2Rating(1500 - gap, rd)
    up, down = rate(high, [GameResult(low, score)]), rate(low, [GameResult(high, 1.0 - score)])
    assert up.rating - high.rating == pytest.approx(low.rating - down.rating, abs=1e-6)
    assert up.rd == pytest.approx(down.rd, abs=1e-9)


@given(RATINGS, RATINGS)
def test_win_probabilities_sum_to_one(one, other):
    assert win_probability(one, other) + win_probability(other, one) == pytest.approx(1.0)
    assert 0.0 <= expected_score(one, other) <= 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GameResult(Glicko2Rating(), 2.0), "score is 2.0, expected 0 to 1"),
        (lambda: Glicko2Config(tau=0.0), "glicko2.tau is 0.0"),
        (
            lambda: Glicko2Rating.from_dict({"rating": 1500, "rd": -1, "vol": 0.06}),
            "rating.rd is -1, expected a number > 0",
        ),
        (lambda: Glicko2Rating.from_dict({"rating": "high"}), "rating.rating is 'high', expected a number"),
    ],
)
def test_invalid_values_raise_one_line_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
