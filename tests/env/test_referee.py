"""Scores, the three endings of a match, their winners and done flags."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.env.referee import REASONS, WINNERS
from echelon.sim.arsenal import Chassis
from tests.env.battle import Battle
from tests.oracles import game as rules
from tests.parity.scenes import clear, scatter, snapshots

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
LIMIT = 240


@pytest.fixture(scope="module")
def battle():
    made = Battle()
    yield made
    made.close()


@pytest.fixture
def duel(battle):
    """Return a battle of one medium per team, far from the zone."""
    battle.engine.reset()
    battle.empty()
    battle.place(0, MEDIUM, 5, 5)
    battle.place(5, MEDIUM, 55, 55)
    return battle


def outcome(battle: Battle) -> tuple[str, str]:
    return REASONS[battle["reason"][0]], WINNERS[battle["winner"][0]]


def test_episode_continues_while_both_teams_live(duel):
    duel.step()
    assert duel["over"][0] == 0 and duel["winner"][0] == -1
    assert duel["terminated"][0, [0, 5]].tolist() == [0, 0] and duel["terminated"][0, 1] == 1
    assert not duel["truncated"].any()


@pytest.mark.parametrize(("score", "winner"), [((29.9, 3.0), "blue"), ((2.0, 30.0), "red")])
def test_winning_zone_score_terminates_every_agent(duel, score, winner):
    duel.batch.set("score", np.array([score], np.float32))
    duel.place(0 if winner == "blue" else 5, MEDIUM, 30, 30)
    duel.step()
    assert outcome(duel) == ("zone_control", winner)
    assert duel["terminated"].all() and not duel["truncated"].any()


@pytest.mark.parametrize(("hp", "winner"), [((90.0, 80.0), "blue"), ((70.0, 80.0), "red"), ((80.0, 80.0), "draw")])
def test_equal_winning_scores_are_decided_by_hit_points(duel, hp, winner):
    duel.batch.set("score", np.array([[30.0, 30.0005]], np.float32))
    duel.put("hp", hp[0], 0)
    duel.put("hp", hp[1], 5)
    duel.step()
    assert outcome(duel) == ("zone_control", winner)


@pytest.mark.parametrize(("fallen", "winner"), [((5,), "blue"), ((0,), "red"), ((0, 5), "draw")])
def test_team_without_living_mechs_loses(duel, fallen, winner):
    for m in fallen:
        duel.put("alive", 0, m)
    duel.step()
    assert outcome(duel) == ("elimination", winner)
    assert duel["terminated"].all() and not duel["truncated"].any()


def test_winning_score_takes_precedence_over_elimination(duel):
    duel.batch.set("score", np.array([[3.0, 30.0]], np.float32))
    duel.put("alive", 0, 5)
    duel.step()
    assert outcome(duel) == ("zone_control", "red")


@pytest.mark.parametrize(
    ("score", "hp", "winner"),
    [((5.0, 4.0), (1.0, 99.0), "blue"), ((4.0, 5.0), (99.0, 1.0), "red"), ((4.0, 4.0005), (9.0, 8.0), "blue"),
     ((4.0, 4.0), (8.0, 9.0), "red"), ((4.0, 4.0), (8.0, 8.0005), "draw")],
)  # fmt: skip
def test_time_limit_is_decided_by_score_then_hit_points(duel, score, hp, winner):
    duel.batch.set("score", np.array([score], np.float32))
    duel.batch.set("decision", np.array([LIMIT - 1], np.int32))
    duel.put("hp", hp[0], 0)
    duel.put("hp", hp[1], 5)
    duel.step()
    assert outcome(duel) == ("time_up", winner)
    living = duel["alive"][0].astype(bool)
    assert np.array_equal(duel["truncated"][0].astype(bool), living), "the time limit must truncate the living"
    assert np.array_equal(duel["terminated"][0].astype(bool), ~living), "the dead must stay terminated"


def test_finished_episode_statistics_match_the_state(duel):
    done = int(duel["done_count"][0])
    duel.batch.set("score", np.array([[30.0, 1.5]], np.float32))
    duel.put("hp", 120.0, 0)
    duel.step()
    assert duel["done_count"][0] == done + 1 and duel["done_length"][0] == 1
    assert duel["done_seed"][0] == duel["seed"][0]
    assert duel["done_hp"][0].tolist() == [120, 150] and duel["done_score"][0].tolist() == [30.0, 1.5]
    assert np.array_equal(duel["done_alive"][0], duel["alive"][0])


def test_outcomes_and_flags_match_the_reference_on_random_states():
    envs = 128
    battle = Battle(envs=envs, num_packs=2)
    rng = np.random.default_rng(3)
    scatter(battle, rng, spread=0.5)
    for name in ("score", "score"):
        battle.batch.set(name, rng.choice([0, 12.5, 29.7, 29.75, 29.9, 30.0], (envs, 2)).astype(np.float32))
    battle.batch.set("decision", rng.choice([3, LIMIT - 2, LIMIT - 1], envs).astype(np.int32))
    for team in (0, 10):
        battle.put("alive", 0, slice(team, team + 10), env=np.flatnonzero(rng.random(envs) < 0.2))
    clear(battle, "over", "cut", "terminated", "truncated", "reason", "winner")
    expected = snapshots(battle)
    battle.play("referee", lambda: [x for x in battle.engine.decision() if x.phase == "referee"][:2])
    reasons = []
    for e, s in enumerate(expected):
        reason, winner = rules.call(s, limit=LIMIT, win=30.0)
        terminated, truncated = rules.flags(s, reason)
        assert (battle["reason"][e], battle["winner"][e]) == (reason, winner), f"environment {e}"
        assert np.array_equal(battle["terminated"][e].astype(bool), terminated), f"terminated of environment {e}"
        assert np.array_equal(battle["truncated"][e].astype(bool), truncated), f"truncated of environment {e}"
        np.testing.assert_allclose(battle["score"][e], s.score, atol=1e-5, err_msg=f"score of environment {e}")
        reasons.append(reason)
    assert set(reasons) == {0, 1, 2, 3}
    assert not (battle["terminated"] & battle["truncated"]).any(), "both done flags are set"
    battle.close()
