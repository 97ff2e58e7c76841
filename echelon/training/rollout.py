"""The rollout: everything one update learns from, allocated once and overwritten by the next collection.

``dones[t]`` says that step t starts an episode: a boundary lies before observation t, and ``next_done`` says
the same of the step after the last. A terminal step is followed by value zero; the time limit adds the
discounted value of the final observation as ``truncation_bonus`` and then counts as a boundary too. Death is
no boundary: it clears ``alive``. Shapes: ``T step, N learner row, D observation, A action``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

LONG_ROLLOUT = 1000
"""Steps beyond which advantages are accumulated in float64."""


class Truncation(NamedTuple):
    """Where the time limit cut episodes off: after which step, in which rows ``[K]``, seeing what ``[K, D]``."""

    step: int
    rows: Tensor
    obs: Tensor


@dataclass(eq=False)
class RolloutBuffer:
    """Tensors of one rollout; float32 unless said otherwise."""

    obs_rows: Tensor
    """Observations [T+1, N, D]: the environment writes row t in place; row T is the one after the last step."""
    actions: Tensor
    """[T, N, A]"""
    logprobs: Tensor
    """[T, N]"""
    rewards: Tensor
    """[T, N]"""
    dones: Tensor
    """[T, N]"""
    values: Tensor
    """[T, N], raw reward units"""
    advantages: Tensor
    """[T, N]"""
    returns: Tensor
    """[T, N]"""
    alive: Tensor
    """[T, N], 1 where the mech was alive at the start of the step"""
    present: Tensor
    """[T, N], 1 where the row's place held a mech in the episode; other rows enter no loss"""
    truncation_bonus: Tensor
    """[T, N]"""
    roles: Tensor
    """Mech class id of each row [N] int8"""
    start_age: Tensor
    """Steps since the episode start at step 0, were it no start itself [N]; infinite where unknown"""
    next_done: Tensor
    """[N]"""
    next_value: Tensor
    """[N]"""
    gae_computed: bool = False
    cuts: list[Truncation] = field(default_factory=list)
    """Where the bonus comes from, so that it can be valued anew."""

    @classmethod
    def create(
        cls, num_steps: int, num_agents: int, obs_dim: int, action_dim: int, device: torch.device | str = "cpu"
    ) -> RolloutBuffer:
        """Allocate a zeroed rollout."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device)

        flat = (num_steps, num_agents)
        return cls(
            obs_rows=zeros(num_steps + 1, num_agents, obs_dim),
            actions=zeros(*flat, action_dim),
            logprobs=zeros(*flat),
            rewards=zeros(*flat),
            dones=zeros(*flat),
            values=zeros(*flat),
            advantages=zeros(*flat),
            returns=zeros(*flat),
            alive=torch.ones(flat, device=device),
            present=torch.ones(flat, device=device),
            truncation_bonus=zeros(*flat),
            roles=torch.zeros(num_agents, dtype=torch.int8, device=device),
            start_age=torch.full((num_agents,), torch.inf, device=device),
            next_done=zeros(num_agents),
            next_value=zeros(num_agents),
        )

    @property
    def obs(self) -> Tensor:
        """The observations acted on, [T, N, D]."""
        return self.obs_rows[:-1]

    @property
    def num_steps(self) -> int:
        return self.actions.shape[0]

    @property
    def num_agents(self) -> int:
        return self.actions.shape[1]

    def begin(self) -> None:
        """Start the next rollout where the last one ended: its last observation becomes row 0."""
        self.start_age.copy_(self.ages()[-1] + 1)
        self.obs_rows[0].copy_(self.obs_rows[-1])
        self.clear()

    def clear(self) -> None:
        """Forget what the last collection left."""
        self.truncation_bonus.zero_()
        self.cuts.clear()
        self.gae_computed = False

    def ages(self) -> Tensor:
        """Return the steps since the start of the episode ``[T, N]``."""
        age, ages = self.start_age, torch.empty_like(self.dones)
        for t in range(self.num_steps):
            age = torch.where(self.dones[t] > 0, 0.0, age)
            ages[t] = age
            age = age + 1
        return ages

    @torch.no_grad()
    def compute_gae(self, next_value: Tensor, next_done: Tensor, gamma: float, gae_lambda: float) -> None:
        """Fill advantages and returns in place (Schulman et al., 2016).

        ``next_value [N]`` is the value of the observation after the last step, ``next_done [N]`` whether an
        episode ended with the last step.
        """
        assert self.advantages is not None and self.returns is not None, "advantages and returns are not allocated"
        assert next_value.shape == next_done.shape == (self.num_agents,), "next_value and next_done must be [N]"
        dtype = torch.float64 if self.num_steps > LONG_ROLLOUT else torch.float32
        value, done = next_value.detach().to(dtype), next_done.to(dtype)
        self.next_value.copy_(value)
        self.next_done.copy_(done)
        trace = torch.zeros_like(value)
        for t in reversed(range(self.num_steps)):
            here = self.values[t].to(dtype)
            reward = self.rewards[t].to(dtype) + self.truncation_bonus[t]
            keep = 1.0 - done
            delta = reward + gamma * value * keep - here
            trace = delta + gamma * gae_lambda * keep * trace
            self.advantages[t].copy_(trace)
            value, done = here, self.dones[t].to(dtype)
        torch.add(self.advantages, self.values.detach(), out=self.returns)
        self.gae_computed = True

    def require_ready(self) -> None:
        """Raise ``ValueError`` unless advantages and returns are there, computed or filled in by hand."""
        if self.advantages is None or self.returns is None or not (self.gae_computed or bool(self.advantages.any())):
            raise ValueError("rollout has no advantages and returns, wanted compute_gae before update")
