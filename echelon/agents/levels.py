"""The five skill levels of scripted pilots: one ``Level`` record each, and the same record as kernels read it.

Kernels read the fields of a level and never its name, so a new level is a new row of ``LEVELS``. A level that lacks a
capability has the neutral value in that field.
"""

from dataclasses import dataclass
from enum import IntEnum
from math import ceil, inf, radians
from typing import Any

import warp as wp

from echelon.sim.structs import record, record_of

ALWAYS = 1.0e9
"""Distance that no map reaches [vox]; stands for infinity in kernels."""


class Knowledge(IntEnum):
    """Sources of a pilot's knowledge of hostiles."""

    OWN_SIGHT = 0
    """Own line of sight and radar."""
    OWN = 1
    """All own sensors."""
    PACK = 2
    """All sensors of the pack."""
    TEAM = 3
    """All sensors of the team."""


class TargetChoice(IntEnum):
    """How a pilot selects its target among known hostiles."""

    RANDOM = 0
    """Uniformly at random, redrawn every three seconds."""
    NEAREST = 1
    PAINTED = 2
    """The nearest; paint by the own pack counts as one voxel nearer."""
    THREAT = 3
    """The highest threat score."""
    FOCUS = 4
    """The highest threat score, with a bonus for the focus target of the pack when it is near."""


class RangePolicy(IntEnum):
    """How the fighting distance is chosen."""

    FIXED = 0
    """One distance for every class."""
    CLASS = 1
    """One distance per class."""
    ADAPTIVE = 2
    """Per class, adapted to own heat and to the hit points of both sides."""
    KITING = 3
    """As ``ADAPTIVE``; a heavy stays far away while its gauss is ready."""


class MissileUse(IntEnum):
    """When a homing weapon is launched."""

    NEVER = 0
    SIGHT = 1
    """At a target in own sight."""
    PAINT = 2
    """At a target in own sight or painted by the own pack."""
    AWAIT_PAINT = 3
    """As ``PAINT``; by own sight only after a near scout had two seconds to paint the target."""
    AVOID_AMS = 4
    """As ``AWAIT_PAINT``, and never into the range of a hostile anti-missile system that is likely ready."""


class PaintUse(IntEnum):
    """Which hostile a painter paints."""

    NEVER = 0
    NEAREST = 1
    """Its own target."""
    MARK = 2
    """The target of the pack's heavy."""
    FOCUS = 3
    """The focus target of the pack; paint with more than a second left is not renewed."""


class EwarUse(IntEnum):
    """Which electronic warfare mode a scout runs."""

    OFF = 0
    ECM = 1
    """ECM always."""
    COOL = 2
    """ECM, and the cheaper ECCM when hot."""
    SUPPORT = 3
    """ECCM while the sensor quality of the pack is poor, else ECM."""
    SILENT = 4
    """As ``SUPPORT``, and off without a target."""


class SmokeUse(IntEnum):
    """When smoke is deployed."""

    NEVER = 0
    DEFENSIVE = 1
    """Damaged and hit, or painted with a missile inbound, with the target in sight."""
    SCREENING = 2
    """As ``DEFENSIVE``, and on open ground in sight of a hostile beyond own weapon range."""


class JetUse(IntEnum):
    """What jump jets are used for."""

    NEVER = 0
    UNSTICK = 1
    """To escape after getting stuck."""
    OBSTACLES = 2
    """Also to jump over low obstacles."""
    TACTICAL = 3
    """Also to evade missiles and hostiles at close range."""


class Route(IntEnum):
    """Which path to the zone is taken."""

    STRAIGHT = 0
    FIELD = 1
    """The shortest path."""
    COVERED = 2
    """The path through cells that the zone does not overlook, where the detour is moderate."""
    FLANKING = 3
    """The shortest path, or the flank path for four seconds after a known hostile covered the cells ahead."""


class StuckRecovery(IntEnum):
    """What a pilot does when it commands movement and makes no progress."""

    NEVER = 0
    """Nothing."""
    BACK_OUT = 1
    """Backs out, then sidesteps."""
    FREE_DIRECTION = 2
    """Avoids collisions continuously, keeps clear of friends, and escapes in the direction with most free space."""


class Retreat(IntEnum):
    """When a pilot retreats."""

    NEVER = 0
    ONCE = 1
    """Once a battle for three seconds, when badly damaged outside the zone."""
    COOL = 2
    """When damaged and hot; it stays out of sight until it has cooled."""
    ODDS = 3
    """As ``COOL``, and when the local odds are bad."""


class ZoneTactic(IntEnum):
    """How a pilot plays the zone."""

    ENTER = 0
    """Walks to the centre."""
    HOLD = 1
    """Stays anywhere well inside."""
    BALANCED = 2
    """Enters when the tonnage in the zone is favourable or the team is behind in score, else waits outside."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Capabilities of one skill level."""

    aim_sigma_deg: float
    """Spread of the aiming bias, redrawn every second [deg]."""
    delay_s: float
    """Reaction delay: age of everything known of hostiles [s]."""
    trigger_prob: float
    """Chance per decision that triggers are pulled at all."""
    knowledge: Knowledge
    memory_s: float = 0.0
    """Time for which the last position of a lost target is remembered [s]."""
    choice: TargetChoice
    range_policy: RangePolicy = RangePolicy.CLASS
    throttle: float = 1.0
    """Throttle of the walk to the zone."""
    face_within_vox: float
    """Distance below which a pilot faces its target, else its path [vox]."""
    route: Route = Route.FIELD
    stuck_recovery: StuckRecovery = StuckRecovery.FREE_DIRECTION
    sidestep: float = 0.0
    """Share of the throttle spent on sideways movement in combat."""
    sidestep_s: float = 0.0
    """Time between changes of the sidestep direction, 0 never [s]."""
    sidestep_random: bool = False
    """Whether that time is random."""
    vent_above: float
    """Heat above which it vents and holds fire [share of the cap]."""
    heat_limit: float = inf
    """Heat that no shot may exceed [share of the cap]."""
    vent_idle_above: float = inf
    """Heat above which it vents while it does not fire [share of the cap]."""
    vent_firing_above: float = inf
    """Heat above which it vents while it fires; venting has no cost [share of the cap]."""
    best_damage_per_heat_first: bool = False
    """Whether weapons are considered by damage per heat, best first, instead of by weapon id."""
    cone_deg: float
    """Half angle within which projectile weapons are fired [deg]."""
    fires_at_any_target: bool = False
    """Whether hitscan weapons are fired at any hostile in reach when the target is not."""
    needs_sight: bool = False
    """Whether ballistic rounds need the target in sight; the cheap rounds of the autocannon never do."""
    muzzle_clearance_vox: float = 0.0
    """Distance ahead of the muzzle that must be free of terrain for a round to be fired [vox]."""
    missiles: MissileUse = MissileUse.NEVER
    paint: PaintUse = PaintUse.NEVER
    requests_target: bool = False
    """Whether the target preference columns of the action request the target."""
    ewar: EwarUse = EwarUse.OFF
    smoke: SmokeUse = SmokeUse.NEVER
    jets: JetUse = JetUse.NEVER
    retreat: Retreat = Retreat.NEVER
    zone: ZoneTactic = ZoneTactic.ENTER
    gather_s: float = 0.0
    """Longest wait for packmates in front of a zone that only hostiles hold [s]."""
    leads_target: bool = False
    """Whether it turns to the predicted position of its target at the end of the decision."""
    pursues_unseen: bool = False
    """Whether it pursues hostiles near the zone that are out of sight."""
    patrols_zone: bool = False
    """Whether it circles a contested zone when it knows of no hostile."""
    faces_rear_attacker: bool = False
    """Whether it turns to an attacker behind it."""


LEVELS: dict[str, Level] = {
    "trivial": Level(
        aim_sigma_deg=30, delay_s=1.0, trigger_prob=0.25, knowledge=Knowledge.OWN_SIGHT, choice=TargetChoice.RANDOM,
        range_policy=RangePolicy.FIXED, throttle=0.5, face_within_vox=ALWAYS, route=Route.STRAIGHT,
        stuck_recovery=StuckRecovery.NEVER, vent_above=0.95, cone_deg=45,
    ),
    "easy": Level(
        aim_sigma_deg=12, delay_s=0.6, trigger_prob=0.5, knowledge=Knowledge.OWN, choice=TargetChoice.NEAREST,
        range_policy=RangePolicy.FIXED, throttle=0.8, face_within_vox=ALWAYS, route=Route.STRAIGHT,
        stuck_recovery=StuckRecovery.BACK_OUT, vent_above=0.85, cone_deg=30, missiles=MissileUse.SIGHT,
        paint=PaintUse.NEAREST, ewar=EwarUse.ECM,
    ),
    "medium": Level(
        aim_sigma_deg=4, delay_s=0.3, trigger_prob=0.85, knowledge=Knowledge.PACK, choice=TargetChoice.PAINTED,
        face_within_vox=25, sidestep=0.25, vent_above=0.75, vent_firing_above=0.5, cone_deg=11.5,
        fires_at_any_target=True, missiles=MissileUse.PAINT, paint=PaintUse.NEAREST, requests_target=True,
        ewar=EwarUse.COOL, jets=JetUse.UNSTICK, retreat=Retreat.ONCE, zone=ZoneTactic.HOLD, patrols_zone=True,
    ),
    "hard": Level(
        aim_sigma_deg=1.5, delay_s=0.15, trigger_prob=1.0, knowledge=Knowledge.PACK, memory_s=3,
        choice=TargetChoice.THREAT, range_policy=RangePolicy.ADAPTIVE, face_within_vox=22, route=Route.COVERED,
        sidestep=0.4, sidestep_s=1.5, vent_above=0.9, heat_limit=0.9, vent_idle_above=0.4, vent_firing_above=0.4,
        cone_deg=11.5, fires_at_any_target=True, needs_sight=True, muzzle_clearance_vox=3,
        missiles=MissileUse.AWAIT_PAINT, paint=PaintUse.MARK, requests_target=True, ewar=EwarUse.SUPPORT,
        smoke=SmokeUse.DEFENSIVE, jets=JetUse.OBSTACLES, retreat=Retreat.COOL, zone=ZoneTactic.BALANCED, gather_s=5,
        pursues_unseen=True, patrols_zone=True, faces_rear_attacker=True,
    ),
    "expert": Level(
        aim_sigma_deg=0.5, delay_s=0.0, trigger_prob=1.0, knowledge=Knowledge.TEAM, memory_s=5,
        choice=TargetChoice.FOCUS, range_policy=RangePolicy.KITING, face_within_vox=22, route=Route.FLANKING,
        sidestep=0.4, sidestep_s=1.4, sidestep_random=True, vent_above=0.97, heat_limit=0.97, vent_idle_above=0.0,
        vent_firing_above=0.0, best_damage_per_heat_first=True, cone_deg=11.5, fires_at_any_target=True,
        needs_sight=True, muzzle_clearance_vox=3, missiles=MissileUse.AVOID_AMS, paint=PaintUse.FOCUS,
        requests_target=True, ewar=EwarUse.SILENT, smoke=SmokeUse.SCREENING, jets=JetUse.TACTICAL,
        retreat=Retreat.ODDS, zone=ZoneTactic.BALANCED, gather_s=8, leads_target=True, pursues_unseen=True,
        patrols_zone=True, faces_rear_attacker=True,
    ),
}  # fmt: skip
"""The levels, weakest first.

Values were tuned in matches between levels (docs/benchmarks.md): ``trigger_prob`` sets how far apart they are. A
narrower cone, more sidestepping, and holding the autocannon's fire until there is sight all lost matches.
"""
SKILLS = tuple(LEVELS)
"""Names of all scripted pilots; ``script`` of a mech is the index of its pilot plus 1, 0 without a scripted pilot."""
FIRST_LEVEL = SKILLS.index("trivial") + 1
"""``script`` of the weakest level."""


def script_of(skill: str) -> int:
    """Return the ``script`` of a pilot by name; raise ``ValueError`` for an unknown name."""
    if skill not in SKILLS:
        raise ValueError(f"skill {skill!r} does not exist, expected one of: {', '.join(SKILLS)}")
    return SKILLS.index(skill) + 1


def delay_decisions(level: Level, dt_act: float) -> int:
    """Return the reaction delay of a level in decisions of ``dt_act`` [s]."""
    return ceil(level.delay_s / dt_act - 1e-6)


@record_of(Level)
class Skill:
    """A level as kernels read it: every field of ``Level``, enums and flags as integers, and some in other units."""

    aim_sigma: wp.float32
    """``aim_sigma_deg`` [rad]."""
    cone: wp.float32
    """``cone_deg`` [rad]."""
    delay: wp.int32
    """``delay_s`` [decisions]."""
    memory: wp.int32
    """``memory_s`` [decisions]."""


def pack_levels(dt_act: float) -> list[Any]:
    """Return the levels as ``Skill`` records, in order, for decisions of ``dt_act`` [s]."""
    return [
        record(
            Skill,
            level,
            aim_sigma=radians(level.aim_sigma_deg),
            cone=radians(level.cone_deg),
            delay=delay_decisions(level, dt_act),
            memory=round(level.memory_s / dt_act),
            **{name: ALWAYS for name, value in vars(level).items() if value == inf},
        )
        for level in LEVELS.values()
    ]


def history_decisions(dt_act: float) -> int:
    """Return the length of the perception history that the longest reaction delay needs [decisions]."""
    return 1 + max(delay_decisions(level, dt_act) for level in LEVELS.values())
