"""Records demonstrations: plays matches between scripted levels and policies, and writes what one side did.

Matches are played in waves of environments that start together, every seed from both sides; a wave is written when all
its matches have ended. Seeds are those of training, which no evaluation plays. Shapes: ``E environment, M mech,
N learner row, T step, D observation, A action``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from echelon.actions import ACTION_DIM, QUANTISATION_LEVELS
from echelon.config import EnvConfig, require
from echelon.config.opponents import DEFAULT_LEVEL
from echelon.config.seeds import SEED_RANGES, require_seed
from echelon.demos import NO_EPISODE, OUTCOMES, Arrays, DemoSide, DemoWriter, Manifest, empty_arrays
from echelon.env import layout
from echelon.rl.action_distribution import quantised
from echelon.rl.weights import LoadedPolicy, check_dimensions
from echelon.training.batch_options import Episodes, Pilots, Sides
from echelon.training.evaluation import LEARNERS, ScriptedPolicy, play_episodes
from echelon.training.opponents.fixed import play_against
from echelon.training.opponents.outcomes import outcome_of
from echelon.training.records import EpisodeObserver
from echelon.training.runtime.process import package_versions
from echelon.training.vec_env import VectorEnv

MAX_MATCHES_AT_ONCE = 64
SHARD_BYTES = 64 * 10**6
"""Largest shard of more than two matches; one is read at a time."""


@dataclass(frozen=True)
class DemoPlayer:
    """Who plays a side: a scripted level, or a policy."""

    name: str
    level: str | None = None
    loaded: LoadedPolicy | None = None
    samples: bool = False
    """Whether a policy samples its actions instead of taking their mean."""

    def side(self) -> DemoSide:
        checkpoint = str(self.loaded.meta.get("id", "")) if self.loaded else ""
        return DemoSide(name=self.name, checkpoint=checkpoint, samples=self.samples and self.loaded is not None)


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """A recording to make; an invalid value raises ``ValueError``."""

    env: EnvConfig
    policy: DemoPlayer
    opponent: DemoPlayer
    matches: int
    first_seed: int = 0
    weapon_prob: float = 1.0

    def __post_init__(self) -> None:
        require(self.matches >= 2 and self.matches % 2 == 0, "matches", self.matches, "an even number from 2")
        first = require_seed(self.first_seed, limit=SEED_RANGES["training"].stop - self.matches // 2 + 1)
        object.__setattr__(self, "first_seed", first)

    def matches_at_once(self, widths: Mapping[str, int]) -> int:
        """Return the matches of a wave, an even number: those whose data fit in a shard."""
        row = empty_arrays(steps=1, rows=1, **widths).values()
        fitting = SHARD_BYTES // (self.env.max_steps * self.env.team_size * sum(values.nbytes for values in row))
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
    plan = replace(plan, env=plan.env.without_ranges())
    widths = {"obs_dim": layout.obs_dim(plan.env), "action_dim": ACTION_DIM}
    for side in (plan.policy, plan.opponent):
        if side.loaded is not None:
            check_dimensions(side.loaded.meta, **widths)
    manifest = Manifest(
        obs_dim=widths["obs_dim"],
        action_dim=widths["action_dim"],
        env=plan.env,
        policy=plan.policy.side(),
        opponent=plan.opponent.side(),
        weapon_prob=plan.weapon_prob,
        first_seed=plan.first_seed,
        matches=plan.matches,
        versions=package_versions(),
    )
    writer = DemoWriter(folder, manifest)
    at_once = plan.matches_at_once(widths)
    while (first := writer.recorded) < plan.matches:
        writer.append(_play_wave(plan, range(first, min(first + at_once, plan.matches)), device, threads, on_step))
        on_wave(writer.recorded)
    return writer.manifest


def _play_wave(plan: DemoPlan, numbers: range, device: str, threads: int, on_step: Callable[[], object]) -> Arrays:
    """Return the arrays ``[T, N, ...]`` of the matches ``numbers``, played to their ends."""
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


class _Wave(EpisodeObserver):
    """Matches that start together, and the arrays that they fill."""

    def __init__(self, plan: DemoPlan, env: VectorEnv, numbers: range) -> None:
        self.plan, self.env, self.numbers = plan, env, numbers
        self.arrays = empty_arrays(
            steps=plan.env.max_steps, rows=env.rows.count, obs_dim=env.sizes.obs_dim, action_dim=env.sizes.action_dim
        )
        self.arrays["episodes"].fill(NO_EPISODE)
        self._env_of_row = env.rows.env.cpu()
        self._running = torch.ones(len(numbers), dtype=torch.bool)
        self._steps = 0

    def play(self, on_step: Callable[[], object]) -> Arrays:
        """Play until every match has ended; return the arrays, cut to the longest match."""
        policy, opponent, first = self.plan.policy, self.plan.opponent.loaded, self.numbers.start
        records = play_episodes(
            policy.loaded.policy if policy.loaded else ScriptedPolicy(self.env, policy.level),  # type: ignore[arg-type]
            self.env,
            self.plan.env.max_steps,
            deterministic=not policy.samples,
            noise_seed=self.numbers,
            on_step=on_step,
            observers=[self],
            opponents=None if opponent is None else play_against(self.env, opponent.policy, seed=first),
        )
        arrays = {name: values[: self._steps] for name, values in self.arrays.items()}
        for record in records:
            arrays["outcomes"][arrays["episodes"] == first + record.env] = OUTCOMES[outcome_of(record)]
        return arrays

    def before_step(self, estimate: Callable[[], object]) -> None:
        """Store what the rows observe."""
        rows = self._rows()
        self.arrays["obs"][self._steps, rows] = self.env.rows.obs[0].cpu().numpy()[rows]

    def after_step(self) -> None:
        """Store what the rows did in the step, and what came of it."""
        results, rows = self.env.results, self._rows()
        over = results.over.cpu()
        found = {
            "actions": torch.round(quantised(self.env.rows.acted()) * QUANTISATION_LEVELS),
            "episodes": self.numbers.start + self._env_of_row,
            "rewards": self.env.rows.of_mechs(results.rewards),
            "alive": self.env.rows.of_mechs(results.acting),
            "dones": over[self._env_of_row],
        }
        for name, values in found.items():
            self.arrays[name][self._steps, rows] = values.cpu().numpy()[rows]
        self._running &= ~over
        self._steps += 1

    def _rows(self) -> NDArray[np.intp]:
        return self._running[self._env_of_row].numpy().nonzero()[0]
