"""``EchelonEnv``: one battle with the PettingZoo parallel interface, a thin view of a batch of one.

All agents stay for the whole episode, so that shapes never change; ``parallel_env`` removes dead agents. Training uses
``echelon.training.VectorEnv``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon import actions as action
from echelon.config import PACK_SIZE, EnvConfig, require
from echelon.config.seeds import require_seed
from echelon.env import layout, reward
from echelon.env.engine import Engine
from echelon.env.events import COUNTED_EVENTS, Event, EventReader
from echelon.env.inputs import action_values, reject_options, require_agents, require_config
from echelon.env.layout import CONTACT_DIM
from echelon.env.referee import REASONS, WINNERS
from echelon.gen.bank import build_bank_for
from echelon.replay.record import MatchInfo, RecordedEngine, Recorder
from echelon.replay.schema import SUFFIX
from echelon.sim.arsenal import ROSTER, mechanics_of
from echelon.sim.batch import Batch
from echelon.sim.episode_draws import limits_of
from echelon.sim.overrides import Overrides, apply_overrides

NAME = "match"


class EpisodeRecorder:
    """One episode at a time; each ``begin`` drops the previous one."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._recorder: Recorder | None = None

    def begin(self, engine: RecordedEngine, seed: int) -> None:
        self._stop()
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="echelon-")
        match = MatchInfo(name=NAME, map_seed=seed)
        self._recorder = Recorder(engine, [0], Path(self._folder.name), [match], embed_world=True)
        self._recorder.begin()

    def after_step(self, *, over: bool) -> None:
        if self._recorder is not None:
            self._recorder.after_step()
            if over:
                self._recorder.finish()
                self._recorder = None

    def read(self) -> bytes | None:
        """Return the replay file written so far; None before the first episode."""
        path = Path(self._folder.name) / f"{NAME}{SUFFIX}" if self._folder else None
        return path.read_bytes() if path is not None and path.exists() else None

    def close(self) -> None:
        self._stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _stop(self) -> None:
        if self._recorder is not None:
            self._recorder.abandon()
            self._recorder = None


Observation = NDArray[np.float32]
SEED_LIMIT = 2**31 - 2
COUNTED = ("assists", "knockdowns", "shutdowns", "bad_actions", "bad_obs")
"""Statistics that sum the arrays of the same name; the others come from events."""
STATS = (*COUNTED, *COUNTED_EVENTS.values(), "damage", "legged")


class BattleWorld(NamedTuple):
    """The current map."""

    voxels: NDArray[np.uint8]
    """Material ids ``[Z, Y, X]`` (see ``echelon.sim.world``)."""
    size: tuple[int, int, int]
    """Voxels along x, y and z."""
    zone: tuple[float, float, float]
    """Capture zone: centre x, centre y, radius [vox]."""
    seed: int
    """Seed of the map."""


class EchelonEnv:
    """One battle; agents are ``blue_0 ..`` and ``red_0 ..``, observations ``float32[D]``, actions ``float32[A]``.

    ``record`` records every episode, and ``get_replay`` returns it. ``without`` disables mechanics (heat, missiles,
    ewar, paint), and ``changes`` are parameter overrides (``echelon.sim.overrides``).
    """

    metadata = {"name": "echelon_v1", "render_modes": []}
    render_mode = None
    ACTION_DIM = action.ACTION_DIM
    BASE_ACTION_DIM = action.BASE_ACTION_DIM
    TARGET_START, TARGET_DIM = action.TARGET_START, action.TARGET_DIM
    EWAR_DIM = action.EWAR_DIM
    OBS_CTRL_START, OBS_CTRL_DIM, OBS_SORT_DIM = action.OBS_CTRL_START, action.OBS_CTRL_DIM, action.OBS_SORT_DIM
    CONTACT_SLOTS = layout.CLASSIC_SLOTS
    CONTACT_DIM = CONTACT_DIM
    LOCAL_MAP_R = layout.LOCAL_MAP_R

    def __init__(
        self,
        config: EnvConfig | None = None,
        *,
        device: str = "cpu",
        seed: int | None = None,
        record: bool = False,
        without: Sequence[str] = (),
        changes: Overrides | None = None,
    ) -> None:
        self.config = cfg = require_config(config)
        if seed is not None:
            seed = require_seed(seed)
        self.blue_ids = [f"blue_{i}" for i in range(cfg.team_size)]
        self.red_ids = [f"red_{i}" for i in range(cfg.team_size)]
        self.possible_agents = self.blue_ids + self.red_ids
        self.agents = list(self.possible_agents)
        self._team_of = {**dict.fromkeys(self.blue_ids, "blue"), **dict.fromkeys(self.red_ids, "red")}
        self.rng = np.random.default_rng(seed)
        self.max_steps, self.zone_score_to_win = cfg.max_steps, cfg.zone_score_to_win
        low, high = layout.bounds(cfg)
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.ACTION_DIM,), np.float32)
        self.observation_spaces = dict.fromkeys(self.possible_agents, self.observation_space)
        self.action_spaces = dict.fromkeys(self.possible_agents, self.action_space)
        self._device = device
        self._without, self._changes = mechanics_of(without), dict(changes or {})
        apply_overrides(cfg.dt_sim, self._changes)
        self._engine: Engine | None = None
        self._closed = False
        self._recorder = EpisodeRecorder() if record else None
        self._log: EventReader | None = None
        self._events: list[Event] = []
        self._legged = np.zeros(len(self.possible_agents), bool)
        self._rows: wp.array | None = None
        self.last_outcome: dict[str, Any] | None = None
        self.last_reset_seed: int | None = None
        self.stats: dict[str, dict[str, float]] = {}

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        return len(self.possible_agents)

    @property
    def engine(self) -> Engine:
        """The engine of this environment; ``ValueError`` before the first ``reset`` and after ``close``."""
        if self._closed:
            raise ValueError("the environment is closed, call reset() to use it again")
        if self._engine is None:
            raise ValueError("the environment has not been reset, call reset() first")
        return self._engine

    @property
    def log(self) -> EventReader:
        """The reader of the battle's journal; ``ValueError`` before the first ``reset``."""
        if self._log is None:
            raise ValueError("the environment has not been reset, call reset() first")
        return self._log

    @property
    def sim(self) -> Batch:
        """The simulator's arrays by name; the first axis is the environment, of length 1: ``env.sim["hp"]`` [1, M]."""
        return self.engine.batch

    @property
    def world(self) -> BattleWorld:
        x, y, z = (int(v) for v in self._read("size"))
        zone = tuple(float(v) for v in self._read("zone"))
        seed = int(self.last_reset_seed or 0)
        return BattleWorld(self._read("material")[:z, :y, :x], (x, y, z), (zone[0], zone[1], zone[2]), seed)

    @property
    def team_zone_score(self) -> dict[str, float]:
        score = self._read("score")
        return {"blue": float(score[0]), "red": float(score[1])}

    @property
    def _last_contact_slots(self) -> dict[str, list[str | None]]:
        """Agents in the contact slots, to which the next target preferences refer; None for an empty slot."""
        slots = self._read("contact")[:, : self.CONTACT_SLOTS]
        names = [*self.possible_agents, None]
        return {aid: [names[int(j)] for j in slots[m]] for m, aid in enumerate(self.possible_agents)}

    def _read(self, name: str) -> NDArray[Any]:
        return self.engine.batch.numpy(name)[0]

    def _obs_dim(self) -> int:
        return self.observation_space.shape[0]

    def team_hp(self) -> dict[str, float]:
        hp = self._read("hp") * self._read("alive")
        half = self.config.team_size
        return {"blue": float(hp[:half].sum()), "red": float(hp[half:].sum())}

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin an episode on the map of its seed; an explicit ``seed`` is the episode seed.

        Returns observations and infos by agent. ``ValueError`` for a seed that is no integer of 64 bits, and for any
        option, since none is supported.
        """
        reject_options(options)
        if seed is not None:
            episode_seed = require_seed(seed)
            self.rng = np.random.default_rng(episode_seed)
        else:
            episode_seed = int(self.rng.integers(SEED_LIMIT))
        cfg = self.config
        maps = build_bank_for(cfg, [episode_seed])
        if self._engine is None:
            self._engine = Engine(
                cfg, 1, maps, device=self._device, threads=1, autoreset=False, changes=[self._changes]
            )
            self._engine.batch.disable_mechanics([self._without])
            shape = (1, len(self.possible_agents), self._obs_dim())
            self._rows, final = (wp.zeros(shape, dtype=wp.float32, device=self._engine.batch.device) for _ in range(2))
            self._engine.attach(self._rows, final)
            rows = np.arange(len(self.possible_agents), dtype=np.int32)[None]
            self._engine.batch.set("row_of", rows)
            self._engine.record([0])
            self._log = EventReader(self._engine.batch, self.possible_agents)
        else:
            self._engine.batch.replace_all_maps(maps)
        self._closed = False
        self._engine.batch.set("forced_seed", np.array([episode_seed], np.int32))
        self._engine.batch.set("forced_slot", np.zeros(1, np.int32))
        self._engine.reset()
        self.agents = list(self.possible_agents)
        self.last_reset_seed = episode_seed
        self.max_steps, _, self.zone_score_to_win = limits_of(cfg, episode_seed)
        self.last_outcome = None
        self.stats = {team: dict.fromkeys(STATS, 0.0) for team in WINNERS[:2]}
        if self._recorder is not None:
            self._recorder.begin(self._engine, episode_seed)
        self.log.clear()
        self._events, self._legged[:] = [], False
        infos = {aid: {"seed": episode_seed} for aid in self.possible_agents}
        return self._obs(), infos

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one environment step; a missing agent gets an action of zeros.

        Raises ``ValueError`` for an invalid action, one of the wrong size or of an unknown agent, and for a step before
        ``reset``, after the end of an episode or after ``close``.
        """
        engine = self.engine
        if self.last_outcome is not None:
            raise ValueError("the episode is over, call reset() before the next step")
        engine.batch.set("actions", self._matrix(actions))
        engine.step()
        terminated, truncated = self._read("terminated"), self._read("truncated")
        self._count()
        if int(self._read("over")):
            self.last_outcome = self._outcome()
        if self._recorder is None:
            self.log.clear()
        else:
            self._recorder.after_step(over=self.last_outcome is not None)
            self.log.resume()
        ids = list(enumerate(self.possible_agents))
        rewards = self._read("reward")
        return (
            self._obs(),
            {aid: float(rewards[m]) for m, aid in ids},
            {aid: bool(terminated[m]) for m, aid in ids},
            {aid: bool(truncated[m]) for m, aid in ids},
            self._infos(),
        )

    def _matrix(self, actions: Mapping[str, Any]) -> NDArray[np.float32]:
        require_agents(actions, self.possible_agents)
        index = {aid: m for m, aid in enumerate(self.possible_agents)}
        matrix = np.zeros((1, len(index), self.ACTION_DIM), np.float32)
        for aid, values in actions.items():
            row = action_values(values, f"action of {aid}", f"{self.ACTION_DIM} numbers")
            require(row.shape == matrix.shape[2:], f"shape of the action of {aid}", row.shape, f"({self.ACTION_DIM},)")
            matrix[0, index[aid]] = row
        return matrix

    def _obs(self) -> dict[str, Observation]:
        if self._rows is None:
            raise ValueError("the environment has not been reset, call reset() first")
        rows = self._rows.numpy()[0]
        return {aid: rows[m].copy() for m, aid in enumerate(self.possible_agents)}

    def get_replay(self) -> bytes | None:
        """Return the episode's replay, including the world, as an ``.ecr`` file; None without ``record``.

        Before the end of the episode it has the chunks completed so far.
        """
        return None if self._recorder is None else self._recorder.read()

    def _count(self) -> None:
        half = self.config.team_size
        self._events = self.log.read()
        for event in self._events:
            team = self._team_of.get(event.get("defender" if event["type"] == "ams_intercept" else "shooter", ""))
            friendly = event["type"] == "kill" and team == self._team_of[event["target"]]
            if team is not None and event["type"] in COUNTED_EVENTS and not friendly:
                self.stats[team][COUNTED_EVENTS[event["type"]]] += 1.0
        legged = self._read("leg_hp") <= 0.0
        newly_legged, self._legged = legged & ~self._legged, legged
        for team, part in (("blue", slice(0, half)), ("red", slice(half, None))):
            self.stats[team]["legged"] += float(newly_legged[part].sum())
            for name in COUNTED:
                self.stats[team][name] += float(self._read(name)[part].sum())
            self.stats[team]["damage"] += float(self._read("dealt")[part].sum())

    def _outcome(self) -> dict[str, Any]:
        return {
            "reason": REASONS[int(self._read("reason"))],
            "winner": WINNERS[int(self._read("winner"))],
            "hp": self.team_hp(),
            "zone_score": self.team_zone_score,
            "zone_score_to_win": self.zone_score_to_win,
            "stats": {team: dict(counts) for team, counts in self.stats.items()},
        }

    def _infos(self) -> dict[str, dict[str, Any]]:
        terms = self._read("terms")
        alive, slot = self._read("alive"), self._read("focus_slot")
        ticks, score = self._read("zone_tick"), self.team_zone_score
        zone, pos = self._read("zone"), self._read("pos")
        inside = np.hypot(pos[:, 0] - zone[0], pos[:, 1] - zone[1]) < zone[2]
        infos: dict[str, dict[str, Any]] = {}
        for m, aid in enumerate(self.possible_agents):
            infos[aid] = {
                "events": self._events,
                "alive": bool(alive[m]),
                "reward_components": {n: float(v) for n, v in zip(reward.TERM_NAMES, terms[m], strict=True)},
                "zone_score": score,
                "zone_control": float(ticks[0] - ticks[1]),
                "in_zone": bool(inside[m] and alive[m]),
                "role": ROSTER[m % self.config.team_size % PACK_SIZE].name.lower(),
                "selected_target_slot": int(slot[m]),
            }
            if self.last_outcome is not None:
                infos[aid]["outcome"] = self.last_outcome
        return infos

    def close(self) -> None:
        """Release the simulator and delete the recording; ``reset`` makes the environment usable again."""
        self._closed = True
        if self._recorder is not None:
            self._recorder.close()
        if self._engine is not None:
            self._engine.close()
            self._engine = self._rows = self._log = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy; ``ValueError`` while a battle is in play, since device memory is not copied."""
        if self._engine is not None:
            raise ValueError("the environment is in play, call close() before copying or pickling it")
        return self.__dict__


__all__ = ["BattleWorld", "EchelonEnv"]
