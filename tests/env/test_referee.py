"""Scores, the three endings of a match, their winners and done flags."""

import numpy as np
import pytest

from echelon.config import PACK_SIZE
from echelon.env.observe.ego import EGO
from echelon.env.referee import REASONS, WINNERS
from echelon.sim.arsenal import Chassis
from echelon.sim.episode_draws import limits_of
from echelon.sim.random import Stream, StreamId, draw_u32
from tests.env.battle import Battle
from tests.oracles import game as rules
from tests.parity.scenes import assert_same, scatter, snapshots

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
LIMIT = 240
STATISTICS = ("done_count", "done_seed", "done_length", "done_winner", "done_reason", "done_hp", "done_score",
              "done_return", "done_terms", "done_alive", "done_present")  # fmt: skip


@pytest.fixture(scope="module")
def battle():
    return Battle()


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


def endgames(battle: Battle, rng: np.random.Generator) -> None:
    """Set states where rules of the referee meet: scores and hit points within the margin, lone survivors, the edge."""
    envs, mechs = battle["alive"].shape
    half = mechs // 2
    scatter(battle, rng, spread=0.5)
    battle.put("pos", battle["pos"][::2] * [0.2, 1, 1], env=slice(0, envs, 2))
    edge = battle["zone"][:, :2] + battle["zone"][:, 2:] * [1, 0]
    battle.put("pos", np.append(edge[0], 9.0), [0, half], env=slice(1, envs, 4))
    battle.put("hp", np.round(battle["hp"]))
    mirrored = np.flatnonzero(rng.random(envs) < 0.8)
    for name in ("hp", "alive"):
        battle.put(name, battle[name][mirrored, :half], slice(half, None), env=mirrored)
    margins = rng.choice([0, 5e-4, 2e-3, -5e-4, -2e-3], (envs, 2)).astype(np.float32)
    battle.put("hp", battle["hp"][:, half] + margins[:, 0], half)
    battle.put("alive", 1, half)
    score = rng.choice([0, 12.5, 29.7, 29.75, 29.9, 30.0], (envs, 2)).astype(np.float32)
    close = rng.random(envs) < 0.8
    limits = np.array([limits_of(battle.cfg, int(seed))[0] for seed in battle["seed"]])
    score *= np.float32(limits / LIMIT)[:, None]
    score[close, 1] = score[close, 0] + margins[close, 1]
    battle.batch.set("score", score)
    battle.batch.set("decision", np.maximum(3, limits - rng.choice([LIMIT - 3, 2, 1], envs)).astype(np.int32))
    for team in (0, half):
        battle.put("alive", 0, slice(team, team + half), env=np.flatnonzero(rng.random(envs) < 0.2))
        lone = np.flatnonzero(rng.random(envs) < 0.2)
        battle.put("alive", 0, slice(team + 1, team + half), env=lone)
    battle.put("present", rng.random((envs, mechs)) < 0.9)
    battle.batch.set("ended", (rng.random(envs) < 0.1).astype(np.int32))
    battle.put("engaged", rng.integers(0, 12, (envs, mechs)))
    battle.put("fired", rng.integers(0, 8, (envs, mechs)) * (rng.random((envs, mechs)) < 0.2))
    battle.put("was_hit", rng.random((envs, mechs)) < 0.2)
    for name in ("reward", "terms", "sum_return", "sum_terms", "done_return", "done_terms"):
        battle.batch.set(name, rng.normal(size=battle[name].shape).astype(np.float32))


def test_an_episode_samples_its_time_limit_and_winning_score():
    battle = Battle(envs=400, size=32, min_episode_seconds=45.0)
    limits = [limits_of(battle.cfg, int(seed))[0] for seed in battle["seed"]]
    assert min(limits) == 180 and max(limits) == LIMIT and len(set(limits)) > 50
    battle.batch.set("decision", np.array([limit - 2 for limit in limits], np.int32))
    battle.step()
    assert not battle["over"].any(), "no episode is over a step before its limit"
    assert np.allclose(battle.obs[:, 0, EGO.time], [(limit - 1) / limit for limit in limits])
    battle.step()
    assert {REASONS[r] for r in battle["reason"]} == {"time_up"}
    battle.engine.reset()
    winning = np.array([limits_of(battle.cfg, int(seed))[2] for seed in battle["seed"]], np.float32)
    wins = np.arange(400) % 2 == 0
    battle.batch.set("score", np.stack([winning - np.float32(0.5) * ~wins, 0 * winning], 1))
    battle.step()
    assert (battle["over"] == wins).all(), "a score wins by the limit of its episode"


def test_an_episode_samples_the_rosters_of_its_packs():
    battle = Battle(envs=400, num_packs=2, size=32, min_pack_size=2)
    present = battle["present"].reshape(400, 4, PACK_SIZE)
    assert (present == present[:, :1]).all(), "every pack of both teams has the same roster"
    sizes = present[:, 0].sum(1)
    assert set(sizes.tolist()) == {2, 3, 4, 5} and (present[:, 0].mean(0) > 0.6).all()
    for seed, pack in zip(battle["seed"].tolist(), present[:, 0], strict=True):
        ranks = [draw_u32(seed, StreamId.RUN, 0, 3, position) for position in range(PACK_SIZE)]
        size = Stream(seed, StreamId.RUN, entity=2).integers(2, PACK_SIZE)
        chosen = sorted(range(PACK_SIZE), key=lambda position: (ranks[position], position))[:size]
        assert np.flatnonzero(pack).tolist() == sorted(chosen)
    assert Battle(envs=8, size=32)["present"].all()


@pytest.mark.parametrize("shortest", [None, 45.0])
def test_outcomes_and_flags_match_the_reference_on_random_states(shortest):
    envs = 192
    battle = Battle(envs=envs, num_packs=2, size=32, min_episode_seconds=shortest)
    rng = np.random.default_rng(3)
    endgames(battle, rng)
    battle.batch.set("chosen", rng.integers(0, 2, envs).astype(np.int32))
    expected = snapshots(battle)
    battle.play("referee", lambda: [x for x in battle.engine.decision() if x.phase == "referee"])
    for s in expected:
        limit = limits_of(battle.cfg, int(s.seed))[0]
        rules.referee(s, limit=limit, win=30.0 * limit / LIMIT)
    assert_same(battle, expected, "reason", "winner", "over", "timed_out", "ended", "terminated", "truncated",
                "engaged", "score", "decision", "zone_tick", "zone_tonnage", "sum_return", "sum_terms",
                *STATISTICS)  # fmt: skip
    verdicts = set(zip(battle["reason"].tolist(), battle["winner"].tolist(), strict=True))
    assert verdicts == {(0, -1), *((reason, winner) for reason in (1, 2, 3) for winner in (0, 1, 2))}
    assert not (battle["terminated"] & battle["truncated"]).any(), "both done flags are set"
    reset = [x for x in battle.engine.reset_program("chosen") if x.kernel.key == "reset_returns"]
    battle.play("reset_returns", lambda: reset)
    for s in expected:
        if s.chosen:
            rules.begin_statistics(s)
    assert_same(battle, expected, "ended", "engaged", "sum_return", "sum_terms", *STATISTICS)
