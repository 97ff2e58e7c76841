"""The parts of a training run, built from its configuration, and how they are saved and restored exactly.

Everything that decides the next step is here or reachable from here: weights, optimizer, statistics, generators,
recurrent states, the environment's state, counters. ``echelon.training.loop`` has the order of a training step,
``echelon.training.checkpoint`` writes the files.
"""

import contextlib
import copy
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from echelon.arena.ray_league import RemoteDesk
from echelon.arena.standings import policy_path
from echelon.closing import Closing
from echelon.config import RunConfig, env_signature
from echelon.config.seeds import EVAL_SEED_BASE, folded
from echelon.env import layout
from echelon.env.engine_state import EngineStateMismatch
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.checkpoint import Checkpoint, latest_valid, open_checkpoint
from echelon.rl.fitting import fitted
from echelon.rl.weights import LoadedPolicy, check_dimensions
from echelon.runs import RunNotFoundError, RunPaths, read_json
from echelon.telemetry.events import Event, EventAlert, EventRating, EventStart
from echelon.training import checkpoint as checkpoints
from echelon.training.batch_options import Episodes, Maps, Pilots
from echelon.training.batched_env import BatchedEnv
from echelon.training.checkpoint import RankPart
from echelon.training.curriculum import Curriculum
from echelon.training.evaluation import EvalStats, MakeEnv
from echelon.training.evaluator import Evaluator, best_evaluation
from echelon.training.opponents.fixed import load_champion
from echelon.training.opponents.league_client import LeagueClient, open_desk
from echelon.training.opponents.league_source import LeagueSource
from echelon.training.opponents.pool import OpponentMix, assign_sides
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.ppo.actor import Actor
from echelon.training.ppo.collect import CollectedEpisodes, Collector, RolloutParts
from echelon.training.ppo.critic import TeamCritic
from echelon.training.ppo.execution import make_steps
from echelon.training.ppo.optimizer import WeightAverage
from echelon.training.ppo.rollouts import Rollouts
from echelon.training.ppo.teacher import teaching_at
from echelon.training.ppo.trainer import PPOTrainer, schedule_factor
from echelon.training.ppo.value_attack import ValueAttack
from echelon.training.records import EpisodeStats, RowLayout
from echelon.training.rollout import RolloutBuffer
from echelon.training.runtime import process
from echelon.training.runtime.devices import observation_dtype, resolve_device, set_determinism
from echelon.training.runtime.process_group import ProcessGroup, process_group_from_environment
from echelon.training.runtime.threads import ThreadPool, map_worker_count, resolve_threads
from echelon.training.starting_point import RETURN_STATISTICS, initial_weights, plain_statistics
from echelon.training.teachers import make_teacher
from echelon.version import SIM_VERSION

MakePolicy = Callable[[RunConfig, int, int], FlatPolicy]
"""Return a new policy for a configuration, observation columns and action columns."""
DEFAULT_RUN_NAME = "run"
"""Name in the league of a run without a folder."""


class EvaluationPutOff(Exception):
    """A run that is asked to stop evaluates once it is resumed."""


@dataclass
class Counters:
    """Progress of training; saved with a checkpoint."""

    update: int = 0
    global_step: int = 0
    """Learner agent-steps: rows of living mechs that entered a loss, counted once."""
    episodes: int = 0
    elapsed_s: float = 0.0
    """Newest reading of the run's clock, which schedules and the time limit follow [s]."""
    evaluated_update: int = -1
    saved_update: int = -1
    submitted_update: int = -1
    elo: float = float("nan")
    """Elo of the newest rated snapshot."""
    best: dict[str, Any] = field(default_factory=dict)
    """Win rate, highest win rate so far, update, opponent and seed range of the best evaluation."""


@dataclass(frozen=True)
class Seeds:
    """Seeds of a run's random draws, in the order in which ``Session`` uses them."""

    weights: int
    """Global generators (Python, numpy, torch) for the initial weights, the same on every rank."""
    battles: int
    """Maps and episodes, each a function of seed, environment and episode; environments are numbered across ranks."""
    rank: int | None
    """Global generators afterwards, for action noise and the order of minibatches; None lets a single rank go on."""
    opponents: int
    """Opponents, each a function of seed, environment and episode, and the generator of their action noise."""

    @classmethod
    def of(cls, seed: int, group: ProcessGroup) -> "Seeds":
        """Return the seeds of this rank."""
        own = process.rank_seed(seed, group.rank)
        return cls(weights=seed, battles=seed, rank=None if group.is_single else own, opponents=own)


LIMITS = {
    "total_steps": ("global_step", 1),
    "max_minutes": ("elapsed_s", process.SECONDS_PER_MINUTE),
    "max_updates": ("update", 1),
    "max_episodes": ("episodes", 1),
}
"""Fields of the configuration that end training, the counter of each, and how much of it one unit is."""


class Session(Closing):
    """The parts of a training run; a context manager."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: os.PathLike[str] | None = None,
        make_env: MakeEnv | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        make_policy: MakePolicy | None = None,
        group: ProcessGroup | None = None,
        clock: process.Clock | None = None,
        resume: Path | str | None = None,
    ) -> None:
        self.config, self.run_dir = config, run_dir
        self.group = process_group_from_environment() if group is None else group
        self.device = resolve_device(config.device, self.group.local_rank, self.group.local_size)
        set_determinism(self.device, config.deterministic)
        self.group.join(self.device)
        self.num_envs = self.group.broadcast(self._environments(resume))
        """Environments of this rank."""
        self.threads = resolve_threads(config.threads, self.group.local_size)
        self.counters = Counters()
        self.episode_stats = EpisodeStats()
        self._make_env, self._make_policy = make_env, make_policy
        self._prefetched: dict[str, Any] = {}
        self.clock = process.RunClock(self.group, clock)
        seeds = Seeds.of(folded(config.seed, EVAL_SEED_BASE), self.group)
        process.seed_everything(seeds.weights)
        torch.set_num_threads(1)
        self.pool = ThreadPool(self.threads)
        self.curriculum = Curriculum(config)
        self.env = self._build_env(seeds.battles, progress)
        self.layout = RowLayout(self.env)
        self.policy = self._build_policy()
        self.group.broadcast_module(self.policy)
        self.ema = WeightAverage(self.policy, config.ppo.ema_decay)
        if seeds.rank is not None:
            process.seed_everything(seeds.rank)
        self.desk = open_desk(config.opponents.league.path, run_dir)
        self.source, ppo = self._build_opponent_source(seeds.opponents), config.ppo
        self.opponents = OpponentRunner(
            self.env, self.source, self.pool, seed=seeds.opponents, amp=ppo.amp, capture=ppo.capture
        )
        self.league = self._build_league_client()
        self.evaluator = Evaluator(config, run_dir, self.device, self.pool, make_env, lambda: self.source.champion)
        shape = (ppo.rollout_steps, self.env.rows.count, self.env.sizes.obs_dim, self.env.sizes.action_dim)
        obs_dtype = observation_dtype(self.device, ppo.amp, ppo.amp_dtype)
        has_labels = bool(config.teacher.policy)
        buffer = RolloutBuffer.create(*shape, self.device, has_labels=has_labels, obs_dtype=obs_dtype)
        trace = None if run_dir is None or not self.group.is_main else RunPaths(Path(run_dir)).trace
        self.profiler = process.UpdateProfiler(trace, config.profile_updates)
        magnet = self.ema.policy if ppo.magnet_coef else None
        critic = None
        if config.model.critic == "central":
            states = self.env.rows.central()
            buffer.central = states.new_zeros(ppo.rollout_steps + 1, *states.shape)
            critic = TeamCritic(states.shape[1], 2 * self.env.rows.team_size)
        self.trainer = PPOTrainer(self.policy, ppo, self.device, self.pool, self.group, magnet, critic)
        teacher = make_teacher(config, self.env, self.pool, self.device, run_dir, stores=self.group.is_main)
        played = copy.deepcopy(self.policy) if ppo.overlap else self.policy
        actor = Actor(self.env, played, ppo, buffer.actions.device, pool=self.pool, teacher=teacher)
        episodes, bootstraps = CollectedEpisodes(self.env.sizes.num_envs), config.env.truncation_bootstraps
        coef = config.opponents.value_attack
        attack = ValueAttack(self.opponents, coef, ppo.rollout_steps) if coef else None
        parts = RolloutParts(actor, buffer, episodes, self.opponents, bootstraps, attack)
        self.collector = Collector(parts, make_steps(parts), first_env=self.group.rank * self.num_envs)
        self.rollouts = Rollouts(self.collector, self.trainer, self.policy, self.profiler)

    def close(self) -> None:
        self.env.close()
        self.evaluator.close()
        self.profiler.close()
        self.pool.close()
        self.group.close()

    @property
    def buffer(self) -> RolloutBuffer:
        """The rollout that was trained on last."""
        return self.rollouts.buffer

    @property
    def folder(self) -> Path | None:
        """Folder of the checkpoints, where the run's folder is now."""
        return None if self.run_dir is None else RunPaths(Path(self.run_dir)).checkpoints

    def read_clock(self) -> float:
        """Read the run's clock into the counters and return the reading [s]."""
        self.counters.elapsed_s = self.clock.read()
        return self.counters.elapsed_s

    @property
    def progress(self) -> float:
        """Completed share of the planned training, 0 to 1, by the nearest limit; 1 once an exploiter is done."""
        if isinstance(self.source, LeagueSource) and self.source.target_is_beaten:
            return 1.0
        return self._done({name: getattr(self.config, name) for name in LIMITS})

    def _done(self, limits: Mapping[str, Any]) -> float:
        """Return the completed share of a plan, 0 to 1, by the nearest of its limits."""
        done = (
            getattr(self.counters, name) / (limits[limit] * unit)
            for limit, (name, unit) in LIMITS.items()
            if limits[limit]
        )
        return min(1.0, max(done))

    def set_progress(self) -> None:
        """Set what follows a schedule, except for curriculum parameters, for the coming update."""
        progress = self.progress
        teaching = teaching_at(self.config.teacher, progress)
        self.trainer.set_progress(progress, self.rollouts.teaching if self.rollouts.waits else teaching)
        self.collector.set_teaching(teaching)

    def begin(self) -> None:
        """Start a new run: load ``start_from``, snapshot the initial policy, join the league, reset environments."""
        if self.config.start_from:
            sizes = self.env.sizes.obs_dim, self.env.sizes.action_dim
            weights, state = initial_weights(self._policy_path(self.config.start_from, "start_from"), *sizes)
            self.ema.load_state_dict(weights, {})
            self.trainer.start_from(state)
        self.snapshot()
        if self.league is not None:
            sizes = {"obs_dim": self.env.sizes.obs_dim, "action_dim": self.env.sizes.action_dim}
            self.league.join({**sizes, "env_cfg": asdict(self.config.env)})
        self.collector.reset()

    def evaluate(self, on_step: Callable[[], object] = lambda: None) -> EvalStats | None:
        """Play the seeds that choose the best checkpoint with the current policy, on rank 0 for all ranks.

        Return None where ``on_step`` raises ``EvaluationPutOff``.
        """
        counters, stats = self.counters, None
        if self.group.is_main:
            with contextlib.suppress(EvaluationPutOff):
                stats = self.evaluator.evaluate(self.ema.policy, counters.update, counters.global_step, on_step)
        stats = self.group.broadcast(stats)
        if stats is not None:
            counters.evaluated_update = counters.update
        return stats

    def report(self, on_step: Callable[[], object] = lambda: None) -> EvalStats:
        """Play the seeds of reports, with mean and with sampled actions, on rank 0 for all ranks."""
        stats = self.group.broadcast(self.evaluator.report(self.ema.policy, on_step) if self.group.is_main else None)
        assert stats is not None
        return stats

    def snapshot(self, on_step: Callable[[], object] = lambda: None) -> EventRating | None:
        """Add the policy to the opponent pool and rate it against earlier snapshots; None if that is off."""
        if not self.config.opponents.takes_snapshots:
            return None
        update, step = self.counters.update, self.counters.global_step
        name = self.source.add(self.ema.policy, update)
        if not self.source.ratings:
            self.source.ratings[name] = 0.0
            return None
        rating = None
        if self.group.is_main:
            rater = self.evaluator.rater
            rating = rater.rate(self.ema.policy, name, self.source, on_step, update=update, global_step=step)
        rating = self.group.broadcast(rating)
        if rating is not None:
            self.source.ratings[name] = self.counters.elo = rating.elo
        self.source.release(set(self.opponents.names))
        return rating

    def submit(self, should_stop: Callable[[], bool]) -> list[Event]:
        """Submit the policy to the league, at most once per update; return the events to emit."""
        counters = self.counters
        if self.league is None or counters.submitted_update == counters.update:
            return []
        counters.submitted_update = counters.update
        if not self.group.is_main:
            return []
        scale = {RETURN_STATISTICS: plain_statistics(self.trainer.return_normalizer.state_dict())}
        events = self.league.submit(self.ema.policy, self.manifest() | scale, should_stop)
        if self.league.is_lost:
            counters.submitted_update = -1
        return events

    def update_league(self, should_stop: Callable[[], bool]) -> list[Event]:
        """Submit to and refresh from the league where due after this update; return the events to emit."""
        league, c = self.league, self.counters
        if league is None:
            return []
        events = self.submit(should_stop) if league.submits_at(c.update) else []
        league.refresh_if_due(c.episodes)
        notices = league.take_notices()
        return events + [EventAlert(message=text, update=c.update, global_step=c.global_step) for text in notices]

    def apply_curriculum(self) -> dict[str, Any]:
        """Set every curriculum parameter to its value in the coming update, and return them."""
        coming = self.counters.update + 1
        parameters = self.curriculum.parameters(coming, self.progress)
        current = self.env.get_curriculum()
        changed = {name: value for name, value in parameters.items() if current.get(name) != value}
        if changed:
            self.env.set_curriculum(**changed)
        upcoming = self.curriculum.upcoming_ranges(coming, self.progress)
        if upcoming and upcoming != self._prefetched:
            self._prefetched = upcoming
            self.env.maps.prefetch(upcoming)
        return parameters

    def is_best(self, stats: EvalStats) -> bool:
        """Return whether an evaluation is better than all before it, and store it as the best if so."""
        opponent = self.config.eval_level or self.config.eval_opponent
        before, self.counters.best = (
            self.counters.best,
            best_evaluation(self.counters.best, stats, self.counters.update, opponent),
        )
        return self.counters.best is not before

    def refresh_maps(self) -> None:
        """Replace the oldest maps of the pool by new ones if this update's number is one to do so."""
        every, update = self.config.bank_refresh_every, self.counters.update
        if every and update and update % every == 0:
            self.env.maps.refresh(self.config.bank_refresh_maps)

    def start_event(self, resumed: str) -> EventStart:
        """Return the start event; ``resumed`` names the checkpoint that training continues from, if any."""
        return EventStart(
            device=str(self.device),
            seed=self.config.seed,
            preset=self.config.preset,
            start_update=self.counters.update,
            total_steps=self.config.total_steps,
            max_minutes=self.config.max_minutes,
            global_step=self.counters.global_step,
            episodes=self.counters.episodes,
            obs_dim=self.env.sizes.obs_dim,
            action_dim=self.env.sizes.action_dim,
            parameters=sum(p.numel() for p in self.policy.parameters()),
            num_envs=self.env.sizes.num_envs * self.group.size,
            rows=self.env.rows.count * self.group.size,
            threads=self.threads * self.group.size,
            rollout_steps=self.config.ppo.rollout_steps,
            run_dir="" if self.run_dir is None else os.fspath(self.run_dir),
            resume=resumed,
            versions=process.package_versions(),
            config=asdict(self.config),
        )

    def manifest(self) -> dict[str, Any]:
        """Return the metadata of a checkpoint: sizes, counters and the configuration of the policy."""
        cfg, counters = self.config, self.counters
        map_width, extra_width = layout.tail_widths(cfg, self.env.sizes.obs_dim)
        spec = read_json(RunPaths(Path(self.run_dir)).spec) if self.run_dir is not None else None
        return {
            "kind": cfg.model.kind,
            "obs_dim": self.env.sizes.obs_dim,
            "action_dim": self.env.sizes.action_dim,
            "rows": self.env.rows.count,
            "environments": self.num_envs * self.group.size,
            "processes": self.group.size,
            "map_width": map_width,
            "extra_width": extra_width,
            "predict": cfg.ppo.aux_coef > 0,
            "hidden_dim": cfg.model.hidden_dim,
            "lstm_hidden_dim": cfg.model.lstm_hidden_dim,
            "update": counters.update,
            "global_step": counters.global_step,
            "episodes": counters.episodes,
            "best": counters.best,
            "model_cfg": asdict(cfg.model),
            "env_cfg": env_signature(cfg.env),
            "ppo_cfg": asdict(cfg.ppo),
            "reward_cfg": asdict(cfg.env.reward),
            "args": asdict(cfg),
            "curriculum": dict(self.env.get_curriculum()),
            "git": (spec or {}).get("git", {}),
            "sim_version": SIM_VERSION,
        }

    def save(self, sync_records: Callable[[], object] = lambda: None) -> Checkpoint:
        """Write a checkpoint, at an update boundary, delete old ones, and return it.

        Every rank contributes its environments; rank 0 first calls ``sync_records``, so that a checkpoint is never
        newer than the records on the disk, and writes; its ``OSError`` is raised on all ranks.
        """
        if self.folder is None:
            raise ValueError("run_dir is None, expected a folder to save in")
        part = RankPart(
            self.env.state_dict(), self.collector.carry(), process.random_state(), self.opponents.state_dict()
        )
        parts = self.group.all_gather(part)
        result = self.group.broadcast(self._write(self.folder, parts, sync_records) if self.group.is_main else None)
        if isinstance(result, OSError):
            raise result
        assert result is not None
        self.counters.saved_update = self.counters.update
        return result

    def _write(self, folder: Path, parts: list[RankPart], sync_records: Callable[[], object]) -> Checkpoint | OSError:
        try:
            sync_records()
            saved = checkpoints.save_checkpoint(
                folder,
                weights=self.ema.policy.state_dict(),
                state=self._state(),
                environment=parts[0].environment,
                carry=parts[0].carry,
                manifest=self.manifest(),
                others=parts[1:],
            )
        except OSError as error:
            return error
        # the next save tries again to delete
        with contextlib.suppress(OSError):
            checkpoints.prune(folder, self.config.keep_checkpoints)
        return saved

    def restore(self, saved: Checkpoint, *, fresh_random: bool = False) -> str:
        """Continue from a checkpoint exactly; raise ``ValueError`` if it does not fit this run.

        ``fresh_random`` leaves the generators alone, so that the same draws are not repeated. With another number of
        ranks, or running episodes that do not fit the tables of this version, learning continues and new episodes
        begin, which the returned notice says; else the notice is empty.
        """
        if saved.messages is not None:
            raise ValueError("checkpoint has messages between mechs, expected none; try a new run with start_from")
        rank, processes = self.group.rank, int(saved.manifest.get("processes", 1))
        same_ranks = processes == self.group.size
        rows = {"rows": self.env.rows.count} if same_ranks else {}
        check_dimensions(saved.manifest, obs_dim=self.env.sizes.obs_dim, action_dim=self.env.sizes.action_dim, **rows)
        state = saved.state()
        rank_state = state if rank == 0 or not same_ranks else state["ranks"][rank - 1]
        self.ema.load_state_dict(saved.weights(self.device), state)
        self.trainer.load_state_dict(state["trainer"])
        self.counters = Counters(**state["counters"])
        self.rollouts.waits = False
        self.episode_stats.load(state["window"])
        self.clock.restart(self.counters.elapsed_s)
        if self.league is not None:
            self.league.set_episodes(self.counters.episodes)
        notice = f"saved by {processes} processes, now {self.group.size}: new episodes begin{self._batch_change(saved)}"
        if same_ranks:
            notice = self._restore_episodes(saved.environment(rank))
        self._restore_curriculum(state["curriculum"])
        if notice:
            self.source.load_state_dict(state["opponents"]["source"])
            self.collector.reset()
            return notice
        self.opponents.load_state_dict(rank_state["opponents"])
        self.collector.load_carry(saved.carry(rank))
        if not fresh_random:
            process.restore_random_state(rank_state["rng"])
        return ""

    def _environments(self, resume: Path | str | None) -> int:
        """Return the environments of a rank: as configured, or by another number of ranks those that keep the total."""
        size, asked = self.group.size, self.config.num_envs
        if resume is None or self.folder is None:
            return asked
        saved = latest_valid(self.folder).checkpoint if str(resume) == "latest" else open_checkpoint(Path(resume))
        if saved is None or saved.manifest.get("args", {}).get("num_envs") != asked:
            return asked
        total = saved.manifest.get("environments", asked * saved.manifest.get("processes", 1))
        return asked if total % size else total // size

    def _batch_change(self, saved: Checkpoint) -> str:
        """Return how many learners all ranks have, where it was another number at a checkpoint; else nothing."""
        before = int(saved.manifest.get("rows", 0)) * int(saved.manifest.get("processes", 1))
        now = self.env.rows.count * self.group.size
        kept = self.num_envs * before / now
        advice = f"; num_envs={kept:.0f} keeps it" if kept.is_integer() else ""
        return f", the batch has {now} learners, before {before}{advice}" if before not in (0, now) else ""

    def schedule_change(self, saved: Checkpoint) -> str:
        """Return the learning rate before and after a change of the plan since a checkpoint; empty without one."""
        before, now = (_planned(row) for row in (saved.manifest.get("args", {}), asdict(self.config)))
        changed = [f"{name} is {now[name]}, before {before[name]}" for name in now if before[name] != now[name]]
        if not changed or None in before.values():
            return ""
        earlier, coming = (self._learning_rate(row) for row in (before, now))
        if math.isclose(earlier, coming, rel_tol=0.01):
            return ""
        return f"learning rate {coming:.3g}, before {earlier:.3g}: {', '.join(changed)}"

    def _learning_rate(self, planned: Mapping[str, Any]) -> float:
        teaching = teaching_at(self.config.teacher, self._done(planned))
        factor = schedule_factor(planned["ppo.lr_schedule"], teaching.lr_progress)
        return planned["ppo.lr"] * teaching.lr_factor * factor

    def _restore_episodes(self, state: dict[str, np.ndarray]) -> str:
        """Restore the running episodes of this rank; return why new ones begin instead, the same on every rank."""
        notice = ""
        try:
            self.env.load_state_dict(state)
        except EngineStateMismatch as error:
            notice = f"new episodes begin: {error}"
        return next(filter(None, self.group.all_gather(notice)), "")

    def _restore_curriculum(self, saved: dict[str, Any]) -> None:
        """Set the parameters that differ: the environment has its maps, which an unchanged range would make again."""
        current = self.env.get_curriculum()
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()}
        self.env.set_curriculum(**{name: value for name, value in values.items() if current.get(name) != value})

    def _build_env(self, seed: int, progress: Callable[[str, int, int], None] | None) -> BatchedEnv:
        cfg, make_env = self.config, self._make_env
        if make_env is None:
            from echelon.training.vec_env import VectorEnv

            make_env = VectorEnv
        maps = Maps(
            cfg.bank_maps,
            spare=cfg.bank_spare,
            per_refresh=cfg.bank_refresh_maps if cfg.bank_refresh_every else 0,
            workers=map_worker_count(self.threads),
        )
        return make_env(
            self.num_envs,
            replace(cfg.env, **self.curriculum.ranges(1, 0.0)),
            sides=assign_sides(self.num_envs, cfg.opponents),
            maps=maps,
            pilots=Pilots(cfg.opponents.skill, cfg.opponents.weapon_prob_start),
            episodes=Episodes(seed, first_env=self.group.rank * self.num_envs),
            device=str(self.device),
            threads=self.threads,
            progress=progress,
        )

    def _build_policy(self) -> FlatPolicy:
        cfg, env = self.config, self.env
        if self._make_policy is not None:
            policy = self._make_policy(cfg, env.sizes.obs_dim, env.sizes.action_dim)
        else:
            widths = layout.tail_widths(cfg, env.sizes.obs_dim)
            sizes = env.sizes.obs_dim, env.sizes.action_dim, *widths
            policy = build_model(cfg.model, *sizes, predict=cfg.ppo.aux_coef > 0)
        policy.set_normalizable(env.sizes.normalizable & cfg.ppo.obs_norm, layout.hidden_columns(cfg))
        return policy.to(self.device)

    def _build_opponent_source(self, seed: int) -> OpponentMix:
        cfg = self.config.opponents
        champion = None
        if cfg.mix.champion > 0 or self.config.eval_level is None:
            stored = None if self.run_dir is None else RunPaths(Path(self.run_dir)).champion
            champion = load_champion(
                self.config.env, self.device, cfg.champion, stored, stores=self.group.is_main, find=self._policy_path
            )
        if not cfg.mix.uses_league:
            return OpponentMix(cfg, seed, self._build_policy, champion)

        def check_policy(loaded: LoadedPolicy) -> FlatPolicy:
            loaded = fitted(loaded, self.env.sizes.obs_dim)
            check_dimensions(loaded.meta, obs_dim=self.env.sizes.obs_dim, action_dim=self.env.sizes.action_dim)
            return loaded.policy

        run = Path(self.run_dir).name if self.run_dir is not None else DEFAULT_RUN_NAME
        return LeagueSource(
            cfg, seed, self._build_policy, run=run, check_policy=check_policy, champion=champion,
            device=str(self.device),
        )  # fmt: skip

    def _build_league_client(self) -> LeagueClient | None:
        if not isinstance(self.source, LeagueSource):
            return None
        return LeagueClient(
            self.config, self.desk, self.source, self.opponents, self.group, device=self.device, threads=self.threads
        )

    def _policy_path(self, name: str, what: str) -> Path:
        """Return the path of a policy of this machine, or of the cluster's league."""
        try:
            return policy_path(name, what)
        except RunNotFoundError:
            if not isinstance(self.desk, RemoteDesk):
                raise
            return self.desk.find(name, what)

    def _state(self) -> dict[str, Any]:
        counters = {**asdict(self.counters), "saved_update": self.counters.update}
        return {
            "trainer": self.trainer.state_dict(),
            "counters": counters,
            "window": self.episode_stats.state(),
            "rng": process.random_state(),
            "curriculum": dict(self.env.get_curriculum()),
            "opponents": self.opponents.state_dict(),
            **self.ema.state_dict(),
        }


def _planned(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration that the learning rate depends on."""
    ppo = config.get("ppo", {})
    rates = {f"ppo.{name}": ppo.get(name) for name in ("lr", "lr_schedule")}
    return {**{name: config.get(name) for name in LIMITS}, **rates}
