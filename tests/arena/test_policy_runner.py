"""Policies against each other and against scripted pilots: reproducible, mixed, and forfeited where one breaks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from echelon.arena import match
from echelon.arena.match import BLUE, FORFEIT, RED, Pairing, Play
from echelon.arena.match_runner import play
from echelon.arena.policies import LRUPolicyCache
from echelon.arena.policy_runner import Pilot, PolicyCard, PolicyCrew, play_match
from echelon.replay.reader import Replay
from tests.arena.policy_files import SMALL, loaded

POLICIES = {"one": loaded(1), "two": loaded(2), "broken": loaded(3, broken=True)}
PILOTS = {name: Pilot(id=name, label=name.title(), path=name) for name in POLICIES}
PILOTS["easy"] = Pilot(id="easy", label="easy", level="easy")
SEATS = [("one", "two"), ("two", "one"), ("easy", "one"), ("two", "easy"), ("one", "one"), ("easy", "easy")]


def played(seats, *, deterministic=True, cache=None, first=0, **how):
    card = PolicyCard(env=SMALL, pilots=PILOTS, seats={first + n: pair for n, pair in enumerate(seats)})
    asked = []

    def load(pilot):
        asked.append(pilot.id)
        return POLICIES[pilot.path]

    with PolicyCrew(
        card=card, load=load, deterministic=deterministic, cache=LRUPolicyCache() if cache is None else cache
    ) as crew:
        how = Play(crew=crew, **how)
        pairings = [Pairing(number, 50 + number // 2, False) for number in card.seats]
        results = sorted(play(card, pairings, how), key=lambda result: result.pairing.number)
    return results, how, asked


def equal(a, b):
    same = a.pairing == b.pairing and (a.record.winner, a.record.hp) == (b.record.winner, b.record.hp)
    return same and all(np.array_equal(a.tally[name], b.tally[name]) for name in a.tally)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_match_of_policies_is_the_same_whatever_it_is_played_beside(deterministic):
    results, _, _ = played(SEATS, deterministic=deterministic)
    assert len(results) == len(SEATS)
    again, _, _ = played(SEATS, deterministic=deterministic, envs=2, threads=1)
    assert all(equal(a, b) for a, b in zip(results, again, strict=True))
    for number in (0, 3):
        (alone,), _, _ = played([SEATS[number]], deterministic=deterministic, first=number)
        assert equal(alone, results[number]), number


def test_policies_fly_and_draw_on_their_own():
    mean, _, _ = played(SEATS[:2])
    drawn, _, _ = played(SEATS[:2], deterministic=False)
    assert not any(equal(a, b) for a, b in zip(mean, drawn, strict=True))
    for result in mean:
        steps = result.tally["tally_steps"]
        assert (steps > 0).all() and result.tally["tally_shots"].sum() > 0


def test_a_policy_that_gives_nonsense_forfeits_and_others_play_on():
    seats = [("broken", "easy"), ("one", "broken"), ("broken", "broken"), ("one", "two")]
    results, _, _ = played(seats)
    assert [r.record.reason for r in results[:3]] == [FORFEIT] * 3 and results[3].record.reason != FORFEIT
    assert [r.record.winner for r in results[:3]] == [RED, BLUE, match.DRAW]
    assert results[0].record.length == 1 and results[3].record.length > 10
    (alone,), _, _ = played([("one", "two")], first=3)
    assert equal(alone, results[3])


def test_the_cache_stays_small_and_nobody_is_loaded_twice_in_a_wave():
    cache = LRUPolicyCache(1)
    _, _, asked = played(SEATS, cache=cache)
    assert sorted(asked) == ["one", "two"] and len(cache) == 1


def test_replays_say_who_flew(tmp_path):
    pilots = {"one": replace(PILOTS["one"], checkpoint="00ff", label="A b/c"), "easy": PILOTS["easy"]}
    card = PolicyCard(env=SMALL, pilots=pilots, seats={4: ("one", "easy")})
    with PolicyCrew(card=card, load=lambda pilot: POLICIES[pilot.path]) as crew:
        how = Play(crew=crew, folder=tmp_path, record=frozenset({4}), prefix="r001-")
        (result,) = play(card, [Pairing(4, 9, False)], how)
    assert how.replays[4].name == "r001-m00004-s9-A-b-c-easy.ecr"
    with Replay(how.replays[4]) as replay:
        teams = [(team["name"], team["level"], team["checkpoint"]) for team in replay.header["teams"]]
        assert teams == [("A b/c", "", "00ff"), ("easy", "heuristic:easy", "")]
        assert replay.index["outcome"]["winner"] == result.record.winner


def test_one_match_by_itself_is_reproducible_and_may_be_cut_short():
    asked = {"env_cfg": SMALL, "blue_policy": POLICIES["one"], "red_policy": POLICIES["two"], "seed": 3}
    first = play_match(**asked)
    assert first == play_match(**asked) and first.winner in ("blue", "red", "draw") and first.seed == 3
    short = play_match(**asked, max_steps=2)
    assert short.winner == "draw" and min(short.hp) > 0
    assert match.play_match is play_match and match.MatchOutcome is type(first)


def test_a_policy_for_another_game_is_refused():
    classic = replace(SMALL, comm_dim=4)
    other = loaded(1, env=classic)
    with pytest.raises(ValueError, match=r"checkpoint does not fit: obs_dim \d+, wanted \d+; action_dim 22, wanted 26"):
        play_match(env_cfg=SMALL, blue_policy=other, red_policy=POLICIES["two"], seed=1)
