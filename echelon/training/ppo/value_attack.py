"""Shaped reward of attackers: the fall of the value that the frozen opponent gives its own position.

The potential of a state is minus the mean value of the opponent's living mechs, and 0 after the end of an episode, so
the shaping changes no optimal policy (Ng et al., 1999).
"""

import torch
from torch import Tensor

from echelon.training.opponents.runner import OpponentRunner
from echelon.training.rollout import RolloutBuffer


class ValueAttack:
    """Adds ``coef * (gamma * potential after - potential before)`` to the rewards of every step; E environments."""

    def __init__(self, opponents: OpponentRunner, coef: float, steps: int) -> None:
        self._opponents, self._coef = opponents, coef
        self.potential = torch.zeros(steps + 1, opponents.env.sizes.num_envs, device=opponents.device)
        """Potential before each step of the rollout, and after the last one [T + 1, E]."""

    def note(self, t: int) -> None:
        """Store the potential before step t."""
        env = self._opponents.env
        mechs, alive = env.opponents, env.opponents.of_mechs(env.results.alive).float()
        sums = torch.zeros(2, env.sizes.num_envs, device=alive.device)
        sums.index_add_(1, mechs.env, torch.stack((alive * self._opponents.values(), alive)))
        self.potential[t] = -sums[0] / sums[1].clamp_min(1.0)

    def pay(self, buffer: RolloutBuffer, next_done: Tensor, gamma: float) -> None:
        """Add the reward to a complete rollout; ``next_done [N]`` is 1 where its last step ended an episode."""
        self.note(buffer.num_steps)
        before = self.potential[:, self._opponents.env.rows.env]
        goes_on = 1.0 - torch.cat((buffer.dones[1:], next_done.unsqueeze(0)))
        buffer.rewards += self._coef * (gamma * goes_on * before[1:] - before[:-1])
