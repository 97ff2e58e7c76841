"""``parallel_env``: a PettingZoo parallel environment that removes agents when they die.

A thin adapter over ``EchelonEnv``, which keeps all agents for the whole episode.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from echelon.config import EnvConfig
from echelon.env.env import EchelonEnv


class EchelonParallelEnv(ParallelEnv[str, NDArray[Any], NDArray[Any]]):
    """PettingZoo parallel API of one battle."""

    metadata = EchelonEnv.metadata
    render_mode = None

    def __init__(self, cfg: EnvConfig | None = None) -> None:
        self.env = EchelonEnv(cfg)
        self.possible_agents = list(self.env.possible_agents)
        self.observation_spaces = {**self.env.observation_spaces}
        self.action_spaces = {**self.env.action_spaces}
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        self.env.require_agents({agent: None})
        return self.env.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        self.env.require_agents({agent: None})
        return self.env.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, Any]]]:
        """Begin an episode with every agent; ``options`` are ignored, since PettingZoo's API test passes some."""
        del options
        obs, infos = self.env.reset(seed)
        self.agents = list(self.possible_agents)
        return obs, infos

    def step(
        self, actions: Mapping[str, NDArray[Any]]
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one environment step; an agent is returned for the last time in the step in which its episode ends.

        Actions of removed agents are ignored; without agents all dictionaries are empty. Raises ``ValueError`` as
        ``EchelonEnv.step`` does.
        """
        self.env.require_agents(actions)
        if not self.agents and self.env.engine:
            return {}, {}, {}, {}, {}
        acting = self.agents
        obs, rewards, terminated, truncated, infos = self.env.step({a: actions[a] for a in acting if a in actions})
        self.agents = [a for a in acting if not terminated[a] and not truncated[a]]
        return (
            {a: obs[a] for a in acting},
            {a: rewards[a] for a in acting},
            {a: terminated[a] for a in acting},
            {a: truncated[a] for a in acting},
            {a: infos[a] for a in acting},
        )

    def render(self) -> None:
        """Do nothing; matches are watched as replays."""
        return

    def close(self) -> None:
        self.env.close()


def parallel_env(cfg: EnvConfig | None = None) -> EchelonParallelEnv:
    return EchelonParallelEnv(cfg)
