"""Policies whose operations are traced once and then run without the Python interpreter.

A policy that acts for a few mechs spends most of its time between operations, and threads that run several policies
wait for the interpreter lock. A traced policy needs neither: it runs the same operations in the same order on the same
parameters, also after those have changed in place. Policies are traced on a CPU only; elsewhere ``policy.act`` is used.

Shapes: ``B row, D column, A action, H recurrent state, W noise``.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from echelon.rl.build import FlatPolicy
from echelon.rl.deepset import packing_traces
from echelon.rl.host_reads import reads_are_free
from echelon.rl.lstm_state import LSTMState
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.policy import Act
from echelon.rl.suite_model import CombatSuiteActorCritic

TRACEABLE_CORES = (ActorCriticLSTM, CombatSuiteActorCritic)
"""Networks without a branch on data; a user's own network may have one, so it is not traced."""
EXAMPLE_ROWS = 8
"""Rows of the example inputs; the trace accepts any number."""


class _Step(nn.Module):
    """``FlatPolicy.act`` with tensors as its only arguments, as a trace needs it; the state is ``h`` and ``c``."""

    def __init__(self, policy: FlatPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(
        self, obs: Tensor, h: Tensor, c: Tensor, done: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions ``[B, A]`` and both parts of the next state ``[1, B, H]``."""
        action, state = self.policy.act(obs, LSTMState(h, c), done, noise)
        return action, state.h, state.c


class TracedPolicy:
    """The traced operations of one policy; an ``Actor``."""

    def __init__(self, policy: FlatPolicy, *, stochastic: bool) -> None:
        """``policy`` must be in evaluation mode; ``stochastic`` says whether ``act`` is called with noise."""
        state = policy.initial_state(EXAMPLE_ROWS)
        example = [torch.zeros(EXAMPLE_ROWS, policy.obs_dim), state.h, state.c, torch.ones(EXAMPLE_ROWS)]
        if stochastic:
            example.append(torch.zeros(EXAMPLE_ROWS, policy.noise_dim))
        with torch.inference_mode(), packing_traces(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shapes become constants, as intended
            self._step: Any = torch.jit.trace(_Step(policy), tuple(example), check_trace=False)

    def act(
        self, observations: Tensor, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[B, A]`` and the next state ``[1, B, H]``, as ``Actor.act`` does."""
        done = observations.new_zeros(len(observations)) if done is None else done
        optional = () if noise is None else (noise,)
        action, h, c = self._step(observations, state.h, state.c, done, *optional)
        return action, LSTMState(h, c)


class TracedPolicies:
    """Traced policies, made on first use and dropped with the policy."""

    def __init__(self) -> None:
        self._acts: dict[bool, WeakKeyDictionary[FlatPolicy, Act]] = {b: WeakKeyDictionary() for b in (False, True)}

    def act_function(self, policy: FlatPolicy, *, stochastic: bool) -> Act:
        """Return the ``act`` of ``policy``, traced if possible; ``stochastic`` if it is called with noise."""
        if not is_traceable(policy):
            return policy.act
        if policy not in self._acts[stochastic]:
            self._acts[stochastic][policy] = trace_act(policy, stochastic=stochastic)
        return self._acts[stochastic][policy]


def is_traceable(policy: FlatPolicy) -> bool:
    """Return whether a policy can be traced: on a CPU, and a network known to have no branch on data."""
    on_cpu = reads_are_free(policy.obs_normalizer.scale.device)
    return on_cpu and type(policy) is FlatPolicy and type(policy.core) in TRACEABLE_CORES


def trace_act(policy: FlatPolicy, *, stochastic: bool) -> Act:
    """Return the ``act`` of ``policy``, traced if possible; ``stochastic`` if it is called with noise."""
    return TracedPolicy(policy, stochastic=stochastic).act if is_traceable(policy) else policy.act
