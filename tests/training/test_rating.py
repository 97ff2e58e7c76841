"""Ratings of snapshots: maximum likelihood, finite after a clean sweep, with standard errors."""

from __future__ import annotations

import math

import pytest

from echelon.training.opponents.rating import OpponentResult, expected_score, rate


def test_expected_score_400_points_are_ten_to_one():
    assert expected_score(400.0, 0.0) == pytest.approx(10 / 11)
    assert expected_score(0.0, 0.0) == 0.5


def test_rate_recovers_true_rating():
    games = 10_000
    results = [
        OpponentResult(rating=r, score=games * expected_score(137.0, r), games=games) for r in (0.0, 100.0, 250.0)
    ]
    rating, error = rate(results)
    assert rating == pytest.approx(137.0, abs=0.5) and 0 < error < 5


def test_rate_error_shrinks_with_games():
    few, error = rate([OpponentResult(rating=80.0, score=5.0, games=10)])
    many, less = rate([OpponentResult(rating=80.0, score=500.0, games=1000)])
    assert few == pytest.approx(80.0, abs=1e-3) and many == pytest.approx(80.0, abs=1e-3)
    assert error == pytest.approx(400 / math.log(10) / math.sqrt(11 / 4), rel=1e-6) and less < error / 9


def test_rate_of_clean_sweep_is_finite():
    short, _ = rate([OpponentResult(rating=0.0, score=4.0, games=4)])
    long, _ = rate([OpponentResult(rating=0.0, score=40.0, games=40)])
    assert short == pytest.approx(400 * math.log10(4.5 / 0.5), abs=1e-3)
    assert 0 < short < long < 1000


def test_rate_rejects_empty_results():
    with pytest.raises(ValueError, match="results is empty"):
        rate([])
