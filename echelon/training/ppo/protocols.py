"""What a collection uses of an environment and of the opponents in it, and the interface of the two ways to play.

Shapes: ``E environment, M mech, T step, N learner row, K opponent row, D observation, A action, S column of the central
state``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor

from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.packed_obs import PackedRollout
from echelon.training.normalization import ReturnNormalizer
from echelon.training.ppo.losses import LossTerms
from echelon.training.rollout import Minibatch, RolloutBuffer, Unit

if TYPE_CHECKING:
    from echelon.training.ppo.collect import CollectTimes


class BatchedEnv(Protocol):
    """The batched environment as the learner uses it; ``VectorEnv`` documents each member."""

    num_envs: int
    rows: int
    obs_dim: int
    action_dim: int
    row_of: Tensor
    """Learner row of each mech [E, M], -1 if it is none."""
    env_of_row: Tensor
    """[N]"""
    agent_of_row: Tensor
    """Index into the flattened [E * M] mechs of each learner row [N]."""
    opponent_rows: int
    env_of_opponent_row: Tensor
    """[K]"""
    agent_of_opponent_row: Tensor
    """[K]"""
    opponent_obs: Tensor
    """[K, D]"""
    roles: Tensor
    """Mech class id of each learner row [N]."""
    normalizable: Tensor
    """Columns that a normalizer may scale [D] bool."""
    obs: Tensor
    """[T + 1, N, D]"""
    final_obs: Tensor
    """[N, D]"""
    actions: Tensor
    """[E, M, A]"""
    rewards: Tensor
    """[E, M]"""
    reward_names: tuple[str, ...]

    @property
    def truncated(self) -> Tensor: ...

    @property
    def present(self) -> Tensor: ...

    @property
    def acting(self) -> Tensor: ...

    @property
    def episode_over(self) -> Tensor: ...

    @property
    def final_mask(self) -> Tensor: ...

    @property
    def central_dim(self) -> int:
        """Columns S of the central state."""
        ...

    def write_central(self, out: Tensor) -> None: ...

    def attach(self, obs: Tensor) -> None: ...

    def reset(self, row: int = 0) -> None: ...

    def step(self, row: Any = 0) -> None: ...

    def pop_episodes(self) -> list[Any]: ...

    def set_heuristic_skill(self, skill: str) -> None: ...

    def set_scripted_skills(self, skills: Sequence[str | None]) -> None: ...

    def set_teacher(self, skill: str | None) -> None: ...

    def label(self) -> None: ...

    def set_curriculum(self, **parameters: Any) -> None: ...

    def prefetch_curriculum(self, **parameters: Any) -> None: ...

    def refresh_maps(self, count: int) -> None: ...

    def map_statistics(self) -> dict[str, Any]: ...

    def get_curriculum(self) -> dict[str, Any]: ...

    def state_dict(self) -> dict[str, np.ndarray]: ...

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None: ...

    def close(self) -> None: ...


class DeviceEnv(Protocol):
    """What a rollout on a device uses of an environment besides ``BatchedEnv``; ``VectorEnv`` documents each member."""

    final_obs: Tensor

    @property
    def truncation_interval(self) -> int: ...

    def place_maps(self) -> None: ...

    def log_episodes(self, slots: int) -> None: ...

    def log_ended(self, step: Tensor) -> None: ...

    def drain_log(self) -> Any: ...

    def schedule_skills(self, skills: Sequence[Sequence[str | None]]) -> None: ...

    def follow_schedule(self, slot: Tensor) -> None: ...


class Opponents(Protocol):
    """The policies of the mechs that do not learn; ``echelon.training.opponents.runner.OpponentRunner`` is one."""

    names: list[str]
    """Opponent of each environment."""

    def reset(self) -> None:
        """Sample an opponent for every environment, from zero recurrent states."""
        ...

    def act(self) -> None:
        """Write the actions of the opponents into the environment."""
        ...

    def after_step(self, episode_over: Tensor, any_over: bool) -> None:
        """Sample again where ``episode_over [E]``; ``any_over`` says whether that is anywhere."""
        ...

    def begin_schedule(self, slots: int) -> None:
        """Sample the coming ``slots`` opponents of every environment, so that no step reads the device."""
        ...

    def scheduled(self, env: int, slot: int) -> str:
        """Return the opponent of an environment after ``slot`` episodes of the schedule have ended."""
        ...

    def end_schedule(self, ended: Any) -> None:
        """Continue with the opponents after ``ended [E]`` episodes of the schedule."""
        ...


Report = Callable[[str, LossTerms | None], None]
"""Handles a loss, with its terms, or a gradient that is not finite; its first argument says where."""


@dataclass
class UpdateStats:
    """Statistics that an update collects over its minibatches and optimizer steps."""

    terms: list[LossTerms] = field(default_factory=list)
    """Those of finite minibatches."""
    grad_norms: list[float] = field(default_factory=list)
    """Norm before clipping of every optimizer step."""
    overflows: int = 0


class Steps(Protocol):
    """Plays the steps of a rollout."""

    def begin(self) -> None:
        """Prepare a rollout."""
        ...

    def play(self, t: int, times: CollectTimes) -> None:
        """Play step t: choose actions, step the environment, store the results, and add to ``times``."""
        ...

    def end(self) -> None:
        """Complete a rollout: afterwards its ended episodes and truncation bonuses are known."""
        ...

    def clear(self) -> None:
        """Forget captured work, where the step itself has changed."""
        ...


class Update(Protocol):
    """Trains on the minibatches of an update."""

    packed: PackedRollout | None
    """The packed observations of the rollout, where minibatches gather from them."""
    skips_idle: bool
    """Whether minibatches leave out sequences that enter no loss."""

    def begin(self, buffer: RolloutBuffer, length: int) -> None:
        """Prepare an update on a rollout with chunks of ``length`` steps."""
        ...

    def make_room(self, plan: Sequence[Sequence[Unit]]) -> None:
        """Prepare an epoch of minibatches."""
        ...

    def train(self, batches: Iterable[Minibatch], count: int, where: str) -> None:
        """Train once on ``count`` minibatches, an epoch; messages call it ``where``."""
        ...

    def finish(self, metrics: dict[str, Any]) -> tuple[UpdateStats, dict[str, Any]]:
        """Return what the minibatches gave, and ``metrics`` as numbers."""
        ...

    def update_returns(self, normalizer: ReturnNormalizer, returns: Tensor, present: Tensor) -> None:
        """Merge the ``returns [T, N]`` where ``present [T, N]`` into the statistics, unless one is not finite."""
        ...

    def update_observations(self, normalizer: ObsNormalizer, obs: Tensor, alive: Tensor) -> None:
        """Merge the rows of ``obs [T, N, D]`` where ``alive [T, N]`` into the statistics."""
        ...

    def clear(self) -> None:
        """Forget captured work, where the loss itself has changed."""
        ...
