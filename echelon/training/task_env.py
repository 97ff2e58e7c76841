"""``make_vec``: the Gymnasium vector environment of a benchmark task, against any opponent, with a curriculum.

``TaskVectorEnv`` is ``EchelonVectorEnv`` over the batch that training uses: policies may fly the other team, and maps,
levels and mechanics may change while it runs.
"""

from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from echelon.config import EnvConfig, require
from echelon.config.seeds import require_seed
from echelon.env.gym_vector import MAX_BATTLES, MAX_MAPS, MAX_THREADS, EchelonVectorEnv, autoreset_mode
from echelon.env.inputs import require_config, require_int
from echelon.tasks import SELF_PLAY, find_task
from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.opponents.fixed import NamedOpponents, Opponent, find_opponents
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.threads import ThreadPool
from echelon.training.vec_env import VectorEnv

LEARNERS = {"blue": "red", "red": "blue"}
"""The opponent's side by that of the caller."""
MAPS = 64
"""Maps of a training batch."""
FULL_WEAPON_PROB = 1.0


class TaskVectorEnv(EchelonVectorEnv):
    """``battles`` battles at once against ``opponent``; ``num_envs`` = battles x learning agents.

    ``opponent`` is a scripted level, ``champion``, a run, a checkpoint, a league entry, a loaded policy, or a mix:
    weights by such names, of which every episode samples one; policies sample their actions. With ``"self"`` the caller
    controls both teams. ``side`` is the caller's team. Rewards, ends, ``infos`` and ``autoreset`` are those of
    ``EchelonVectorEnv``.
    """

    def __init__(
        self,
        battles: int = 1,
        config: EnvConfig | None = None,
        *,
        opponent: Opponent = "medium",
        side: str = "blue",
        maps: int = MAPS,
        seed: int = 0,
        device: str = "cpu",
        threads: int = 0,
        autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        battles = require_int(battles, "battles", 1, MAX_BATTLES)
        maps = require_int(maps, "maps", 1, MAX_MAPS)
        self._seed = require_seed(seed)
        threads = require_int(threads, "threads", 0, MAX_THREADS)
        require(side in LEARNERS, "side", side, f"one of {', '.join(LEARNERS)}")
        mode, cfg = autoreset_mode(autoreset), require_config(config)
        is_self_play = isinstance(opponent, str) and opponent == SELF_PLAY
        found = None if is_self_play else find_opponents(opponent, device)
        policies = bool(found and found.policies)
        self.batch = VectorEnv(
            battles,
            cfg,
            sides=Sides("both" if is_self_play else side, opponents=LEARNERS[side] if policies else "none"),
            maps=Maps(maps),
            pilots=Pilots((found and found.single_level) or "medium", weapon_prob=FULL_WEAPON_PROB),
            episodes=Episodes(seed, autoreset=False),
            device=device,
            threads=threads,
        )
        try:
            self._opponents = found and found.fitted(cfg, self.batch.sizes.obs_dim)
        except ValueError:
            self.batch.close()
            raise
        self._runner = self._make_runner()
        self._connect(self.batch.engine, "both" if is_self_play else side, mode)

    def set_curriculum(self, *, opponent: Opponent | None = None, **parameters: Any) -> None:
        """Set the opponents of episodes that start from now on, and parameters of ``VectorEnv.set_curriculum``.

        Policies can follow only in environments that were made with a policy among their opponents. ``ValueError``
        changes nothing.
        """
        require("skill" not in parameters, "skill", parameters.get("skill"), "none; try opponent")
        found, known = None, self._opponents
        if opponent is not None:
            require(known is not None, "opponent", opponent, "none in self-play")
            found = find_opponents(opponent, str(self.batch.device))
            capable = not found.policies or self.batch.opponents.count > 0
            require(capable, "opponent", opponent, "scripted levels, since no policy was among the first opponents")
            found = found.fitted(self.config, self.batch.sizes.obs_dim)
        self.batch.set_curriculum(**parameters)
        if found is not None and known is not None and self._runner is not None:
            # running episodes keep their opponents
            self._opponents = NamedOpponents(found.weights, {**known.policies, **found.policies})
            self._runner.source = self._opponents.source(self._seed)

    def get_curriculum(self) -> dict[str, Any]:
        """Return a copy of the curriculum parameters; ``opponent`` has the weights, None in self-play."""
        weights = None if self._opponents is None else dict(self._opponents.weights)
        return {**self.batch.get_curriculum(), "opponent": weights}

    def refresh_maps(self, count: int) -> None:
        """Replace the oldest maps by the next ``count`` of the sequence; running episodes keep their maps."""
        self.batch.maps.refresh(count)

    @property
    def opponents(self) -> list[str]:
        """Opponent of each battle: ``heuristic:<level>`` or the name of a policy; ``self`` in self-play."""
        return [SELF_PLAY] * self.batch.num_envs if self._runner is None else list(self._runner.names)

    def _make_runner(self) -> OpponentRunner | None:
        """Return a runner that begins at the first episode of ``seed``; self-play needs none."""
        if self._opponents is None:
            return None
        return OpponentRunner(self.batch, self._opponents.source(self._seed), ThreadPool(1), seed=self._seed)

    def _begin(self, seed: int | None) -> None:
        self.batch.maps.place_maps(all_reset=True)
        if seed is not None:
            self._seed = seed
            self._runner = self._make_runner()
        if self._runner is not None:
            self._runner.reset()

    def _play(self) -> None:
        if self._runner is not None and self.batch.opponents.count:
            self._runner.act()
        self.batch.maps.place_maps()
        super()._play()

    def _after_step(self, fresh: NDArray[np.bool_]) -> None:
        any_fresh = bool(fresh.any())
        if self._runner is not None and (any_fresh or self.batch.opponents.count):
            self._runner.after_step(torch.from_numpy(fresh).to(self.batch.device), any_fresh)

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulator and the processes that generate maps."""
        self.batch.close()


def game_of(
    task: str | EnvConfig | None, opponent: Opponent | None, default: Opponent
) -> tuple[EnvConfig, Opponent, bool]:
    """Return configuration and opponent of a task or a configuration, and whether the caller controls both teams.

    ``opponent`` replaces that of a task; ``default`` is that of a configuration.
    """
    known = find_task(task) if isinstance(task, str) else None
    config = require_config(known.config() if known else task)  # pyright: ignore[reportArgumentType]
    opponent = opponent if opponent is not None else known.opponent if known else default
    return config, opponent, isinstance(opponent, str) and opponent == SELF_PLAY


def make_vec(
    task: str | EnvConfig,
    num_envs: int = 1,
    *,
    battles: int | None = None,
    opponent: Opponent | None = None,
    **options: Any,
) -> TaskVectorEnv:
    """Return the vector environment of a benchmark task (``echelon.tasks``), or of a configuration.

    ``num_envs`` is the number of learning agents, a multiple of those in a battle; 1, Gymnasium's default, is one
    battle. ``battles`` is another way to give it. ``opponent`` replaces that of the task; then results are not those of
    the benchmark. ``options`` are those of ``TaskVectorEnv``.
    """
    config, opponent, is_self_play = game_of(task, opponent, "medium")
    agents = config.team_size * (2 if is_self_play else 1)
    num_envs = require_int(num_envs, "num_envs", 1, MAX_BATTLES * agents)
    if battles is None:
        require(num_envs == 1 or num_envs % agents == 0, "num_envs", num_envs, f"a multiple of {agents}, one battle")
        battles = -(-num_envs // agents)
    else:
        battles = require_int(battles, "battles", 1, MAX_BATTLES)
        require(num_envs in (1, battles * agents), "num_envs", num_envs, f"{battles * agents}, or battles without it")
    return TaskVectorEnv(battles, config, opponent=opponent, **options)
