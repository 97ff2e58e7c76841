"""Arrays of the scripted pilots, grouped into the structs that their kernels take.

Shape letters beyond those of ``echelon.sim.state``: H decisions of the perception history, P packs of both teams. Times
are decisions of the episode unless a unit says otherwise.
"""

import warp as wp

from echelon.sim.structs import Field, array_struct, fields_of

F32, I32, U8, V2, V3 = wp.float32, wp.int32, wp.uint8, wp.vec2, wp.vec3


@array_struct
class Assignment:
    """Which pilot controls each mech."""

    script = Field(I32, "EM", "pilot that acts now: 0 none, else its index in SKILLS plus 1")
    crew = Field(I32, "EM", "pilot of each mech; differs from script where pilots are called one by one")
    weapon_prob = Field(F32, "E", "probability that a pilot's triggers are kept")


@array_struct
class PilotMemory:
    """What mechs and packs perceived of hostiles: rings of the last H decisions, and pack tracks that left them."""

    past_pos = Field(V3, "EMH", "position of each mech [vox]")
    past_vel = Field(V3, "EMH", "its velocity [vox/s]")
    past_body = Field(V3, "EMH", "its hit points, heading [rad] and ticks of paint left")
    past_marks = Field(I32, "EMH", "bits 1 fallen, 2 shut down, 4 dead; plus 8 times the mech that painted it plus 1")
    past_look = Field(
        U8, "EMMH", "bits of how mech 1 perceived mech 2: 1 at all, 2 in radar range or sight, 4 in sight"
    )
    past_seen = Field(I32, "EPMH", "decision at which a pack had last perceived a hostile, -1 never")
    track_pos = Field(V3, "EPM", "its last perceived position, if older than the ring [vox]")
    track_vel = Field(V3, "EPM", "its velocity then [vox/s]")
    track_body = Field(V3, "EPM", "its hit points, heading [rad] and ticks of paint left then")
    watch_since = Field(I32, "EP", "first decision of the recorded history")
    watch_last = Field(I32, "EP", "last recorded decision")


@array_struct
class PackTargets:
    """Targets that the pilots of a pack share."""

    pack_mark = Field(I32, "EP", "last target of the pack's heavy, -1 none")
    pack_focus = Field(I32, "EP", "hostile that the pack fights together, -1 none")
    pack_focus_since = Field(I32, "EP", "decision at which it was chosen")


@array_struct
class Targets:
    """Target of each pilot and what the pilot knows of it."""

    pilot_target = Field(I32, "EM", "target, -1 none")
    pilot_target_since = Field(I32, "EM", "decision at which it was chosen")
    pilot_age = Field(I32, "EM", "decisions since it was perceived beyond the reaction delay, -1 no target")
    pilot_sees = Field(I32, "EM", "1 with a clear line of sight to it")
    pilot_weak = Field(F32, "EM", "its hit points [share of the maximum]")
    pilot_paint = Field(F32, "EM", "ticks of own pack's paint left on it")
    pilot_spot = Field(V3, "EM", "its position [vox]")
    pilot_drift = Field(V3, "EM", "its velocity [vox/s]")
    pilot_wait_s = Field(F32, "EM", "time that a launch has waited for paint [s]")


@array_struct
class MovementPlan:
    """Desired movement of each pilot, before collision avoidance."""

    pilot_desired = Field(V2, "EM", "desired velocity, world axes [share of full speed]")
    pilot_way = Field(V2, "EM", "unit vector of the path to the zone")
    pilot_retreat_s = Field(F32, "EM", "time left of a retreat [s], -1 once over; above 0 while hiding to cool")
    pilot_flank_s = Field(F32, "EM", "time left on the flank path [s]")
    pilot_gather_s = Field(F32, "EM", "time waited for packmates in front of the zone [s]")


@array_struct
class Avoidance:
    """Collision avoidance of each pilot: commanded velocity, detour around an obstacle, escape when stuck."""

    pilot_move = Field(V2, "EM", "commanded velocity, world axes [share of full speed]")
    pilot_anchor = Field(V3, "EM", "position since which it has made no progress [vox]")
    pilot_stay_s = Field(F32, "EM", "time without progress, or since the last escape [s]")
    pilot_push = Field(V2, "EM", "movement commanded in that time, world axes [s of full speed]")
    pilot_detour_s = Field(F32, "EM", "time left on one side of an obstacle [s], negative on the right")
    pilot_turn = Field(I32, "EM", "turn of the detour [eighths of a full turn]")
    pilot_lost_s = Field(F32, "EM", "distance lost on the detour [s of full speed against the desired velocity]")
    pilot_escape = Field(V2, "EM", "direction of the escape")
    pilot_escape_s = Field(F32, "EM", "time left of the escape [s], negative after it")
    pilot_hops = Field(I32, "EM", "1 while jumping over an obstacle")


@array_struct
class StuckState:
    """Stuck detection and the unstick manoeuvre of the simpler pilots."""

    pilot_pos = Field(V3, "EM", "position at the last decision [vox]")
    pilot_throttle = Field(F32, "EM", "horizontal throttle commanded at the last decision")
    pilot_stuck_s = Field(F32, "EM", "time without progress [s]")
    pilot_phase = Field(I32, "EM", "0 normal, 1 backing out, 2 sidestepping")
    pilot_timer_s = Field(F32, "EM", "time left of the phase [s]")
    pilot_side = Field(F32, "EM", "side of the sidestep, 1 or -1")


STRUCTS = (Assignment, PilotMemory, PackTargets, Targets, MovementPlan, Avoidance, StuckState)
CREW: dict[str, Field] = {"crew": fields_of(Assignment)["crew"]}
FIELDS: dict[str, Field] = {
    name: field for struct in STRUCTS for name, field in fields_of(struct).items() if name not in CREW
}
"""Arrays of every batch with scripted pilots; ``crew`` is the array of ``script`` where all pilots act at once."""
CALL_FIELDS: dict[str, Field] = CREW | {
    "pilot_episode": Field(I32, "E", "episode of the last perception"),
    "pilot_decision": Field(I32, "E", "decision of the last perception"),
}
"""Further arrays where pilots are called one by one."""
