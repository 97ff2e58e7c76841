"""Elo of a policy against opponents whose ratings are fixed: the strength of a run on its own scale.

The untrained policy is the zero of the scale; 400 points are odds of ten to one (Elo, 1978). A rating is the most
likely one given the results, with one prior draw per opponent so that a clean sweep stays finite.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from echelon.config import RunConfig
from echelon.config.seeds import EVAL_SEED_BASE, eval_seeds, folded
from echelon.rl.build import FlatPolicy
from echelon.telemetry.events import EventRating
from echelon.training.batched_env import BatchedEnv
from echelon.training.evaluation import FULL_WEAPON_PROB, MakeEnv, make_eval_env, play_episodes
from echelon.training.opponents.fixed import FixedOpponents
from echelon.training.opponents.outcomes import SCORES, outcome_of
from echelon.training.opponents.pool import OpponentMix
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.threads import ThreadPool

SCALE = 400.0 / math.log(10.0)
"""Points per unit of log odds."""
PRIOR_GAMES, PRIOR_SCORE = 1.0, 0.5
"""The prior draw."""
SEARCH_RANGE = 4000.0
"""Largest distance of a rating from its opponents' ratings [points]."""
TOLERANCE = 1e-6
"""Width of the interval at which the search ends [points]."""


@dataclass(frozen=True, kw_only=True)
class OpponentResult:
    """Games against one opponent."""

    rating: float
    """Rating of the opponent."""
    score: float
    """Wins plus half the draws."""
    games: float


def expected_score(rating: float, opponent: float) -> float:
    """Return the expected score per game of ``rating`` against ``opponent``, 0 to 1."""
    return 1.0 / (1.0 + math.exp((opponent - rating) / SCALE))


def rate(results: Sequence[OpponentResult]) -> tuple[float, float]:
    """Return the most likely rating and its standard error; raise ``ValueError`` without results."""
    if not results:
        raise ValueError("results is empty, expected at least one rated opponent")
    scored = sum(r.score + PRIOR_SCORE for r in results)
    low, high = min(r.rating for r in results) - SEARCH_RANGE, max(r.rating for r in results) + SEARCH_RANGE
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        expected = sum((r.games + PRIOR_GAMES) * expected_score(middle, r.rating) for r in results)
        low, high = (middle, high) if expected < scored else (low, middle)
    rating = (low + high) / 2
    chances = [(r.games + PRIOR_GAMES, expected_score(rating, r.rating)) for r in results]
    return rating, SCALE / math.sqrt(sum(n * p * (1.0 - p) for n, p in chances))


class SnapshotRater:
    """Plays a policy against rated snapshots on separate seeds, from both sides, with sampled actions on both."""

    def __init__(self, cfg: RunConfig, device: torch.device, pool: ThreadPool, make_env: MakeEnv | None) -> None:
        self.cfg, self.device = cfg, device
        self._pool, self._make_env = pool, make_env
        self._env: BatchedEnv | None = None

    def rate(
        self,
        policy: FlatPolicy,
        name: str,
        source: OpponentMix,
        on_step: Callable[[], object] = lambda: None,
        *,
        update: int,
        global_step: int,
    ) -> EventRating | None:
        """Return the rating of ``policy`` by its results against rated snapshots; None if there are none."""
        began, cfg = time.perf_counter(), self.cfg.opponents
        opponents = [n for n in source.rating_opponents(cfg.rating_opponents) if n != name and n in source.ratings]
        if not opponents or not cfg.rating_seeds:
            return None
        env = self._env = self._env or self._build()
        # every opponent plays whole pairs of sides: both halves of the batch have the same seeds
        half = env.sizes.num_envs // 2
        opponent_of_env = [opponents[e % half % len(opponents)] for e in range(env.sizes.num_envs)]
        fixed = FixedOpponents(opponent_of_env, {opponent: source.policy(opponent) for opponent in opponents})
        seed = folded(self.cfg.seed, EVAL_SEED_BASE) + update
        records = play_episodes(
            policy,
            env,
            self.cfg.env.max_steps,
            deterministic=False,
            noise_seed=seed,
            on_step=on_step,
            opponents=OpponentRunner(env, fixed, self._pool, seed=seed, amp=self.cfg.ppo.amp),
        )
        found = {opponent: {"rating": source.ratings[opponent], "games": 0.0, "score": 0.0} for opponent in opponents}
        for record in records:
            row = found[opponent_of_env[record.env]]
            row["games"] += 1
            row["score"] += SCORES[outcome_of(record)]
        elo, error = rate([OpponentResult(**row) for row in found.values()])
        return EventRating(
            update=update,
            global_step=global_step,
            name=name,
            elo=elo,
            elo_error=error,
            opponents=found,
            duration_s=time.perf_counter() - began,
        )

    def close(self) -> None:
        if self._env is not None:
            self._env.close()

    def _build(self) -> BatchedEnv:
        cfg = self.cfg.opponents
        return make_eval_env(
            self.cfg.env,
            eval_seeds(cfg.rating_seeds * cfg.rating_opponents, "rating"),
            weapon_prob=FULL_WEAPON_PROB,
            device=self.device,
            threads=self._pool.threads,
            make_env=self._make_env,
            policy_opponents=True,
        )
