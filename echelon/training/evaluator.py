"""Evaluations during training: scheduled ones with replays and heat maps, the report, gates, snapshot ratings.

Each plays its own range of held-out seeds (``echelon.config.seeds``), with frozen statistics. If a replay
or heat map cannot be written the evaluation goes on and ``fault`` says why.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from echelon.arena.ratings import evaluated_rating, rating_against
from echelon.config import RunConfig
from echelon.config.opponents import DEFAULT_LEVEL
from echelon.config.seeds import eval_seeds
from echelon.files import write_fault
from echelon.replay.header import TeamInfo
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import LoadedPolicy
from echelon.runs import RunPaths
from echelon.statistics import wilson_interval
from echelon.telemetry.events import EventMatch
from echelon.telemetry.heat_maps import PREFIX, SUFFIX
from echelon.training.batched_env import BatchedEnv
from echelon.training.evaluation import EvalStats, MakeEnv, make_eval_env, play_and_summarize, play_mean_and_sampled
from echelon.training.opponents.fixed import play_against
from echelon.training.opponents.rating import SnapshotRater
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.recording import TRAINING_PREFIX, Recording, RecordingPlan
from echelon.training.runtime.threads import ThreadPool
from echelon.training.spatial import HeatMapObserver, SpatialAccumulator, save_heat


def best_evaluation(best: dict[str, Any], stats: EvalStats, update: int, opponent: str) -> dict[str, Any]:
    """Return the better of ``best`` and a newer evaluation by choice.

    The newer one is better unless its win rate is more than a standard error below the highest so far: what lies within
    that is chance, and a policy that has trained on is better than a lucky one. ``best`` is a result of this function,
    or empty. Evaluations of another opponent or on other seeds do not compare.
    """
    task = {"opponent": opponent, "purpose": "choice"}
    highest = stats.win_rate
    if task.items() <= best.items():
        highest = max(highest, best["highest"])
        if stats.win_rate < wilson_interval(highest * stats.episodes, stats.episodes, z=1.0)[0]:
            return best
    return {"win_rate": stats.win_rate, "highest": highest, "update": update, **task}


class Evaluator:
    """The evaluation environments of a run, and the recordings of the newest evaluation."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: os.PathLike[str] | None,
        device: torch.device,
        pool: ThreadPool,
        make_env: MakeEnv | None = None,
        champion: Callable[[], LoadedPolicy | None] = lambda: None,
    ) -> None:
        """``champion`` returns the policy that evaluations with ``eval.skill`` champion are played against."""
        self.config, self.run_dir, self.device = config, run_dir, device
        self.rater = SnapshotRater(config, device, pool, make_env)
        self.matches: list[EventMatch] = []
        """Matches recorded by the newest evaluation."""
        self.fault = ""
        """Why replays or heat maps of the newest evaluation could not be written; empty if they were."""
        self._pool, self._make_env, self._champion = pool, make_env, champion
        self._eval_env: BatchedEnv | None = None
        self._rated: float | None = None
        """Rating by the newest evaluation of this process."""

    def close(self) -> None:
        self.rater.close()
        if self._eval_env is not None:
            self._eval_env.close()

    def evaluate(
        self, policy: FlatPolicy, update: int, global_step: int, on_step: Callable[[], object] = lambda: None
    ) -> EvalStats:
        """Play the seeds of choice from both sides; write replays and heat maps if there is a run folder."""
        cfg = self.config.eval
        if self._eval_env is None:
            self._eval_env = self._build(eval_seeds(cfg.seeds, "choice"))
        recording, heat = self._recording(self._eval_env, update, global_step), self._heat(self._eval_env)
        both = cfg.sampled and cfg.deterministic
        play = play_mean_and_sampled if both else partial(play_and_summarize, deterministic=cfg.deterministic)
        stats = play(
            policy,
            self._eval_env,
            self.config.env,
            on_step=on_step,
            observers=[recording, heat],
            opponents=self._opponents(self._eval_env),
        )
        self.matches = [] if recording is None else recording.finish(self.config.keep_replays)
        self.fault = "" if recording is None else recording.fault
        self._rated = rating_against(self.config.eval_opponent, cfg.weapon_prob, stats, sampled=not cfg.deterministic)
        if heat is not None:
            self._save_heat(heat, update)
        return stats

    def report(self, policy: FlatPolicy, on_step: Callable[[], object] = lambda: None) -> EvalStats:
        """Play the seeds of reports from both sides, with mean and with sampled actions."""
        cfg = self.config
        env = self._build(eval_seeds(cfg.eval.seeds))
        try:
            return play_mean_and_sampled(policy, env, cfg.env, on_step=on_step, opponents=self._opponents(env))
        finally:
            env.close()

    def _opponents(self, env: BatchedEnv) -> OpponentRunner | None:
        """Return a runner that plays ``opponents.champion`` where evaluations are against it."""
        champion = None if self.config.eval_level else self._champion()
        mean = self.config.opponents.champion_mean
        return None if champion is None else play_against(env, champion.policy, deterministic=mean)

    def _heat(self, env: BatchedEnv) -> HeatMapObserver | None:
        """Return an observer for heat maps; None without a run folder, ``eval.heat_cells`` or an engine."""
        cells = self.config.eval.heat_cells
        if self.run_dir is None or not cells or not hasattr(env, "engine"):
            return None
        return HeatMapObserver(env, SpatialAccumulator(cells))

    def _save_heat(self, observer: HeatMapObserver, update: int) -> None:
        assert self.run_dir is not None, "_heat returns an observer only with a run folder"
        path = RunPaths(Path(self.run_dir)).heat / f"{PREFIX}{update:06d}{SUFFIX}"
        try:
            save_heat(observer.heat, path)
        except OSError as error:
            fault = write_fault(f"heat map {path.name!r}", error)
            self.fault = "; ".join(filter(None, (self.fault, fault)))

    def _recording(self, env: BatchedEnv, update: int, global_step: int) -> Recording | None:
        """Return a recording of the first seeds; None without a run folder, record seeds or an engine."""
        cfg = self.config
        if self.run_dir is None or not cfg.eval.record_seeds or not hasattr(env, "engine"):
            return None
        paths = RunPaths(Path(self.run_dir))
        plan = RecordingPlan(
            folder=paths.replays,
            seeds=eval_seeds(cfg.eval.seeds, "choice"),
            count=cfg.eval.record_seeds,
            prefix=f"{TRAINING_PREFIX}{update:06d}",
            policy=TeamInfo(
                name=f"update {update}" if update else "untrained",
                rating=self._rating(update),
                mean=cfg.eval.deterministic or None,
            ),
            opponent=self._opponent(),
            run=paths.id,
            update=update,
            global_step=global_step,
            policy_columns=cfg.eval.record_policy,
        )
        return Recording(env, plan)

    def _opponent(self) -> TeamInfo:
        name, champion = self.config.eval_opponent, self._champion()
        if level := self.config.eval_level:
            return TeamInfo(name=level, level=name)
        return TeamInfo(name=name, checkpoint=str(champion.meta.get("id", "")) if champion else "")

    def _rating(self, update: int) -> float | None:
        if self._rated is not None or self.run_dir is None:
            return self._rated
        return evaluated_rating(RunPaths(Path(self.run_dir)), update, sampled=not self.config.eval.deterministic)

    def _build(self, seeds: list[int]) -> BatchedEnv:
        return make_eval_env(
            self.config.env,
            seeds,
            skill=self.config.eval_level or DEFAULT_LEVEL,
            policy_opponents=self.config.eval_level is None,
            weapon_prob=self.config.eval.weapon_prob,
            device=self.device,
            threads=self._pool.threads,
            make_env=self._make_env,
        )
