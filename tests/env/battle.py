"""An engine for tests: whole environment steps with mechs placed by the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from echelon.config import EnvConfig, WorldConfig
from echelon.env.engine import Engine
from echelon.env.reward import TERMS, Term
from echelon.sim.backend import Launch
from tests.sim.flat_field import Edit, Scene, flat_maps


class Battle(Scene):
    """An engine that observes every mech, at row ``env * mechs + mech``, without automatic reset."""

    def __init__(
        self, *, envs: int = 1, edit: Edit | None = None, maps: Any = None, own_maps: bool = False, threads: int = 1,
        seed: int = 0, size: int = 60, autoreset: bool = False, changes: Any = None,
        pilots: Callable[[Engine], Sequence[Launch]] | None = None, terms: Sequence[Term] = TERMS, **env: Any,
    ) -> None:  # fmt: skip
        self.cfg = replace(EnvConfig(world=WorldConfig(size_x=size, size_y=size, size_z=20)), **env)
        maps = maps or flat_maps(self.cfg, edit, envs if own_maps else 1)
        self.engine = Engine(
            self.cfg, envs, maps, threads=threads, seed=seed, autoreset=autoreset, pilots=pilots, changes=changes,
            terms=terms,
        )  # fmt: skip
        self.batch = self.engine.batch
        if own_maps:
            self.batch.set("forced_slot", np.arange(envs, dtype=np.int32))
        mechs = self.cfg.num_mechs
        self.rows = np.zeros((1, envs * mechs, self.engine.obs_dim), np.float32)
        self.final_rows = np.zeros_like(self.rows)
        self.engine.attach(self.rows, self.final_rows)
        self.batch.set("row_of", np.arange(envs * mechs, dtype=np.int32).reshape(envs, mechs))
        self.engine.reset()

    @property
    def obs(self) -> np.ndarray:
        """Observations ``[E, M, D]``."""
        return self.rows[0].reshape(*self["alive"].shape, -1)

    @property
    def final_obs(self) -> np.ndarray:
        """Final observations, before an automatic reset ``[E, M, D]``."""
        return self.final_rows[0].reshape(*self["alive"].shape, -1)

    def empty(self) -> None:
        self.put("alive", 0)

    def fresh(self) -> Battle:
        """Begin an episode in which every mech is dead, no action is held and no pilot flies; return the battle."""
        self.engine.reset()
        self.empty()
        self.batch["actions"].zero_()
        if "script" in self.batch.fields:
            self.batch["script"].zero_()
            self.batch["weapon_prob"].fill_(1.0)
        return self

    def fly(self, decision: int | None = None) -> None:
        """Let the scripted pilots act, at environment step ``decision`` if given."""
        if decision is not None:
            self.batch["decision"].fill_(decision)
        self.engine.run("pilots")

    def step(self, actions: np.ndarray | None = None) -> None:
        """Play one environment step, with ``actions`` or the current ones."""
        if actions is not None:
            self.batch.set("actions", np.asarray(actions, np.float32))
        self.engine.step()

    def observe(self) -> None:
        self.engine.run("observe")
