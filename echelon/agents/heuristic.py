"""Scripted pilots as batched kernels: five skill levels, and a policy object over them.

Array ``script`` assigns a pilot to each mech: 0 none, else its index in ``SKILLS`` plus 1; the kernels fill the rows of
the action array of these mechs. ``weapon_prob`` scales the probability that triggers are pulled at all. The levels are
rows of ``levels`` and know what ``tracks`` records of their senses.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from echelon.agents import (
    collision_avoidance,
    levels,
    steering,
    systems_control,
    tactics,
    targets,
    tracks,
    weapons_control,
)
from echelon.agents.levels import SKILLS, script_of
from echelon.agents.memory import CALL_FIELDS, FIELDS
from echelon.nav.waypoints import install_flow_fields
from echelon.sim.backend import Launch

if TYPE_CHECKING:
    from echelon.env.engine import Engine
    from echelon.env.env import EchelonEnv

__all__ = ["FIELDS", "SKILLS", "HeuristicPolicy", "install", "script_of"]


def install(engine: "Engine") -> list[Launch]:
    """Add the pilots' arrays to ``engine`` and return their launches; pass this function as its ``pilots``."""
    batch = engine.batch
    batch.lengths["H"] = levels.history_decisions(engine.cfg.dt_act)
    batch.add_fields(FIELDS)
    batch.backend.add_alias("crew", "script")
    install_flow_fields(batch)
    batch["weapon_prob"].fill_(1.0)
    batch.add_constant("skills", levels.pack_levels(engine.cfg.dt_act), levels.Skill)
    return [*perception_program(), *targeting_program(), *action_program()]


def perception_program() -> list[Launch]:
    return [
        Launch(steering.reset_pilots, "EM"),
        Launch(steering.detect_stuck, "EM"),
        Launch(tracks.record_perception, "EM"),
        Launch(tracks.update_tracks, "EP"),
        Launch(tracks.record_history, "EM"),
        Launch(targets.choose_pack_targets, "EP"),
    ]


def targeting_program() -> list[Launch]:
    return [Launch(targets.choose_target, "EM")]


def action_program() -> list[Launch]:
    return [
        Launch(tactics.plan_movement, "EM"),
        Launch(collision_avoidance.avoid_collisions, "EM"),
        Launch(steering.steer, "EM"),
        Launch(weapons_control.control_weapons, "EM"),
        Launch(systems_control.control_systems, "EM"),
        Launch(systems_control.deploy_smoke, "EM"),
    ]


class HeuristicPolicy:
    """A scripted pilot for an ``EchelonEnv``: ``act`` returns the action vector of one agent.

    ``skill`` is a name in ``SKILLS``; ``weapon_fire_prob``, the probability that triggers are kept, may be changed at
    run time.
    """

    def __init__(self, weapon_fire_prob: float = 1.0, skill: str = "medium") -> None:
        if not 0.0 <= weapon_fire_prob <= 1.0:
            raise ValueError(f"weapon_fire_prob is {weapon_fire_prob!r}, expected 0 to 1")
        self.weapon_fire_prob = weapon_fire_prob
        self.skill = skill
        self.script = script_of(skill)

    def act(self, env: "EchelonEnv", agent_id: str) -> NDArray[np.float32]:
        """Return the action float32[A] of an agent, zeros if it is dead; raise ``ValueError`` for an unknown agent."""
        if agent_id not in env.possible_agents:
            raise ValueError(f"agent {agent_id!r} does not exist, expected one of {env.possible_agents}")
        engine = env.engine
        batch = engine.batch
        if "pilots_perceive" not in engine.programs:
            install(engine)
            batch.add_fields(CALL_FIELDS)
            batch["pilot_episode"].fill_(-1)
            engine.programs.update(
                pilots_perceive=perception_program, pilots_target=targeting_program, pilots_act=action_program
            )
        self._begin_decision(engine)
        mech = env.possible_agents.index(agent_id)
        script, crew = np.zeros((1, engine.num_mechs), np.int32), batch.numpy("crew").copy()
        has_target = crew[0, mech] == self.script
        script[0, mech] = crew[0, mech] = self.script
        batch.set("script", script)
        batch.set("crew", crew)
        batch["weapon_prob"].fill_(self.weapon_fire_prob)
        if not has_target:
            engine.run("pilots_target")
        engine.run("pilots_act")
        return batch.numpy("actions")[0, mech].copy()

    def _begin_decision(self, engine: "Engine") -> None:
        """Run perception and targeting of all pilots of the last decision, once per decision.

        So packmates know each other's targets of this decision, as they do where all pilots act at once.
        """
        batch = engine.batch
        last = batch.numpy("pilot_episode")[0], batch.numpy("pilot_decision")[0]
        now = batch.numpy("episode")[0], batch.numpy("decision")[0]
        if last == now:
            return
        if last[0] != now[0]:
            batch["crew"].zero_()
        engine.run("pilots_perceive")
        batch.set("script", batch.numpy("crew").copy())
        engine.run("pilots_target")
        batch["pilot_episode"].fill_(int(now[0]))
        batch["pilot_decision"].fill_(int(now[1]))
