"""``parallel_env``: the PettingZoo parallel environment proper, which drops agents as they die.

A thin adapter over ``EchelonEnv``; it changes who is listed, never what is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from echelon.config import EnvConfig
from echelon.env.env import EchelonEnv


class EchelonParallelEnv(ParallelEnv[str, NDArray[Any], NDArray[Any]]):
    """PettingZoo parallel API over one battle."""

    metadata = EchelonEnv.metadata
    render_mode = None

    def __init__(self, cfg: EnvConfig | None = None) -> None:
        self.env = EchelonEnv(cfg)
        self.possible_agents = list(self.env.possible_agents)
        self.observation_spaces = {**self.env.observation_spaces}
        self.action_spaces = {**self.env.action_spaces}
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the observation space of an agent; always the same object. ``ValueError`` for an unknown agent."""
        self.env.require_agents({agent: None})
        return self.env.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the action space of an agent; always the same object. ``ValueError`` for an unknown agent."""
        self.env.require_agents({agent: None})
        return self.env.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, Any]]]:
        """Begin an episode with every agent; ``options`` are passed over, as PettingZoo's own test gives some."""
        del options
        obs, infos = self.env.reset(seed)
        self.agents = list(self.possible_agents)
        return obs, infos

    def step(
        self, actions: Mapping[str, NDArray[Any]]
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one decision; an agent is listed for the last time in the step that ends it.

        Actions of agents that are no longer listed are passed over, and where nobody is left the dictionaries are
        empty. Raises ``ValueError`` as ``EchelonEnv.step`` does.
        """
        self.env.require_agents(actions)
        if not self.agents and self.env.engine:
            return {}, {}, {}, {}, {}
        listed = self.agents
        obs, rewards, terminated, truncated, infos = self.env.step({a: actions[a] for a in listed if a in actions})
        self.agents = [a for a in listed if not terminated[a] and not truncated[a]]
        return (
            {a: obs[a] for a in listed},
            {a: rewards[a] for a in listed},
            {a: terminated[a] for a in listed},
            {a: truncated[a] for a in listed},
            {a: infos[a] for a in listed},
        )

    def render(self) -> None:
        """Draw nothing: matches are watched as replays."""
        return

    def close(self) -> None:
        """Release the simulator."""
        self.env.close()


def parallel_env(cfg: EnvConfig | None = None) -> EchelonParallelEnv:
    """Return a PettingZoo parallel environment of this configuration."""
    return EchelonParallelEnv(cfg)
