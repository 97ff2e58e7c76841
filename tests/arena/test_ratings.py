"""Ratings of policies come from the league, else from the last evaluation; recordings have those that were known."""

import math
from dataclasses import replace

import pytest

from echelon import champion
from echelon.arena.glicko2 import Glicko2Rating
from echelon.arena.league import LeagueEntry
from echelon.arena.ratings import policy_rating, rating_by
from echelon.arena.store import Store, add_default_levels, league_path
from echelon.replay.reader import Replay
from echelon.replay.winprob import RATING_POINTS, known_rating
from echelon.runs import RunPaths, read_json
from echelon.telemetry.events import EventEval
from echelon.telemetry.log import EventLog
from tests.arena.recorded_matches import record_matches, small_game

WON = EventEval(update=40, global_step=1, opponent="heuristic:expert", weapon_prob=1.0, win_rate=0.75, episodes=32)


def odds(won: float, lost: float) -> float:
    return RATING_POINTS * math.log((won + 0.5) / (lost + 0.5))


def test_rating_by_an_evaluation_is_that_of_the_level_and_its_odds():
    expert = known_rating("expert")
    assert rating_by(WON) == pytest.approx(expert + odds(24, 8))
    assert rating_by(replace(WON, win_rate=0.25, draw_rate=0.5)) == pytest.approx(expert)
    assert rating_by(replace(WON, win_rate=0.0)) == pytest.approx(expert + odds(0, 32))
    both = replace(WON, win_rate=0.0, sampled_win_rate=0.5)
    assert rating_by(both) == pytest.approx(expert) and rating_by(both, sampled=False) == rating_by(
        replace(WON, win_rate=0.0)
    )
    assert rating_by(replace(WON, opponent="champion")) is None
    assert rating_by(replace(WON, weapon_prob=0.5)) is None


def test_rating_of_a_policy_is_its_last_evaluation_until_a_league_has_rated_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    run = RunPaths(tmp_path / "run")
    policy = run.checkpoints / "step-9"
    policy.mkdir(parents=True)
    run.spec.write_text("{}")
    assert policy_rating(policy, "c0ffee", 50) is None
    with EventLog(run.metrics) as log:
        log.append(replace(WON, update=20, win_rate=0.5))
        log.append(WON)
        log.append(replace(WON, opponent="heuristic:easy", win_rate=1.0))
        log.append(replace(WON, update=60, win_rate=1.0))
    assert policy_rating(policy, "c0ffee", 50) == rating_by(WON)
    assert policy_rating(run.root, "c0ffee", 39) == rating_by(replace(WON, win_rate=0.5))
    assert policy_rating(policy, "c0ffee", 19) is None
    with Store(league_path()) as store:
        add_default_levels(store)
        with store.editing() as league:
            entry = LeagueEntry("otter", str(policy), "candidate", meta={"checkpoint": "c0ffee"})
            league.entries[entry.entry_id] = entry
            entry.rating = Glicko2Rating(1700.0)
            league.entries["heuristic:medium"].rating = Glicko2Rating(1400.0)
            league.entries["heuristic:medium"].games = 4
    assert policy_rating(policy, "c0ffee", 50) == rating_by(WON)  # it has not played
    with Store(league_path()) as store, store.editing() as league:
        league.entries[entry.entry_id].games = 4
    assert policy_rating(policy, "c0ffee", 50) == 1800.0


def test_table_of_ratings_has_the_champion_and_rises_with_the_level():
    levels = [known_rating(name) for name in ("trivial", "easy", "medium", "hard", "expert")]
    identity = read_json(champion.FOLDER / "manifest.json")["id"]
    assert levels == sorted(levels) and known_rating("medium") == 1500
    assert known_rating("otter", identity) > known_rating("heuristic:expert")
    assert known_rating("otter", "c0ffee", "") is None


def test_recording_has_the_ratings_of_its_levels(tmp_path):
    game = small_game(seconds=1.0)
    path = record_matches(tmp_path, game, levels=("easy", "hard"), random_mech=False)[0].path
    with Replay(path) as replay:
        assert [team["rating"] for team in replay.header["teams"]] == [known_rating("easy"), known_rating("hard")]
