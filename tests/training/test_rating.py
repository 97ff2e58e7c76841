"""Ratings of snapshots: the most likely ones, finite after a clean sweep, honest about their doubt."""

from __future__ import annotations

import math

import pytest

from echelon.training.opponents.rating import Meeting, expected_score, rate


def test_four_hundred_points_are_odds_of_ten_to_one():
    assert expected_score(400.0, 0.0) == pytest.approx(10 / 11)
    assert expected_score(0.0, 0.0) == 0.5


def test_a_rating_explains_the_results_it_came_from():
    games = 10_000
    meetings = [Meeting(rating=r, score=games * expected_score(137.0, r), games=games) for r in (0.0, 100.0, 250.0)]
    rating, error = rate(meetings)
    assert rating == pytest.approx(137.0, abs=0.5) and 0 < error < 5


def test_even_results_give_the_opponents_rating_and_more_games_less_doubt():
    few, doubt = rate([Meeting(rating=80.0, score=5.0, games=10)])
    many, less = rate([Meeting(rating=80.0, score=500.0, games=1000)])
    assert few == pytest.approx(80.0, abs=1e-3) and many == pytest.approx(80.0, abs=1e-3)
    assert doubt == pytest.approx(400 / math.log(10) / math.sqrt(11 / 4), rel=1e-6) and less < doubt / 9


def test_a_clean_sweep_is_finite_and_grows_with_its_length():
    short, _ = rate([Meeting(rating=0.0, score=4.0, games=4)])
    long, _ = rate([Meeting(rating=0.0, score=40.0, games=40)])
    assert short == pytest.approx(400 * math.log10(4.5 / 0.5), abs=1e-3)
    assert 0 < short < long < 1000


def test_nothing_cannot_be_rated():
    with pytest.raises(ValueError, match="meetings is empty"):
        rate([])
