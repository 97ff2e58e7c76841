"""Examinations of the policy in training: held-out evaluations and what they leave behind, gates, ratings.

An examination plays on seeds that training never draws, with statistics frozen, in environments built once. What it
leaves in a run folder are replays and heat maps; a disk that refuses costs those, never the examination.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from echelon.config import RunConfig
from echelon.replay.header import TeamInfo
from echelon.rl.build import FlatPolicy
from echelon.runs import RunPaths
from echelon.telemetry.heat_maps import PREFIX, SUFFIX
from echelon.training.evaluation import EvalStats, MakeEnv, eval_seeds, make_eval_env, play_and_summarize
from echelon.training.opponents.rating import SnapshotRater
from echelon.training.ppo.collect import BatchedEnv
from echelon.training.recording import TRAINING_PREFIX, RecordedMatch, Recording, RecordingPlan
from echelon.training.runtime.thread_pool import ThreadPool
from echelon.training.spatial import HeatMapObserver, SpatialAccumulator, save_heat


class Evaluator:
    """The environments a run examines its policy in, and what the newest evaluation left behind."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path | None,
        device: torch.device,
        pool: ThreadPool,
        make_env: MakeEnv | None = None,
    ) -> None:
        self.config, self.run_dir, self.device = config, run_dir, device
        self.rater = SnapshotRater(config, device, pool, make_env)
        self.matches: list[RecordedMatch] = []
        """Matches recorded by the newest evaluation."""
        self.fault = ""
        """Why it could not leave behind what it should have; empty if it could."""
        self._pool, self._make_env = pool, make_env
        self._eval_env: BatchedEnv | None = None
        self._gate_env: BatchedEnv | None = None

    def close(self) -> None:
        """Close the environments."""
        self.rater.close()
        for env in (self._eval_env, self._gate_env):
            if env is not None:
                env.close()

    def evaluate(
        self, policy: FlatPolicy, update: int, global_step: int, tick: Callable[[], object] = lambda: None
    ) -> EvalStats:
        """Play the held-out seeds from both sides; keep replays and heat maps of it where there is a run folder."""
        cfg = self.config.eval
        if self._eval_env is None:
            self._eval_env = self._build(eval_seeds(cfg.seeds), cfg.skill)
        recording, heat = self._recording(self._eval_env, update, global_step), self._heat(self._eval_env)
        stats = play_and_summarize(
            policy,
            self._eval_env,
            self.config.env,
            deterministic=cfg.deterministic,
            tick=tick,
            observers=[recording, heat],
        )
        self.matches = [] if recording is None else recording.finish(self.config.keep_replays)
        self.fault = "" if recording is None else recording.fault
        if heat is not None:
            self._keep_heat(heat, update)
        return stats

    def wins_at(self, policy: FlatPolicy, level: str, tick: Callable[[], object] = lambda: None) -> list[bool]:
        """Play the gate's seeds from both sides against a level; return whether each episode was won."""
        if self._gate_env is None:
            self._gate_env = self._build(eval_seeds(self.config.curriculum.gate_seeds, "gate"), level)
        self._gate_env.set_heuristic_skill(level)
        stats = play_and_summarize(
            policy, self._gate_env, self.config.env, deterministic=self.config.eval.deterministic, tick=tick
        )
        return [verdict == "win" for _, _, verdict in stats.outcomes]

    def _heat(self, env: BatchedEnv) -> HeatMapObserver | None:
        """Return a counter of heat maps; None without a run folder, a wish for them or positions to count."""
        cells = self.config.eval.heat_cells
        if self.run_dir is None or not cells or not hasattr(env, "engine"):
            return None
        return HeatMapObserver(env, SpatialAccumulator(cells))

    def _keep_heat(self, watch: HeatMapObserver, update: int) -> None:
        """Write the heat maps; a disk that refuses costs these maps, nothing else."""
        assert self.run_dir is not None, "heat maps are counted for a run folder"
        path = RunPaths(Path(self.run_dir)).heat / f"{PREFIX}{update:06d}{SUFFIX}"
        try:
            save_heat(watch.heat, path)
        except OSError as error:
            self.fault = f"heat maps could not be written: {error.strerror or error}"

    def _recording(self, env: BatchedEnv, update: int, global_step: int) -> Recording | None:
        """Return a recording of the first held-out seeds; None without a run folder or a batch to record from."""
        cfg = self.config
        if self.run_dir is None or not cfg.eval.record_seeds or not hasattr(env, "engine"):
            return None
        paths = RunPaths(Path(self.run_dir))
        about = {"run": paths.id, "update": update, "global_step": global_step}
        name = f"update {update}" if update else "untrained"
        plan = RecordingPlan(
            folder=paths.replays,
            seeds=eval_seeds(cfg.eval.seeds),
            count=cfg.eval.record_seeds,
            prefix=f"{TRAINING_PREFIX}{update:06d}",
            policy=TeamInfo(name=name),
            opponent=TeamInfo(name=cfg.eval.skill, level=f"{cfg.opponents.kind}:{cfg.eval.skill}"),
            about=about,
            policy_columns=cfg.eval.record_policy,
        )
        return Recording(env, plan)

    def _build(self, seeds: list[int], skill: str) -> BatchedEnv:
        return make_eval_env(
            self.config.env,
            seeds,
            skill=skill,
            weapon_prob=self.config.eval.weapon_prob,
            device=self.device,
            threads=self._pool.threads,
            make_env=self._make_env,
        )
