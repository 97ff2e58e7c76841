"""``VectorEnv``: many environments in one batch, with torch tensors that share the simulator's memory.

Actions go in and observations come out without a copy: kernels write each learner's observation straight into the
attached rollout buffer, at the row of the step. Scripted pilots control every mech that does not learn. Resets happen
inside the step, by mask; no environment waits for another.

Shapes: ``E environment, M mech, N learner row, K opponent row, D observation, A action, C reward term``.
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
from echelon.config.checks import require_span
from echelon.env import layout as observe
from echelon.env import reward
from echelon.env.engine import Engine
from echelon.gen.bank import MapBank, build_bank_for
from echelon.gen.map_sampling import MapRanges
from echelon.sim.arsenal import Mechanic, mechanics_of
from echelon.sim.backend import default_threads
from echelon.sim.overrides import Overrides
from echelon.training.batch_options import Episodes, Maps, Pilots, SideChoice, Sides
from echelon.training.central_state import CentralState, central_dim
from echelon.training.engine_state import load_engine_state, save_engine_state
from echelon.training.episode_log import EpisodeLog, LoggedEpisodes
from echelon.training.map_pool import PREFIX, MapPool
from echelon.training.runtime.devices import share_stream, upload

SIDES = {"blue": (True, False), "red": (False, True), "both": (True, True), "none": (False, False)}
RANGE_PARAMETERS = ("map_size_range", "packs_per_team_range")
FLAGS = ("terminated", "truncated", "acting", "alive", "present", "over", "cut")


def _check_share(name: str) -> Callable[[float], None]:
    return lambda value: require(0.0 <= value <= 1.0, name, value, "0 to 1")


def _script_of(skill: str | None) -> int:
    """Return the value of array ``script`` for a scripted level, or for none."""
    return 0 if skill is None else heuristic.script_of(skill)


def _check_terms(weights: Mapping[str, float]) -> None:
    """Raise ``ValueError`` for a name that is no reward term."""
    names = [term.name for term in reward.TERMS]
    for name in weights:
        require(name in names, "reward_weights", name, f"terms of {', '.join(names)}")


class VectorEnv:
    """``num_envs`` environments in one batch; ``echelon.training.batch_options`` has the options of its parts.

    Opponents that policies control observe ``opponent_obs [K, D]``. ``changes`` are parameter overrides per
    environment, such as ``{"laser.damage": 20}`` (``echelon.sim.overrides``). The tensors below are views that the next
    ``step`` overwrites.
    """

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
        device: str = "cpu",
        threads: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        require(num_envs >= 1, "num_envs", num_envs, "at least 1")
        self.num_envs, self.cfg = num_envs, env_cfg
        share_stream(device)
        self.map_pool, self.bank = self._make_maps(maps, episodes, threads, progress)
        self.engine = Engine(
            env_cfg, num_envs, self.bank, device=device, threads=threads, seed=episodes.seed,
            first_env=episodes.first_env, autoreset=episodes.autoreset, changes=changes, pilots=heuristic.install,
        )  # fmt: skip
        self.mechs = self.engine.num_mechs
        self.obs_dim, self.action_dim = self.engine.obs_dim, self.engine.action_dim
        self.reward_names = reward.TERM_NAMES
        self.layout = observe.columns(env_cfg)
        self.normalizable = torch.tensor([row.normalizable for row in self.layout])
        if self.map_pool is not None:
            self.map_pool.attach(self.engine.batch)
        if episodes.seeds is not None:
            self._force_seeds(episodes.seeds)
        ranges = MapRanges.of(env_cfg)
        self._parameters: dict[str, Any] = {"map_size_range": ranges.size, "packs_per_team_range": ranges.packs}
        self.set_heuristic_weapon_prob(pilots.weapon_prob)
        self._scripts, self._teacher_script = np.zeros(num_envs, np.int32), 0
        self._pilots_have_acted = False
        self._central: CentralState | None = None
        self._log: EpisodeLog | None = None
        self._script_schedule: torch.Tensor | None = None
        self._assign_rows(sides.learners)
        self._assign_opponents(sides.opponents)
        self.set_heuristic_skill(pilots.skill)
        self._make_views()
        self._done_count = np.zeros(num_envs, np.int32)
        self.attach(torch.zeros((1, self.rows, self.obs_dim), device=self.device))
        self.engine.load(progress)

    def _make_maps(
        self, maps: Maps, episodes: Episodes, threads: int, progress: Callable[[str, int, int], None] | None
    ) -> tuple[MapPool | None, MapBank]:
        """Return the pool that resets draw from, None for episodes of given seeds, and its maps.

        Maps of given seeds are generated in this process: at 20 ms a map, starting workers takes longer than it saves.
        """
        report = (lambda done, total: progress("maps", done, total)) if progress else None
        if episodes.seeds is not None:
            seeds = sorted(set(episodes.seeds))
            return None, maps.bank or build_bank_for(self.cfg, seeds, progress=report)
        pool = MapPool(self.cfg, episodes.seed, maps, workers=threads or default_threads(), progress=report)
        return pool, pool.bank

    def _force_seeds(self, seeds: Sequence[int]) -> None:
        """Give every environment its episode seed and the map of the same seed."""
        require(len(seeds) == self.num_envs, "seeds", len(seeds), f"one per environment, {self.num_envs}")
        slot = {int(s): i for i, s in enumerate(self.bank.map_seed)}
        self.engine.batch.set("forced_seed", np.asarray(seeds, np.int32))
        self.engine.batch.set("forced_slot", np.array([slot[int(s)] for s in seeds], np.int32))

    def _assign_rows(self, learners: SideChoice) -> None:
        sides, learns, row_of = self._assign("learners", learners)
        self.rows = int(learns.sum())
        self.learner_team = np.array([{"blue": 0, "red": 1}.get(side, -1) for side in sides])
        self.engine.batch.set("row_of", row_of)
        self._learns = learns
        env, mech = np.nonzero(learns)
        self.device = torch.device(self.engine.batch.device)
        self.row_of = torch.as_tensor(row_of, device=self.device)
        self.env_of_row = torch.as_tensor(env, device=self.device)
        self.agent_of_row = torch.as_tensor(env * self.mechs + mech, device=self.device)
        roster = np.array([int(c) for c in self._roster()], np.int8)
        self.roles = torch.as_tensor(roster[mech % self.cfg.team_size], device=self.device)

    def _assign_opponents(self, opponents: SideChoice) -> None:
        sides, controlled, row_of = self._assign("opponents", opponents)
        both = controlled & (self.row_of.cpu().numpy() >= 0)
        require(not both.any(), "opponents", sides[int(both.any(1).argmax())], "a side that does not learn")
        self.opponent_rows = int(controlled.sum())
        env, mech = np.nonzero(controlled)
        self.env_of_opponent_row = torch.as_tensor(env, device=self.device)
        self.agent_of_opponent_row = torch.as_tensor(env * self.mechs + mech, device=self.device)
        self.opponent_obs = torch.zeros((self.opponent_rows, self.obs_dim), device=self.device)
        if self.opponent_rows:
            self.engine.batch.set("opponent_row_of", row_of)
            self.engine.attach_opponents(wp.from_torch(self.opponent_obs.unsqueeze(0)))

    def _assign(self, name: str, chosen: SideChoice) -> tuple[list[str], NDArray[np.bool_], NDArray[np.int32]]:
        """Return the side of each environment, whether mechs belong to it [E, M], and their rows [E, M], else -1."""
        sides = [chosen] * self.num_envs if isinstance(chosen, str) else list(chosen)
        require(len(sides) == self.num_envs, name, len(sides), f"one side per environment, {self.num_envs}")
        for side in sides:
            require(side in SIDES, name, side, f"one of {', '.join(SIDES)}")
        belongs = np.array([np.repeat(SIDES[side], self.cfg.team_size) for side in sides], dtype=bool)
        row_of = np.full(belongs.shape, -1, np.int32)
        row_of[belongs] = np.arange(int(belongs.sum()), dtype=np.int32)
        return sides, belongs, row_of

    def _roster(self) -> list[int]:
        from echelon.sim.arsenal import ROSTER

        return [int(ROSTER[slot % len(ROSTER)]) for slot in range(self.cfg.team_size)]

    def _make_views(self) -> None:
        batch = self.engine.batch
        self.actions = wp.to_torch(batch["actions"])
        self.rewards = wp.to_torch(batch["reward"])
        self.reward_terms = wp.to_torch(batch["terms"])
        self._flags = {name: wp.to_torch(batch[name]) for name in FLAGS}
        self._row, self._script = (wp.to_torch(batch[name]) for name in ("obs_row", "script"))

    @property
    def terminated(self) -> torch.Tensor:
        """Bool ``[E, M]``: the agent's episode terminated in this step or before."""
        return self._flags["terminated"].bool()

    @property
    def truncated(self) -> torch.Tensor:
        """Bool ``[E, M]``: the time limit truncated the episode of a living agent."""
        return self._flags["truncated"].bool()

    @property
    def acting(self) -> torch.Tensor:
        """Bool ``[E, M]``: alive at the start of the last step."""
        return self._flags["acting"].bool()

    @property
    def present(self) -> torch.Tensor:
        """Bool ``[E, M]``: the current episode has a mech at this index."""
        return self._flags["present"].bool()

    @property
    def alive_now(self) -> torch.Tensor:
        """Bool ``[E, M]``: alive now."""
        return self._flags["alive"].bool()

    @property
    def episode_over(self) -> torch.Tensor:
        """Bool ``[E]``: the episode ended in this step."""
        return self._flags["over"].bool()

    @property
    def final_mask(self) -> torch.Tensor:
        """Bool ``[E]``: ``final_obs`` has the last observation before a reset by the time limit."""
        return self._flags["cut"].bool()

    @property
    def central_dim(self) -> int:
        """Columns S of the central state."""
        return central_dim(self.cfg)

    def write_central(self, out: torch.Tensor) -> None:
        """Write the true state of all mechs as each learner views it into ``out [N, S]``."""
        if self._central is None:
            self._central = CentralState(self.engine.batch, self.cfg, self.agent_of_row)
        self._central.write(out)

    def attach(self, obs: torch.Tensor) -> None:
        """Write observations into ``obs`` ``[T + 1, N, D]`` from now on, in place."""
        row_shape = (self.rows, self.obs_dim)
        expected = f"[T + 1, {self.rows}, {self.obs_dim}]"
        require(tuple(obs.shape[1:]) == row_shape, "obs", tuple(obs.shape), expected)
        self.obs = obs
        self.final_obs = torch.zeros(row_shape, device=self.device)
        self.engine.attach(wp.from_torch(obs), wp.from_torch(self.final_obs.unsqueeze(0)))

    def reset(self, row: int = 0) -> None:
        """Start an episode in every environment; observations go to ``obs[row]``."""
        if self.map_pool is not None:
            self.map_pool.place_pending(all_reset=True)
            self.map_pool.known_in_use = None
        self.engine.clear()
        self.engine.reset(row)

    def step(self, row: int | torch.Tensor = 0) -> None:
        """Play one step with ``actions``; observations go to ``obs[row]``.

        A ``row [1]`` on the device is not read: then new maps wait for ``place_maps``.
        """
        if isinstance(row, torch.Tensor):
            self._row.copy_(row)
        else:
            self.place_maps()
            self.engine.set_row(row)
        self.engine.run("after_pilots" if self._pilots_have_acted else "decision")
        self._pilots_have_acted = False

    def place_maps(self) -> None:
        """Put new maps that wait for a slot into slots that no episode uses.

        Before a step: after ``drain_log`` the slots in use are known, without a read of the device, until this call.
        """
        if self.map_pool is None:
            return
        if self.map_pool.has_pending:
            self.map_pool.place_pending()
        self.map_pool.known_in_use = None

    @property
    def truncation_interval(self) -> int:
        """Fewest steps between two truncations of an environment."""
        return self.cfg.max_steps

    def log_episodes(self, slots: int) -> None:
        """Log at most ``slots`` ended episodes per environment between two calls of ``drain_log``."""
        self._log = EpisodeLog(self.engine.batch, slots, self.learner_team)

    def log_ended(self, step: torch.Tensor) -> None:
        """Log the episodes that ended in ``step [1]``, without reading the device."""
        assert self._log is not None, "log_episodes comes first"
        self._log.store(step)

    def drain_log(self) -> LoggedEpisodes:
        """Return the episodes logged since the last call, in one read of the device."""
        assert self._log is not None, "log_episodes comes first"
        logged = self._log.drain()
        self._done_count = self._done_count + logged.counts
        if self.map_pool is not None:
            self.map_pool.known_in_use = set(logged.map_slots.tolist())
        return logged

    def pop_episodes(self) -> list[EpisodeRecord]:
        """Return the episodes that ended since the last call, at most one per environment."""
        count = self.engine.batch.numpy("done_count")
        ended = np.nonzero(count != self._done_count)[0]
        self._done_count = count.copy()
        return finished_episodes(self.engine.batch, ended, self.learner_team) if len(ended) else []

    def set_heuristic_skill(self, skill: str) -> None:
        """Set the scripted level (a name in ``heuristic.SKILLS``) of every mech that does not learn, at once."""
        self.set_scripted_skills([skill] * self.num_envs)
        self._parameters["skill"] = skill

    def set_scripted_skills(self, skills: Sequence[str | None]) -> None:
        """Set the scripted level of the mechs that do not learn, per environment, at once.

        With None these mechs do what is written into ``actions``.
        """
        require(len(skills) == self.num_envs, "skills", len(skills), f"one per environment, {self.num_envs}")
        self._scripts = np.array([_script_of(skill) for skill in skills], np.int32)
        self._set_scripts()

    def schedule_skills(self, skills: Sequence[Sequence[str | None]]) -> None:
        """Set the scripted levels of the coming episodes, S per environment; ``follow_schedule`` sets one of them."""
        scripts = np.array([[_script_of(skill) for skill in row] for row in skills], np.int32)
        schedule = upload(self._scripts_of_mechs(scripts), self.device)
        if self._script_schedule is None:
            self._script_schedule = torch.empty_like(schedule)
        self._script_schedule.copy_(schedule)

    def follow_schedule(self, slot: torch.Tensor) -> None:
        """Set the scripted levels to those of ``slot [E]`` in the schedule, without reading the device."""
        assert self._script_schedule is not None, "schedule_skills comes first"
        index = slot.view(1, -1, 1).expand(1, -1, self.mechs)
        self._script.copy_(self._script_schedule.gather(0, index).squeeze(0))

    def set_teacher(self, skill: str | None) -> None:
        """Set the scripted level whose actions ``label`` writes for the mechs that learn, None for no teacher.

        While there is a teacher, every ``step`` needs a ``label`` before it.
        """
        self._teacher_script = _script_of(skill)
        self._set_scripts()

    def label(self) -> None:
        """Write what scripted pilots and teacher do in this state into ``actions``.

        These are the pilots of the coming step: it plays ``actions`` as the caller leaves them, at no extra cost. A
        teacher sees what the mech senses and remembers its episode, also where another policy flew.
        """
        self.engine.run("pilots")
        self._pilots_have_acted = True

    def _set_scripts(self) -> None:
        self.engine.batch.set("script", self._scripts_of_mechs(self._scripts[:, None])[0])

    def _scripts_of_mechs(self, scripts: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the script of every mech ``[S, E, M]`` from those of non-learners, ``scripts [E, S]``."""
        return np.where(self._learns, self._teacher_script, scripts.T[..., None]).astype(np.int32)

    def set_heuristic_weapon_prob(self, p: float) -> None:
        """Set the probability that a scripted pilot's trigger fires, at once."""
        _check_share("weapon_prob")(p)
        wp.to_torch(self.engine.batch["weapon_prob"]).fill_(p)
        self._parameters["weapon_prob"] = p

    def set_curriculum(self, **parameters: Any) -> None:
        """Set curriculum parameters; others keep their values, and an impossible value changes nothing.

        ``skill``, ``weapon_prob``, ``team_alpha`` and ``reward_weights`` (by term) act at once. ``map_size_range`` and
        ``packs_per_team_range``, each (smallest, largest), act on episodes that start from now on; where they change,
        maps are generated or taken from ``prefetch_curriculum``. ``without`` acts on those episodes too: names of
        disabled mechanics, ``("heat", "paint")``, or such names per environment. Raises ``ValueError`` for an unknown
        parameter or a value beyond the capacity.
        """
        parameters = {name: value for name, value in parameters.items() if value is not None}
        known = {
            "skill": (heuristic.script_of, self.set_heuristic_skill),
            "weapon_prob": (_check_share("weapon_prob"), self.set_heuristic_weapon_prob),
            "team_alpha": (_check_share("team_alpha"), self._set_team_alpha),
            "reward_weights": (_check_terms, self._set_reward_weights),
            "without": (self._disabled_mechanics, self._set_without),
        }
        for name, value in parameters.items():
            if name in known:
                known[name][0](value)
            elif name not in RANGE_PARAMETERS:
                names = ", ".join([*known, *RANGE_PARAMETERS])
                raise ValueError(f"curriculum parameter {name!r} does not exist, expected one of: {names}")
        ranges = self._ranges(parameters)
        for name in known.keys() & parameters.keys():
            known[name][1](parameters[name])
        if self.map_pool is not None:
            self.map_pool.change(ranges)
        self._parameters |= {"map_size_range": ranges.size, "packs_per_team_range": ranges.packs}

    def prefetch_curriculum(self, **parameters: Any) -> None:
        """Start to generate the maps that ``set_curriculum`` with these parameters will need."""
        if self.map_pool is not None:
            self.map_pool.prefetch(self._ranges(parameters))

    def _ranges(self, parameters: dict[str, Any]) -> MapRanges:
        """Return the map ranges after setting ``parameters``; raise ``ValueError`` for impossible ones."""
        spans = {name: parameters.get(name, self._parameters[name]) for name in RANGE_PARAMETERS}
        require_span(spans["map_size_range"], "map_size_range", MIN_MAP_EDGE, self.cfg.world.size_x)
        require_span(spans["packs_per_team_range"], "packs_per_team_range", 1, self.cfg.num_packs)
        size, packs = ((int(low), int(high)) for low, high in spans.values())
        ranges = MapRanges(size, packs)
        ranges.check(self.cfg)
        if self.map_pool is None and ranges != MapRanges.of(self.cfg):
            raise ValueError(f"map ranges are {ranges.size} and {ranges.packs}, expected none with explicit seeds")
        return ranges

    def refresh_maps(self, count: int) -> None:
        """Replace the oldest maps by the next ``count`` of the run's sequence; running episodes keep their maps."""
        if self.map_pool is not None:
            self.map_pool.refresh(count)

    def map_statistics(self) -> dict[str, Any]:
        """Return ``maps_used``, ``map_stalls`` and ``map_wait_s`` [s] so far; empty with explicit seeds."""
        return self.map_pool.statistics() if self.map_pool is not None else {}

    def get_curriculum(self) -> dict[str, Any]:
        """Return a copy of the curriculum parameters."""
        return dict(self._parameters)

    def _set_team_alpha(self, alpha: float) -> None:
        _check_share("team_alpha")(alpha)
        self.engine.batch.set("team_alpha", np.array([alpha], np.float32))
        self._parameters["team_alpha"] = alpha

    def _set_reward_weights(self, weights: Mapping[str, float]) -> None:
        names = [term.name for term in reward.TERMS]
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
        return {**save_engine_state(self.engine), **(self.map_pool.state() if self.map_pool else {})}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore what ``state_dict`` returned, including observations in ``obs[0]``."""
        if self.map_pool is not None:
            self.map_pool.restore(state)
            ranges = self.map_pool.ranges
            self._parameters |= {"map_size_range": ranges.size, "packs_per_team_range": ranges.packs}
        load_engine_state(self.engine, {name: v for name, v in state.items() if not name.startswith(PREFIX)})
        self._done_count = self.engine.batch.numpy("done_count").copy()

    def close(self) -> None:
        """Release the simulator threads and the processes that generate maps."""
        self.engine.close()
        if self.map_pool is not None:
            self.map_pool.close()

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
