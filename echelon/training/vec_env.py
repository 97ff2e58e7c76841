"""``VectorEnv``: many battles in one batch, with torch tensors that share the simulator's memory.

Actions go in and observations come out without a copy: kernels write each learner's observation straight into the
attached rollout buffer, at the row of the step. Scripted pilots fly every mech that is not a learner. Resets happen
inside the step, by mask; no environment waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray

from echelon.agents import heuristic
from echelon.arena.episodes import EpisodeRecord, finished_episodes
from echelon.config import MIN_MAP_EDGE, EnvConfig, require
from echelon.config.ranges import require_span
from echelon.env import layout as observe
from echelon.env import reward
from echelon.env.engine import Engine
from echelon.gen.bank import MapBank, build_bank_for
from echelon.gen.map_sampling import MapRanges
from echelon.gen.prefetch import MapPrefetcher
from echelon.sim.arsenal import Mechanic, mechanics_of
from echelon.sim.overrides import Changes
from echelon.training.engine_state import load_engine_state, save_engine_state
from echelon.training.map_pool import PREFIX, MapPool, training_map_seed

Learners = str | Sequence[str]
SIDES = {"blue": (True, False), "red": (False, True), "both": (True, True), "none": (False, False)}
SPARE_MAPS = 16
"""Places for maps beside those in use, unless the caller says otherwise."""
RANGE_LEVERS = ("map_size_range", "packs_per_team_range")
FLAGS = ("terminated", "truncated", "acting", "alive", "present", "over", "cut")


def training_map_seeds(cfg: EnvConfig, seed: int, count: int) -> list[int]:
    """Return the map seeds of a run's bank; all lie below the held-out stream."""
    return [training_map_seed(seed, i) for i in range(count)]


def make_bank(cfg: EnvConfig, seeds: Sequence[int], *, progress: Callable[[int, int], None] | None = None) -> MapBank:
    """Prepare the maps of ``seeds`` for environments of this configuration, through the disk cache.

    It stays in this process: at 20 ms a map, starting workers costs a script more than it saves.
    """
    return build_bank_for(cfg, seeds, progress=progress)


def _share(name: str) -> Callable[[float], None]:
    return lambda value: require(0.0 <= value <= 1.0, name, value, "0 to 1")


def _require_terms(weights: Mapping[str, float]) -> None:
    """Raise ``ValueError`` for a name that is no reward term's."""
    names = [term.name for term in reward.TERMS]
    for name in weights:
        require(name in names, "reward_weights", name, f"terms of {', '.join(names)}")


class VectorEnv:
    """``num_envs`` environments E of M mechs; N learner rows of D columns; A action columns; C reward terms.

    ``learners`` says which team learns (blue, red, both, none), for all or per environment. ``opponents`` says the same
    of the K rows that other policies can fly: what those see is in ``opponent_obs [K, D]``, and ``set_scripted_skills`` says
    whether scripted pilots fly them instead. With ``seeds`` every environment plays that episode seed on the map of the
    same seed; otherwise seeds come from ``seed`` and maps from a bank of ``bank_maps``, beside which ``spare_maps``
    places let others come in; ``map_workers`` processes make these ahead, for refreshes by ``maps_per_refresh``. The
    world and packs of the configuration are the capacity: its ranges, and levers later, say what is drawn within.
    ``changes`` per environment, ``{"laser.damage": 20}``, makes other tables there (see ``echelon.sim.overrides``). The
    tensors below are views, overwritten by the next ``step``.
    """

    def __init__(
        self,
        num_envs: int,
        env_cfg: EnvConfig,
        *,
        skill: str = "legacy",
        initial_weapon_prob: float = 0.5,
        seed: int = 0,
        device: str = "cpu",
        threads: int = 0,
        learners: Learners = "blue",
        opponents: Learners = "none",
        seeds: Sequence[int] | None = None,
        bank_maps: int = 64,
        spare_maps: int = SPARE_MAPS,
        maps_per_refresh: int = 0,
        map_workers: int = 0,
        bank: MapBank | None = None,
        changes: Sequence[Changes] | None = None,
        autoreset: bool = True,
        first_env: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        require(num_envs >= 1, "num_envs", num_envs, "at least 1")
        self.num_envs, self.cfg = num_envs, env_cfg
        tell = (lambda done, total: progress("maps", done, total)) if progress else None
        self.stock: MapPool | None = None
        if seeds is None:
            self.stock = MapPool(
                env_cfg, seed, bank_maps, spare=min(spare_maps, bank_maps), more=maps_per_refresh, bank=bank,
                supply=MapPrefetcher(map_workers), progress=tell,
            )  # fmt: skip
        own = self.stock.bank if self.stock is not None else bank
        self.bank = own or make_bank(env_cfg, sorted(set(seeds or ())), progress=tell)
        self.engine = Engine(
            env_cfg, num_envs, self.bank, device=device, threads=threads, seed=seed, first_env=first_env,
            autoreset=autoreset, changes=changes, pilots=heuristic.install,
        )  # fmt: skip
        self.mechs = self.engine.num_mechs
        self.obs_dim, self.action_dim = self.engine.obs_dim, self.engine.action_dim
        self.reward_names = reward.TERM_NAMES
        self.layout = observe.columns(env_cfg)
        self.normalizable = torch.tensor([row.normalizable for row in self.layout])
        if self.stock is not None:
            self.stock.serve(self.engine.batch)
        if seeds is not None:
            require(len(seeds) == num_envs, "seeds", len(seeds), f"one per environment, {num_envs}")
            slot = {int(s): i for i, s in enumerate(self.bank.map_seed)}
            self.engine.batch.set("forced_seed", np.asarray(seeds, np.int32))
            self.engine.batch.set("forced_slot", np.array([slot[int(s)] for s in seeds], np.int32))
        ranges = MapRanges.of(env_cfg)
        self._levers: dict[str, Any] = {"map_size_range": ranges.size, "packs_per_team_range": ranges.packs}
        self.set_heuristic_weapon_prob(initial_weapon_prob)
        self._assign_rows(learners)
        self._assign_opponents(opponents)
        self.set_heuristic_skill(skill)
        self._wrap()
        self._seen = np.zeros(num_envs, np.int32)
        self.attach(torch.zeros((1, self.rows, self.obs_dim), device=self.device))
        self.engine.load(progress)

    def _assign_rows(self, learners: Learners) -> None:
        assign_sides, learns, row_of = self._rows_of("learners", learners)
        self.rows = int(learns.sum())
        self.learner_team = np.array([{"blue": 0, "red": 1}.get(side, -1) for side in assign_sides])
        self.engine.batch.set("row_of", row_of)
        env, mech = np.nonzero(learns)
        self.device = torch.device(self.engine.batch.device)
        self.row_of = torch.as_tensor(row_of, device=self.device)
        self.env_of_row = torch.as_tensor(env, device=self.device)
        self.agent_of_row = torch.as_tensor(env * self.mechs + mech, device=self.device)
        roster = np.array([int(c) for c in self._roster()], np.int8)
        self.roles = torch.as_tensor(roster[mech % self.cfg.team_size], device=self.device)

    def _assign_opponents(self, opponents: Learners) -> None:
        assign_sides, flown, row_of = self._rows_of("opponents", opponents)
        both = flown & (self.row_of.cpu().numpy() >= 0)
        require(not both.any(), "opponents", assign_sides[int(both.any(1).argmax())], "no side that learns")
        self.opponent_rows = int(flown.sum())
        env, mech = np.nonzero(flown)
        self.env_of_opponent_row = torch.as_tensor(env, device=self.device)
        self.agent_of_opponent_row = torch.as_tensor(env * self.mechs + mech, device=self.device)
        self.opponent_obs = torch.zeros((self.opponent_rows, self.obs_dim), device=self.device)
        if self.opponent_rows:
            self.engine.batch.set("opponent_row_of", row_of)
            self.engine.attach_opponents(wp.from_torch(self.opponent_obs.unsqueeze(0)))

    def _rows_of(self, name: str, chosen: Learners) -> tuple[list[str], NDArray[np.bool_], NDArray[np.int32]]:
        """Return the side of each environment, which mechs are of it ``[E, M]``, and their rows, -1 for the others."""
        assign_sides = [chosen] * self.num_envs if isinstance(chosen, str) else list(chosen)
        require(
            len(assign_sides) == self.num_envs, name, len(assign_sides), f"one side per environment, {self.num_envs}"
        )
        for side in assign_sides:
            require(side in SIDES, name, side, f"one of {', '.join(SIDES)}")
        mine = np.array([np.repeat(SIDES[side], self.cfg.team_size) for side in assign_sides], dtype=bool)
        row_of = np.full(mine.shape, -1, np.int32)
        row_of[mine] = np.arange(int(mine.sum()), dtype=np.int32)
        return assign_sides, mine, row_of

    def _roster(self) -> list[int]:
        from echelon.sim.arsenal import ROSTER

        return [int(ROSTER[slot % len(ROSTER)]) for slot in range(self.cfg.team_size)]

    def _wrap(self) -> None:
        batch = self.engine.batch
        self.actions = wp.to_torch(batch["actions"])
        self.rewards = wp.to_torch(batch["reward"])
        self.reward_terms = wp.to_torch(batch["terms"])
        self._flags = {name: wp.to_torch(batch[name]) for name in FLAGS}
        self._weapon_prob = wp.to_torch(batch["weapon_prob"])

    @property
    def terminated(self) -> torch.Tensor:
        """Bool ``[E, M]``: the agent's episode ended for good in this decision or before."""
        return self._flags["terminated"].bool()

    @property
    def truncated(self) -> torch.Tensor:
        """Bool ``[E, M]``: the time limit cut a living agent off."""
        return self._flags["truncated"].bool()

    @property
    def acting(self) -> torch.Tensor:
        """Bool ``[E, M]``: alive when the decision just played began."""
        return self._flags["acting"].bool()

    @property
    def present(self) -> torch.Tensor:
        """Bool ``[E, M]``: the place holds a mech in the episode now played."""
        return self._flags["present"].bool()

    @property
    def alive_now(self) -> torch.Tensor:
        """Bool ``[E, M]``: alive now."""
        return self._flags["alive"].bool()

    @property
    def episode_over(self) -> torch.Tensor:
        """Bool ``[E]``: the episode ended in this decision."""
        return self._flags["over"].bool()

    @property
    def final_mask(self) -> torch.Tensor:
        """Bool ``[E]``: ``final_obs`` holds the last observation before the time limit's reset."""
        return self._flags["cut"].bool()

    def attach(self, obs: torch.Tensor) -> None:
        """Write observations into ``obs`` ``[T + 1, N, D]`` from now on, in place."""
        wanted = (self.rows, self.obs_dim)
        require(tuple(obs.shape[1:]) == wanted, "obs", tuple(obs.shape), f"[T + 1, {wanted[0]}, {wanted[1]}]")
        self.obs = obs
        self.final_obs = torch.zeros(wanted, device=self.device)
        self.engine.attach(wp.from_torch(obs), wp.from_torch(self.final_obs.unsqueeze(0)))

    def reset(self, row: int = 0) -> None:
        """Begin an episode in every environment; observations go to ``obs[row]``."""
        if self.stock is not None:
            self.stock.tend(all_begin=True)
        self.engine.reset(row)

    def step(self, row: int = 0) -> None:
        """Play one decision with ``actions``; observations go to ``obs[row]``."""
        if self.stock is not None and self.stock.pending:
            self.stock.tend()
        self.engine.step(row)

    def pop_episodes(self) -> list[EpisodeRecord]:
        """Return the episodes finished since the last call, at most one per environment."""
        count = self.engine.batch.numpy("done_count")
        ended = np.nonzero(count != self._seen)[0]
        self._seen = count.copy()
        return finished_episodes(self.engine.batch, ended, self.learner_team) if len(ended) else []

    def set_heuristic_skill(self, skill: str) -> None:
        """Have every mech that does not learn flown at this level (a name in ``heuristic.SKILLS``), at once."""
        self.set_scripted_skills([skill] * self.num_envs)
        self._levers["skill"] = skill

    def set_scripted_skills(self, skills: Sequence[str | None]) -> None:
        """Say per environment at which level the mechs that do not learn are flown, at once; None leaves them alone.

        A mech left alone does what is written into ``actions``.
        """
        require(len(skills) == self.num_envs, "pilots", len(skills), f"one per environment, {self.num_envs}")
        scripts = np.array([0 if skill is None else heuristic.script_of(skill) for skill in skills], np.int32)
        learns = self.engine.batch.numpy("row_of") >= 0
        self.engine.batch.set("script", np.where(learns, 0, scripts[:, None]).astype(np.int32))

    def set_heuristic_weapon_prob(self, p: float) -> None:
        """Set the chance that a scripted pilot's triggers are kept, at once."""
        _share("weapon_prob")(p)
        wp.to_torch(self.engine.batch["weapon_prob"]).fill_(p)
        self._levers["weapon_prob"] = p

    def set_curriculum(self, **levers: Any) -> None:
        """Change levers; unnamed ones keep their values, and an impossible value changes nothing.

        ``skill``, ``weapon_prob``, ``team_alpha`` and ``reward_weights`` (by term) act at once. ``map_size_range`` and
        ``packs_per_team_range``, the least and the most, act on the episodes that begin from now on; where they change,
        maps are made, or taken from what ``prefetch_curriculum`` announced. ``without`` acts on those episodes too: names
        of mechanics left out, ``("heat", "paint")``, or such names per environment. Raises ``ValueError`` beyond the
        capacity.
        """
        levers = {name: value for name, value in levers.items() if value is not None}
        known = {
            "skill": (heuristic.script_of, self.set_heuristic_skill),
            "weapon_prob": (_share("weapon_prob"), self.set_heuristic_weapon_prob),
            "team_alpha": (_share("team_alpha"), self._set_team_alpha),
            "reward_weights": (_require_terms, self._set_reward_weights),
            "without": (self._mechanics, self._set_without),
        }
        for name, value in levers.items():
            if name in known:
                known[name][0](value)
            elif name not in RANGE_LEVERS:
                names = ", ".join([*known, *RANGE_LEVERS])
                raise ValueError(f"curriculum lever {name!r} does not exist, wanted one of: {names}")
        ranges = self._ranges(levers)
        for name in known.keys() & levers.keys():
            known[name][1](levers[name])
        if self.stock is not None:
            self.stock.change(ranges)
        self._levers |= {"map_size_range": ranges.size, "packs_per_team_range": ranges.packs}

    def prefetch_curriculum(self, **levers: Any) -> None:
        """Begin to make the maps that ``set_curriculum`` with these levers will want, so that it need not wait."""
        if self.stock is not None:
            self.stock.prefetch(self._ranges(levers))

    def _ranges(self, levers: dict[str, Any]) -> MapRanges:
        """Return the ranges that ``levers`` would leave in force; ``ValueError`` for impossible ones."""
        wanted = {name: levers.get(name, self._levers[name]) for name in RANGE_LEVERS}
        require_span(wanted["map_size_range"], "map_size_range", MIN_MAP_EDGE, self.cfg.world.size_x)
        require_span(wanted["packs_per_team_range"], "packs_per_team_range", 1, self.cfg.num_packs)
        size, packs = ((int(low), int(high)) for low, high in wanted.values())
        ranges = MapRanges(size, packs)
        ranges.check(self.cfg)
        if self.stock is None and ranges != MapRanges.of(self.cfg):
            raise ValueError(f"the ranges are {ranges.size} and {ranges.packs}, wanted none where seeds name the maps")
        return ranges

    def refresh_maps(self, count: int) -> None:
        """Let ``count`` further maps of the run's sequence take the place of the oldest; nobody's ground changes."""
        if self.stock is not None:
            self.stock.refresh(count)

    def map_statistics(self) -> dict[str, Any]:
        """Return ``maps_used``, ``map_stalls`` and ``map_wait_s`` [s] so far."""
        return self.stock.figures() if self.stock is not None else {}

    def get_curriculum(self) -> dict[str, Any]:
        """Return a copy of the levers and their values."""
        return dict(self._levers)

    def _set_team_alpha(self, alpha: float) -> None:
        _share("team_alpha")(alpha)
        self.engine.batch.set("team_alpha", np.array([alpha], np.float32))
        self._levers["team_alpha"] = alpha

    def _set_reward_weights(self, weights: Mapping[str, float]) -> None:
        names = [term.name for term in reward.TERMS]
        values = self.engine.batch.numpy("weights").copy()
        for name, weight in weights.items():
            values[names.index(name)] = weight
        self.engine.batch.set("weights", values)
        self._levers["reward_weights"] = {**self._levers.get("reward_weights", {}), **weights}

    def _mechanics(self, without: Sequence[str] | Sequence[Sequence[str]]) -> list[Mechanic]:
        """Return what each environment goes without, from names for all of them or for each."""
        require(isinstance(without, (list, tuple)), "without", without, "names of mechanics, or names per environment")
        for_all = all(isinstance(name, str) for name in without)
        each: list[Any] = [without] * self.num_envs if for_all else list(without)
        require(len(each) == self.num_envs, "without", len(each), f"names per environment, {self.num_envs}")
        return [mechanics_of(names) for names in each]

    def _set_without(self, without: Sequence[str] | Sequence[Sequence[str]]) -> None:
        self.engine.batch.withhold(self._mechanics(without))
        self._levers["without"] = tuple(own if isinstance(own, str) else tuple(own) for own in without)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return everything that an exact resume needs, as numpy arrays."""
        return {**save_engine_state(self.engine), **(self.stock.state() if self.stock else {})}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore what ``state_dict`` gave, including observations in ``obs[0]``."""
        if self.stock is not None:
            self.stock.restore(state)
            ranges = self.stock.ranges
            self._levers |= {"map_size_range": ranges.size, "packs_per_team_range": ranges.packs}
        load_engine_state(self.engine, {name: v for name, v in state.items() if not name.startswith(PREFIX)})
        self._seen = self.engine.batch.numpy("done_count").copy()

    def close(self) -> None:
        """Release the shard threads and the processes that make maps."""
        self.engine.close()
        if self.stock is not None:
            self.stock.close()

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
