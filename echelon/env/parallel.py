"""``parallel_env``: a PettingZoo parallel environment that removes agents when they die.

A thin adapter over ``EchelonEnv``, which keeps all agents for the whole episode.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import Space
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from echelon.config import EnvConfig
from echelon.env.env import EchelonEnv
from echelon.env.inputs import require_agents


class ParallelBattle(ParallelEnv[str, NDArray[Any], NDArray[Any]]):
    """PettingZoo parallel API of one battle; an agent leaves when its mech dies or the battle ends."""

    metadata = EchelonEnv.metadata
    render_mode = None

    def __init__(self, agents: Sequence[str], observation: Space[Any], action: Space[Any]) -> None:
        self.possible_agents, self.agents = list(agents), list[str]()
        self.observation_spaces = dict.fromkeys(self.possible_agents, observation)
        self.action_spaces = dict.fromkeys(self.possible_agents, action)

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the observation space of an agent, always the same object; ``ValueError`` for an unknown agent."""
        require_agents({agent: None}, self.possible_agents)
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Return the action space of an agent, always the same object; ``ValueError`` for an unknown agent."""
        require_agents({agent: None}, self.possible_agents)
        return self.action_spaces[agent]

    def render(self) -> None:
        """Do nothing; matches are watched as replays."""
        return


class EchelonParallelEnv(ParallelBattle):
    """One battle in which the caller controls both teams."""

    def __init__(self, cfg: EnvConfig | None = None) -> None:
        self.env = EchelonEnv(cfg)
        super().__init__(self.env.possible_agents, self.env.observation_space, self.env.action_space)

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
        require_agents(actions, self.possible_agents)
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

    def close(self) -> None:
        self.env.close()


def parallel_env(cfg: EnvConfig | None = None) -> EchelonParallelEnv:
    return EchelonParallelEnv(cfg)
