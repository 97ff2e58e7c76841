"""One training session: the parts a run is made of, and how they are saved and restored exactly.

Everything that decides the next decision is here or reachable from here: weights, optimiser, statistics,
random generators, recurrent states, the environment's own state, counters. The order of a training step is
``echelon.training.loop``; how files are written is ``echelon.training.checkpoint``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from echelon.config import PACK_SIZE, RunConfig
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.suite import FLAT_OBS_DIM
from echelon.runs import RunPaths, read_json
from echelon.training import checkpoint as checkpoints
from echelon.training import minibatch
from echelon.training.checkpoint import Checkpoint
from echelon.training.collect import BatchedEnv, Collector
from echelon.training.curriculum import Curriculum
from echelon.training.evaluation import EvalStats, MakeEnv
from echelon.training.examination import Examiner
from echelon.training.opponents import MixSource, Opposition, sides
from echelon.training.outcomes import team_hit_points
from echelon.training.ppo import PPOTrainer
from echelon.training.randomness import random_state, restore_random_state, seed_everything
from echelon.training.rating import Rated
from echelon.training.records import EpisodeWindow, RowLayout
from echelon.training.rollout import RolloutBuffer
from echelon.training.shards import ShardPool
from echelon.training.threads import map_makers, resolve_threads
from echelon.training.weights import check_dimensions, load_weights

MakePolicy = Callable[[RunConfig, int, int], FlatPolicy]
"""From configuration, observation columns and action columns to a fresh policy."""
IMPROVEMENT = 1e-6
"""Least difference by which one evaluation beats another."""


@dataclass
class Counters:
    """How far training has come."""

    update: int = 0
    global_step: int = 0
    """Learner agent-steps: rows of living mechs that entered a loss, counted once."""
    episodes: int = 0
    elapsed_s: float = 0.0
    """Wall time of earlier sessions [s]."""
    evaluated_update: int = -1
    saved_update: int = -1
    elo: float = float("nan")
    """Of the newest rated snapshot."""
    best: dict[str, Any] = field(default_factory=dict)
    """Win rate, HP margin and update of the best evaluation."""


class Session:
    """The parts of a training run, built from its configuration; a context manager."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path | None = None,
        make_env: MakeEnv | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        make_policy: MakePolicy | None = None,
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self.folder = None if run_dir is None else RunPaths(Path(run_dir)).checkpoints
        self.device = resolve_device(config.device)
        self.threads = resolve_threads(config.threads)
        self.full_hp = team_hit_points(config.env)
        self.counters = Counters()
        self.window = EpisodeWindow()
        self._make_env, self._make_policy = make_env, make_policy
        self._announced: dict[str, Any] = {}
        self._began = time.monotonic()
        seed_everything(config.seed)
        torch.set_num_threads(1)
        self.pool = ShardPool(self.threads)
        self.curriculum = Curriculum(config)
        self.env = self._build_env(progress)
        self.layout = RowLayout(self.env)
        self.policy = self._build_policy()
        ppo = config.ppo
        self.source = MixSource(config.opponents, config.seed, self._build_policy)
        self.opposition = Opposition(self.env, self.source, self.pool, seed=config.seed, amp=ppo.amp)
        self.examiner = Examiner(config, run_dir, self.device, self.pool, make_env)
        self.buffer = RolloutBuffer.create(
            ppo.rollout_steps, self.env.rows, self.env.obs_dim, self.env.action_dim, self.device
        )
        self.trainer = PPOTrainer(self.policy, ppo, self.device, self.pool)
        self.collector = Collector(
            self.env,
            self.policy,
            self.buffer,
            chunk_length=minibatch.chunk_length(ppo.rollout_steps, ppo.tbptt_chunk_length, ppo.num_minibatches),
            gamma=ppo.gamma,
            truncation_bootstraps=config.env.truncation_bootstraps,
            amp=ppo.amp,
            pool=self.pool,
            opponents=self.opposition,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close environments and threads."""
        self.env.close()
        self.examiner.close()
        self.pool.close()

    @property
    def elapsed_s(self) -> float:
        """Wall time of the run so far, earlier sessions included [s]."""
        return self.counters.elapsed_s + time.monotonic() - self._began

    @property
    def progress(self) -> float:
        """Share of the planned steps that are done, 0 to 1."""
        return min(1.0, self.counters.global_step / self.config.total_steps)

    def begin(self) -> None:
        """Start afresh: the untrained policy is the first snapshot, and every environment begins an episode."""
        self.snapshot()
        self.collector.reset()

    def evaluate(self, tick: Callable[[], object] = lambda: None) -> EvalStats:
        """Play the held-out seeds from both sides with the current policy."""
        counters = self.counters
        stats = self.examiner.evaluate(self.policy, counters.update, counters.global_step, tick)
        counters.evaluated_update = counters.update
        return stats

    def judge_level(self, tick: Callable[[], object] = lambda: None) -> str:
        """Let the gate judge by fresh episodes; return why the level changed, empty if it did not."""
        gate = self.curriculum.gate
        if gate is None:
            return ""
        return gate.judge(self.examiner.wins_at(self.policy, gate.level, tick), self.counters.update)

    def snapshot(self, tick: Callable[[], object] = lambda: None) -> Rated | None:
        """Keep the policy as it is now as an opponent, and rate it against those before; None where that is off."""
        if not self.config.opponents.takes_snapshots:
            return None
        name = self.source.add(self.policy, self.counters.update)
        if not self.source.ratings:
            self.source.ratings[name] = 0.0
            return None
        rated = self.examiner.rater.rate(self.policy, name, self.source, tick)
        if rated is not None:
            self.source.ratings[name] = self.counters.elo = rated.elo
        self.source.release(set(self.opposition.names))
        return rated

    def move_levers(self) -> dict[str, Any]:
        """Set every lever of the curriculum to what the coming update wants, and return them."""
        levers = self.curriculum.levers(self.counters.update + 1, self.progress)
        before = self.env.get_curriculum()
        changed = {name: value for name, value in levers.items() if before.get(name) != value}
        if changed:
            self.env.set_curriculum(**changed)
        if "skill" in changed or ("skill" in levers and self.source.level != levers["skill"]):
            self.opposition.set_level(levers["skill"])
        ahead = self.curriculum.ranges_ahead(self.counters.update + 1, self.progress)
        if ahead and ahead != self._announced:
            self._announced = ahead
            self.env.expect_curriculum(**ahead)
        return levers

    def is_best(self, stats: EvalStats) -> bool:
        """Say whether an evaluation beats all before it, and remember it if so."""
        best = self.counters.best
        ahead = stats.win_rate - best.get("win_rate", -1.0)
        margin = stats.mean_hp_margin - best.get("mean_hp_margin", -float("inf"))
        better = ahead > IMPROVEMENT or (abs(ahead) <= IMPROVEMENT and margin > IMPROVEMENT)
        if better:
            self.counters.best = {
                "win_rate": stats.win_rate,
                "mean_hp_margin": stats.mean_hp_margin,
                "update": self.counters.update,
            }
        return better

    def refresh_maps(self) -> None:
        """Take further maps into the bank where this update is one to do so; which one it is depends on its number."""
        every, update = self.config.bank_refresh_every, self.counters.update
        if every and update and update % every == 0:
            self.env.refresh_maps(self.config.bank_refresh_maps)

    def save(self) -> Checkpoint:
        """Write a checkpoint of this moment, which must be an update boundary, and drop old ones."""
        if self.folder is None:
            raise ValueError("run_dir is None, wanted a folder to save in")
        saved = checkpoints.save_checkpoint(
            self.folder,
            weights=self.policy.state_dict(),
            state=self._state(),
            environment=self.env.state_dict(),
            carry=self.collector.carry(),
            manifest=self._manifest(),
        )
        self.counters.saved_update = self.counters.update
        checkpoints.prune(self.folder, self.config.keep_checkpoints)
        return saved

    def restore(self, saved: Checkpoint, *, fresh_random: bool = False) -> None:
        """Continue from a checkpoint exactly; ``ValueError`` when it does not fit this run.

        ``fresh_random`` leaves the generators as they are, so that the same draws are not made again.
        """
        check_dimensions(saved.manifest, obs_dim=self.env.obs_dim, action_dim=self.env.action_dim, rows=self.env.rows)
        state = saved.state()
        load_weights(self.policy, saved.weights(self.device))
        self.trainer.load_state_dict(state["trainer"])
        self.counters = Counters(**state["counters"])
        self.window.load(state["window"])
        self._began = time.monotonic()
        self.curriculum.load_state_dict(state["gate"])
        self.env.load_state_dict(saved.environment())
        here = self.env.get_curriculum()
        # the environment has its maps back already: naming their ranges again would have them made anew
        self.env.set_curriculum(**{n: v for n, v in state["curriculum"].items() if here.get(n) != v})
        self.opposition.load_state_dict(state["opponents"])
        self.collector.load_carry(saved.carry())
        if not fresh_random:
            restore_random_state(state["rng"])

    def init_from(self, saved: Checkpoint) -> None:
        """Take only the weights of a checkpoint; ``ValueError`` when they do not fit."""
        check_dimensions(saved.manifest, obs_dim=self.env.obs_dim, action_dim=self.env.action_dim)
        load_weights(self.policy, saved.weights(self.device))

    def _build_env(self, progress: Callable[[str, int, int], None] | None) -> BatchedEnv:
        cfg, make_env = self.config, self._make_env
        if make_env is None:
            from echelon.training.vec_env import VectorEnv

            make_env = VectorEnv
        learners, flown = sides(cfg.num_envs, cfg.opponents)
        return make_env(
            cfg.num_envs,
            replace(cfg.env, **self.curriculum.ranges(1, 0.0)),
            skill=cfg.opponents.skill,
            initial_weapon_prob=cfg.opponents.weapon_prob_start,
            seed=cfg.seed,
            device=str(self.device),
            threads=self.threads,
            learners=learners,
            opponents=flown,
            bank_maps=cfg.bank_maps,
            spare_maps=cfg.bank_spare,
            more_maps=cfg.bank_refresh_maps if cfg.bank_refresh_every else 0,
            map_workers=map_makers(self.threads),
            progress=progress,
        )

    def _build_policy(self) -> FlatPolicy:
        cfg, env = self.config, self.env
        comm_width, map_width = tail_widths(cfg, env.obs_dim)
        if self._make_policy is not None:
            policy = self._make_policy(cfg, env.obs_dim, env.action_dim).to(self.device)
        else:
            policy = build_model(
                cfg.model, env.obs_dim, env.action_dim, comm_width, map_width, predict=cfg.ppo.aux_coef > 0
            ).to(self.device)
        if cfg.ppo.obs_norm:
            policy.set_normalizable(env.normalizable)
        return policy

    def _state(self) -> dict[str, Any]:
        now = {"elapsed_s": self.elapsed_s, "saved_update": self.counters.update}
        return {
            "trainer": self.trainer.state_dict(),
            "counters": {**asdict(self.counters), **now},
            "window": self.window.state(),
            "rng": random_state(),
            "curriculum": dict(self.env.get_curriculum()),
            "gate": self.curriculum.state_dict(),
            "opponents": self.opposition.state_dict(),
        }

    def _manifest(self) -> dict[str, Any]:
        cfg, counters = self.config, self.counters
        comm_width, map_width = tail_widths(cfg, self.env.obs_dim)
        spec = read_json(RunPaths(Path(self.run_dir)).spec) if self.run_dir is not None else None
        return {
            "kind": cfg.model.kind,
            "obs_dim": self.env.obs_dim,
            "action_dim": self.env.action_dim,
            "rows": self.env.rows,
            "comm_width": comm_width,
            "map_width": map_width,
            "predict": cfg.ppo.aux_coef > 0,
            "hidden_dim": cfg.model.hidden_dim,
            "lstm_hidden_dim": cfg.model.lstm_hidden_dim,
            "update": counters.update,
            "global_step": counters.global_step,
            "episodes": counters.episodes,
            "best": counters.best,
            "model_cfg": asdict(cfg.model),
            "env_cfg": asdict(cfg.env),
            "ppo_cfg": asdict(cfg.ppo),
            "reward_cfg": asdict(cfg.env.reward),
            "args": asdict(cfg),
            "curriculum": dict(self.env.get_curriculum()),
            "git": (spec or {}).get("git", {}),
        }


def tail_widths(config: RunConfig, obs_dim: int) -> tuple[int, int]:
    """Return the columns of comms and local map in the tail of the suite layout; zero for another layout."""
    if config.model.kind != "suite":
        return 0, 0
    comm_width = PACK_SIZE * config.env.comm_dim if config.env.observe_comms else 0
    return comm_width, obs_dim - FLAT_OBS_DIM - comm_width


def resolve_device(name: str) -> torch.device:
    """Return the device that ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` means here."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}, wanted auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but there is no CUDA device here")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    return device
