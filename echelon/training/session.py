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

from echelon.config import RunConfig
from echelon.rl.build import FlatPolicy, build_model
from echelon.runs import RunPaths
from echelon.training import checkpoint as checkpoints
from echelon.training.checkpoint import Checkpoint, RankPart
from echelon.training.curriculum import Curriculum
from echelon.training.evaluation import EvalStats, MakeEnv
from echelon.training.evaluator import Evaluator
from echelon.training.manifest import manifest_of, tail_widths
from echelon.training.opponents.league_client import VALUE_SCALE, make_opponent_source
from echelon.training.opponents.outcomes import team_hit_points
from echelon.training.opponents.pool import OpponentRunner, assign_sides
from echelon.training.opponents.rating import Rated
from echelon.training.ppo import minibatch
from echelon.training.ppo.collect import BatchedEnv, Collector
from echelon.training.ppo.trainer import PPOTrainer
from echelon.training.records import EpisodeWindow, RowLayout
from echelon.training.rollout import RolloutBuffer
from echelon.training.runtime.devices import resolve_device, set_determinism
from echelon.training.runtime.process_group import ProcessGroup, process_group_from_environment
from echelon.training.runtime.profile import UpdateProfiler
from echelon.training.runtime.randomness import random_state, rank_seed, restore_random_state, seed_everything
from echelon.training.runtime.thread_pool import ThreadPool
from echelon.training.runtime.threads import map_worker_count, resolve_threads
from echelon.training.weights import check_dimensions, find_checkpoint, load_policy, load_weights

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
    submitted_update: int = -1
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
        world: ProcessGroup | None = None,
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self.folder = None if run_dir is None else RunPaths(Path(run_dir)).checkpoints
        self.world = process_group_from_environment() if world is None else world
        self.device = resolve_device(config.device, self.world.local_rank, self.world.local_size)
        set_determinism(self.device, config.deterministic)
        self.world.join(self.device)
        self.threads = resolve_threads(config.threads, self.world.local_size)
        self.full_hp = team_hit_points(config.env)
        self.counters = Counters()
        self.window = EpisodeWindow()
        self._make_env, self._make_policy = make_env, make_policy
        self._announced: dict[str, Any] = {}
        self._began = time.monotonic()
        seed_everything(config.seed)
        torch.set_num_threads(1)
        self.pool = ThreadPool(self.threads)
        self.curriculum = Curriculum(config)
        self.env = self._build_env(progress)
        self.layout = RowLayout(self.env)
        self.policy = self._build_policy()
        self.world.copy_from_main(self.policy)
        ppo, seed = config.ppo, rank_seed(config.seed, self.world.rank)
        if not self.world.is_alone:
            seed_everything(seed)
        self.source, self.league = make_opponent_source(self, seed, self._build_policy)
        self.opposition = OpponentRunner(self.env, self.source, self.pool, seed=seed, amp=ppo.amp)
        self.examiner = Evaluator(config, run_dir, self.device, self.pool, make_env)
        self.buffer = RolloutBuffer.create(
            ppo.rollout_steps, self.env.rows, self.env.obs_dim, self.env.action_dim, self.device
        )
        trace = None if run_dir is None or not self.world.is_main else RunPaths(Path(run_dir)).trace
        self.profile = UpdateProfiler(trace, config.profile_updates)
        self.trainer = PPOTrainer(self.policy, ppo, self.device, self.pool, self.world)
        self.collector = Collector(
            self.env,
            self.policy,
            self.buffer,
            chunk_length=minibatch.chunk_length(ppo.rollout_steps, ppo.tbptt_chunk_length, ppo.num_minibatches),
            gamma=ppo.gamma,
            truncation_bootstraps=config.env.truncation_bootstraps,
            amp=ppo.amp,
            amp_dtype=ppo.amp_dtype,
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
        self.profile.close()
        self.pool.close()
        self.world.close()

    @property
    def elapsed_s(self) -> float:
        """Wall time of the run so far, earlier sessions included [s]."""
        return self.counters.elapsed_s + time.monotonic() - self._began

    @property
    def progress(self) -> float:
        """Share of the planned training that is done, 0 to 1, by the limit that is nearest; 1 for a done exploiter."""
        if self.league is not None and self.league.source.has_exploited:
            return 1.0
        cfg, c = self.config, self.counters
        limits = ((c.global_step, cfg.total_steps), (c.update, cfg.max_updates), (c.episodes, cfg.max_episodes))
        return min(1.0, max(done / limit for done, limit in limits if limit))

    def begin(self) -> None:
        """Start afresh: the policy as it begins is the first snapshot, and every environment begins an episode."""
        if self.config.start_from:
            self._start_from(Path(self.config.start_from))
        self.snapshot()
        if self.league is not None:
            self.league.join()
        self.collector.reset()

    def evaluate(self, tick: Callable[[], object] = lambda: None) -> EvalStats:
        """Play the held-out seeds from both sides with the current policy; the main process plays for all."""
        counters, stats = self.counters, None
        if self.world.is_main:
            stats = self.examiner.evaluate(self.policy, counters.update, counters.global_step, tick)
        counters.evaluated_update = counters.update
        stats = self.world.broadcast(stats)
        assert stats is not None
        return stats

    def judge_level(self, tick: Callable[[], object] = lambda: None) -> str:
        """Let the gate judge by fresh episodes; return why the level changed, empty if it did not."""
        gate = self.curriculum.gate
        if gate is None:
            return ""
        wins = self.examiner.wins_at(self.policy, gate.level, tick) if self.world.is_main else []
        return gate.judge(self.world.broadcast(wins), self.counters.update)

    def snapshot(self, tick: Callable[[], object] = lambda: None) -> Rated | None:
        """Keep the policy as it is now as an opponent, and rate it against those before; None where that is off."""
        if not self.config.opponents.takes_snapshots:
            return None
        name = self.source.add(self.policy, self.counters.update)
        if not self.source.ratings:
            self.source.ratings[name] = 0.0
            return None
        rated = self.examiner.rater.rate(self.policy, name, self.source, tick) if self.world.is_main else None
        rated = self.world.broadcast(rated)
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
            self.env.prefetch_curriculum(**ahead)
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
        """Write a checkpoint of this moment, which must be an update boundary, and drop old ones.

        Every process brings its environments; the main one writes, and ``OSError`` of it is raised in all.
        """
        if self.folder is None:
            raise ValueError("run_dir is None, wanted a folder to save in")
        mine = RankPart(self.env.state_dict(), self.collector.carry(), random_state(), self.opposition.state_dict())
        ranks = self.world.all_gather(mine)
        outcome = self.world.broadcast(self._write(self.folder, ranks) if self.world.is_main else None)
        if isinstance(outcome, OSError):
            raise outcome
        assert outcome is not None
        self.counters.saved_update = self.counters.update
        return outcome

    def _write(self, folder: Path, ranks: list[RankPart]) -> Checkpoint | OSError:
        try:
            saved = checkpoints.save_checkpoint(
                folder,
                weights=self.policy.state_dict(),
                state=self._state(),
                environment=ranks[0].environment,
                carry=ranks[0].carry,
                manifest=manifest_of(self),
                others=ranks[1:],
            )
            checkpoints.prune(folder, self.config.keep_checkpoints)
        except OSError as error:
            return error
        return saved

    def restore(self, saved: Checkpoint, *, fresh_random: bool = False) -> str:
        """Continue from a checkpoint exactly; ``ValueError`` when it does not fit this run.

        ``fresh_random`` leaves the generators as they are, so that the same draws are not made again. With another
        number of processes what was learned goes on and battles begin anew, which is what is returned in words.
        """
        same, rank = int(saved.manifest.get("processes", 1)) == self.world.size, self.world.rank
        rows = {"rows": self.env.rows} if same else {}
        check_dimensions(saved.manifest, obs_dim=self.env.obs_dim, action_dim=self.env.action_dim, **rows)
        state = saved.state()
        own = state if rank == 0 or not same else state["ranks"][rank - 1]
        self._load_weights(saved.weights(self.device))
        self.trainer.load_state_dict(state["trainer"])
        self.counters = Counters(**state["counters"])
        self.window.load(state["window"])
        self._began = time.monotonic()
        self.curriculum.load_state_dict(state["gate"])
        if self.league is not None:
            self.league.resume_at(self.counters.episodes)
        if same:
            self.env.load_state_dict(saved.environment(rank))
        here = self.env.get_curriculum()
        # the environment has its maps back already: naming their ranges again would have them made anew
        self.env.set_curriculum(**{n: v for n, v in state["curriculum"].items() if here.get(n) != v})
        if not same:
            self.source.load_state_dict(state["opponents"]["source"])
            self.collector.reset()
            return f"saved by {saved.manifest.get('processes', 1)} processes, now {self.world.size}: battles begin anew"
        self.opposition.load_state_dict(own["opponents"])
        self.collector.load_carry(saved.carry(rank))
        if not fresh_random:
            restore_random_state(own["rng"])
        return ""

    def _start_from(self, path: Path) -> None:
        """Take weights and, where the file has it, the scale of values; ``ValueError`` if they do not fit."""
        loaded = load_policy(path)
        check_dimensions(loaded.meta, obs_dim=self.env.obs_dim, action_dim=self.env.action_dim)
        self._load_weights(loaded.policy.state_dict())
        scale = loaded.meta.get(VALUE_SCALE)
        if not path.is_file():
            scale = find_checkpoint(path).state()["trainer"][VALUE_SCALE]
        if scale is not None:
            self.trainer.return_normalizer.load_state_dict(scale)

    def _load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Take ``weights``; which columns are normalised is part of them, but is what this run's configuration says."""
        load_weights(self.policy, weights)
        self._choose_normalizable(self.policy)

    def _choose_normalizable(self, policy: FlatPolicy) -> None:
        policy.set_normalizable(self.env.normalizable & self.config.ppo.obs_norm)

    def _build_env(self, progress: Callable[[str, int, int], None] | None) -> BatchedEnv:
        cfg, make_env = self.config, self._make_env
        if make_env is None:
            from echelon.training.vec_env import VectorEnv

            make_env = VectorEnv
        learners, flown = assign_sides(cfg.num_envs, cfg.opponents)
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
            first_env=self.world.rank * cfg.num_envs,
            bank_maps=cfg.bank_maps,
            spare_maps=cfg.bank_spare,
            maps_per_refresh=cfg.bank_refresh_maps if cfg.bank_refresh_every else 0,
            map_workers=map_worker_count(self.threads),
            progress=progress,
        )

    def _build_policy(self) -> FlatPolicy:
        cfg, env = self.config, self.env
        widths = tail_widths(cfg, env.obs_dim)
        if self._make_policy is not None:
            policy = self._make_policy(cfg, env.obs_dim, env.action_dim).to(self.device)
        else:
            policy = build_model(cfg.model, env.obs_dim, env.action_dim, *widths, predict=cfg.ppo.aux_coef > 0).to(
                self.device
            )
        self._choose_normalizable(policy)
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
