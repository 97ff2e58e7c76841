"""``parallel_env``: a PettingZoo parallel environment of a task, against any opponent."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import EnvConfig
from echelon.env.inputs import action_values, require_agents
from echelon.env.parallel import EchelonParallelEnv, ParallelBattle
from echelon.tasks import SELF_PLAY
from echelon.training.opponents.fixed import Opponent
from echelon.training.task_env import TaskVectorEnv, game_of

Values = NDArray[Any]
PARALLEL_MAPS = 16


class TaskParallelEnv(ParallelBattle):
    """PettingZoo parallel API of one team's mechs in one battle; ``opponent`` flies the others.

    ``infos`` of an agent has ``alive`` and ``seed``, at the end of the battle also ``outcome``: 1 a win, 0 a draw, -1 a
    loss.
    """

    def __init__(self, cfg: EnvConfig | None = None, *, opponent: Opponent = "medium", **options: Any) -> None:
        """Other ``options`` are those of ``TaskVectorEnv``."""
        options = {"maps": PARALLEL_MAPS, "threads": 1, **options}
        self.envs = TaskVectorEnv(1, cfg, opponent=opponent, autoreset="DISABLED", **options)
        super().__init__(self.envs.agents, self.envs.single_observation_space, self.envs.single_action_space)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Values], dict[str, dict[str, Any]]]:
        """Begin a battle with every agent; ``options`` are ignored, since PettingZoo's API test passes some."""
        del options
        observations, infos = self.envs.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._rows(observations), self._infos(infos, ended=False)

    def step(
        self, actions: Mapping[str, Values]
    ) -> tuple[dict[str, Values], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one environment step; an agent without an action does nothing, actions of absent agents are ignored.

        An agent is returned for the last time in the step in which its episode ends. Without agents all dictionaries
        are empty. Raises ``ValueError`` for an invalid action or agent.
        """
        require_agents(actions, self.possible_agents)
        size = self.envs.engine.action_dim
        matrix = np.zeros((self.envs.num_envs, size), np.float32)
        for agent in self.agents:
            if agent in actions:
                row = action_values(actions[agent], f"action of {agent}", f"{size} numbers")
                if row.shape != (size,):
                    raise ValueError(f"action of {agent} has shape {row.shape}, expected ({size},)")
                matrix[self.possible_agents.index(agent)] = row
        if not self.agents:
            return {}, {}, {}, {}, {}
        acting = self.agents
        observations, rewards, terminated, truncated, infos = self.envs.step(matrix)
        dead = terminated | ~infos["alive"] & ~truncated
        result = (
            self._rows(observations),
            self._by_agent(rewards, float),
            self._by_agent(dead, bool),
            self._by_agent(truncated, bool),
            self._infos(infos, ended=bool(infos["_outcome"].all())),
        )
        gone = {agent for agent in acting if result[2][agent] or result[3][agent]}
        self.agents = [agent for agent in acting if agent not in gone]
        return result

    def set_curriculum(self, **parameters: Any) -> None:
        """Set curriculum parameters and opponents of the battles that follow, as ``TaskVectorEnv.set_curriculum``."""
        self.envs.set_curriculum(**parameters)

    def _rows(self, rows: Values) -> dict[str, Values]:
        present = set(self.agents)
        return {agent: row for agent, row in zip(self.possible_agents, rows, strict=True) if agent in present}

    def _by_agent(self, values: Values, kind: type[Any]) -> dict[str, Any]:
        return {agent: kind(value) for agent, value in self._rows(values).items()}

    def _infos(self, infos: dict[str, Any], *, ended: bool) -> dict[str, dict[str, Any]]:
        columns = {"alive": bool, "seed": int, **({"outcome": int} if ended else {})}
        by_name = {name: self._by_agent(infos[name], kind) for name, kind in columns.items()}
        return {agent: {name: rows[agent] for name, rows in by_name.items()} for agent in self.agents}

    def close(self) -> None:
        """Release the simulator."""
        self.envs.close()


def parallel_env(
    task: str | EnvConfig | None = None, *, opponent: Opponent | None = None, **options: Any
) -> EchelonParallelEnv | TaskParallelEnv:
    """Return a PettingZoo parallel environment of a benchmark task (``echelon.tasks``) or a configuration.

    Without an ``opponent``, and with ``"self"``, the caller controls both teams. Else ``options`` are those of
    ``TaskVectorEnv``: ``side``, ``maps``, ``seed``, ``device``, ``threads``.
    """
    config, opponent, is_self_play = game_of(task, opponent, SELF_PLAY)
    if is_self_play:
        for name in options:
            raise ValueError(f"option {name!r} does not exist in self-play, expected none")
        return EchelonParallelEnv(config)
    return TaskParallelEnv(config, opponent=opponent, **options)
