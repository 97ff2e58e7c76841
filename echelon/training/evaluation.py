"""Evaluation: a frozen policy against scripted pilots on held-out seeds, every seed from both sides.

Seeds come from a stream that training never draws from. Two evaluations of equal weights and seeds return
equal figures. Shapes: ``E env (two per seed), N learner row``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from echelon.arena.odds import wilson_interval
from echelon.config import EVAL_SEED_BASE, EnvConfig
from echelon.rl.build import FlatPolicy
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.training.collect import BatchedEnv

MakeEnv = Callable[..., BatchedEnv]
BLUE, RED, DRAW = 0, 1, 2
LEARNERS = ("blue", "red")
FULL_WEAPON_PROB = 1.0


class Watch(Protocol):
    """Somebody who follows the episodes, such as a recording."""

    def begin(self) -> None:
        """The episodes have begun."""
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


def eval_seeds(count: int) -> list[int]:
    """Return the first ``count`` held-out seeds."""
    return [EVAL_SEED_BASE + s for s in range(count)]


def make_eval_env(
    env_cfg: EnvConfig,
    seeds: Sequence[int],
    *,
    weapon_prob: float,
    skill: str = "legacy",
    device: torch.device | str = "cpu",
    threads: int = 0,
    make_env: MakeEnv | None = None,
) -> BatchedEnv:
    """Return a batch that plays every seed twice, the policy as blue and as red, on maps and packs of full size."""
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
    watch: Watch | None = None,
) -> list[Any]:
    """Play one episode in every environment and return their records; the policy's statistics stay frozen.

    A stochastic policy draws from a generator per episode, so an episode does not depend on its neighbours.
    ``tick`` is called every decision, for those who watch whether the process is alive.
    """
    was_training = policy.training
    policy.eval()
    env.reset(0)
    env.pop_episodes()
    if watch is not None:
        watch.begin()
    device = env.obs.device
    generators = [] if deterministic else _generators(env, noise_seed)
    state, done = policy.initial_state(env.rows, device), torch.ones(env.rows, device=device)
    flat_actions, records = env.actions.view(-1, env.action_dim), []
    for _ in range(max_steps):
        tick()
        noise = _noise(env, policy.noise_dim, generators) if generators else None
        action, state = policy.act(env.obs[0], state, done, noise)
        flat_actions.index_copy_(0, env.agent_of_row, action)
        env.step(0)
        if watch is not None:
            watch.after_step()
        done = torch.zeros_like(done)
        records += env.pop_episodes()
        if len(records) >= env.num_envs:
            break
    policy.train(was_training)
    return records


def summarize(records: Sequence[Any], full_hp: float, duration_s: float = 0.0) -> EvalStats:
    """Fold episode records into statistics from the learner's point of view; a fresh team has ``full_hp``."""
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
    watch: Callable[[BatchedEnv], Watch] | None = None,
) -> EvalStats:
    """Play every seed from both sides against scripted pilots and return the statistics.

    ``watch`` is given the environment and returns who follows it.
    """
    began = time.perf_counter()
    env = make_eval_env(
        env_cfg, seeds, skill=skill, weapon_prob=weapon_prob, device=device, threads=threads, make_env=make_env
    )
    try:
        follower = watch(env) if watch is not None else None
        records = play_episodes(policy, env, env_cfg.max_steps, deterministic=deterministic, watch=follower)
    finally:
        env.close()
    return summarize(records, team_hit_points(env_cfg), time.perf_counter() - began)


def evaluate_vs_heuristic(
    model: FlatPolicy,
    env_cfg: EnvConfig,
    episodes: int,
    seeds: Sequence[int],
    device: torch.device | str,
    save_replay: bool = False,
) -> tuple[EvalStats, None]:
    """Evaluate against scripted pilots at full strength; each of ``episodes`` seeds is played from both sides.

    ``ValueError`` when the number of seeds is not ``episodes``. A replay is recorded by ``echelon eval``, so the
    second value is None.
    """
    if len(seeds) != episodes:
        raise ValueError(f"seeds has {len(seeds)} values, wanted one per episode ({episodes})")
    if save_replay:
        raise ValueError("save_replay is True, wanted False: matches are recorded by the replay package")
    return evaluate_policy(model, env_cfg, seeds, device=device), None


def side_of(record: Any) -> int:
    """Return the team the policy played; blue where it played both."""
    return RED if record.learner_team == RED else BLUE


def outcome_of(record: Any) -> str:
    """Return win, loss or draw for the learner of an episode."""
    if record.winner == DRAW:
        return "draw"
    return "win" if record.winner == side_of(record) else "loss"


def team_hit_points(env_cfg: EnvConfig) -> float:
    """Return the hit points of a fresh team."""
    return env_cfg.num_packs * sum(CHASSIS[chassis].hp for chassis in ROSTER)


def hp_margin(record: Any, full_hp: float) -> float:
    """Return the share of hit points left at the end, own minus hostile; ``full_hp`` is that of a team at capacity."""
    side, there = side_of(record), float(record.present.mean())
    return (float(record.hp[side]) - float(record.hp[1 - side])) / (full_hp * there)


def learner_return(record: Any) -> float:
    """Return the mean return of the learner's mechs; blue mechs are the first half."""
    half = len(record.returns) // 2
    team = slice(half, None) if side_of(record) == RED else slice(half)
    mine = record.returns[team][record.present[team]]
    return float(mine.mean()) if len(mine) else 0.0


def _generators(env: BatchedEnv, seed: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed + e) for e in range(env.num_envs)]


def _noise(env: BatchedEnv, width: int, generators: list[torch.Generator]) -> torch.Tensor:
    counts = torch.bincount(env.env_of_row, minlength=env.num_envs).tolist()
    draws = [torch.randn(n, width, generator=g) for n, g in zip(counts, generators, strict=True)]
    return torch.cat(draws).to(env.obs.device)
