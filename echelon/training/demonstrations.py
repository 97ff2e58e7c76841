"""Records demonstrations: plays matches between scripted levels and policies, and writes what one side did.

Matches are played in waves of environments that start together, every seed from both sides; a wave is written when all
its matches have ended. Seeds are those of training, which no evaluation plays. Shapes: ``E environment, M mech,
N learner row, T step, D observation, A action``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon import actions
from echelon.config import EnvConfig, env_signature, require
from echelon.config.opponents import DEFAULT_LEVEL
from echelon.config.seeds import SEED_RANGES
from echelon.demos import (
    ARRAYS,
    MAX_SHARD_BYTES,
    NO_EPISODE,
    OUTCOMES,
    QUANTISATION_LEVELS,
    Counts,
    DemoWriter,
    Manifest,
    ObsDtype,
    Side,
    bytes_per_row,
)
from echelon.env import layout
from echelon.rl.action_distribution import quantised
from echelon.rl.weights import LoadedPolicy, check_dimensions
from echelon.training.batch_options import Episodes, Pilots, Sides
from echelon.training.batched_env import BatchedEnv
from echelon.training.evaluation import LEARNERS
from echelon.training.opponents.outcomes import outcome_of
from echelon.training.opponents.rating import FixedOpponents
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.process import package_versions
from echelon.training.runtime.threads import ThreadPool
from echelon.training.vec_env import VectorEnv

MAX_MATCHES_AT_ONCE = 64
OPPONENT = "opponent"
"""Name of the opponent's policy within a batch."""
NOISE_SEED_STEP = 1 << 32
"""Distance of the seeds of two waves' action noise."""


@dataclass(frozen=True)
class Player:
    """Who plays a side: a scripted level, or a policy."""

    name: str
    level: str | None = None
    loaded: LoadedPolicy | None = None
    samples: bool = False
    """Whether a policy samples its actions instead of taking their mean."""

    def side(self) -> Side:
        checkpoint = str(self.loaded.meta.get("id", "")) if self.loaded else ""
        return Side(name=self.name, checkpoint=checkpoint, samples=self.samples and self.loaded is not None)


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """A recording to make; an invalid value raises ``ValueError``."""

    env: EnvConfig
    policy: Player
    opponent: Player
    matches: int
    first_seed: int = 0
    weapon_prob: float = 1.0
    obs_dtype: ObsDtype = "float16"

    def __post_init__(self) -> None:
        require(self.matches >= 2 and self.matches % 2 == 0, "matches", self.matches, "an even number from 2")
        last = SEED_RANGES["training"].stop - self.matches // 2
        require(0 <= self.first_seed <= last, "seed", self.first_seed, f"0 to {last}")

    def matches_at_once(self, obs_dim: int, action_dim: int) -> int:
        """Return the matches of a wave, an even number: those whose data fill about one shard."""
        rows = self.env.max_steps * self.env.team_size
        fitting = MAX_SHARD_BYTES // (rows * bytes_per_row(obs_dim, action_dim, self.obs_dtype))
        return max(2, min(fitting, MAX_MATCHES_AT_ONCE, self.matches) // 2 * 2)


def record(
    plan: DemoPlan,
    folder: Path,
    *,
    device: str = "cpu",
    threads: int = 0,
    on_wave: Callable[[int], object] = lambda recorded: None,
    on_step: Callable[[], object] = lambda: None,
) -> Manifest:
    """Record into ``folder``, continuing an interrupted recording of the same plan, and return the manifest.

    ``on_wave`` is called with the number of recorded matches after each wave, ``on_step`` before every step.
    """
    env = replace(plan.env, map_size_range=None, packs_per_team_range=None)
    obs_dim, action_dim = layout.obs_dim(env), actions.action_dim(env.comm_dim)
    for side in (plan.policy, plan.opponent):
        if side.loaded is not None:
            check_dimensions(side.loaded.meta, obs_dim=obs_dim, action_dim=action_dim)
    writer = DemoWriter(folder, _manifest(replace(plan, env=env), obs_dim, action_dim))
    at_once = plan.matches_at_once(obs_dim, action_dim)
    while (first := writer.recorded) < plan.matches:
        numbers = range(first, min(first + at_once, plan.matches))
        writer.append(*_play_wave(replace(plan, env=env), numbers, device, threads, on_step))
        on_wave(writer.recorded)
    return writer.manifest


def _manifest(plan: DemoPlan, obs_dim: int, action_dim: int) -> Manifest:
    return Manifest(
        obs_dim=obs_dim,
        action_dim=action_dim,
        obs_dtype=plan.obs_dtype,
        config=env_signature(plan.env),
        policy=plan.policy.side(),
        opponent=plan.opponent.side(),
        weapon_prob=plan.weapon_prob,
        first_seed=plan.first_seed,
        matches=plan.matches,
        versions=package_versions(),
    )


def _play_wave(
    plan: DemoPlan, numbers: range, device: str, threads: int, on_step: Callable[[], object]
) -> tuple[dict[str, NDArray[Any]], Counts]:
    """Return the arrays ``[T, N, ...]`` and totals of the matches ``numbers``, played to their ends."""
    env = VectorEnv(
        len(numbers),
        plan.env,
        sides=Sides(
            [LEARNERS[number % 2] for number in numbers],
            opponents=[LEARNERS[1 - number % 2] for number in numbers] if plan.opponent.loaded else "none",
        ),
        pilots=Pilots(plan.opponent.level or DEFAULT_LEVEL, weapon_prob=plan.weapon_prob),
        episodes=Episodes(seeds=[plan.first_seed + number // 2 for number in numbers], autoreset=False),
        device=device,
        threads=threads,
    )
    try:
        return _Wave(plan, env, numbers).play(on_step)
    finally:
        env.close()


class _Wave:
    """Matches that start together, and the arrays that they fill."""

    def __init__(self, plan: DemoPlan, env: VectorEnv, numbers: range) -> None:
        self.plan, self.env, self.numbers = plan, env, numbers
        sizes = {"T": plan.env.max_steps, "N": env.rows.count, "D": env.sizes.obs_dim, "A": env.sizes.action_dim}
        self.arrays: dict[str, NDArray[Any]] = {
            name: np.zeros([sizes[axis] for axis in axes], kind or plan.obs_dtype)
            for name, (axes, kind) in ARRAYS.items()
        }
        self.arrays["episodes"].fill(NO_EPISODE)
        self.running = torch.ones(env.sizes.num_envs, dtype=torch.bool)
        self.opponents = _opponents(plan.opponent, env, numbers.start)

    @torch.inference_mode()
    def play(self, on_step: Callable[[], object]) -> tuple[dict[str, NDArray[Any]], Counts]:
        """Play until every match has ended; return the arrays, cut to the longest match, and the totals."""
        env = self.env
        if self.opponents is not None:
            self.opponents.reset()
        env.reset(0)
        env.episodes.pop()
        records, steps, acting = [], 0, _actions(self.plan.policy, env, self.numbers.start)
        while len(records) < env.sizes.num_envs:
            assert steps < self.plan.env.max_steps, "a match is longer than its time limit"
            on_step()
            acted = next(acting)
            env.rows.act(acted)
            if self.opponents is not None:
                self.opponents.act()
            self._store_before(steps, acted)
            env.step(0)
            self._store_after(steps)
            if self.opponents is not None:
                self.opponents.after_step(torch.zeros_like(env.results.over), False)
            records += env.episodes.pop()
            steps += 1
        return self._finished(records, steps)

    def _store_before(self, t: int, acted: Tensor) -> None:
        """Store what the rows observe and do in step t."""
        rows = self._rows()
        self.arrays["obs"][t, rows] = self.env.rows.obs[0].cpu().numpy()[rows]
        self.arrays["actions"][t, rows] = torch.round(quantised(acted) * QUANTISATION_LEVELS).cpu().numpy()[rows]
        self.arrays["episodes"][t, rows] = self.numbers.start + self.env.rows.env.cpu().numpy()[rows]

    def _store_after(self, t: int) -> None:
        """Store what came of step t."""
        env, rows, arrays = self.env, self._rows(), self.arrays
        over = env.results.over.cpu()
        for name, values in (("rewards", env.results.rewards), ("alive", env.results.acting)):
            arrays[name][t, rows] = env.rows.of_mechs(values).cpu().numpy()[rows]
        arrays["dones"][t, rows] = over[env.rows.env.cpu()].numpy()[rows]
        self.running &= ~over

    def _rows(self) -> NDArray[np.intp]:
        return self.running[self.env.rows.env.cpu()].numpy().nonzero()[0]

    def _finished(self, records: list[Any], steps: int) -> tuple[dict[str, NDArray[Any]], Counts]:
        """Return the arrays with the outcomes of ``records``, and the totals."""
        arrays = {name: values[:steps] for name, values in self.arrays.items()}
        outcomes = {self.numbers.start + record.env: outcome_of(record) for record in records}
        for number, outcome in outcomes.items():
            arrays["outcomes"][arrays["episodes"] == number] = OUTCOMES[outcome]
        ended = list(outcomes.values())
        counts = Counts(
            episodes=len(records),
            steps=sum(int(record.length) for record in records),
            agent_steps=int(arrays["alive"].sum()),
            wins=ended.count("win"),
            draws=ended.count("draw"),
            losses=ended.count("loss"),
        )
        return arrays, counts


def _opponents(player: Player, env: BatchedEnv, first: int) -> OpponentRunner | None:
    """Return what acts for the other side, None where scripted pilots do."""
    if player.loaded is None:
        return None
    source = FixedOpponents([OPPONENT] * env.sizes.num_envs, {OPPONENT: player.loaded.policy})
    return OpponentRunner(env, source, ThreadPool(1), seed=first)


def _actions(player: Player, env: VectorEnv, first: int) -> Iterator[Tensor]:
    """Yield the actions ``[N, A]`` of the recorded side, step by step; ``first`` is the number of the first match."""
    if player.loaded is None:
        env.pilots.set_teacher(player.level)
        while True:
            env.pilots.label()
            yield env.rows.acted()
    policy = player.loaded.policy
    generator = torch.Generator().manual_seed(first * NOISE_SEED_STEP + 1)
    rows, device = env.rows.count, env.device
    state, done = policy.initial_state(rows, device), torch.ones(rows, device=device)
    while True:
        noise = torch.randn(rows, policy.noise_dim, generator=generator).to(device) if player.samples else None
        action, state = policy.act(env.rows.obs[0], state, done, noise)
        yield action
        done = torch.zeros_like(done)
