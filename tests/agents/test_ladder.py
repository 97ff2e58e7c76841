"""Strength of the pilots: random actions, then the five levels, each clearly stronger than the next weaker one."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from echelon.agents.levels import LEVELS
from echelon.arena.contest import DRAW, Contest, MatchResult, MatchSession, Pairing, Pilot
from echelon.arena.match_runner import play
from echelon.arena.results_table import summarise
from echelon.config import EnvConfig
from echelon.env.engine import Engine

MATCHES, FIRST_SEED, WIN_RATE = 300, 2**30, 0.65
RANDOM = "random"


class RandomPolicyRunner:
    """Draws every action column of its sides uniformly, with a random generator per match."""

    forfeits: dict[int, frozenset[int]] = {}
    deterministic = False

    def __init__(self) -> None:
        self.seats: dict[int, tuple[np.random.Generator, slice]] = {}

    def start_matches(self, engine: Engine, seats: Mapping[int, tuple[Pairing, tuple[str, str]]]) -> None:
        self.engine, half = engine, engine.num_mechs // 2
        for e, (pairing, ids) in seats.items():
            rows = slice(ids.index(RANDOM) * half, (ids.index(RANDOM) + 1) * half)
            self.seats[e] = np.random.default_rng([pairing.seed, pairing.swapped]), rows

    def act(self) -> None:
        actions = self.engine.batch.numpy("actions").copy()
        for e, (rng, rows) in self.seats.items():
            actions[e, rows] = rng.uniform(-1, 1, actions[e, rows].shape)
        self.engine.batch.set("actions", actions)

    def end_matches(self, envs: Sequence[int]) -> None:
        for e in envs:
            del self.seats[e]


def against_random(first: str, matches: int) -> tuple[int, int, int]:
    """Return the matches won, drawn and lost by ``first`` against random actions, each seed from both sides."""
    policies = {RANDOM: Pilot(id=RANDOM, label=RANDOM)}
    contest = Contest(
        env=EnvConfig(), pilots=(first, RANDOM), policies=policies, matches=matches, first_seed=FIRST_SEED, swap=True
    )
    won = drawn = 0
    results: list[MatchResult] = list(
        play(contest.plan, contest.pairings(), MatchSession(policy_runner=RandomPolicyRunner()))
    )
    for result in results:
        won += result.record.winner == int(result.pairing.swapped)
        drawn += result.record.winner == DRAW
    return won, drawn, len(results) - won - drawn


def test_trivial_beats_random_actions():
    won, drawn, lost = against_random("trivial", 12)
    assert won >= 9 and won + drawn + lost == 12, (won, drawn, lost)


@pytest.mark.slow
def test_each_level_beats_next_weaker_level():
    won, _, lost = against_random("trivial", MATCHES)
    assert won >= WIN_RATE * (won + lost), f"trivial against random: {won} to {lost}"
    for stronger, weaker in zip([*LEVELS][1:], [*LEVELS], strict=False):
        contest = Contest(env=EnvConfig(), pilots=(stronger, weaker), matches=MATCHES, first_seed=FIRST_SEED, swap=True)
        results = list(play(contest.plan, contest.pairings(), MatchSession()))
        won, lost = (p["wins"] for p in summarise(contest, results)["pilots"])
        assert won >= WIN_RATE * (won + lost), f"{stronger} against {weaker}: {won} to {lost}"
