"""Scripted pilots: the ``legacy`` baseline as one batched kernel, and a policy object over it.

The baseline is omniscient: it walks to the zone, always faces the nearest enemy, fires what is in reach, vents when
hot, and backs out when stuck. Handicap: with probability 1 - ``weapon_prob`` its weapon triggers are cleared.
Mechs with ``script`` 1 are flown by it; the kernel fills their rows of the action array.
"""

# ruff: noqa: E501
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.agents.legacy import CONSTANTS, fly_legacy, forget_pilots, watch_progress
from echelon.sim.backend import Launch
from echelon.sim.state import Field

if TYPE_CHECKING:
    from echelon.env.engine import Engine
    from echelon.env.env import EchelonEnv

FIELDS: dict[str, Field] = {
    "script": Field(wp.int32, "EM", "1 if a scripted pilot flies the mech"),
    "weapon_prob": Field(wp.float32, "E", "chance that a scripted pilot's triggers are kept"),
    "pilot_pos": Field(wp.vec3, "EM", "position at the last decision [vox]"),
    "pilot_throttle": Field(wp.float32, "EM", "planar throttle last commanded"),
    "pilot_stuck_s": Field(wp.float32, "EM", "time without progress [s]"),
    "pilot_phase": Field(wp.int32, "EM", "0 normal, 1 backing out, 2 sidestepping"),
    "pilot_timer_s": Field(wp.float32, "EM", "time left in the manoeuvre [s]"),
    "pilot_side": Field(wp.float32, "EM", "side of the sidestep, 1 or -1"),
    "pilot_decision": Field(wp.int32, "E", "decision the pilots last saw"),
}
SKILLS = ("legacy",)
"""Levels of scripted pilots that exist."""


def install(engine: Engine) -> list[Launch]:
    """Add the pilots' arrays to ``engine`` and return their launches; pass this as its ``pilots``."""
    engine.batch.add_fields(FIELDS)
    engine.batch["weapon_prob"].fill_(1.0)
    engine.batch.add_constant("pilot_dials", np.array(CONSTANTS, np.float32), wp.float32)
    return [
        Launch(forget_pilots, "EM"),
        Launch(watch_progress, "EM"),
        Launch(fly_legacy, "EM"),
    ]


class HeuristicPolicy:
    """A scripted pilot for an ``EchelonEnv``: ``act`` returns the action vector of one agent.

    ``skill`` is a name in ``SKILLS``; ``weapon_fire_prob`` may be changed at run time.
    """

    def __init__(self, weapon_fire_prob: float = 0.5, skill: str = "legacy") -> None:
        if skill not in SKILLS:
            raise ValueError(f"skill {skill!r} does not exist, wanted one of: {', '.join(SKILLS)}")
        if not 0.0 <= weapon_fire_prob <= 1.0:
            raise ValueError(f"weapon_fire_prob is {weapon_fire_prob!r}, wanted 0 to 1")
        self.weapon_fire_prob = weapon_fire_prob
        self.skill = skill

    def act(self, env: EchelonEnv, agent_id: str) -> NDArray[np.float32]:
        """Return ``float32[A]`` for an agent; zeros if it is dead. Raises ``ValueError`` for an unknown one."""
        if agent_id not in env.possible_agents:
            raise ValueError(f"agent {agent_id!r} does not exist, wanted one of {env.possible_agents}")
        engine = env.engine
        batch = engine.batch
        if "pilots_watch" not in engine.programs:
            forget, watch, fly = install(engine)
            engine.programs["pilots_watch"] = lambda: [forget, watch]
            engine.programs["pilots_fly"] = lambda: [fly]
            batch["script"].fill_(1)
            batch["pilot_decision"].fill_(-1)
        decision = int(batch.numpy("decision")[0])
        if int(batch.numpy("pilot_decision")[0]) != decision:
            engine.run("pilots_watch")
            batch["pilot_decision"].fill_(decision)
        batch["weapon_prob"].fill_(self.weapon_fire_prob)
        engine.run("pilots_fly")
        return batch.numpy("actions")[0, env.possible_agents.index(agent_id)].copy()
