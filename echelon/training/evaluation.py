"""Evaluation of a frozen policy against scripted pilots on held-out seeds, every seed from both sides.

Seeds come from ranges that training never draws from (``echelon.config.seeds``). Two evaluations of equal weights and
seeds return equal statistics. Shapes: ``E environment (two per seed), N learner row``.
"""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from echelon import champion
from echelon.config import LADDER, EnvConfig
from echelon.config.opponents import DEFAULT_LEVEL
from echelon.config.seeds import eval_seeds as eval_seeds
from echelon.replay.embed import embed_world
from echelon.replay.header import TeamInfo
from echelon.replay.reader import Replay
from echelon.rl.build import FlatPolicy
from echelon.rl.outside import ProcessPolicy
from echelon.rl.traced_policy import trace_act
from echelon.telemetry.events import EvalStats as EvalStats
from echelon.telemetry.events import EventEval
from echelon.training.batch_options import Episodes, Pilots, Sides
from echelon.training.batched_env import BatchedEnv
from echelon.training.episode_results import episode_result, mean_and_sampled, statistics_of
from echelon.training.opponents.fixed import load_champion, play_against
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.recording import Recording, RecordingPlan
from echelon.training.records import ActionCounter, EpisodeObserver, Estimates, RowLayout

MakeEnv = Callable[..., BatchedEnv]
LEARNERS = ("blue", "red")
FULL_WEAPON_PROB = 1.0
YARDSTICK = (*LADDER, champion.NAME)
"""Opponents of ``echelon eval --ladder``, weakest first: the levels, and the champion with mean actions."""
OPPONENT = "medium"
"""Scripted level that ``evaluate_vs_heuristic`` plays against."""


def make_eval_env(
    env_cfg: EnvConfig,
    seeds: Sequence[int],
    *,
    weapon_prob: float,
    skill: str = DEFAULT_LEVEL,
    device: torch.device | str = "cpu",
    threads: int = 0,
    make_env: MakeEnv | None = None,
    policy_opponents: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> BatchedEnv:
    """Return a batch that plays every seed twice, the policy as blue and as red, on full-size maps and packs.

    With ``policy_opponents`` policies can control the other side. ``progress`` is called while maps are made and
    kernels are compiled.
    """
    if not seeds:
        raise ValueError("seeds is empty, expected at least one")
    if make_env is None:
        from echelon.training.vec_env import VectorEnv

        make_env = VectorEnv
    return make_env(
        2 * len(seeds),
        env_cfg.without_ranges(),
        sides=Sides(
            [side for side in LEARNERS for _ in seeds],
            [side for side in reversed(LEARNERS) for _ in seeds] if policy_opponents else "none",
        ),
        pilots=Pilots(skill, weapon_prob),
        episodes=Episodes(seeds=[*seeds, *seeds], autoreset=False),
        device=str(device),
        threads=threads,
        progress=progress,
    )


class StatelessPolicy:
    """What ``play_episodes`` asks of a policy beside ``act``, for one without weights and recurrent state."""

    training, noise_dim = False, 0

    def eval(self) -> None: ...

    def train(self, mode: bool) -> None: ...

    def initial_state(self, rows: int, device: torch.device) -> None: ...


class ScriptedPolicy(StatelessPolicy):
    """A scripted level in the place of an evaluated policy: its pilots control the mechs that learn."""

    def __init__(self, env: BatchedEnv, level: str | None) -> None:
        self._env = env
        self._env.pilots.set_teacher(level)

    def act(self, obs: Any, state: None, done: Any, noise: Any) -> tuple[torch.Tensor, None]:
        self._env.pilots.label()
        return self._env.rows.acted(), None


@torch.inference_mode()
def play_episodes(
    policy: FlatPolicy,
    env: BatchedEnv,
    max_steps: int,
    *,
    deterministic: bool = True,
    noise_seed: int | Sequence[int] = 0,
    on_step: Callable[[], object] = lambda: None,
    observers: Sequence[EpisodeObserver | None] = (),
    opponents: OpponentRunner | None = None,
) -> list[Any]:
    """Play one episode in every environment and return their records; the policy's statistics are not updated.

    A stochastic policy draws from one generator per episode, so episodes are independent of each other; ``noise_seed``
    is the seed of the first one, or the seeds of all. ``on_step`` is called before every step, to report liveness.
    ``opponents`` controls the mechs of the other side; without it scripted pilots do.
    """
    was_training, active = policy.training, [observer for observer in observers if observer is not None]
    policy.eval()
    if opponents is not None:
        opponents.reset()
    env.reset(0)
    env.episodes.pop()
    for observer in active:
        observer.begin()
    device = env.rows.obs.device
    generators = [] if deterministic else _generators(env, noise_seed)
    state, done = policy.initial_state(env.rows.count, device), torch.ones(env.rows.count, device=device)
    act = trace_act(policy, stochastic=not deterministic)
    records = []
    for _ in range(max_steps):
        on_step()
        noise = _noise(env, policy.noise_dim, generators) if generators else None
        for observer in active:
            observer.before_step(functools.partial(_estimates, policy, env, state, done))
        action, state = act(env.rows.obs[0], state, done, noise)
        env.rows.act(action)
        if isinstance(policy, ProcessPolicy):
            env.pilots.take_over(env.rows.agent[policy.lost])
        if opponents is not None:
            opponents.act()
        env.step(0)
        for observer in active:
            observer.after_step()
        if opponents is not None:
            opponents.after_step(torch.zeros_like(env.results.over), False)
        done = torch.zeros_like(done)
        records += env.episodes.pop()
        if len(records) >= env.sizes.num_envs:
            break
    policy.train(was_training)
    return records


def _estimates(policy: FlatPolicy, env: BatchedEnv, state: Any, done: torch.Tensor) -> Estimates:
    return Estimates(*policy.estimate(env.rows.obs[0], state, done))


def evaluate_policy(
    policy: FlatPolicy,
    env_cfg: EnvConfig,
    seeds: Sequence[int],
    *,
    skill: str = DEFAULT_LEVEL,
    weapon_prob: float = FULL_WEAPON_PROB,
    device: torch.device | str = "cpu",
    threads: int = 0,
    deterministic: bool = True,
    make_env: MakeEnv | None = None,
) -> EvalStats:
    """Play every seed from both sides against scripted pilots and return the statistics."""
    env = make_eval_env(
        env_cfg, seeds, skill=skill, weapon_prob=weapon_prob, device=device, threads=threads, make_env=make_env
    )
    try:
        return play_and_summarize(policy, env, env_cfg, deterministic=deterministic)
    finally:
        env.close()


def play_and_summarize(
    policy: FlatPolicy,
    env: BatchedEnv,
    env_cfg: EnvConfig,
    *,
    deterministic: bool = True,
    observers: Sequence[EpisodeObserver | None] = (),
    on_step: Callable[[], object] = lambda: None,
    opponents: OpponentRunner | None = None,
) -> EvalStats:
    """Play one episode in every environment of ``env`` and return the statistics."""
    began, counter = time.perf_counter(), ActionCounter(env)
    records = play_episodes(
        policy,
        env,
        env_cfg.max_steps,
        deterministic=deterministic,
        on_step=on_step,
        observers=[*observers, counter],
        opponents=opponents,
    )
    duration_s = time.perf_counter() - began
    layout = RowLayout(env)
    results = [episode_result(record, layout) for record in records]
    return statistics_of(results, duration_s, counter.rates())


def play_mean_and_sampled(
    policy: FlatPolicy,
    env: BatchedEnv,
    env_cfg: EnvConfig,
    *,
    observers: Sequence[EpisodeObserver | None] = (),
    on_step: Callable[[], object] = lambda: None,
    opponents: OpponentRunner | None = None,
) -> EvalStats:
    """Play every episode with mean actions, then with sampled ones, and return the statistics of both.

    ``observers`` follow the mean actions only.
    """
    mean = play_and_summarize(policy, env, env_cfg, observers=observers, on_step=on_step, opponents=opponents)
    sampled = play_and_summarize(policy, env, env_cfg, deterministic=False, on_step=on_step, opponents=opponents)
    return mean_and_sampled(mean, sampled)


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
    """Play every seed from both sides against each level in turn and return the statistics by level.

    A level may also be ``champion`` (see ``YARDSTICK``), which plays mean actions; ``ValueError`` where it cannot play
    this game. The statistics are of the policy's mean actions, with the win rate of sampled ones; without
    ``deterministic`` of sampled ones only. ``tell`` is called with each level before it is played.
    """
    other = load_champion(env_cfg, device) if champion.NAME in levels else None
    env = make_eval_env(
        env_cfg,
        seeds,
        skill=next((level for level in levels if level != champion.NAME), OPPONENT),
        weapon_prob=weapon_prob,
        device=device,
        threads=threads,
        make_env=make_env,
        policy_opponents=other is not None,
    )
    stats = {}
    try:
        for level in levels:
            tell(level)
            opponents = None
            if other is not None and level == champion.NAME:
                opponents = play_against(env, other.policy, deterministic=True)
            else:
                env.set_curriculum(skill=level)
            if deterministic:
                stats[level] = play_mean_and_sampled(policy, env, env_cfg, opponents=opponents)
            else:
                stats[level] = play_and_summarize(policy, env, env_cfg, deterministic=False, opponents=opponents)
    finally:
        env.close()
    return stats


def evaluate_vs_heuristic(
    model: FlatPolicy,
    env_cfg: EnvConfig,
    episodes: int,
    seeds: Sequence[int],
    device: torch.device | str,
    save_replay: bool = False,
) -> tuple[EvalStats, bytes | None]:
    """Evaluate against ``medium`` pilots at full strength; each of ``episodes`` seeds is played from both sides.

    Returns the statistics and, with ``save_replay``, the first episode as an ``.ecr`` file with its world, else None.
    Raises ``ValueError`` if the number of seeds is not ``episodes``.
    """
    if len(seeds) != episodes:
        raise ValueError(f"seeds has {len(seeds)} values, expected one per episode ({episodes})")
    env = make_eval_env(env_cfg, seeds, skill=OPPONENT, weapon_prob=FULL_WEAPON_PROB, device=device)
    try:
        if not save_replay:
            return play_and_summarize(model, env, env_cfg), None
        with TemporaryDirectory(prefix="echelon-") as folder:
            plan = RecordingPlan(
                folder=Path(folder), seeds=seeds, count=1, prefix="eval", policy=TeamInfo(name="policy"),
                opponent=TeamInfo(name=OPPONENT, level=OPPONENT),
            )  # fmt: skip
            recording = Recording(env, plan)
            stats = play_and_summarize(model, env, env_cfg, observers=[recording])
            recording.finish()
            if recording.fault:
                raise OSError(recording.fault)
            with Replay(recording.paths[0]) as replay:
                return stats, embed_world(replay)
    finally:
        env.close()


def eval_event(stats: EvalStats, seeds: Sequence[int], **about: Any) -> EventEval:
    """Return the event of an evaluation; ``about`` has the other fields of ``EventEval``."""
    return EventEval(**{**vars(stats), "outcomes": []}, seeds=list(seeds), **about)


def _generators(env: BatchedEnv, seed: int | Sequence[int]) -> list[torch.Generator]:
    seeds = range(seed, seed + env.sizes.num_envs) if isinstance(seed, int) else seed
    return [torch.Generator().manual_seed(s) for s in seeds]


def _noise(env: BatchedEnv, width: int, generators: list[torch.Generator]) -> torch.Tensor:
    counts = torch.bincount(env.rows.env, minlength=env.sizes.num_envs).tolist()
    draws = [torch.randn(n, width, generator=g) for n, g in zip(counts, generators, strict=True)]
    return torch.cat(draws).to(env.rows.obs.device)
