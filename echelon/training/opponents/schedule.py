"""The opponents of the coming episodes, on the device: a rollout goes through them without reading which episodes end.

Opponents follow from seed, environment, episode and pool, and the pool changes between rollouts only. So the opponents
of the next episodes of every environment are sampled before a rollout; within it a slot per environment counts its
ended episodes. Policies of one architecture act in one forward pass: rows that may have one of them in the rollout are
sorted in every step into blocks, each of one policy, whose number and size are fixed.

Shapes: ``E environment, S slot, K opponent row, P row that may have a policy of a group, G policy, C block,
B row of a block, D observation, A action, H recurrent state, W noise``.
"""

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


BLOCKS = 8
"""Blocks of a group for each policy, besides the last one of each, which is not full: few copies of the weights for
few rows without a mech."""


class Blocks(NamedTuple):
    """Opponent rows in blocks, each of one policy."""

    rows: Tensor
    """[C, B]; the rest of a policy's last block repeats a row."""
    policy: Tensor
    """Number of each block's policy in its group [C]."""
    place: Tensor
    """Where ``rows`` has each opponent row [K], counted through all blocks; 0 where it does not."""
    own: Tensor
    """Whether ``rows`` has each opponent row [K, 1] bool."""

    def choose(self, results: Tensor, otherwise: Tensor) -> Tensor:
        """Return ``results [C, B, W]`` by opponent row ``[K, W]``; ``otherwise [K, W]`` where another policy acts."""
        return torch.where(self.own, results.flatten(0, 1).index_select(0, self.place), otherwise)


class ScheduledGroup(NamedTuple):
    """Policies that act together, and the opponent rows that they may control in the rollout."""

    policies: PolicyStack
    first: int
    """Number of the first policy; the others follow it."""
    count: int
    """Policies G."""
    rows: Tensor
    """[P]"""

    def blocks(self, policy: Tensor) -> Blocks:
        """Return the rows that policies of the group have now; ``policy [K]`` is the number of each row's policy.

        There are as many blocks as any division of the rows among the policies needs; one policy has one block.
        """
        size = -(-len(self.rows) // (BLOCKS * self.count)) if self.count > 1 else len(self.rows)
        blocks = len(self.rows) // size + self.count if self.count > 1 else 1
        numbers = torch.arange(self.count, device=policy.device)
        has = (policy.index_select(0, self.rows) - self.first).unsqueeze(1) == numbers
        end = (has.sum(0) + size - 1).div(size, rounding_mode="floor").cumsum(0)
        start = torch.cat([end.new_zeros(1), end[:-1]]) * size
        own, beyond = has.any(1), blocks * size
        place = torch.where(own, (has * (start + has.cumsum(0) - 1)).sum(1), beyond)
        rows = self.rows[:1].repeat(beyond + 1).scatter(0, place, self.rows)[:beyond]
        everywhere = torch.zeros_like(policy).index_copy(0, self.rows, torch.where(own, place, 0))
        owned = torch.zeros_like(policy, dtype=torch.bool).index_copy(0, self.rows, own)
        of = (torch.arange(blocks, device=policy.device).unsqueeze(1) >= end).sum(1).clamp(max=self.count - 1)
        return Blocks(rows.view(blocks, size), of, everywhere, owned.unsqueeze(1))


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
            first, members = numbers[stack[0]], PolicyStack([found[n] for n in stack])
            has = (policies >= first) & (policies < first + len(stack))
            rows = upload(np.flatnonzero(has[env_of_row].any(1)), self._device)
            self.groups.append(ScheduledGroup(members, first, len(stack), rows))

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
            stack, blocks, width = group.policies, group.blocks(policy), group.policies.lstm_hidden_dim
            rows = blocks.rows
            before = LSTMState(*(part[0, :, :width][rows].unsqueeze(1) for part in state))
            draw = None if noise is None else noise[:, : stack.noise_dim][rows]
            action, after = stack.act(obs[rows], before, done[rows], draw, blocks.policy)
            for part, new in zip(state, after, strict=True):
                own = part[0, :, :width]
                own.copy_(blocks.choose(new.squeeze(1).float(), own))
            actions = blocks.choose(action.float(), actions)
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
