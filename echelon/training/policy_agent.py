"""A trained policy in a single environment: observations by agent in, actions by agent out.

``PolicyAgent`` keeps the recurrent state of each agent. For batches use ``echelon.training.evaluation.play_episodes``.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from echelon.rl.build import FlatPolicy
from echelon.rl.checkpoint import env_config_of as env_config_of
from echelon.rl.lstm_state import LSTMState


class PolicyAgent:
    """Controls any number of agents of one episode; D observation columns, A action columns.

    Actions are the policy's mean; without ``deterministic`` they are sampled from a generator seeded with ``seed``.
    """

    def __init__(self, policy: FlatPolicy, *, deterministic: bool = True, seed: int = 0) -> None:
        self.policy = policy.eval()
        self.deterministic = deterministic
        self._generator = torch.Generator().manual_seed(seed)
        self._states: dict[str, LSTMState] = {}

    def reset(self) -> None:
        """Reset the recurrent state of every agent, at the start of an episode."""
        self._states = {}

    @torch.inference_mode()
    def act(self, observations: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """Return an action ``float32[A]`` per agent in ``observations``, each ``float32[D]``; advance their states."""
        agents = list(observations)
        if not agents:
            return {}
        device = next(self.policy.parameters()).device
        obs = torch.as_tensor(np.stack([observations[agent] for agent in agents]), device=device)
        zero = self.policy.initial_state(1, device)
        states = [self._states.get(agent, zero) for agent in agents]
        state = LSTMState(torch.cat([s.h for s in states], 1), torch.cat([s.c for s in states], 1))
        noise = None
        if not self.deterministic:
            noise = torch.randn(len(agents), self.policy.noise_dim, generator=self._generator).to(device)
        actions, next_state = self.policy.act(obs, state, noise=noise)
        for i, agent in enumerate(agents):
            self._states[agent] = LSTMState(next_state.h[:, i : i + 1], next_state.c[:, i : i + 1])
        return dict(zip(agents, actions.float().cpu().numpy(), strict=True))


PolicyPilot = PolicyAgent
"""Former name of ``PolicyAgent``, still importable."""
