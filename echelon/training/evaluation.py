"""Evaluation: a frozen policy against scripted pilots on held-out seeds, every seed from both sides.

Seeds come from a stream that training never draws from. Two evaluations of equal weights and seeds return
equal figures. Shapes: ``E env (two per seed), N learner row``.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch

from echelon.arena.intervals import wilson_interval
from echelon.config import EVAL_SEED_BASE, EnvConfig
from echelon.replay.embed import embed_world
from echelon.replay.header import TeamInfo
from echelon.replay.reader import Replay
from echelon.rl.build import FlatPolicy
from echelon.training.opponents.outcomes import hp_margin, learner_return, outcome_of, side_of, team_hit_points
from echelon.training.ppo.collect import BatchedEnv, Opponents
from echelon.training.recording import Recording, RecordingPlan
from echelon.training.records import ActionCounter, RowLayout, mean_terms

MakeEnv = Callable[..., BatchedEnv]
LEARNERS = ("blue", "red")
FULL_WEAPON_PROB = 1.0
OPPONENT = "medium"
"""Skill of the pilots that ``evaluate_vs_heuristic`` plays against."""
SEED_STREAMS = {"report": 0, "rating": 1 << 24, "gate": 1 << 25}
"""Where the held-out seeds begin that evaluations report on, snapshots are rated on, and gates judge by."""


class EpisodeObserver(Protocol):
    """Somebody who follows the episodes, such as a recording."""

    def begin(self) -> None:
        """The episodes have begun."""
        ...

    def before_step(self, estimate: Callable[[], torch.Tensor]) -> None:
        """A decision is about to be played; ``estimate`` returns what the policy expects ``[N]``, at a price."""
        ...

    def after_step(self) -> None:
        """A decision was played."""
        ...


@dataclass(frozen=True, kw_only=True)
class EvalStats:
    """What an evaluation found, from the policy's point of view."""

    win_rate: float
    mean_hp_margin: float
    """Share of hit points left at the end, own minus hostile."""
    mean_episode_length: float
    """[decisions]"""
    episodes: int
    draw_rate: float = 0.0
    loss_rate: float = 0.0
    win_low: float = 0.0
    """Lower end of the 95 % Wilson interval of the win rate."""
    win_high: float = 1.0
    mean_return: float = 0.0
    duration_s: float = 0.0
    reasons: tuple[tuple[str, int], ...] = ()
    outcomes: tuple[tuple[int, int, str], ...] = ()
    """Per episode: seed, side played (0 blue, 1 red), and win, loss or draw."""
    returns_by_role: dict[str, float] = field(default_factory=dict)
    """Mean return of the policy's mechs of each class."""
    reward_terms: dict[str, float] = field(default_factory=dict)
    """Mean sum of each reward term per mech and episode."""
    actions: dict[str, float] = field(default_factory=dict)
    """Activation rate per ``class/control``, of living mechs."""


def eval_seeds(count: int, stream: str = "report") -> list[int]:
    """Return the first ``count`` held-out seeds of a stream; those of different streams are different."""
    return [EVAL_SEED_BASE + SEED_STREAMS[stream] + s for s in range(count)]


def make_eval_env(
    env_cfg: EnvConfig,
    seeds: Sequence[int],
    *,
    weapon_prob: float,
    skill: str = "legacy",
    device: torch.device | str = "cpu",
    threads: int = 0,
    make_env: MakeEnv | None = None,
    policy_opponents: bool = False,
) -> BatchedEnv:
    """Return a batch that plays every seed twice, the policy as blue and as red, on maps and packs of full size.

    With ``policy_opponents`` other policies can fly the other side.
    """
    if not seeds:
        raise ValueError("seeds is empty, wanted at least one")
    if make_env is None:
        from echelon.training.vec_env import VectorEnv

        make_env = VectorEnv
    return make_env(
        2 * len(seeds),
        replace(env_cfg, map_size_range=None, packs_per_team_range=None),
        skill=skill,
        initial_weapon_prob=weapon_prob,
        device=str(device),
        threads=threads,
        learners=[side for side in LEARNERS for _ in seeds],
        opponents=[side for side in reversed(LEARNERS) for _ in seeds] if policy_opponents else "none",
        seeds=[*seeds, *seeds],
        autoreset=False,
    )


@torch.inference_mode()
def play_episodes(
    policy: FlatPolicy,
    env: BatchedEnv,
    max_steps: int,
    *,
    deterministic: bool = True,
    noise_seed: int = 0,
    tick: Callable[[], object] = lambda: None,
    observers: Sequence[EpisodeObserver | None] = (),
    opponents: Opponents | None = None,
) -> list[Any]:
    """Play one episode in every environment and return their records; the policy's statistics stay frozen.

    A stochastic policy draws from a generator per episode, so an episode does not depend on its neighbours.
    ``tick`` is called every decision, for those who watch whether the process is alive. ``opponents`` flies the mechs
    that other policies have; without it scripted pilots do.
    """
    was_training, following = policy.training, [observer for observer in observers if observer is not None]
    policy.eval()
    if opponents is not None:
        opponents.begin()
    env.reset(0)
    env.pop_episodes()
    for observer in following:
        observer.begin()
    device = env.obs.device
    generators = [] if deterministic else _generators(env, noise_seed)
    state, done = policy.initial_state(env.rows, device), torch.ones(env.rows, device=device)
    flat_actions, records = env.actions.view(-1, env.action_dim), []
    for _ in range(max_steps):
        tick()
        noise = _noise(env, policy.noise_dim, generators) if generators else None
        for observer in following:
            observer.before_step(functools.partial(_values, policy, env, state, done))
        action, state = policy.act(env.obs[0], state, done, noise)
        flat_actions.index_copy_(0, env.agent_of_row, action)
        if opponents is not None:
            opponents.act()
        env.step(0)
        for observer in following:
            observer.after_step()
        if opponents is not None:
            opponents.after_step(torch.zeros_like(env.episode_over), False)
        done = torch.zeros_like(done)
        records += env.pop_episodes()
        if len(records) >= env.num_envs:
            break
    policy.train(was_training)
    return records


def _values(policy: FlatPolicy, env: BatchedEnv, state: Any, done: torch.Tensor) -> torch.Tensor:
    """Return what the policy expects in every row ``[N]``."""
    return policy.get_value(env.obs[0], state, done)[0]


def summarize(
    records: Sequence[Any],
    full_hp: float,
    duration_s: float = 0.0,
    layout: RowLayout | None = None,
    actions: dict[str, float] | None = None,
) -> EvalStats:
    """Fold episode records into statistics from the learner's point of view; a fresh team has ``full_hp``.

    Figures by class and term need the ``layout`` of the batch they were played in.
    """
    if not records:
        return EvalStats(win_rate=0.0, mean_hp_margin=0.0, mean_episode_length=0.0, episodes=0)
    count = len(records)
    verdicts = [outcome_of(r) for r in records]
    wins = verdicts.count("win")
    low, high = wilson_interval(wins, count)
    return EvalStats(
        win_rate=wins / count,
        mean_hp_margin=sum(hp_margin(r, full_hp) for r in records) / count,
        mean_episode_length=sum(r.length for r in records) / count,
        episodes=count,
        draw_rate=verdicts.count("draw") / count,
        loss_rate=verdicts.count("loss") / count,
        win_low=low,
        win_high=high,
        mean_return=sum(learner_return(r) for r in records) / count,
        duration_s=duration_s,
        reasons=tuple(sorted(Counter(r.reason for r in records).items())),
        outcomes=tuple(sorted((int(r.seed), side_of(r), v) for r, v in zip(records, verdicts, strict=True))),
        returns_by_role={} if layout is None else layout.returns_by_role(records),
        reward_terms={} if layout is None else mean_terms([layout.learner_terms(r) for r in records]),
        actions=actions or {},
    )


def evaluate_policy(
    policy: FlatPolicy,
    env_cfg: EnvConfig,
    seeds: Sequence[int],
    *,
    skill: str = "legacy",
    weapon_prob: float = FULL_WEAPON_PROB,
    device: torch.device | str = "cpu",
    threads: int = 0,
    deterministic: bool = True,
    make_env: MakeEnv | None = None,
    observer: Callable[[BatchedEnv], EpisodeObserver] | None = None,
) -> EvalStats:
    """Play every seed from both sides against scripted pilots and return the statistics.

    ``observer`` is given the environment and returns who follows it.
    """
    env = make_eval_env(
        env_cfg, seeds, skill=skill, weapon_prob=weapon_prob, device=device, threads=threads, make_env=make_env
    )
    try:
        return play_and_summarize(
            policy, env, env_cfg, deterministic=deterministic, observers=[observer(env)] if observer is not None else []
        )
    finally:
        env.close()


def play_and_summarize(
    policy: FlatPolicy,
    env: BatchedEnv,
    env_cfg: EnvConfig,
    *,
    deterministic: bool = True,
    observers: Sequence[EpisodeObserver | None] = (),
    tick: Callable[[], object] = lambda: None,
    opponents: Opponents | None = None,
) -> EvalStats:
    """Play one episode in every environment of ``env`` and return the statistics."""
    began, rates = time.perf_counter(), ActionCounter(env)
    records = play_episodes(
        policy,
        env,
        env_cfg.max_steps,
        deterministic=deterministic,
        tick=tick,
        observers=[*observers, rates],
        opponents=opponents,
    )
    took = time.perf_counter() - began
    return summarize(records, team_hit_points(env_cfg), took, RowLayout(env), rates.rates())


def evaluate_ladder(
    policy: FlatPolicy,
    env_cfg: EnvConfig,
    seeds: Sequence[int],
    levels: Sequence[str],
    *,
    weapon_prob: float = FULL_WEAPON_PROB,
    device: torch.device | str = "cpu",
    threads: int = 0,
    deterministic: bool = True,
    make_env: MakeEnv | None = None,
    tell: Callable[[str], object] = lambda level: None,
) -> dict[str, EvalStats]:
    """Play every seed from both sides against each level in turn; ``tell`` is given the level about to be played."""
    env = make_eval_env(
        env_cfg, seeds, skill=levels[0], weapon_prob=weapon_prob, device=device, threads=threads, make_env=make_env
    )
    found = {}
    try:
        for level in levels:
            tell(level)
            env.set_heuristic_skill(level)
            found[level] = play_and_summarize(policy, env, env_cfg, deterministic=deterministic)
    finally:
        env.close()
    return found


def evaluate_vs_heuristic(
    model: FlatPolicy,
    env_cfg: EnvConfig,
    episodes: int,
    seeds: Sequence[int],
    device: torch.device | str,
    save_replay: bool = False,
) -> tuple[EvalStats, bytes | None]:
    """Evaluate against ``medium`` pilots at full strength; each of ``episodes`` seeds is played from both sides.

    With ``save_replay`` the second value is the first episode as an ``.ecr`` file, world included, else None.
    ``ValueError`` when the number of seeds is not ``episodes``.
    """
    if len(seeds) != episodes:
        raise ValueError(f"seeds has {len(seeds)} values, wanted one per episode ({episodes})")
    if not save_replay:
        return evaluate_policy(model, env_cfg, seeds, skill=OPPONENT, device=device), None
    with TemporaryDirectory(prefix="echelon-") as folder:
        plan = RecordingPlan(
            folder=Path(folder), seeds=seeds, count=1, prefix="eval", policy=TeamInfo(name="policy"),
            opponent=TeamInfo(name=OPPONENT, level=OPPONENT),
        )  # fmt: skip
        recordings: list[Recording] = []

        def observer(env: BatchedEnv) -> Recording:
            recordings.append(Recording(env, plan))
            return recordings[0]

        stats = evaluate_policy(model, env_cfg, seeds, skill=OPPONENT, device=device, observer=observer)
        matches = recordings[0].finish()
        if not matches:
            raise OSError(recordings[0].fault)
        with Replay(matches[0].path) as replay:
            return stats, embed_world(replay)


def _generators(env: BatchedEnv, seed: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed + e) for e in range(env.num_envs)]


def _noise(env: BatchedEnv, width: int, generators: list[torch.Generator]) -> torch.Tensor:
    counts = torch.bincount(env.env_of_row, minlength=env.num_envs).tolist()
    draws = [torch.randn(n, width, generator=g) for n, g in zip(counts, generators, strict=True)]
    return torch.cat(draws).to(env.obs.device)
