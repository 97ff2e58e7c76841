"""Elo of a policy against opponents whose ratings stand still: how strong a run has become by its own measure.

The untrained policy is the zero of the scale; 400 points are odds of ten to one (Elo, 1978). A rating is the most
likely one given results, with one imagined draw per opponent so that a clean sweep stays finite.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from echelon.config import RunConfig
from echelon.rl.build import FlatPolicy
from echelon.training.evaluation import FULL_WEAPON_PROB, MakeEnv, eval_seeds, make_eval_env, play_episodes
from echelon.training.opponents.outcomes import outcome_of
from echelon.training.opponents.pool import OpponentMix, OpponentRunner, update_of
from echelon.training.ppo.collect import BatchedEnv
from echelon.training.runtime.thread_pool import ThreadPool

SCALE = 400.0 / math.log(10.0)
"""Points per unit of log odds."""
PRIOR_GAMES, PRIOR_SCORE = 1.0, 0.5
"""The imagined draw."""
SPAN = 4000.0
"""How far from its opponents a rating is looked for."""
POINTS = {"win": 1.0, "draw": 0.5, "loss": 0.0}
TOLERANCE = 1e-6
"""Width at which the search ends."""


@dataclass(frozen=True, kw_only=True)
class OpponentResult:
    """Games against one opponent."""

    rating: float
    """Of the opponent."""
    score: float
    """Wins plus half the draws."""
    games: int


def expected_score(rating: float, opponent: float) -> float:
    """Return the share of points that ``rating`` is expected to take from ``opponent``."""
    return 1.0 / (1.0 + math.exp((opponent - rating) / SCALE))


def rate(meetings: Sequence[OpponentResult]) -> tuple[float, float]:
    """Return the most likely rating and its standard error; ``ValueError`` without a single meeting."""
    if not meetings:
        raise ValueError("meetings is empty, wanted at least one opponent with a rating")
    scored = sum(m.score + PRIOR_SCORE for m in meetings)
    low, high = min(m.rating for m in meetings) - SPAN, max(m.rating for m in meetings) + SPAN
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        expected = sum((m.games + PRIOR_GAMES) * expected_score(middle, m.rating) for m in meetings)
        low, high = (middle, high) if expected < scored else (low, middle)
    rating = (low + high) / 2
    chances = [(m.games + PRIOR_GAMES, expected_score(rating, m.rating)) for m in meetings]
    return rating, SCALE / math.sqrt(sum(n * p * (1.0 - p) for n, p in chances))


@dataclass(frozen=True, kw_only=True)
class Rated:
    """A snapshot that has been measured."""

    name: str
    elo: float
    error: float
    """Standard error, the rivals' ratings taken as they are."""
    rivals: dict[str, dict[str, float]]
    """Per rival: rating, games, score."""
    duration_s: float


class FixedOpponents:
    """A source that gives every environment one opponent for good."""

    def __init__(self, names: Sequence[str], policies: Mapping[str, FlatPolicy]) -> None:
        self._names, self._policies = list(names), dict(policies)

    def draw(self, env: int, episode: int) -> str:
        return self._names[env]

    def policy(self, name: str) -> FlatPolicy:
        return self._policies[name]

    def is_ready(self, name: str) -> bool:
        return name in self._policies

    def release(self, in_use: Collection[str]) -> None:
        """Keep everything: nothing here goes out of use."""

    def state_dict(self) -> dict[str, Any]:
        return {"names": list(self._names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._names = list(state["names"])


class SnapshotRater:
    """Plays a policy against snapshots on seeds of their own, from both sides, with sampled actions on both."""

    def __init__(self, cfg: RunConfig, device: torch.device, pool: ThreadPool, make_env: MakeEnv | None) -> None:
        self.cfg, self.device = cfg, device
        self._pool, self._make_env = pool, make_env
        self._env: BatchedEnv | None = None

    def rate(
        self, policy: FlatPolicy, name: str, source: OpponentMix, tick: Callable[[], object] = lambda: None
    ) -> Rated | None:
        """Return the rating of ``policy`` by what it achieves against rated snapshots; None where there are none."""
        began, opponents = time.perf_counter(), self.cfg.opponents
        rivals = [n for n in source.rivals(opponents.rating_rivals) if n != name and n in source.ratings]
        if not rivals or not opponents.rating_seeds:
            return None
        env = self._env = self._env or self._build()
        # every rival plays whole pairs of sides: the first and the second half of the batch are the same seeds
        half = env.num_envs // 2
        met = [rivals[e % half % len(rivals)] for e in range(env.num_envs)]
        fixed = FixedOpponents(met, {rival: source.policy(rival) for rival in rivals})
        seed = self.cfg.seed + update_of(name)
        opposition = OpponentRunner(env, fixed, self._pool, seed=seed, amp=self.cfg.ppo.amp)
        records = play_episodes(
            policy,
            env,
            self.cfg.env.max_steps,
            deterministic=False,
            noise_seed=seed,
            tick=tick,
            opponents=opposition,
        )
        found = {rival: {"rating": source.ratings[rival], "games": 0.0, "score": 0.0} for rival in rivals}
        for record in records:
            row = found[met[record.env]]
            row["games"] += 1
            row["score"] += POINTS[outcome_of(record)]
        meetings = [
            OpponentResult(rating=row["rating"], score=row["score"], games=int(row["games"])) for row in found.values()
        ]
        elo, error = rate(meetings)
        return Rated(name=name, elo=elo, error=error, rivals=found, duration_s=time.perf_counter() - began)

    def close(self) -> None:
        """Close the environments."""
        if self._env is not None:
            self._env.close()

    def _build(self) -> BatchedEnv:
        cfg = self.cfg.opponents
        return make_eval_env(
            self.cfg.env,
            eval_seeds(cfg.rating_seeds * cfg.rating_rivals, "rating"),
            weapon_prob=FULL_WEAPON_PROB,
            device=self.device,
            threads=self._pool.threads,
            make_env=self._make_env,
            policy_opponents=True,
        )
