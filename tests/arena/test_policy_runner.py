"""Matches of policies and scripted pilots: reproducibility, forfeits, caching."""

from dataclasses import replace

import numpy as np
import pytest

from echelon.actions import TARGET_DIM
from echelon.arena import match
from echelon.arena.contest import BLUE, DRAW, FORFEIT, RED, MatchPlan, MatchSession, Pairing, Pilot
from echelon.arena.match import play_match
from echelon.arena.match_runner import play
from echelon.arena.policies import LRUPolicyCache
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.replay.reader import Replay
from tests.arena.policy_files import HYBRID, loaded
from tests.arena.policy_files import SMALL as LONG
from tests.arena.test_match import equal

SMALL = replace(LONG, max_episode_seconds=5.0)
POLICIES = {"one": loaded(1), "two": loaded(2, model=HYBRID), "broken": loaded(3, broken=True)}
PILOTS = {name: Pilot(id=name, label=name.title(), path=name) for name in POLICIES}
PILOTS["easy"] = Pilot(id="easy", label="easy", level="easy")
SEATS = [("one", "two"), ("two", "one"), ("easy", "one"), ("two", "easy"), ("one", "one"), ("easy", "easy")]


def played(seats, *, deterministic=True, cache=None, first=0, chances=False, **session):
    plan = MatchPlan(env=SMALL, pilots=PILOTS, seats={first + n: pair for n, pair in enumerate(seats)})
    loads = []

    def load(pilot):
        loads.append(pilot.id)
        return POLICIES[pilot.path]

    cache = LRUPolicyCache() if cache is None else cache
    with GroupedPolicyRunner(
        plan=plan, load=load, deterministic=deterministic, cache=cache, chances=chances
    ) as policy_runner:
        session = MatchSession(policy_runner=policy_runner, **session)
        pairings = [Pairing(number, 50 + number // 2, False) for number in plan.seats]
        results = sorted(play(plan, pairings, session), key=lambda result: result.pairing.number)
    return results, session, loads


def test_recorded_probabilities_of_policies_add_up_and_change_no_match(tmp_path):
    seats = [("easy", "two"), ("two", "two")]
    plain, _, _ = played(seats, deterministic=False)
    results, session, _ = played(
        seats, deterministic=False, chances=True, policy_columns=True, folder=tmp_path, record=frozenset(range(2))
    )
    assert all(equal(a, b) for a, b in zip(plain, results, strict=True))
    for number, path in session.replays.items():
        with Replay(path) as replay:
            names, frames = replay.header["insight"]["chances"], replay.chunk(0).frames
        chance = frames["chance"].reshape(len(frames["chance"]), -1, len(names)) * 0.01
        sides = np.array_split(chance[1:], 2, axis=1)
        assert names.index("no_target") == TARGET_DIM
        for side, name in zip(sides, seats[number], strict=True):
            total = side[..., : TARGET_DIM + 1].sum(-1)
            assert (abs(total - (name != "easy")) < 0.04).all()
            assert side[..., TARGET_DIM + 1 :].any() == (name != "easy")


@pytest.mark.parametrize("deterministic", [True, False])
def test_policy_match_is_independent_of_batch(deterministic):
    results, _, _ = played(SEATS, deterministic=deterministic)
    assert len(results) == len(SEATS)
    again, _, _ = played(SEATS, deterministic=deterministic, envs=2, threads=1)
    assert all(equal(a, b) for a, b in zip(results, again, strict=True))
    for number in (0, 3):
        (alone,), _, _ = played([SEATS[number]], deterministic=deterministic, first=number)
        assert equal(alone, results[number]), number


def test_policies_sample_actions_per_match():
    mean, _, _ = played(SEATS[:2])
    drawn, _, _ = played(SEATS[:2], deterministic=False)
    assert not any(equal(a, b) for a, b in zip(mean, drawn, strict=True))
    for result in mean:
        steps = result.statistics["stat_steps"]
        assert (steps > 0).all() and result.statistics["stat_shots"].sum() > 0


def test_nonfinite_policy_forfeits_only_its_match():
    seats = [("broken", "easy"), ("one", "broken"), ("broken", "broken"), ("one", "two")]
    results, _, _ = played(seats)
    assert [r.record.reason for r in results[:3]] == [FORFEIT] * 3 and results[3].record.reason != FORFEIT
    assert [r.record.winner for r in results[:3]] == [RED, BLUE, DRAW]
    assert results[0].record.length == 1 and results[3].record.length > 10
    (alone,), _, _ = played([("one", "two")], first=3)
    assert equal(alone, results[3])


def test_cache_loads_each_policy_once_per_batch():
    cache = LRUPolicyCache(1)
    _, _, loads = played(SEATS, cache=cache)
    assert sorted(loads) == ["one", "two"] and len(cache) == 1


def test_replays_name_policies(tmp_path):
    pilots = {"one": replace(PILOTS["one"], checkpoint="00ff", label="A b/c"), "easy": PILOTS["easy"]}
    plan = MatchPlan(env=SMALL, pilots=pilots, seats={4: ("one", "easy")})
    with GroupedPolicyRunner(plan=plan, load=lambda pilot: POLICIES[pilot.path]) as policy_runner:
        session = MatchSession(policy_runner=policy_runner, folder=tmp_path, record=frozenset({4}), prefix="r001-")
        (result,) = play(plan, [Pairing(4, 9, False)], session)
    assert session.replays[4].name == "r001-m00004-s9-A-b-c-easy.ecr"
    with Replay(session.replays[4]) as replay:
        teams = [(team["name"], team["level"], team["checkpoint"], team.get("mean")) for team in replay.header["teams"]]
        assert teams == [("A b/c", "", "00ff", True), ("easy", "heuristic:easy", "", None)]
        assert replay.outcome["winner"] == result.record.winner


def test_play_match_is_reproducible_and_honours_max_steps():
    loads = {"env_cfg": SMALL, "blue_policy": POLICIES["one"], "red_policy": POLICIES["two"], "seed": 3}
    first = play_match(**loads)
    assert first == play_match(**loads) and first.winner in ("blue", "red", "draw") and first.seed == 3
    short = play_match(**loads, max_steps=2)
    assert short.winner == "draw" and min(short.hp) > 0
    assert isinstance(first, match.MatchOutcome) and callable(match.load_policy) and match.LoadedPolicy


def test_play_match_rejects_dimension_mismatch():
    other = loaded(1, env=replace(SMALL, observe_target=True))
    expected = r"checkpoint does not fit: obs_dim \d+, expected \d+"
    with pytest.raises(ValueError, match=expected):
        play_match(env_cfg=SMALL, blue_policy=other, red_policy=POLICIES["two"], seed=1)
