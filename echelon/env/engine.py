"""One batched engine: an environment step as a program over a batch of battles, from actions to observations.

``Engine`` owns the batch and the order of launches in a step; it knows neither torch nor which policy acts. Scripted
pilots add their launches through ``pilots``. Observations are written into the attached buffer, at row ``row_of``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.actions import ACTION_DIM, ACTION_NAMES, Order
from echelon.config import EnvConfig
from echelon.env import display, layout, navigation_assist, referee, reward, suite_allocation
from echelon.env.match_state import clear_match_state, save_match_state
from echelon.env.observe import acoustics, orders, program, telemetry_map
from echelon.env.observe.helpers import ObsRows, float_rows
from echelon.nav.waypoints import install_flow_fields
from echelon.sim import step
from echelon.sim.backend import Launch, Program, Runner, in_phase
from echelon.sim.batch import Batch, PreparedMaps
from echelon.sim.overrides import Overrides
from echelon.sim.state import TRACKS, Field
from echelon.sim.structs import fields_of

MECH = "EM"
OPPONENT_BUFFERS = {"row_of": "opponent_row_of", "obs": "opponent_obs", "obs_row": "first_row"}
"""Arrays that replace the learners' for the observations of opponents' policies."""
RECORDED_PROGRAMS = ("decision", "after_pilots", "tick", "end_step", "frame")
"""Programs that recording changes."""

FIELDS: dict[str, Field] = {
    "actions": Field(wp.float32, "EMA", "action vectors"),
    "value": Field(wp.float32, "EM", "value that the policy estimated when it acted, 0 without one"),
    "row_of": fields_of(ObsRows)["row_of"],
    "opponent_row_of": Field(wp.int32, "EM", "row of each mech that an opponent's policy controls, -1 none"),
    "bad_obs": Field(wp.int32, "EM", "non-finite entries of the last observation, replaced by 0"),
}


class Engine:
    """A batch of battles that plays whole environment steps."""

    def __init__(
        self,
        cfg: EnvConfig,
        num_envs: int,
        maps: PreparedMaps,
        *,
        device: str = "cpu",
        threads: int = 0,
        seed: int = 0,
        first_env: int = 0,
        autoreset: bool = True,
        changes: Sequence[Overrides] | None = None,
        pilots: Callable[["Engine"], Sequence[Launch]] | None = None,
        terms: Sequence[reward.Term] = reward.TERMS,
    ) -> None:
        self.cfg = cfg
        self.num_envs = num_envs
        self.num_mechs = cfg.num_mechs
        self.obs_dim = layout.obs_dim(cfg)
        self.action_dim = ACTION_DIM
        self.action_names, self.term_names = ACTION_NAMES, reward.term_names(terms)
        self._terms = terms
        self.autoreset = autoreset
        self._frame: Program = ()
        self._keeps_journal = False
        self._observes_opponents = False
        self._has_telemetry = any(block.name == "telemetry" for block in layout.blocks(cfg))
        self.batch = Batch(
            cfg, num_envs, maps, device=device, threads=threads, seed=seed, first_env=first_env, changes=changes
        )
        self.batch.lengths["A"] = self.action_dim
        self.batch.lengths["R"] = len(self.term_names)
        self.batch.lengths["G"] = self.batch.backend.lengths["G"] = telemetry_map.BINS
        self.batch.lengths["D"] = display.memory_decisions(cfg) + 1
        telemetry_fields = telemetry_map.FIELDS if self._has_telemetry else {}
        optional = (telemetry_fields, acoustics.fields(cfg), suite_allocation.fields(cfg))
        for fields in (FIELDS, TRACKS, referee.FIELDS, reward.FIELDS, orders.FIELDS, *optional):
            self.batch.add_fields(fields)
        self._add_constants()
        self.batch["row_of"].fill_(-1)
        self.batch["opponent_row_of"].fill_(-1)
        self.batch["winner"].fill_(-1)
        self.attach(np.zeros((1, 1, self.obs_dim), np.float32), np.zeros((1, 1, self.obs_dim), np.float32))
        install_flow_fields(self.batch)
        self._pilots = list(pilots(self)) if pilots else []
        self.own_fields = frozenset(self.batch.fields)
        """Names of the arrays per environment that the engine and its pilots declare; callers may add further ones."""
        self._runners: dict[str, Runner] = {}
        self.programs: dict[str, Callable[[], Program]] = {
            "decision": self.decision,
            "pilots": lambda: in_phase("pilots", self._pilots),
            "after_pilots": self.after_pilots,
            "begin_step": self.begin_step,
            "tick": self._tick,
            "end_step": self.end_step,
            "reset": lambda: [*self.reset_program("every"), *self.observe_program("every")],
            "reset_chosen": lambda: [*self.reset_program("chosen"), *self.observe_program("every")],
            "renew": lambda: [*self.reset_program("chosen"), *self.observe_program("chosen")],
            "observe": lambda: self.observe_program("every"),
            "frame": lambda: self._frame,
        }

    def _add_constants(self) -> None:
        rules = {"display": display.display_rules(self.cfg), "reward_rules": reward.reward_rules(self.cfg)}
        self.batch.backend.add(rules, per_env=False)
        self.batch.add_constant("obs_row", np.zeros(1, np.int32), wp.int32)
        self.batch.add_constant("first_row", np.zeros(1, np.int32), wp.int32)
        self.batch.add_constant("order_rate", np.zeros(1, np.float32), wp.float32)
        for name, (values, dtype) in {**display.constants(self.cfg), **reward.constants(self.cfg, self._terms)}.items():
            self.batch.add_constant(name, values, dtype)

    def attach(self, obs: Any, final_obs: Any) -> None:
        """Write observations into ``obs`` ``[T, N, D]`` and final ones into ``final_obs`` ``[1, N, D]``, in place.

        Both are Warp arrays of float32 or bfloat16, or float32 numpy arrays on the CPU. Captured programs are dropped.
        """
        for name, array in (("obs", obs), ("final_obs", final_obs)):
            if isinstance(array, np.ndarray):
                array = wp.array(array, dtype=wp.float32, device="cpu", copy=False)
            self.batch.backend.add({name: float_rows(array)}, per_env=False)
        self._runners = {}

    def attach_opponents(self, obs: Any) -> None:
        """Write the observations of mechs with an ``opponent_row_of`` into ``obs`` ``[1, K, D]``."""
        self.batch.backend.add({"opponent_obs": obs}, per_env=False)
        self._observes_opponents = True
        self._runners = {}

    def decision(self) -> list[Launch]:
        return [*self.program("pilots"), *self.after_pilots()]

    def after_pilots(self) -> list[Launch]:
        ticks = (launch for _ in range(self.cfg.decision_repeat) for launch in self._tick())
        return [*self.begin_step(), *ticks, *self.end_step()]

    def begin_step(self) -> list[Launch]:
        share, before = navigation_assist.ROUTE_SHARE[self.cfg.nav_mode], [Launch(reward.store_potential, "EM")]
        assist = [Launch(navigation_assist.blend_navigation, MECH, {"route_share": share})] if share else []
        return [*step.read_actions(), *in_phase("reward", before), *in_phase("assist", assist)]

    def end_step(self) -> list[Launch]:
        final = []
        if self.cfg.truncation_bootstraps and self.autoreset:
            final = self.observe_program("timed_out", obs="final_obs", obs_row="first_row")
        return [
            *in_phase("referee", [Launch(referee.update_outcome, "E"), Launch(referee.set_done_flags, MECH)]),
            *reward.reward_launches(self._terms),
            *in_phase("referee", [Launch(referee.accumulate_returns, MECH)]),
            *(telemetry_map.update_launches() if self._has_telemetry else []),
            *self._frame,
            *in_phase("final", final),
            *(self.reset_program("over") if self.autoreset else []),
            *self.observe_program("every"),
        ]

    def _tick(self) -> list[Launch]:
        spread = self.batch.device != "cpu"
        tick = step.tick(recorded=self._keeps_journal, landing=self.cfg.landing, spread=spread)
        return telemetry_map.with_damage_marks(tick) if self._has_telemetry else tick

    def reset_program(self, fresh: str) -> list[Launch]:
        return [
            *step.reset(fresh),
            *in_phase("reset", [Launch(referee.reset_returns, MECH, {"fresh": fresh})]),
            *orders.reset_launches(fresh),
            *display.reset_launches(self.cfg, fresh),
            *(telemetry_map.reset_launches(fresh) if self._has_telemetry else []),
        ]

    def observe_program(self, fresh: str, **buffers: str) -> list[Launch]:
        """Return the program that senses and writes observations in the environments that array ``fresh`` marks.

        ``buffers`` replaces the arrays ``obs``, ``obs_row`` and ``row_of`` by others, by name.
        """
        rows = program.observe_launches(self.cfg, {"fresh": fresh, **buffers})
        if self._observes_opponents and not buffers:
            rows += program.observe_launches(self.cfg, {"fresh": fresh, **OPPONENT_BUFFERS})
        return [
            *step.sense(fresh),
            *orders.update_launches(fresh),
            *display.update_launches(self.cfg, fresh),
            *acoustics.update_launches(self.cfg, fresh),
            *suite_allocation.allocation_launches(self.cfg, fresh),
            *in_phase("observe", rows),
        ]

    def record(self, envs: Sequence[int], frame: Program = ()) -> None:
        """Keep the journal of ``envs`` and run ``frame`` at the end of each step, before resets.

        The program ``frame`` runs it alone.
        """
        self._frame, self._keeps_journal = frame, bool(envs)
        self.batch.keep_journal(envs)
        for name in RECORDED_PROGRAMS:
            self._runners.pop(name, None)

    def program(self, name: str) -> Program:
        """Return a whole program by name; ``programs`` maps names to builders, and callers may add to it."""
        return self.programs[name]()

    def run(self, name: str) -> None:
        self.prepare(name)
        self._runners[name]()

    def prepare(self, name: str) -> None:
        if name not in self._runners:
            self._runners[name] = self.batch.capture(self.program(name))

    def load(self, progress: Callable[[str, int, int], None] | None = None) -> None:
        """Compile every kernel now, calling ``progress(name, done, total)``."""
        self.batch.backend.load([*self.program("decision"), *self.program("reset")], progress)

    def set_row(self, row: int) -> None:
        self.batch["obs_row"].fill_(row)

    def step(self, row: int = 0, program: str = "decision") -> None:
        """Play one environment step with the current actions; observations go to ``obs[row]``.

        Program ``after_pilots`` plays a step whose scripted pilots have acted in program ``pilots``.
        """
        self.set_row(row)
        self.run(program)

    def reset(self, row: int = 0, mask: NDArray[np.bool_] | None = None) -> None:
        """Begin episodes in all environments, or where ``mask`` ``[E]`` is set."""
        self.set_row(row)
        if mask is None:
            self.run("reset")
            return
        self.batch.set("chosen", np.asarray(mask, np.int32))
        self.run("reset_chosen")

    def renew(self, mask: NDArray[np.bool_]) -> None:
        """Begin episodes where ``mask`` ``[E]`` is set, and write only their observations, to the current row."""
        self.batch.set("chosen", np.asarray(mask, np.int32))
        self.run("renew")

    def give_orders(self, given: Mapping[tuple[int, int], tuple[Order, int]]) -> None:
        """Give orders from the next step on, and observe again: by environment and mech, with the mech named, -1 none.

        A mech that has the order already keeps it. ``ValueError`` for an order that names no mech that it can.
        """
        batch = self.batch
        arrays = {name: batch.numpy(name).copy() for name in orders.GIVEN}
        pos, decision = batch.numpy("pos"), batch.numpy("decision")
        for (e, m), (order, named) in given.items():
            orders.check_order(batch, e, m, order, named)
            row = (int(order), named, pos[e, m], decision[e])
            if tuple(arrays[name][e, m] for name in orders.GIVEN[:2]) != row[:2]:
                for values, value in zip(arrays.values(), row, strict=True):
                    values[e, m] = value
        for name, values in arrays.items():
            batch.set(name, values)
        self.run("observe")

    def clear(self, mask: NDArray[np.bool_] | None = None) -> None:
        """Clear what earlier matches left in all environments, or where ``mask`` ``[E]`` is set, before their reset."""
        clear_match_state(self, mask)

    def match_state(self, env: int) -> dict[str, NDArray[Any]]:
        """Return a copy of the exact state of an environment between two steps, for a STATE record."""
        return save_match_state(self, env)

    def close(self) -> None:
        self.batch.close()
