"""A trained policy in an environment of one's own: observations by agent in, actions by agent out.

``PolicyAgent`` keeps each agent's recurrent state, so its caller need not know that there is one. For batches there is
``play_episodes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from echelon.config import EnvConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState


class PolicyAgent:
    """Flies any number of agents of one battle; D observation columns, A action columns.

    Actions are the policy's mean unless ``deterministic`` is off; then they are drawn from a generator of its own.
    """

    def __init__(self, policy: FlatPolicy, *, deterministic: bool = True, seed: int = 0) -> None:
        self.policy = policy.eval()
        self.deterministic = deterministic
        self._draws = torch.Generator().manual_seed(seed)
        self._states: dict[str, LSTMState] = {}

    def reset(self) -> None:
        """Begin an episode: every agent starts from a zero state."""
        self._states = {}

    @torch.inference_mode()
    def act(self, observations: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """Return ``float32[A]`` for every agent in ``observations``, ``float32[D]`` each, and remember their states."""
        agents = list(observations)
        if not agents:
            return {}
        device = next(self.policy.parameters()).device
        obs = torch.as_tensor(np.stack([observations[agent] for agent in agents]), device=device)
        fresh = self.policy.initial_state(1, device)
        kept = [self._states.get(agent, fresh) for agent in agents]
        state = LSTMState(torch.cat([s.h for s in kept], 1), torch.cat([s.c for s in kept], 1))
        noise = None
        if not self.deterministic:
            noise = torch.randn(len(agents), self.policy.noise_dim, generator=self._draws).to(device)
        actions, after = self.policy.act(obs, state, torch.zeros(len(agents), device=device), noise)
        for i, agent in enumerate(agents):
            self._states[agent] = LSTMState(after.h[:, i : i + 1], after.c[:, i : i + 1])
        return dict(zip(agents, actions.float().cpu().numpy(), strict=True))


PolicyPilot = PolicyAgent
"""Former name of ``PolicyAgent``, still importable."""


def env_config_of(meta: Mapping[str, Any]) -> EnvConfig:
    """Return the environment that a checkpoint's policy was trained in; ``ValueError`` if it does not say."""
    try:
        return TypeAdapter(EnvConfig).validate_python(meta["env_cfg"])
    except (KeyError, ValidationError) as error:
        raise ValueError(f"checkpoint does not describe its environment: {error}") from None
