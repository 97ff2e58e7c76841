"""The opponents of the coming episodes, on the device: a rollout goes through them without reading which episodes end.

Opponents follow from seed, environment, episode and pool, and the pool changes between rollouts only. So the opponents
of the next episodes of every environment are sampled before a rollout; within it a slot per environment counts its
ended episodes, and each policy acts for the rows that it may have, where it has them.

Shapes: ``E environment, S slot, K opponent row, R row of a policy, A action, H recurrent state``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.training.runtime.transfers import upload

NO_POLICY = -1
"""Policy of a scripted opponent and of self-play."""


class ScheduledGroup(NamedTuple):
    """A policy and the opponent rows [R] that it may control in the rollout."""

    policy: FlatPolicy
    number: int
    rows: Tensor
    envs: Tensor
    """Environment of each row [R]."""


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
        self,
        names: list[list[str]],
        policy_of: Callable[[str], FlatPolicy | None],
        env_of_row: NDArray[np.int64],
    ) -> None:
        """Start with slot 0 of ``names``; ``policy_of`` returns the policy of an opponent, None if it has none.

        ``env_of_row [K]`` is the environment of each opponent row.
        """
        self.names = names
        found: dict[str, FlatPolicy] = {}
        for name in dict.fromkeys(name for row in names for name in row):
            if (policy := policy_of(name)) is not None:
                found[name] = policy
        numbers = {name: number for number, name in enumerate(found)}
        policies = np.array([[numbers.get(name, NO_POLICY) for name in row] for row in names], np.int64)
        self._policies = upload(policies, self._device)
        self.slot.zero_()
        self.groups = []
        for name, policy in found.items():
            rows = np.flatnonzero((policies == numbers[name]).any(1)[env_of_row])
            if len(rows):
                of = (upload(values, self._device) for values in (rows, env_of_row[rows]))
                self.groups.append(ScheduledGroup(policy, numbers[name], *of))

    def current(self) -> Tensor:
        """Return the number of the policy that each environment has now ``[E]``."""
        return self._policies.gather(1, self.slot.unsqueeze(1)).squeeze(1)

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
