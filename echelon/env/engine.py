"""One batched engine: the whole decision as a program over a batch of battles, from action vectors to observations.

``Engine`` owns the batch and the order of things in a decision; it knows neither torch nor who the pilots are.
Scripted pilots add their launches through ``pilots``. Observations go into whatever buffer is attached, at the row
that ``row_of`` gives each mech.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.actions import action_dim, action_names
from echelon.config import EnvConfig
from echelon.env import display, layout, referee, reward
from echelon.env import navigation_assist as assist
from echelon.env import suite_allocation as fills
from echelon.env.observe import acoustics as observe_scope
from echelon.env.observe import program as looking
from echelon.env.observe import telemetry_map as observe_telemetry
from echelon.nav.waypoints import install_flow_fields
from echelon.sim import step
from echelon.sim.arsenal import CHASSIS
from echelon.sim.backend import Launch, Program, Runner, in_phase
from echelon.sim.batch import Batch, Maps
from echelon.sim.overrides import Changes
from echelon.sim.state import TRACKS, Field

MECH = "EM"
THREAT_WEIGHTS = (0.5, 0.7, 1.0, 1.5)
"""Weight of each chassis in the threat and friendly mass gauges."""

OPPONENT_BUFFERS = {"row_of": "opponent_row_of", "obs": "opponent_obs", "obs_row": "first_row"}
"""Arrays that take the place of the learners' where observations of opponents are written."""

FIELDS: dict[str, Field] = {
    "actions": Field(wp.float32, "EMA", "action vectors"),
    "value": Field(wp.float32, "EM", "value that the pilot expected when it decided, 0 where it does not say"),
    "row_of": Field(wp.int32, "EM", "observation row of each mech, -1 none"),
    "opponent_row_of": Field(wp.int32, "EM", "row of each mech that an opponent's policy flies, -1 none"),
    "bad_obs": Field(wp.int32, "EM", "non-finite entries of the last observation, replaced by 0"),
}


class Engine:
    """A batch of battles that plays whole decisions."""

    def __init__(
        self,
        cfg: EnvConfig,
        num_envs: int,
        maps: Maps,
        *,
        device: str = "cpu",
        threads: int = 0,
        seed: int = 0,
        first_env: int = 0,
        autoreset: bool = True,
        changes: Sequence[Changes] | None = None,
        pilots: Callable[[Engine], Sequence[Launch]] | None = None,
    ) -> None:
        self.cfg = cfg
        self.num_envs = num_envs
        self.num_mechs = cfg.num_mechs
        self.obs_dim = layout.obs_dim(cfg)
        self.action_dim = action_dim(cfg.comm_dim)
        self.action_names, self.term_names = action_names(cfg.comm_dim), reward.TERM_NAMES
        self.autoreset = autoreset
        self._frame: Program = ()
        self._journals = False
        self._opponents_look = False
        self._surveys = any(block.name == "telemetry" for block in layout.blocks(cfg))
        self.batch = Batch(
            cfg, num_envs, maps, device=device, threads=threads, seed=seed, first_env=first_env, changes=changes
        )
        self.batch.lengths["A"] = self.action_dim
        self.batch.lengths["R"] = len(reward.TERM_NAMES)
        self.batch.lengths["G"] = self.batch.backend.lengths["G"] = observe_telemetry.BINS
        self.batch.lengths["D"] = display.memory_decisions(cfg) + 1
        surveyed = observe_telemetry.FIELDS if self._surveys else {}
        optional = (surveyed, observe_scope.fields(cfg), fills.fields(cfg))
        for fields in (FIELDS, TRACKS, referee.FIELDS, reward.FIELDS, *optional):
            self.batch.add_fields(fields)
        self._add_constants()
        self.batch["row_of"].fill_(-1)
        self.batch["opponent_row_of"].fill_(-1)
        self.batch["winner"].fill_(-1)
        self.attach(np.zeros((1, 1, self.obs_dim), np.float32), np.zeros((1, 1, self.obs_dim), np.float32))
        if cfg.nav_mode != "off":
            install_flow_fields(self.batch)
        self._pilots = list(pilots(self)) if pilots else []
        self._runners: dict[str, Runner] = {}
        self.programs: dict[str, Callable[[], Program]] = {
            "decision": self.decision,
            "reset": lambda: [*self.begin("every"), *self.look("every")],
            "reset_chosen": lambda: [*self.begin("chosen"), *self.look("every")],
            "look": lambda: self.look("every"),
            "frame": lambda: self._frame,
        }

    def _add_constants(self) -> None:
        batch = self.batch
        cfg = self.cfg
        norm = cfg.obs_norm
        loudest = max(c.max_speed * c.noise_mass for c in CHASSIS) * (self.num_mechs - 1)
        scale = [norm.vel_scale_xy, norm.vel_scale_z, norm.heat_max_ratio, loudest]
        batch.backend.add({"display": display.pack(cfg)}, per_env=False)
        batch.add_constant("threat", list(THREAT_WEIGHTS), wp.float32)
        batch.add_constant("obs_scale", scale, wp.float32)
        batch.add_constant("obs_row", np.zeros(1, np.int32), wp.int32)
        batch.add_constant("slot_rule", fills.slot_rules(cfg), wp.int32)
        batch.add_constant("first_row", np.zeros(1, np.int32), wp.int32)
        for name, (values, dtype) in {**display.constants(cfg), **reward.constants(cfg)}.items():
            batch.add_constant(name, values, dtype)

    def attach(self, obs: Any, final_obs: Any) -> None:
        """Write observations into ``obs`` ``[T, N, D]`` and final ones into ``final_obs`` ``[1, N, D]``, in place.

        Both may be Warp arrays or float32 numpy arrays on the CPU; captured programs are dropped.
        """
        for name, array in (("obs", obs), ("final_obs", final_obs)):
            if isinstance(array, np.ndarray):
                array = wp.array(array, dtype=wp.float32, device="cpu", copy=False)
            self.batch.backend.add({name: array}, per_env=False)
        self._runners = {}

    def attach_opponents(self, obs: Any) -> None:
        """Write what mechs with an ``opponent_row_of`` see into ``obs`` ``[1, K, D]``, whatever row learners are at."""
        self.batch.backend.add({"opponent_obs": obs}, per_env=False)
        self._opponents_look = True
        self._runners = {}

    def decision(self) -> list[Launch]:
        """Return the whole program of one decision."""
        truncated = self.look("cut", obs="final_obs", obs_row="first_row") if self.cfg.truncation_bootstraps else []
        return [
            *in_phase("pilots", self._pilots),
            *step.read_actions(),
            *reward.before(),
            *in_phase("assist", self._assist()),
            *(launch for _ in range(self.cfg.decision_repeat) for launch in self._tick()),
            *in_phase("referee", [Launch(referee.update_outcome, "E"), Launch(referee.set_done_flags, MECH)]),
            *reward.after(),
            *in_phase("referee", [Launch(referee.accumulate_returns, MECH)]),
            *(observe_telemetry.mended() if self._surveys else []),
            *self._frame,
            *in_phase("final", truncated),
            *(self.begin("over") if self.autoreset else []),
            *self.look("every"),
        ]

    def _assist(self) -> list[Launch]:
        weight = assist.WEIGHT[self.cfg.nav_mode]
        return [Launch(assist.blend_navigation, MECH, {"weight": weight})] if weight else []

    def _tick(self) -> list[Launch]:
        tick = step.tick(recorded=self._journals, landing=self.cfg.physics.landing)
        return observe_telemetry.watched(tick) if self._surveys else tick

    def begin(self, fresh: str) -> list[Launch]:
        """Return the program that begins an episode where array ``fresh`` says so."""
        cleared = in_phase("reset", [Launch(referee.reset_returns, MECH, {"fresh": fresh})])
        cleared += display.begun(self.cfg, fresh)
        return [*step.reset(fresh), *cleared, *(observe_telemetry.begun(fresh) if self._surveys else [])]

    def look(self, fresh: str, **buffers: str) -> list[Launch]:
        """Return the program that senses and observes where array ``fresh`` says so."""
        rows = [looking.show(self.cfg, {"fresh": fresh, **buffers})]
        if self._opponents_look and not buffers:
            rows.append(looking.show(self.cfg, {"fresh": fresh, **OPPONENT_BUFFERS}))
        return [
            *step.look(fresh),
            *display.kept(self.cfg, fresh),
            *observe_scope.listened(self.cfg, fresh),
            *fills.filled(self.cfg, fresh),
            *in_phase("observe", [launch for part in rows for launch in part]),
        ]

    def record(self, envs: Sequence[int], frame: Program = ()) -> None:
        """Keep the journal of ``envs`` and run ``frame`` at each decision's end, before resets; nothing ends it.

        The program ``frame`` runs it alone.
        """
        self._frame, self._journals = frame, bool(envs)
        self.batch.keep_journal(envs)
        self._runners.pop("decision", None)
        self._runners.pop("frame", None)

    def program(self, name: str) -> Program:
        """Return a whole program by name; ``programs`` holds how each is made, and callers may add to it."""
        return self.programs[name]()

    def run(self, name: str) -> None:
        """Run a program, capturing it on first use."""
        self.prepare(name)
        self._runners[name]()

    def prepare(self, name: str) -> None:
        """Capture a program now, so that its first run costs no more than the next."""
        if name not in self._runners:
            self._runners[name] = self.batch.capture(self.program(name))

    def load(self, progress: Callable[[str, int, int], None] | None = None) -> None:
        """Compile every kernel now, reporting ``progress(name, done, total)``."""
        self.batch.backend.load([*self.program("decision"), *self.program("reset")], progress)

    def set_row(self, row: int) -> None:
        """Choose the row of the attached buffer that the next observations go to."""
        self.batch.set("obs_row", np.array([row], np.int32))

    def step(self, row: int = 0) -> None:
        """Play one decision with the actions as they stand; observations go to ``obs[row]``."""
        self.set_row(row)
        self.run("decision")

    def reset(self, row: int = 0, mask: NDArray[np.bool_] | None = None) -> None:
        """Begin episodes everywhere, or where ``mask`` ``[E]`` says so."""
        self.set_row(row)
        if mask is None:
            self.run("reset")
            return
        self.batch.set("chosen", np.asarray(mask, np.int32))
        self.run("reset_chosen")

    def close(self) -> None:
        """Release the shard threads."""
        self.batch.close()
