"""The choice between the two implementations of steps and minibatches: the host reads every result, or none.

The regime of the policy (``echelon.rl.regime``) and ``ppo.capture`` decide. Within an implementation the regime also
decides how rows are split for the threads of the host.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.packed_obs import PackedRollout
from echelon.training.normalization import ReturnNormalizer
from echelon.training.ppo.collect import RolloutParts, Steps
from echelon.training.ppo.graph.capture import CudaGraphCache, record_cuda_graph
from echelon.training.ppo.graph.steps import GraphSteps
from echelon.training.ppo.graph.update import GraphUpdate
from echelon.training.ppo.host.steps import HostSteps
from echelon.training.ppo.host.update import HostUpdate
from echelon.training.ppo.losses import Gradients, Report, UpdateStats
from echelon.training.ppo.optimizer import LearningRate
from echelon.training.rollout import Minibatch, RolloutBuffer, Unit
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.threads import ThreadPool


class MinibatchUpdate(Protocol):
    """How minibatches of a rollout are trained on."""

    packed: PackedRollout | None
    """The packed observations of the rollout that minibatches are gathered from; None where they pack their own."""
    skips_idle: bool
    """Whether minibatches leave out sequences in which no mech acts."""

    def begin(self, buffer: RolloutBuffer, length: int) -> None:
        """Prepare for a rollout in chunks of ``length`` steps."""

    def make_room(self, plan: Sequence[Sequence[Unit]]) -> None:
        """Prepare for the minibatches of an epoch."""

    def train(self, batches: Iterable[Minibatch], count: int, where: str) -> None:
        """Train once on ``count`` minibatches; a gradient is applied after ``grad_accum_steps`` of them."""

    def finish(self, metrics: dict[str, Any]) -> tuple[UpdateStats, dict[str, Any]]:
        """Return the statistics of the update, and ``metrics`` with tensors as numbers."""
        ...

    def clear(self) -> None:
        """Drop captured graphs."""

    def update_returns(self, normalizer: ReturnNormalizer, returns: Tensor, present: Tensor) -> None:
        """Merge the ``returns [T, N]`` where ``present [T, N]`` into the statistics, unless one is not finite."""

    def update_observations(self, normalizer: ObsNormalizer, obs: Tensor, alive: Tensor) -> None:
        """Merge the rows of ``obs [T, N, D]`` where ``alive [T, N]`` into the statistics."""


def make_steps(parts: RolloutParts) -> Steps:
    regime = parts.actor.policy.regime
    if regime.packs:
        return HostSteps(parts)
    return GraphSteps(parts, capture=parts.actor.config.capture and regime.captures)


def make_update(
    gradients: Gradients,
    optimizer: torch.optim.Adam,
    learning_rate: LearningRate,
    pool: ThreadPool,
    group: ProcessGroup,
    report: Report,
) -> MinibatchUpdate:
    """Return how minibatches are trained on; ``report(what, terms)`` handles a loss or gradient that is not finite.

    Flags on a device can stop Adam in one process and without a loss scale; elsewhere the host checks there too.
    """
    if not gradients.regime.packs and group.is_single and not gradients.scaler.is_enabled():
        record = record_cuda_graph if gradients.captures else None
        return GraphUpdate(gradients, optimizer, learning_rate, report, record)
    graphs = CudaGraphCache(gradients.whole_gradient) if gradients.captures else None
    return HostUpdate(gradients, optimizer, learning_rate, pool, group, report, graphs)
