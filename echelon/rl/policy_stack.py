"""Policies that act in one batched forward pass, where starting an operation costs more than its work.

A step of one policy is some 250 small operations. On a GPU those of eight snapshots one after another take eight times
as long as those of one, since each is too small to fill the device. Policies of one architecture therefore act as one:
their parameters are stacked along a new first axis, over which every operation is mapped.

Shapes: ``G policy, R row, D column, A action, H recurrent state, W noise``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import TRACEABLE_CORES, architecture


class _Acting(nn.Module):
    """``FlatPolicy.act`` as a module's call, with the recurrent state as two tensors."""

    def __init__(self, policy: FlatPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(
        self, obs: Tensor, h: Tensor, c: Tensor, done: Tensor, noise: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions ``[R, A]`` and both parts of the next state ``[1, R, H]`` for ``obs [R, D]``."""
        action, after = self.policy.act(obs, LSTMState(h, c), done, noise)
        return action, after.h, after.c


class PolicyStack:
    """Frozen policies of one architecture, or one policy of any."""

    def __init__(self, policies: Sequence[FlatPolicy]) -> None:
        """The weights are copied: later changes of the policies are not seen."""
        first = policies[0]
        self.obs_dim, self.noise_dim, self.lstm_hidden_dim = first.obs_dim, first.noise_dim, first.lstm_hidden_dim
        self._acting = _Acting(first)
        self._tensors: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None
        if len(policies) > 1:
            with torch.inference_mode(False):
                self._tensors = stack_module_state([_Acting(policy) for policy in policies])

    def act(self, obs: Tensor, state: LSTMState, done: Tensor, noise: Tensor | None) -> tuple[Tensor, LSTMState]:
        """Return actions ``[G, R, A]`` and the next state, two parts ``[G, 1, R, H]``, as ``Actor.act`` does.

        ``obs [G, R, D]``, ``state`` (parts ``[G, 1, R, H]``), ``done [G, R]`` and ``noise [G, R, W]`` have the rows of
        each policy.
        """
        if self._tensors is None:
            single = (None if x is None else x[0] for x in (obs, *state, done, noise))
            action, h, c = (x.unsqueeze(0) for x in self._acting(*single))
        else:
            mapped = (0, 0, 0, 0, 0, 0, None if noise is None else 0)
            action, h, c = torch.vmap(self._call, mapped)(*self._tensors, obs, *state, done, noise)
        return action, LSTMState(h, c)

    def _call(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], *inputs: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        return functional_call(self._acting, (parameters, buffers), inputs)


def stack_by_architecture(policies: Sequence[FlatPolicy]) -> list[list[int]]:
    """Return the indices of ``policies`` that can act together, in lists whose first indices ascend.

    A policy with an LSTM acts alone, since the LSTM holds its weights in a list that ``functional_call`` does not
    replace. So does a user's own network, since it may have an operation that cannot be mapped.
    """
    found: dict[object, list[int]] = {}
    for index, policy in enumerate(policies):
        known = type(policy) is FlatPolicy and type(policy.core) in TRACEABLE_CORES and policy.core.mingru is not None
        key = architecture(policy) if known else object()
        found.setdefault(key, []).append(index)
    return list(found.values())
