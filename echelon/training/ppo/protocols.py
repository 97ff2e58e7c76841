"""The interface of the two ways to play and to train. Shapes: ``T step, N learner row, D observation``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.packed_obs import PackedRollout
from echelon.training.normalization import ReturnNormalizer
from echelon.training.ppo.losses import LossTerms
from echelon.training.rollout import Minibatch, RolloutBuffer, Unit

if TYPE_CHECKING:
    from echelon.training.ppo.collect import CollectTimes


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
