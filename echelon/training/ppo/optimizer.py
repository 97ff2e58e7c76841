"""Adam, its learning rate, and the moving average of the weights that it changes (Polyak and Juditsky, 1992)."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from echelon.config import PPOConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import load_weights

CRITIC = "critic"


def make_optimizer(model: nn.Module, config: PPOConfig, *, capturable: bool = False) -> torch.optim.Adam:
    """Return Adam of a model's parameters; the base group and that of the value head have their learning-rate factor.

    Learning rates lie on the device; ``capturable`` lets a captured graph step Adam.
    """
    base, critic = [], []
    for name, parameter in model.named_parameters():
        (critic if CRITIC in name.split(".") else base).append(parameter)
    groups = [
        {"params": params, "lr": torch.zeros((), device=base[0].device), "lr_mult": factor, "capturable": capturable}
        for params, factor in ((base, 1.0), (critic, config.critic_lr_mult))
    ]
    return torch.optim.Adam(groups, eps=config.adam_eps, fused=True)


def saved_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {"adam": {str(number): row for number, row in optimizer.state_dict()["state"].items()}}


def load_moments(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load the moments of a saved optimizer; options stay those of ``optimizer``."""
    moments = {int(number): row for number, row in state["adam"].items()}
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})


LR_FACTOR_START = 0.01
"""Factor on the scheduled learning rate after a start, and its lowest value."""
LR_FACTOR_RATIO = 1.2
"""Ratio of two successive factors, where they differ."""


class LearningRate:
    """The learning rate of every parameter group: that of the schedule, times a factor that keeps to the trust region.

    Adam's first steps have the size of the learning rate whatever the gradient is, so the factor is low after a start,
    also that of PPO after an imitation, whose own factor is 1: it scores no action. From minibatch to minibatch it
    rises while the KL divergence from the collecting policy is below half of the target, and falls above its double.
    The target grows linearly over an update, to the one at its end; a rollout that is an update old begins there.
    All lies on the device.
    """

    def __init__(self, optimizer: torch.optim.Adam, config: PPOConfig, device: torch.device) -> None:
        self._groups, self.target = lambda: optimizer.param_groups, config.kl_lr_target
        self.factor = torch.tensor(LR_FACTOR_START, device=device)
        self._scheduled = torch.tensor(config.lr, device=device)
        self._done, self._share = torch.zeros((), device=device), torch.zeros((), device=device)
        self._apply()

    def set(self, scheduled: float) -> None:
        self._scheduled.fill_(scheduled)
        self._apply()

    def restart(self, factor: float = LR_FACTOR_START) -> None:
        self.factor.fill_(factor)
        self._apply()

    def begin(self, minibatches: int, updates_behind: int = 0) -> None:
        """Begin an update whose epochs have ``minibatches`` in all, ``updates_behind`` after the collecting policy."""
        self._done.fill_(updates_behind)
        self._share.fill_(1.0 / minibatches)

    def follow(self, kl: Tensor) -> None:
        """Adapt the learning rate of the coming step to the divergence ``kl []`` in its minibatch."""
        target = self.target * self._done
        rises, falls = (self._done > 0) & (kl < target / 2), (self._done > 0) & (kl > 2 * target)
        factor = torch.where(rises, self.factor * LR_FACTOR_RATIO, self.factor)
        factor = torch.where(falls, factor / LR_FACTOR_RATIO, factor).clamp(LR_FACTOR_START, 1.0)
        self.factor.copy_(factor)
        self._done += self._share
        self._apply()

    def _apply(self) -> None:
        for group in self._groups():
            torch.mul(self._scheduled * self.factor, group["lr_mult"], out=group["lr"])


RAW_WEIGHTS = "raw_weights"
"""Key of the weights that training continues from in a learner's state, where a checkpoint has averaged weights."""


class WeightAverage:
    """The policy that is evaluated, saved, submitted and an opponent: the trained one, or its averaged copy."""

    def __init__(self, trained: FlatPolicy, decay: float) -> None:
        """``decay`` is that of an update; with 0 ``policy`` is the trained one itself."""
        self.trained, self.decay = trained, decay
        self.policy = copy.deepcopy(trained).eval().requires_grad_(False) if decay else trained

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Add the newest weights after ``updates`` earlier ones; buffers, such as statistics, become the newest.

        Until ``decay`` forgets more than that, the average is the plain mean of all updates.
        """
        if not self.decay:
            return
        share = 1.0 - min(self.decay, updates / (updates + 1))
        for own, new in zip(self.policy.parameters(), self.trained.parameters(), strict=True):
            own.lerp_(new, share)
        for own, new in zip(self.policy.buffers(), self.trained.buffers(), strict=True):
            own.copy_(new)

    def state_dict(self) -> dict[str, Any]:
        """Return what a learner's state has beside the weights of ``policy``: the trained ones, if they differ."""
        return {RAW_WEIGHTS: self.trained.state_dict()} if self.decay else {}

    def load_state_dict(self, weights: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from the weights of ``policy`` by name and a learner's ``state``, saved with or without averages.

        Which columns are normalized is part of the weights, but stays as it is.
        """
        for policy, own in ((self.policy, weights), (self.trained, state.get(RAW_WEIGHTS, weights))):
            columns = policy.obs_normalizer.normalizable.clone()
            load_weights(policy, own)
            policy.obs_normalizer.set_normalizable(columns)
