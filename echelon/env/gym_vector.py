"""``EchelonVectorEnv``: a Gymnasium vector environment over the (battle, agent) pairs of one batched engine.

Every learning agent of every battle is one sub-environment, ordered by battle. Inputs and outputs are numpy arrays;
``echelon.training.VectorEnv`` is faster for torch, since it returns tensors in place.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import gymnasium
import numpy as np
import warp as wp
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from echelon.config import EVAL_SEED_BASE, EnvConfig, PilotSkill, require
from echelon.config.seeds import require_seed
from echelon.env import layout
from echelon.env.engine import Engine
from echelon.env.inputs import action_values, refuse_copy, reject_options, require_config, require_int
from echelon.env.referee import DRAW, REASONS, WINNERS
from echelon.gen.bank import build_bank_for
from echelon.sim.backend import Launch
from echelon.sim.random import StreamId, draw_u32

LENT = 3
"""Buffers that callers may hold at a time; beyond them they get copies."""
SPARE = LENT
"""Index of the buffer that is never handed out."""


class RowBuffers:
    """Buffers ``[LENT + 1, N, D]`` for ``Engine.attach``.

    A caller holds a buffer while any array or tensor that shares its memory is referenced. Every such array refers to
    the flat array of its buffer, because numpy follows the bases of a view only as far as they are arrays; so the
    reference count of the flat array tells whether it is held.
    """

    def __init__(self, rows: int, width: int, device: str) -> None:
        shape = (LENT + 1, rows, width)
        self.row = SPARE
        """Index of the buffer that is written."""
        self._shape, self._on_cpu = shape[1:], device == "cpu"
        self._flat: list[NDArray[np.float32]] = []
        if self._on_cpu:
            memory = np.zeros(shape, np.float32)
            self._flat = [np.frombuffer(memoryview(buffer.reshape(-1)), np.float32) for buffer in memory[:LENT]]
            self.array = wp.array(memory, dtype=wp.float32, device="cpu", copy=False)
        else:
            self.array = wp.zeros(shape, dtype=wp.float32, device=device)
        self._references = [sys.getrefcount(flat) for flat in self._flat]

    def advance(self) -> int:
        """Return the index of a buffer that no caller holds, which is written from now on."""
        counts = [sys.getrefcount(flat) for flat in self._flat]
        free = (i for i, (now, idle) in enumerate(zip(counts, self._references, strict=True)) if now == idle)
        self.row = next(free, SPARE)
        return self.row

    def read(self) -> NDArray[np.float32]:
        """Return the written buffer ``[N, D]``, which stays as it is while the caller holds it."""
        if self.row == SPARE:
            return np.array(self.array.numpy()[SPARE])
        return self._flat[self.row].reshape(self._shape)


Floats = NDArray[np.float32]
Infos = dict[str, Any]
Pilots = Callable[[Engine], Sequence[Launch]]
TEAMS: dict[str, Callable[[int], slice]] = {
    "both": lambda half: slice(0, 2 * half), "blue": lambda half: slice(0, half),
    "red": lambda half: slice(half, 2 * half),
}  # fmt: skip
"""Mechs of a side of teams of a given size."""
SIDES = tuple(TEAMS)
SCRIPTS: tuple[str, ...] = get_args(PilotSkill)
"""Scripted pilots by name; the number of a pilot is its index plus 1, as in ``echelon.agents.heuristic``."""
MAX_BATTLES, MAX_MAPS, MAX_THREADS = 10**6, 10**6, 4096


def script_number(script: int | str | None, pilots: Pilots | None) -> int:
    """Return the number of a scripted pilot given by name or number; 0 without ``pilots``."""
    if pilots is None:
        require(script is None or (type(script) is int and script == 0), "script", script, "none without pilots")
        return 0
    if isinstance(script, str) and script in SCRIPTS:
        return SCRIPTS.index(script) + 1
    expected = f"a scripted pilot: one of {', '.join(SCRIPTS)}, or its number from 1 to {len(SCRIPTS)}"
    valid = isinstance(script, (int, np.integer)) and not isinstance(script, bool) and 1 <= script <= len(SCRIPTS)
    require(valid, "script", script, expected)
    return int(script)  # pyright: ignore[reportArgumentType]


def autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the autoreset mode given as a member or by name: ``SAME_STEP`` or ``SameStep``."""
    named = {name: known for known in AutoresetMode for name in (known, known.name, known.value)}
    expected = f"one of {', '.join(known.name for known in AutoresetMode)}"
    require(isinstance(mode, (AutoresetMode, str)) and mode in named, "autoreset", mode, expected)
    return named[mode]


class _Ends(NamedTuple):
    """Flags ``[N]`` and infos of the battles that ended in a step."""

    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    infos: Infos


class EchelonVectorEnv(gymnasium.vector.VectorEnv[Floats, Floats, NDArray[Any]]):
    """``battles`` battles at once; ``num_envs`` = battles x learning agents.

    ``side`` is the team controlled by the caller. For ``"blue"`` or ``"red"``, ``pilots`` control the other team with
    the scripted pilot ``script`` (``echelon.agents.heuristic``); ``"both"`` is self-play.

    Invalid arguments and actions, a step before ``reset`` and any call after ``close`` raise ``ValueError``.

    ``autoreset`` is a Gymnasium mode:

    - ``SAME_STEP`` (default): in the step that ends a battle, its agents get the first observation of the next one.
      ``infos`` has ``final_obs`` (an object array, None elsewhere, masked by ``_final_obs``) and ``final_info`` with
      winner, reason and zone scores.
    - ``NEXT_STEP``, needed by Gymnasium's observation wrappers: that step returns the last observation, and the outcome
      in ``infos``. The next step resets the battle, ignoring its actions, with reward 0.
    - ``DISABLED``: the caller resets battles with ``reset(options={"reset_mask": mask})``.

    All agents of a battle end together. A mech that dies earlier observes zeros and its actions have no effect, but it
    gets the terminal reward of its team. A time limit truncates the living and terminates the dead; any other end
    terminates everyone.

    ``infos`` has plain arrays in every step: ``alive [N] bool``, the living in the returned observations; ``acted [N]
    bool``, those that were alive to carry out this step's action (learn from these); ``outcome [N] int8``, 1 a win, 0 a
    draw, -1 a loss, where ``_outcome [N] bool`` marks the end of a battle.

    >>> import numpy as np
    >>> from echelon.agents import heuristic
    >>> from echelon.config import EnvConfig, WorldConfig
    >>> from echelon.env.gym_vector import EchelonVectorEnv
    >>> config = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=5.0, obs_layout="classic")
    >>> envs = EchelonVectorEnv(
    ...     4, config, side="blue", pilots=heuristic.install, script="medium", maps=2
    ... )
    >>> envs.num_envs, envs.single_observation_space.shape, envs.single_action_space.shape
    (20, (549,), (18,))
    >>> observations, infos = envs.reset(seed=7)
    >>> finals = []
    >>> for _ in range(20):
    ...     observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    ...     finals += [row for row in infos.get("final_obs", []) if row is not None]
    >>> len(finals) >= envs.num_envs, finals[0].shape
    (True, (549,))
    >>> envs.close()
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
    render_mode = None
    __reduce_ex__ = refuse_copy

    def __init__(
        self,
        battles: int = 1,
        config: EnvConfig | None = None,
        *,
        side: str = "both",
        pilots: Pilots | None = None,
        script: int | str | None = None,
        maps: int = 16,
        seed: int = 0,
        device: str = "cpu",
        threads: int = 0,
        autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        battles = require_int(battles, "battles", 1, MAX_BATTLES)
        maps = require_int(maps, "maps", 1, MAX_MAPS)
        seed = require_seed(seed)
        threads = require_int(threads, "threads", 0, MAX_THREADS)
        require(side in SIDES, "side", side, f"one of {', '.join(SIDES)}")
        if side == "both":
            require(pilots is None, "pilots", pilots, "none for side 'both', where the caller controls both teams")
        else:
            require(
                callable(pilots), "pilots", pilots, f"a function that installs the pilots of the side other than {side}"
            )
        script = script_number(script, pilots)
        mode, cfg = autoreset_mode(autoreset), require_config(config)
        map_seeds = [draw_u32(seed, StreamId.MAP, 0, i, 1) % EVAL_SEED_BASE for i in range(maps)]
        bank = build_bank_for(cfg, map_seeds)
        engine = Engine(cfg, battles, bank, device=device, threads=threads, seed=seed, autoreset=False, pilots=pilots)
        self._connect(engine, side, mode)
        self._assign(script)

    def _connect(self, engine: Engine, side: str, autoreset: AutoresetMode) -> None:
        self.engine, self.autoreset = engine, autoreset
        self.metadata = {**self.metadata, "autoreset_mode": autoreset}
        self.config = cfg = engine.cfg
        half, battles = cfg.team_size, engine.num_envs
        self._team = TEAMS[side](half)
        controlled = range(2 * half)[self._team]
        names = [f"{team}_{i}" for team in WINNERS[:2] for i in range(half)]
        self.battle_of = np.repeat(np.arange(battles), len(controlled))
        """Battle of each sub-environment ``[N]``."""
        self.mech_of = np.tile(np.array(controlled), battles)
        """Mech of each sub-environment within its battle ``[N]``."""
        self.agents = [names[m] for m in self.mech_of]
        self.num_envs = len(self.agents)
        self._is_red = self.mech_of >= half
        self._was_reset = False
        self._views: dict[str, NDArray[Any]] = {}
        self._over = np.zeros(battles, bool)
        self._seeds = np.zeros(self.num_envs, np.int64)
        device, width = engine.batch.device, engine.obs_dim
        self._rows = RowBuffers(self.num_envs, width, device)
        engine.attach(self._rows.array, wp.zeros((1, self.num_envs, width), dtype=wp.float32, device=device))
        low, high = layout.bounds(cfg)
        self.single_observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (engine.action_dim,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _assign(self, script: int) -> None:
        batch = self.engine.batch
        rows = np.full((self.engine.num_envs, self.engine.num_mechs), -1, np.int32)
        rows[self.battle_of, self.mech_of] = np.arange(self.num_envs)
        batch.set("row_of", rows)
        if "script" in batch.fields:
            batch.set("script", np.where(rows >= 0, 0, script).astype(np.int32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, Infos]:
        """Begin an episode in every battle; ``seed``, of 64 bits, determines this and all later episodes.

        The only option is ``reset_mask`` ``[N] bool``, which must be equal for all agents of a battle: battles where it
        is False are not reset. Raises ``ValueError`` for anything else.
        """
        self._require_open()
        options = dict(options) if isinstance(options, Mapping) else options
        mask = options.pop("reset_mask", None) if options else None
        reject_options(options)
        if seed is not None:
            seed = require_seed(seed)
            require(mask is None, "seed", seed, "none with a reset_mask, since it seeds all battles")
        chosen = np.ones_like(self._over) if mask is None else self._battles(mask)
        if mask is None:
            super().reset(seed=seed)
            if seed is not None:
                self.engine.batch.set("run_seed", np.array([seed], np.uint32))
                self.engine.batch["episode"].zero_()
            self._begin(seed)
        self.engine.reset(self._rows.advance(), mask=None if mask is None else chosen)
        if mask is not None:
            self._after_step(chosen)
        self._over &= ~chosen
        self._was_reset = True
        self._seeds = self._episode_seeds()
        return self._rows.read(), self._infos()

    def _begin(self, seed: int | None) -> None:
        """Prepare the reset of all battles, for subclasses; ``seed`` is None where the episodes go on."""

    def _play(self) -> None:
        self.engine.run("decision")

    def _after_step(self, fresh: NDArray[np.bool_]) -> None:
        """Follow a step, or a reset by mask, which began an episode in the battles ``fresh [E]``, for subclasses."""

    def _battles(self, mask: Any) -> NDArray[np.bool_]:
        """Return the battles ``[E]`` of a mask of sub-environments, which must be equal for all agents of a battle."""
        if not self._was_reset:
            raise ValueError("the environments have not been reset, call reset() without a reset_mask first")
        fits = isinstance(mask, np.ndarray) and mask.shape == (self.num_envs,) and mask.dtype == bool
        require(fits, "reset_mask", mask, f"a bool array of {self.num_envs}")
        rows = mask.reshape(len(self._over), -1)
        equal = bool((rows.all(1) == rows.any(1)).all())
        require(
            equal, "reset_mask", mask.nonzero()[0].tolist(), "all agents of a battle or none, since they end together"
        )
        return np.asarray(rows.all(1), bool)

    def _require_open(self) -> None:
        if self.closed:
            raise ValueError("the environments are closed, make new ones to continue")

    def step(self, actions: Floats) -> tuple[Floats, NDArray[Any], NDArray[Any], NDArray[Any], Infos]:
        """Play one environment step in every battle; ``actions`` is ``[N, A]``, ``ValueError`` for anything else."""
        self._require_open()
        if not self._was_reset:
            raise ValueError("the environments have not been reset, call reset() first")
        shape = (self.num_envs, self.engine.action_dim)
        actions = action_values(actions, "actions", f"numbers of shape {shape}")
        require(actions.shape == shape, "actions", actions.shape, f"shape {shape}")
        waiting = self._over
        if waiting.any() and self.autoreset is AutoresetMode.DISABLED:
            names = ", ".join(str(battle) for battle in np.flatnonzero(waiting))
            raise ValueError(f"battle {names} is over, call reset(options={{'reset_mask': mask}}) before the next step")
        self._write_actions(actions)
        self.engine.set_row(self._rows.advance())
        self._play()
        over = self._read("over") == 1
        fresh = over if self.autoreset is AutoresetMode.SAME_STEP else waiting
        rewards, acted = self._per_agent("reward"), self._per_agent("acting") == 1
        if waiting.any():
            idle = waiting[self.battle_of]
            rewards[idle], acted[idle] = 0.0, False
        ends = self._ends(over) if over.any() else self._no_ends()
        if fresh.any():
            self.engine.renew(fresh)
            self._seeds = self._episode_seeds()
        self._after_step(fresh)
        self._over = over & ~fresh
        infos = {**self._infos(), "acted": acted, "_acted": self._every(), **ends.infos}
        return self._rows.read(), rewards, ends.terminated, ends.truncated, infos

    def _write_actions(self, actions: Floats) -> None:
        batch = self.engine.batch
        whole = self._read("actions")
        whole[:, self._team] = actions.reshape(len(whole), -1, actions.shape[1])
        if batch.device != "cpu":
            batch.set("actions", whole)

    def _read(self, name: str) -> NDArray[Any]:
        """Return an array of the batch: a view on the CPU, looked up once, a copy from a GPU."""
        if name in self._views:
            return self._views[name]
        values = self.engine.batch.numpy(name)
        if self.engine.batch.device == "cpu":
            self._views[name] = values
        return values

    def _per_agent(self, name: str) -> NDArray[Any]:
        """Return a copy of the entries of a field ``[battle, mech]`` for the sub-environments ``[N]``."""
        return self._read(name)[:, self._team].flatten()

    def _every(self) -> NDArray[np.bool_]:
        """Return the mask of an entry that every sub-environment has ``[N]``."""
        return np.ones(self.num_envs, bool)

    def _infos(self) -> Infos:
        """Return the infos of the observations just returned, with Gymnasium's masks."""
        alive = self._per_agent("alive") == 1
        return {"alive": alive, "_alive": self._every(), "seed": self._seeds.copy(), "_seed": self._every()}

    def _episode_seeds(self) -> NDArray[np.int64]:
        """Return the seed of each sub-environment's battle ``[N]``."""
        return self._read("seed")[self.battle_of].astype(np.int64)

    def _no_ends(self) -> _Ends:
        none = np.zeros((3, self.num_envs), bool)
        return _Ends(none[0], none[1], {"outcome": np.zeros(self.num_envs, np.int8), "_outcome": none[2]})

    def _ends(self, over: NDArray[np.bool_]) -> _Ends:
        """Return the flags of a step in which the battles ``over [E]`` ended, before they are reset."""
        ended = over[self.battle_of]
        terminated, truncated = ((self._per_agent(name) == 1) & ended for name in ("terminated", "truncated"))
        winner = self._read("winner")[self.battle_of]
        sign = np.where(winner == DRAW, 0, np.where(winner == self._is_red, 1, -1))
        outcome: Infos = {
            "winner": np.array([WINNERS[w] for w in self._read("winner")], object)[self.battle_of],
            "reason": np.array([REASONS[r] for r in self._read("reason")], object)[self.battle_of],
            "zone_score": self._read("score")[self.battle_of].astype(np.float64),
        }
        outcome["winner"][~ended] = None
        outcome["reason"][~ended] = None
        outcome |= {f"_{name}": ended.copy() for name in outcome}
        if self.autoreset is AutoresetMode.SAME_STEP:
            outcome = self._final_infos(ended, outcome)
        plain = {"outcome": np.where(ended, sign, 0).astype(np.int8), "_outcome": ended.copy()}
        return _Ends(terminated, truncated, {**plain, **outcome})

    def _final_infos(self, ended: NDArray[np.bool_], outcome: Infos) -> Infos:
        """Return final observations and outcomes of the sub-environments that ended ``[N]``."""
        rows = self._rows.read()
        last = np.full(self.num_envs, None, dtype=object)
        for n in np.flatnonzero(ended):
            last[n] = rows[n].copy()
        alive = {"alive": self._per_agent("alive") == 1, "_alive": ended.copy()}
        return {"final_obs": last, "_final_obs": ended, "final_info": {**outcome, **alive}, "_final_info": ended.copy()}

    def render(self) -> None:
        """Do nothing; matches are watched as replays."""
        return

    def close_extras(self, **kwargs: Any) -> None:
        self.engine.close()
