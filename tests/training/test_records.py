"""Episode statistics saved before a statistic or a reward term was added continue with both."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from echelon.training import records
from echelon.training.records import EpisodeStats, RowLayout

SAVED = {"return": 2.0, "length": 40, "outcome": "win", "terms": {"zone": 1.0, "kill": 3.0}}
"""A row as checkpoints hold it."""


@pytest.fixture
def layout():
    """Two learners of one environment, rewarded for ``zone`` and ``alive``."""
    made = RowLayout.__new__(RowLayout)
    made.learns = np.ones((1, 2), bool)
    made.reward_names = ("zone", "alive")
    return made


@pytest.fixture
def with_statistic(monkeypatch):
    monkeypatch.setitem(
        records.EPISODE_STATISTICS, "avg_alive", ("alive", lambda record, _: float(record.alive.mean()))
    )


def finished():
    """Return the record of a self-play episode."""
    return SimpleNamespace(
        env=0, learner_team=-1, length=60, winner=0, returns=np.array([1.0, 3.0]),
        terms=np.array([[2.0, 0.5], [4.0, 0.5]]),
        present=np.ones(2, bool), alive=np.array([1, 0]),
    )  # fmt: skip


@pytest.mark.usefixtures("with_statistic")
def test_statistic_that_saved_rows_lack_is_averaged_over_the_others(layout):
    stats = EpisodeStats()
    stats.load([SAVED])
    averages = stats.averages()
    assert averages["avg_return"] == 2.0 and averages["avg_length"] == 40 and math.isnan(averages["avg_alive"])
    stats.add([finished()], layout)
    averages = stats.averages()
    assert averages["avg_length"] == 50 and averages["avg_alive"] == 0.5 and averages["win_rate"] == 1.0


def test_reward_terms_are_averaged_over_the_episodes_that_have_them():
    stats = EpisodeStats()
    stats.load([SAVED, SAVED | {"terms": {"zone": 3.0, "alive": 0.5}}])
    assert stats.reward_terms() == {"zone": 2.0, "kill": 3.0, "alive": 0.5}
