"""Exponential moving average of a policy's weights over updates (Polyak and Juditsky, 1992)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.weights import load_weights

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
