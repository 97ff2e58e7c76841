"""Scripted pilots as batched kernels: the ``legacy`` baseline and five skill levels, and a policy object over them.

``script`` of a mech says who flies it: 0 nobody here, else a place in ``SKILLS`` plus 1; the kernels fill the rows of
the action array of the mechs they fly. ``weapon_prob`` scales the chance that triggers are pulled at all. The baseline
is omniscient; the levels know what ``tracks`` keeps of their senses, and are rows of ``levels``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.agents import (
    collision_avoidance,
    legacy,
    levels,
    steering,
    systems_control,
    tactics,
    targets,
    tracks,
    weapons_control,
)
from echelon.agents.levels import SKILLS, script_of
from echelon.nav.waypoints import install_flow_fields
from echelon.sim.backend import Launch
from echelon.sim.state import Field

if TYPE_CHECKING:
    from echelon.env.engine import Engine
    from echelon.env.env import EchelonEnv

__all__ = ["SKILLS", "HeuristicPolicy", "install", "script_of"]

F32, I32, U8, V2, V3 = wp.float32, wp.int32, wp.uint8, wp.vec2, wp.vec3
FIELDS: dict[str, Field] = {
    "script": Field(I32, "EM", "who flies the mech: 0 no scripted pilot, else its place in SKILLS plus 1"),
    "weapon_prob": Field(F32, "E", "chance that a scripted pilot's triggers are kept"),
    "pilot_pos": Field(V3, "EM", "position at the last decision [vox]"),
    "pilot_throttle": Field(F32, "EM", "planar throttle last commanded"),
    "pilot_stuck_s": Field(F32, "EM", "time without progress [s]"),
    "pilot_phase": Field(I32, "EM", "0 normal, 1 backing out, 2 sidestepping"),
    "pilot_timer_s": Field(F32, "EM", "time left in the manoeuvre [s]"),
    "pilot_side": Field(F32, "EM", "side of the sidestep, 1 or -1"),
    "past_pos": Field(V3, "EMH", "where each mech was in the last decisions, a ring [vox]"),
    "past_vel": Field(V3, "EMH", "its velocity then [vox/s]"),
    "past_body": Field(V3, "EMH", "its hit points, heading [rad] and ticks of paint left then"),
    "past_marks": Field(I32, "EMH", "1 fallen, 2 shut down, 4 dead then, plus 8 times who painted it plus 1"),
    "past_look": Field(U8, "EMMH", "how the first mech perceived the second: 1 at all, 2 near or in sight, 4 in sight"),
    "past_seen": Field(I32, "EPMH", "decision at which a pack had seen a hostile last then, -1 never"),
    "track_pos": Field(V3, "EPM", "where it was when a pack saw it last, if that has left the ring [vox]"),
    "track_vel": Field(V3, "EPM", "its velocity then [vox/s]"),
    "track_body": Field(V3, "EPM", "its hit points, heading [rad] and ticks of paint left then"),
    "watch_since": Field(I32, "EP", "decision since which every one was watched"),
    "watch_last": Field(I32, "EP", "decision watched last"),
    "pack_mark": Field(I32, "EP", "what the pack's heavy fought last, -1 none"),
    "pack_focus": Field(I32, "EP", "hostile that the pack fights together, -1 none"),
    "pack_focus_since": Field(I32, "EP", "decision since which it does"),
    "pilot_target": Field(I32, "EM", "whom the pilot fights, -1 nobody"),
    "pilot_target_since": Field(I32, "EM", "decision since which it does"),
    "pilot_age": Field(I32, "EM", "decisions since the target was perceived, 0 now, -1 no target"),
    "pilot_sees": Field(I32, "EM", "1 with a clear line of sight to the target"),
    "pilot_weak": Field(F32, "EM", "share of its hit points that the pilot believes its target to have"),
    "pilot_paint": Field(F32, "EM", "ticks for which the own pack's paint on the target lasts"),
    "pilot_spot": Field(V3, "EM", "where the pilot believes its target to be [vox]"),
    "pilot_drift": Field(V3, "EM", "how it believes it to move [vox/s]"),
    "pilot_wish": Field(V2, "EM", "movement wanted, world axes, share of full speed"),
    "pilot_way": Field(V2, "EM", "unit vector of the way to the zone"),
    "pilot_move": Field(V2, "EM", "movement there is room for, world axes, share of full speed"),
    "pilot_anchor": Field(V3, "EM", "place the pilot has not left since [vox]"),
    "pilot_stay_s": Field(F32, "EM", "time since then, or since its last escape [s]"),
    "pilot_push": Field(V2, "EM", "movement asked for since then, world axes [s of full speed]"),
    "pilot_detour_s": Field(F32, "EM", "time left on one side of an obstacle [s], negative to the right"),
    "pilot_turn": Field(I32, "EM", "how far it turns aside there [eighths of a turn]"),
    "pilot_lost_s": Field(F32, "EM", "way lost there, in seconds of full throttle against the wish [s]"),
    "pilot_escape": Field(V2, "EM", "direction of the escape"),
    "pilot_escape_s": Field(F32, "EM", "time left of an escape [s], negative while the pilot calms down"),
    "pilot_hops": Field(I32, "EM", "1 while jets lead over what stands in the way"),
    "pilot_retreat_s": Field(F32, "EM", "time left of a retreat [s], -1 once over; above 0 while who must cool hides"),
    "pilot_flank_s": Field(F32, "EM", "time left off the shortest way to the zone [s]"),
    "pilot_gather_s": Field(F32, "EM", "time that a pilot has waited for its pack before the zone [s]"),
    "pilot_wait_s": Field(F32, "EM", "time a launch has waited for paint [s]"),
}

ONE_BY_ONE: dict[str, Field] = {
    "crew": Field(I32, "EM", "``script`` of everybody who is flown, whoever flies now"),
    "pilot_episode": Field(I32, "E", "episode that the pilots last saw"),
    "pilot_decision": Field(I32, "E", "decision of it that they last saw"),
}
"""Arrays of pilots who are asked one after the other; where all fly at once, the crew is who flies."""


def install(engine: Engine) -> list[Launch]:
    """Add the pilots' arrays to ``engine`` and return their launches; pass this as its ``pilots``."""
    batch = engine.batch
    batch.lengths["H"] = levels.history_decisions(engine.cfg.dt_act)
    batch.add_fields(FIELDS)
    batch.backend.add({"crew": batch["script"]}, per_env=True)
    install_flow_fields(batch)
    batch["weapon_prob"].fill_(1.0)
    batch.add_constant("pilot_dials", np.array(legacy.CONSTANTS, np.float32), F32)
    batch.add_constant("skills", levels.pack_levels(engine.cfg.dt_act), levels.Skill)
    return [*perception_program(), *targeting_program(), *action_program()]


def perception_program() -> list[Launch]:
    """What pilots do once at the start of a decision, before anybody acts."""
    return [
        Launch(legacy.reset_pilots, "EM"),
        Launch(legacy.detect_stuck, "EM"),
        Launch(tracks.record_perception, "EM"),
        Launch(tracks.update_tracks, "EP"),
        Launch(tracks.record_history, "EM"),
        Launch(targets.choose_pack_targets, "EP"),
    ]


def targeting_program() -> list[Launch]:
    """How the mechs with a ``script`` choose whom to fight, before any of them acts."""
    return [Launch(targets.choose_target, "EM")]


def action_program() -> list[Launch]:
    """How they decide on their actions."""
    return [
        Launch(tactics.plan_movement, "EM"),
        Launch(collision_avoidance.avoid_collisions, "EM"),
        Launch(steering.steer, "EM"),
        Launch(weapons_control.control_weapons, "EM"),
        Launch(systems_control.control_systems, "EM"),
        Launch(systems_control.deploy_smoke, "EM"),
        Launch(legacy.fly_legacy, "EM"),
    ]


class HeuristicPolicy:
    """A scripted pilot for an ``EchelonEnv``: ``act`` returns the action vector of one agent.

    ``skill`` is a name in ``SKILLS``; ``weapon_fire_prob`` may be changed at run time.
    """

    def __init__(self, weapon_fire_prob: float = 1.0, skill: str = "medium") -> None:
        if not 0.0 <= weapon_fire_prob <= 1.0:
            raise ValueError(f"weapon_fire_prob is {weapon_fire_prob!r}, wanted 0 to 1")
        self.weapon_fire_prob = weapon_fire_prob
        self.skill = skill
        self.script = script_of(skill)

    def act(self, env: EchelonEnv, agent_id: str) -> NDArray[np.float32]:
        """Return ``float32[A]`` for an agent; zeros if it is dead. Raises ``ValueError`` for an unknown one."""
        if agent_id not in env.possible_agents:
            raise ValueError(f"agent {agent_id!r} does not exist, wanted one of {env.possible_agents}")
        engine = env.engine
        batch = engine.batch
        if "pilots_perceive" not in engine.programs:
            install(engine)
            batch.add_fields(ONE_BY_ONE)
            batch["pilot_episode"].fill_(-1)
            engine.programs.update(
                pilots_perceive=perception_program, pilots_target=targeting_program, pilots_act=action_program
            )
        self._begin_decision(engine)
        mech = env.possible_agents.index(agent_id)
        flown, crew = np.zeros((1, engine.num_mechs), np.int32), batch.numpy("crew").copy()
        chosen = crew[0, mech] == self.script
        flown[0, mech] = crew[0, mech] = self.script
        batch.set("script", flown)
        batch.set("crew", crew)
        batch["weapon_prob"].fill_(self.weapon_fire_prob)
        if not chosen:
            engine.run("pilots_target")
        engine.run("pilots_act")
        return batch.numpy("actions")[0, mech].copy()

    def _begin_decision(self, engine: Engine) -> None:
        """Where nobody has acted in this decision yet, have everybody watch, and those choose who were flown before.

        So packmates know each other's targets of this decision, as they do where all fly at once.
        """
        batch = engine.batch
        seen = batch.numpy("pilot_episode")[0], batch.numpy("pilot_decision")[0]
        now = batch.numpy("episode")[0], batch.numpy("decision")[0]
        if seen == now:
            return
        if seen[0] != now[0]:
            batch["crew"].zero_()
        engine.run("pilots_perceive")
        batch.set("script", batch.numpy("crew").copy())
        engine.run("pilots_target")
        batch["pilot_episode"].fill_(int(now[0]))
        batch["pilot_decision"].fill_(int(now[1]))
