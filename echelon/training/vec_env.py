"""``VectorEnv``: many environments in one batch, with torch tensors that share the simulator's memory.

Actions go in and observations come out without a copy: kernels write each learner's observation straight into the
attached rollout buffer, at the row of the step. Scripted pilots control every mech that does not learn. Resets happen
inside the step, by mask; no environment waits for another.

Shapes: ``E environment, M mech, N learner row, K opponent row, D observation, A action``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray

from echelon.agents import heuristic
from echelon.closing import Closing
from echelon.config import EnvConfig, require
from echelon.config.seeds import require_seed
from echelon.env import layout, reward
from echelon.env.engine import Engine
from echelon.env.engine_state import load_engine_state, save_engine_state
from echelon.env.inputs import refuse_copy
from echelon.gen.bank import build_bank_for
from echelon.machine import cores
from echelon.sim.arsenal import ROSTER, Mechanic, mechanics_of
from echelon.sim.overrides import Overrides
from echelon.training.batch_options import Episodes, Maps, Pilots, SideChoice, Sides
from echelon.training.batched_env import LearnerRows, PilotControl, Rows, Sizes, StepResults
from echelon.training.central_state import CentralState
from echelon.training.episode_log import EpisodeLog
from echelon.training.map_pool import PREFIX, RANGE_PARAMETERS, FixedMaps, MapPool
from echelon.training.runtime.devices import share_stream

SIDES = {"blue": (True, False), "red": (False, True), "both": (True, True), "none": (False, False)}


def _check_share(name: str) -> Callable[[float], None]:
    return lambda value: require(0.0 <= value <= 1.0, name, value, "0 to 1")


class VectorEnv(Closing):
    """``num_envs`` environments in one batch; ``echelon.training.batch_options`` has the options of its parts.

    ``rows`` are the mechs that learn, ``opponents`` those that other policies control; both write into ``actions
    [E, M, A]``, and ``results`` has what came of a step. ``changes`` are parameter overrides per environment, such as
    ``{"laser.damage": 20}`` (``echelon.sim.overrides``), ``terms`` the reward terms that are measured.
    """

    __reduce_ex__ = refuse_copy

    def __init__(
        self,
        num_envs: int,
        env_cfg: EnvConfig,
        *,
        sides: Sides = Sides(),
        maps: Maps = Maps(),
        pilots: Pilots = Pilots(),
        episodes: Episodes = Episodes(),
        changes: Sequence[Overrides] | None = None,
        terms: Sequence[reward.Term] = reward.TERMS,
        device: str = "cpu",
        threads: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        require(num_envs >= 1, "num_envs", num_envs, "at least 1")
        self.num_envs, self.cfg = num_envs, env_cfg
        seeds = None if episodes.seeds is None else [require_seed(seed) for seed in episodes.seeds]
        episodes = replace(episodes, seed=require_seed(episodes.seed, limit=2**32), seeds=seeds)
        share_stream(device)
        self.maps = self._make_maps(maps, episodes, threads, progress)
        self.engine = Engine(
            env_cfg, num_envs, self.maps.bank, device=device, threads=threads, seed=episodes.seed,
            first_env=episodes.first_env, autoreset=episodes.autoreset, changes=changes, pilots=heuristic.install,
            terms=terms,
        )  # fmt: skip
        batch = self.engine.batch
        self.num_mechs, self.device = self.engine.num_mechs, torch.device(batch.device)
        self.layout = layout.columns(env_cfg)
        self.sizes = Sizes(
            num_envs, self.engine.obs_dim, self.engine.action_dim, env_cfg.min_steps,
            normalizable=torch.tensor([row.normalizable for row in self.layout]),
        )  # fmt: skip
        self.maps.attach(batch)
        if episodes.seeds is None:
            batch["order_rate"].fill_(env_cfg.order_rate)
        else:
            self._force_seeds(episodes.seeds)
        self._parameters: dict[str, Any] = {}
        self._set_weapon_prob(pilots.weapon_prob)
        self.actions, self._row = wp.to_torch(batch["actions"]), wp.to_torch(batch["obs_row"])
        self.results = StepResults(self.engine)
        learning, learns = self._mechs_of("learners", sides.learners)
        self._central: CentralState | None = None
        self.rows = self._learner_rows(learns)
        self.opponents = self._opponent_rows(sides.opponents, learns)
        self.pilots = PilotControl(self.engine, learns, pilots.skill)
        self._parameters["skill"] = pilots.skill
        team = np.array([{"blue": 0, "red": 1}.get(side, -1) for side in learning])
        self.episodes = EpisodeLog(batch, team, self.maps)
        self.engine.load(progress)

    def _make_maps(
        self, maps: Maps, episodes: Episodes, threads: int, progress: Callable[[str, int, int], None] | None
    ) -> FixedMaps:
        """Return the maps that resets draw from; those of given seeds never change.

        Maps of given seeds are generated in this process: at 20 ms a map, starting workers takes longer than it saves.
        """
        report = (lambda done, total: progress("maps", done, total)) if progress else None
        if episodes.seeds is not None:
            seeds = sorted(set(episodes.seeds))
            return FixedMaps(self.cfg, maps.bank or build_bank_for(self.cfg, seeds, progress=report))
        return MapPool(self.cfg, episodes.seed, maps, workers=threads or cores(), progress=report)

    def _force_seeds(self, seeds: Sequence[int]) -> None:
        """Give every environment its episode seed and the map of the same seed."""
        require(len(seeds) == self.num_envs, "seeds", len(seeds), f"one per environment, {self.num_envs}")
        slot = {int(s): i for i, s in enumerate(self.maps.bank.map_seed)}
        self.engine.batch.set("forced_seed", np.asarray(seeds, np.int32))
        self.engine.batch.set("forced_slot", np.array([slot[int(s)] for s in seeds], np.int32))

    def _mechs_of(self, name: str, chosen: SideChoice) -> tuple[list[str], NDArray[np.bool_]]:
        """Return the side of each environment, and whether mechs belong to it [E, M]."""
        sides = [chosen] * self.num_envs if isinstance(chosen, str) else list(chosen)
        require(len(sides) == self.num_envs, name, len(sides), f"one side per environment, {self.num_envs}")
        for side in sides:
            require(side in SIDES, name, side, f"one of {', '.join(SIDES)}")
        return sides, np.array([np.repeat(SIDES[side], self.cfg.team_size) for side in sides], dtype=bool)

    def _learner_rows(self, learns: NDArray[np.bool_]) -> LearnerRows:
        def connect(obs: torch.Tensor, final_obs: torch.Tensor) -> None:
            self.engine.attach(wp.from_torch(obs), wp.from_torch(final_obs.unsqueeze(0)))

        rows = LearnerRows(
            learns,
            self.actions,
            self.sizes.obs_dim,
            roster=[int(ROSTER[slot % len(ROSTER)]) for slot in range(self.cfg.team_size)],
            connect=connect,
            central=self._read_central,
        )
        self.engine.batch.set("row_of", rows.row_of.cpu().numpy())
        return rows

    def _opponent_rows(self, opponents: SideChoice, learns: NDArray[np.bool_]) -> Rows:
        sides, controlled = self._mechs_of("opponents", opponents)
        both = controlled & learns
        require(not both.any(), "opponents", sides[int(both.any(1).argmax())], "a side that does not learn")
        rows = Rows(controlled, self.actions, self.sizes.obs_dim)
        if rows.count:
            self.engine.batch.set("opponent_row_of", rows.row_of.cpu().numpy())
            self.engine.attach_opponents(wp.from_torch(rows.obs.unsqueeze(0)))
        return rows

    def _read_central(self) -> torch.Tensor:
        if self._central is None:
            self._central = CentralState(self.engine.batch, self.cfg, self.rows.agent[:: self.cfg.team_size])
        return self._central.read()

    def reset(self, row: int = 0) -> None:
        """Start an episode in every environment; observations go to ``rows.obs[row]``."""
        self.maps.place_maps(all_reset=True)
        self.engine.clear()
        self.engine.reset(row)

    def step(self, row: int | torch.Tensor = 0) -> None:
        """Play one step with ``actions``; observations go to ``rows.obs[row]``.

        A ``row [1]`` on the device is not read: then new maps wait for ``maps.place_maps``.
        """
        if isinstance(row, torch.Tensor):
            self._row.copy_(row)
        else:
            self.maps.place_maps()
            self.engine.set_row(row)
        self.engine.run("after_pilots" if self.pilots.have_acted else "decision")
        self.pilots.have_acted = False

    def _set_skill(self, skill: str) -> None:
        self.pilots.set_skills([skill] * self.num_envs)
        self._parameters["skill"] = skill

    def _set_weapon_prob(self, p: float) -> None:
        _check_share("weapon_prob")(p)
        wp.to_torch(self.engine.batch["weapon_prob"]).fill_(p)
        self._parameters["weapon_prob"] = p

    def set_curriculum(self, **parameters: Any) -> None:
        """Set curriculum parameters; others keep their values, and an impossible value changes nothing.

        ``skill``, ``weapon_prob``, ``team_alpha`` and ``reward_weights`` (by term) act at once. ``map_size_range`` and
        ``packs_per_team_range``, each (smallest, largest), act on episodes that start from now on; where they change,
        maps are generated or taken from ``maps.prefetch``. ``without`` acts on those episodes too: names of
        disabled mechanics, ``("heat", "paint")``, or such names per environment. Raises ``ValueError`` for an unknown
        parameter or a value beyond the capacity.
        """
        parameters = {name: value for name, value in parameters.items() if value is not None}
        known = {
            "skill": (heuristic.script_of, self._set_skill),
            "weapon_prob": (_check_share("weapon_prob"), self._set_weapon_prob),
            "team_alpha": (_check_share("team_alpha"), self._set_team_alpha),
            "reward_weights": (self._check_terms, self._set_reward_weights),
            "without": (self._disabled_mechanics, self._set_without),
        }
        for name, value in parameters.items():
            if name in known:
                known[name][0](value)
            elif name not in RANGE_PARAMETERS:
                names = ", ".join([*known, *RANGE_PARAMETERS])
                raise ValueError(f"curriculum parameter {name!r} does not exist, expected one of: {names}")
        ranges = self.maps.ranges_with(parameters)
        for name in known.keys() & parameters.keys():
            known[name][1](parameters[name])
        self.maps.change(ranges)

    def get_curriculum(self) -> dict[str, Any]:
        """Return a copy of the curriculum parameters."""
        ranges = self.maps.ranges
        return {"map_size_range": ranges.size, "packs_per_team_range": ranges.packs, **self._parameters}

    def _set_team_alpha(self, alpha: float) -> None:
        _check_share("team_alpha")(alpha)
        self.engine.batch.set("team_alpha", np.array([alpha], np.float32))
        self._parameters["team_alpha"] = alpha

    def _check_terms(self, weights: Mapping[str, float]) -> None:
        names = self.engine.term_names[:-1]
        for name in weights:
            require(name in names, "reward_weights", name, f"terms of {', '.join(names)}")

    def _set_reward_weights(self, weights: Mapping[str, float]) -> None:
        names = self.engine.term_names
        values = self.engine.batch.numpy("weights").copy()
        for name, weight in weights.items():
            values[names.index(name)] = weight
        self.engine.batch.set("weights", values)
        self._parameters["reward_weights"] = {**self._parameters.get("reward_weights", {}), **weights}

    def _disabled_mechanics(self, without: Sequence[str] | Sequence[Sequence[str]]) -> list[Mechanic]:
        """Return the disabled mechanics of each environment, from names for all or for each."""
        require(isinstance(without, (list, tuple)), "without", without, "names of mechanics, or names per environment")
        for_all = all(isinstance(name, str) for name in without)
        each: list[Any] = [without] * self.num_envs if for_all else list(without)
        require(len(each) == self.num_envs, "without", len(each), f"names per environment, {self.num_envs}")
        return [mechanics_of(names) for names in each]

    def _set_without(self, without: Sequence[str] | Sequence[Sequence[str]]) -> None:
        self.engine.batch.disable_mechanics(self._disabled_mechanics(without))
        self._parameters["without"] = tuple(name if isinstance(name, str) else tuple(name) for name in without)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the state of an exact resume, as numpy arrays."""
        return {**save_engine_state(self.engine), **self.maps.state()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore what ``state_dict`` returned, including observations in ``rows.obs[0]``."""
        self.maps.restore(state)
        load_engine_state(self.engine, {name: v for name, v in state.items() if not name.startswith(PREFIX)})
        self.episodes.pop()

    def close(self) -> None:
        """Release the simulator threads and the processes that generate maps."""
        self.engine.close()
        self.maps.close()
