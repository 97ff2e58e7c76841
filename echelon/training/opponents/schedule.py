"""The opponents of the coming episodes, on the device: a rollout goes through them without reading which episodes end.

Opponents follow from seed, environment, episode and pool, and the pool changes between rollouts only. So the opponents
of the next episodes of every environment are sampled before a rollout; within it a slot per environment counts its
ended episodes, and each policy acts for the rows that it may have, where it has them. Policies of one architecture act
in one forward pass.

Shapes: ``E environment, S slot, K opponent row, G policy, R row of a policy, D observation, A action,
H recurrent state, W noise``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import PolicyStack, stack_by_architecture
from echelon.training.runtime.devices import upload

NO_POLICY = -1
"""Policy of a scripted opponent and of self-play."""


class ScheduledGroup(NamedTuple):
    """Policies that act together, and the opponent rows that each may control in the rollout."""

    policies: PolicyStack
    first: int
    """Number of the first policy; the others follow it."""
    rows: Tensor
    """Opponent rows of each policy [G, R]; one with fewer repeats a row."""
    places: Tensor
    """Where ``rows`` has each opponent row [K, G], counted through all policies; 0 where a policy does not."""

    def choose(self, results: Tensor, policy: Tensor, otherwise: Tensor) -> Tensor:
        """Return ``results [G, R, W]`` by opponent row ``[K, W]``; ``otherwise [K, W]`` where another policy acts.

        ``policy [K]`` is the number of the policy that each row has now.
        """
        own = (policy >= self.first) & (policy < self.first + len(self.rows))
        of = (policy - self.first).clamp(0, len(self.rows) - 1)
        place = self.places.gather(1, of.unsqueeze(1)).squeeze(1)
        return torch.where(own.unsqueeze(1), results.flatten(0, 1).index_select(0, place), otherwise)


class OpponentSchedule:
    """Names of the coming opponents ``[E][S]``; in the first slot are those of the running episodes."""

    def __init__(self, envs: int, device: torch.device) -> None:
        self.slot = torch.zeros(envs, dtype=torch.int64, device=device)
        """Ended episodes of the rollout, at most those of the schedule [E]."""
        self.names: list[list[str]] = []
        self.groups: list[ScheduledGroup] = []
        self._policies = torch.zeros((envs, 1), dtype=torch.int64, device=device)
        self._device = device

    def begin(
        self, names: list[list[str]], policy_of: Callable[[str], FlatPolicy | None], env_of_row: NDArray[np.int64]
    ) -> None:
        """Start with slot 0 of ``names``; ``policy_of`` returns the policy of an opponent, None if it has none.

        ``env_of_row [K]`` is the environment of each opponent row.
        """
        self.names = names
        found: dict[str, FlatPolicy] = {}
        for name in dict.fromkeys(name for row in names for name in row):
            if (policy := policy_of(name)) is not None:
                found[name] = policy
        order = list(found)
        stacks = [[order[i] for i in members] for members in stack_by_architecture(list(found.values()))]
        numbers = {name: number for number, name in enumerate(name for stack in stacks for name in stack)}
        policies = np.array([[numbers.get(name, NO_POLICY) for name in row] for row in names], np.int64)
        self._policies = upload(policies, self._device)
        self.slot.zero_()
        self.groups = []
        for stack in stacks:
            rows = [np.flatnonzero((policies == numbers[name]).any(1)[env_of_row]) for name in stack]
            tables = (upload(table, self._device) for table in _tables(rows, len(env_of_row)))
            self.groups.append(ScheduledGroup(PolicyStack([found[n] for n in stack]), numbers[stack[0]], *tables))

    def current(self) -> Tensor:
        return self._policies.gather(1, self.slot.unsqueeze(1)).squeeze(1)

    def act(
        self, obs: Tensor, state: LSTMState, done: Tensor, noise: Tensor | None, actions: Tensor, env_of_row: Tensor
    ) -> Tensor:
        """Return the actions ``[K, A]`` of the policies that the rows have now, those given where they have none.

        ``obs [K, D]``, ``done [K]`` and ``noise [K, W]`` are of all opponent rows, ``state [1, K, H]`` is updated.
        """
        policy = self.current().index_select(0, env_of_row)
        for group in self.groups:
            stack, rows, width = group.policies, group.rows, group.policies.lstm_hidden_dim
            before = LSTMState(*(part[0, :, :width][rows].unsqueeze(1) for part in state))
            draw = None if noise is None else noise[:, : stack.noise_dim][rows]
            action, after = stack.act(obs[rows], before, done[rows], draw)
            for part, new in zip(state, after, strict=True):
                own = part[0, :, :width]
                own.copy_(group.choose(new.squeeze(1).float(), policy, own))
            actions = group.choose(action.float(), policy, actions)
        return actions

    def advance(self, episode_over: Tensor) -> None:
        """Go to the next slot where ``episode_over [E]``; the last slot stays."""
        self.slot.add_(episode_over).clamp_(max=self._last)

    @property
    def _last(self) -> int:
        return len(self.names[0]) - 1

    def name(self, env: int, slot: int) -> str:
        """Return the opponent of an environment after ``slot`` ended episodes."""
        return self.names[env][min(slot, self._last)]

    def taken(self, ended: Sequence[int]) -> list[int]:
        """Return how many new opponents each environment has had after ``ended`` episodes."""
        return [min(int(count), self._last) for count in ended]


def _tables(rows: Sequence[NDArray[np.int64]], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``rows`` of each policy as a table ``[G, R]``, and where it has each of ``count`` rows ``[count, G]``."""
    width = max(map(len, rows))
    table, places = np.zeros((len(rows), width), np.int64), np.zeros((count, len(rows)), np.int64)
    for number, own in enumerate(rows):
        table[number] = np.resize(own, width)
        places[own, number] = number * width + np.arange(len(own))
    return table, places
