"""The batched environment of the learner, and its parts: sizes, rows of policies, results of a step, scripted pilots.

Shapes: ``E environment, M mech, T step, N row, B team of rows, D observation, A action, C reward term, S column of the
central state``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray
from torch import Tensor

from echelon.agents import heuristic
from echelon.config import require
from echelon.env.engine import Engine
from echelon.rl.agent_process import STAND_IN
from echelon.training.episode_log import EpisodeLog
from echelon.training.map_pool import FixedMaps
from echelon.training.runtime.devices import upload

FLAGS = ("terminated", "truncated", "acting", "alive", "present", "over", "timed_out")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a batch and of its tensors."""

    num_envs: int
    obs_dim: int
    action_dim: int
    min_steps: int
    """Shortest time limit of an episode, so the fewest environment steps between two truncations."""
    normalizable: Tensor
    """Observation columns that a normalizer may scale [D] bool."""


class Rows:
    """Rows of the mechs that policies control, in order of environment and mech."""

    def __init__(self, controlled: NDArray[np.bool_], actions: Tensor, obs_dim: int) -> None:
        """``controlled [E, M]`` are the mechs, ``actions [E, M, A]`` those of all mechs."""
        device, mechs = actions.device, controlled.shape[1]
        env, mech = np.nonzero(controlled)
        row_of = np.full(controlled.shape, -1, np.int32)
        row_of[controlled] = np.arange(len(env), dtype=np.int32)
        self.count = len(env)
        self.row_of = torch.as_tensor(row_of, device=device)
        """Row of each mech [E, M], -1 if it has none."""
        self.env = torch.as_tensor(env, device=device)
        """Environment of each row [N]."""
        self.agent = torch.as_tensor(env * mechs + mech, device=device)
        """Index into the flattened [E * M] mechs of each row [N]."""
        self.flat_actions = actions.view(-1, actions.shape[-1])
        """Actions of all mechs [E * M, A]."""
        self.obs = torch.zeros((self.count, obs_dim), device=device)

    def act(self, actions: Tensor) -> None:
        """Write the actions ``[N, A]`` of all rows into the environment."""
        self.flat_actions.index_copy_(0, self.agent, actions)

    def acted(self) -> Tensor:
        """Return the actions ``[N, A]`` in the environment."""
        return self.flat_actions.index_select(0, self.agent)

    def of_mechs(self, values: Tensor) -> Tensor:
        """Return the ``values [E, M]`` of the rows [N]."""
        return values.view(-1).index_select(0, self.agent)

    def of_envs(self, values: Tensor) -> Tensor:
        """Return the ``values [E]`` of the rows' environments [N]."""
        return values.index_select(0, self.env)


class LearnerRows(Rows):
    """Rows of the learner; each step writes their observations into one row of ``obs [T + 1, N, D]``."""

    def __init__(
        self,
        controlled: NDArray[np.bool_],
        actions: Tensor,
        obs_dim: int,
        *,
        roster: Sequence[int],
        connect: Callable[[Tensor, Tensor], object],
        central: Callable[[], Tensor],
    ) -> None:
        """``connect`` gives ``obs`` and ``final_obs`` to the simulator, ``roster`` has the mech class by number."""
        super().__init__(controlled, actions, obs_dim)
        self.team_size = len(roster)
        """Neighbouring rows that are a team."""
        mech = self.agent % controlled.shape[1]
        self.roles = torch.as_tensor(roster, dtype=torch.int8, device=actions.device)[mech % len(roster)]
        """Mech class id of each row [N]."""
        self.central = central
        """Returns the true state of all mechs as each team of rows views it [B, S]."""
        self._connect = connect
        self.attach(self.obs.unsqueeze(0))

    def attach(self, obs: Tensor) -> None:
        """Write observations into ``obs [T + 1, N, D]`` from now on, in place."""
        row_shape = self.count, self.obs.shape[-1]
        require(obs.shape[1:] == row_shape, "obs", tuple(obs.shape), f"[T + 1, {row_shape[0]}, {row_shape[1]}]")
        self.obs = obs
        self.final_obs = torch.zeros(row_shape, dtype=obs.dtype, device=obs.device)
        """Last observations before a reset by the time limit [N, D]."""
        self._connect(self.obs, self.final_obs)


class StepResults:
    """Results of the last step; ``rewards [E, M]`` and ``terms [E, M, C]`` are views that the next one overwrites."""

    def __init__(self, engine: Engine) -> None:
        self.rewards = wp.to_torch(engine.batch["reward"])
        self.terms = wp.to_torch(engine.batch["terms"])
        self.names: tuple[str, ...] = engine.term_names
        """Reward terms in the order of ``terms``."""
        self._flags = {name: wp.to_torch(engine.batch[name]) for name in FLAGS}

    @property
    def terminated(self) -> Tensor:
        """Bool ``[E, M]``: the agent's episode terminated in this step or before."""
        return self._flags["terminated"].bool()

    @property
    def truncated(self) -> Tensor:
        """Bool ``[E, M]``: the time limit truncated the episode of a living agent."""
        return self._flags["truncated"].bool()

    @property
    def acting(self) -> Tensor:
        """Bool ``[E, M]``: alive at the start of the last step."""
        return self._flags["acting"].bool()

    @property
    def present(self) -> Tensor:
        """Bool ``[E, M]``: the current episode has a mech at this index."""
        return self._flags["present"].bool()

    @property
    def alive(self) -> Tensor:
        """Bool ``[E, M]``: alive now."""
        return self._flags["alive"].bool()

    @property
    def over(self) -> Tensor:
        """Bool ``[E]``: the episode ended in this step."""
        return self._flags["over"].bool()

    @property
    def final_mask(self) -> Tensor:
        """Bool ``[E]``: ``final_obs`` has the last observation before a reset by the time limit."""
        return self._flags["timed_out"].bool()


class PilotControl:
    """Sets which scripted level controls each mech, and runs the pilots ahead of a step."""

    def __init__(self, engine: Engine, learns: NDArray[np.bool_], skill: str) -> None:
        self._engine, self._learns = engine, learns
        self._script = wp.to_torch(engine.batch["script"])
        self._teacher_script = np.asarray(0)
        self._schedule: Tensor | None = None
        self.have_acted = False
        """Whether the pilots of the coming step have acted."""
        self.set_skills([skill] * len(learns))

    def set_skills(self, skills: Sequence[str | None]) -> None:
        """Set the scripted level of the mechs that do not learn, per environment, at once.

        With None these mechs do what is written into the actions.
        """
        envs = len(self._learns)
        require(len(skills) == envs, "skills", len(skills), f"one per environment, {envs}")
        self._scripts = np.array([_script_of(skill) for skill in skills], np.int32)
        self._set_scripts()

    def schedule(self, skills: Sequence[Sequence[str | None]]) -> None:
        """Set the scripted levels of the coming episodes, S per environment; ``follow`` sets one of them."""
        scripts = np.array([[_script_of(skill) for skill in row] for row in skills], np.int32)
        schedule = upload(self._scripts_of_mechs(scripts), self._script.device)
        if self._schedule is None:
            self._schedule = torch.empty_like(schedule)
        self._schedule.copy_(schedule)

    def follow(self, slot: Tensor) -> None:
        """Set the scripted levels to those of ``slot [E]`` in the schedule, without reading the device."""
        assert self._schedule is not None, "schedule comes first"
        index = slot.view(1, -1, 1).expand(1, -1, self._learns.shape[1])
        self._script.copy_(self._schedule.gather(0, index).squeeze(0))

    def set_teacher(self, skill: str | None, mechs: NDArray[np.bool_] | int = 1) -> None:
        """Set the scripted level whose actions ``label`` writes for the mechs that learn, None for no teacher.

        In a ``step`` without ``label`` before it the level controls them. ``mechs [E, M]`` chooses some.
        """
        self._teacher_script = np.asarray(_script_of(skill) * mechs)
        self._set_scripts()

    def take_over(self, mechs: torch.Tensor) -> None:
        """Let level ``STAND_IN`` fly mechs to the end of their episodes: ``mechs [k]`` of all ``[E * M]``."""
        self._script.view(-1)[mechs] = heuristic.script_of(STAND_IN)

    def label(self) -> None:
        """Write what scripted pilots and teacher do in this state into the actions.

        These are the pilots of the coming step: it plays the actions as the caller leaves them, at no extra cost. A
        teacher sees what the mech senses and remembers its episode, also where another policy flew.
        """
        self._engine.run("pilots")
        self.have_acted = True

    def _set_scripts(self) -> None:
        self._engine.batch.set("script", self._scripts_of_mechs(self._scripts[:, None])[0])

    def _scripts_of_mechs(self, scripts: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the script of every mech ``[S, E, M]`` from those of non-learners, ``scripts [E, S]``."""
        return np.where(self._learns, self._teacher_script, scripts.T[..., None]).astype(np.int32)


class BatchedEnv(Protocol):
    """The batched environment of the learner, in parts; ``VectorEnv`` is one."""

    sizes: Sizes
    rows: LearnerRows
    opponents: Rows
    """Rows of the mechs that other policies control."""
    results: StepResults
    pilots: PilotControl
    maps: FixedMaps
    episodes: EpisodeLog

    def reset(self, row: int = 0) -> None: ...

    def step(self, row: Any = 0) -> None: ...

    def set_curriculum(self, **parameters: Any) -> None: ...

    def get_curriculum(self) -> dict[str, Any]: ...

    def state_dict(self) -> dict[str, np.ndarray]: ...

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Restore what ``state_dict`` returned, and write its observations to row 0."""

    def close(self) -> None: ...


def _script_of(skill: str | None) -> int:
    """Return the value of array ``script`` for a scripted level, or for none."""
    return 0 if skill is None else heuristic.script_of(skill)
