"""Matches of human pilots in the league: unrated by default, rated on request, and options that it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from echelon.arena.bootstrap import add_level
from echelon.arena.entries import HUMAN_ID
from echelon.arena.standings import head_to_head, matches, standings, unfinished_rounds
from echelon.arena.store import Store, league_path
from echelon.play.config import PlayConfig, league_opponent
from echelon.play.human_league import enter_match
from echelon.play.match import Outcome
from echelon.play_protocol import Ended, Source

MEDIUM = "heuristic:medium"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Store(league_path(tmp_path)) as store:
        add_level(store, "medium")
    return tmp_path


def config(**options: Any) -> PlayConfig:
    return PlayConfig.from_dict({"opponent": "medium", "league": "unrated", **options})


def played(**header: Any) -> Any:
    """Return the parts of a played match that the league reads."""
    engine = SimpleNamespace(cfg=SimpleNamespace(dt_sim=0.05))
    outcome = Outcome(winner="blue", reason="elimination", hp=(310.0, 0.0), score=(4.0, 1.0))
    return SimpleNamespace(header=header, engine=engine, outcome=outcome)


ENDED = Ended(winner="blue", reason="elimination", tick=400, source=Source(run="job", file="played-001.ecr"))


def test_unrated_match_is_listed_and_changes_no_rating_or_result(home):
    assert enter_match(home, "job", config(), played(), ENDED)
    with Store(league_path(home)) as store:
        (match,) = matches(store)
        assert (match["blue"], match["red"], match["winner"], match["state"]) == (HUMAN_ID, MEDIUM, "blue", "unrated")
        assert (match["seconds"], match["replay"]) == (20.0, "replays/played-001.ecr")
        rows = {row["id"]: row for row in standings(store)}
        assert HUMAN_ID not in rows and rows[MEDIUM]["games"] == rows[MEDIUM]["losses"] == 0
        assert head_to_head(store, retired=True)["pairs"] == [] and unfinished_rounds(store) == []
        assert store.recompute() == {}


def test_rated_matches_move_both_ratings_from_either_side(home):
    options = config(league="rated", team="red")
    assert enter_match(home, "job", options, played(), ENDED) and enter_match(home, "job", options, played(), ENDED)
    with Store(league_path(home)) as store:
        rows = {row["id"]: row for row in standings(store)}
        assert rows[MEDIUM]["wins"] == rows[HUMAN_ID]["losses"] == 2
        assert rows[HUMAN_ID]["rating"] < rows[MEDIUM]["rating"]
        assert [match["round"] for match in matches(store)] == [2, 1] and store.recompute() == {}


@pytest.mark.parametrize("left", [True, False], ids=["left", "branch"])
def test_match_that_was_left_or_continues_another_is_not_entered(home, left):
    match = played() if left else played(parent={"file": "a.ecr"})
    ended = ENDED.model_copy(update={"winner": ""}) if left else ENDED
    assert not enter_match(home, "job", config(), match, ended)
    with Store(league_path(home)) as store:
        assert matches(store) == []


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"opponent": ""}, "named OPPONENT"),
        ({"seats": 2}, "one human pilot"),
        ({"opponent": "trivial"}, "echelon arena add trivial"),
        ({"league": "rated", "size": 40}, "league's game"),
        ({"league": "rated", "speed": 0.5}, "league's game"),
    ],
    ids=["no-opponent", "two-seats", "no-entry", "other-map", "slow-motion"],
)
def test_options_that_a_league_does_not_allow_are_refused_in_one_line(home, options, cause):
    with pytest.raises(ValueError, match=cause) as caught:
        league_opponent(config(**options), home)
    assert "\n" not in str(caught.value)
