"""A minibatch, and what its evaluation gives; shapes: ``L chunk step, B sequence``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from echelon.rl.lstm_state import LSTMState

Gradient = Sequence[Tensor | None]
"""One per parameter; None where a parameter has no part in the loss."""


@dataclass(eq=False)
class Batch:
    """One minibatch ``[L, B, ...]``, ready to be evaluated in shards."""

    obs: Tensor
    actions: Tensor
    dones: Tensor
    state: LSTMState
    noise: Tensor
    advantages: Tensor
    returns: Tensor
    old_logprobs: Tensor
    policy_weights: Tensor
    value_weights: Tensor
