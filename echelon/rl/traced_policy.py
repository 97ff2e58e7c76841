"""Policies whose operations are recorded once and then replayed without the Python interpreter.

A policy that flies a few mechs spends most of its time between operations, and threads that fly several wait for each
other's hold of the interpreter. A recording has neither: it is the same operations in the same order on the same
parameters, also after those have changed in place. On a CPU alone; elsewhere a policy flies as it is.
Shapes: ``B row, D column, A action, H hidden, W noise``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from echelon.rl.build import FlatPolicy
from echelon.rl.deepset import packing_traces
from echelon.rl.lstm_state import LSTMState
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.suite_model import CombatSuiteActorCritic

Act = Callable[[Tensor, LSTMState, Tensor, Tensor | None], tuple[Tensor, LSTMState]]
"""What ``FlatPolicy.act`` takes and returns."""
TRACEABLE_CORES = (ActorCriticLSTM, CombatSuiteActorCritic)
"""Networks known to have no branch on data; one of somebody's own may have, so it flies as it is."""


class _Step(nn.Module):
    """A decision with tensors alone for arguments, as a recording wants it.

    Its state comes in two parts, ``h`` and ``c [1, B, H]``.
    """

    def __init__(self, policy: FlatPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(
        self, obs: Tensor, h: Tensor, c: Tensor, done: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions ``[B, A]`` and both parts of the state for ``obs [B, D]``, ``done [B]``, ``noise [B, W]``."""
        action, after = self.policy.act(obs, LSTMState(h, c), done, noise)
        return action, after.h, after.c


EXAMPLE_ROWS = 8
"""Rows that a recording is made with; it serves any number."""


def is_traceable(policy: FlatPolicy) -> bool:
    """Say whether a policy can be recorded: on a CPU, and of a network that is known to have no branch on data."""
    on_cpu = policy.obs_normalizer.scale.device.type == "cpu"
    return on_cpu and type(policy) is FlatPolicy and type(policy.core) in TRACEABLE_CORES


class TracedPolicies:
    """What policies do, recorded when it is first asked for and forgotten with the policy."""

    def __init__(self) -> None:
        self._acts: dict[bool, WeakKeyDictionary[FlatPolicy, Act]] = {b: WeakKeyDictionary() for b in (False, True)}

    def act_of(self, policy: FlatPolicy, *, draws: bool) -> Act:
        """Return ``policy.act``, with noise if it ``draws`` and without if not, recorded where it can be."""
        if not is_traceable(policy):
            return policy.act
        if policy not in self._acts[draws]:
            self._acts[draws][policy] = trace_act(policy, draws=draws)
        return self._acts[draws][policy]


def trace_act(policy: FlatPolicy, *, draws: bool) -> Act:
    """Return ``policy.act``, with noise if it ``draws`` and without if not, recorded where it can be.

    The policy must be in evaluation mode and on the device where it will fly.
    """
    if not is_traceable(policy):
        return policy.act
    rows = EXAMPLE_ROWS
    state = policy.initial_state(rows)
    example = [torch.zeros(rows, policy.obs_dim), state.h, state.c, torch.ones(rows)]
    if draws:
        example.append(torch.zeros(rows, policy.noise_dim))
    with torch.inference_mode(), packing_traces(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shapes become numbers, which is what is wanted
        recorded: Any = torch.jit.trace(_Step(policy), tuple(example), check_trace=False)

    def act(obs: Tensor, lstm_state: LSTMState, done: Tensor, noise: Tensor | None = None) -> tuple[Tensor, LSTMState]:
        drawn = () if noise is None else (noise,)
        action, h, c = recorded(obs, lstm_state.h, lstm_state.c, done, *drawn)
        return action, LSTMState(h, c)

    return act
