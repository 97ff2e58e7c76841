"""The five skill levels of scripted pilots: one record each, and the row of numbers a kernel reads.

A level is nothing but these dials: kernels never ask for a name. A capability that a level lacks is a dial at its
neutral value, so a new level is a new row. ``legacy``, the omniscient baseline, has its own kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from math import ceil, inf, radians
from typing import Any

import warp as wp

ALWAYS = 1.0e9
"""A distance within which everything is [vox]."""


class Knowledge(IntEnum):
    """Whose senses a pilot uses."""

    OWN_SIGHT = 0
    """Its own eyes and radar."""
    OWN = 1
    """Every channel of its own."""
    PACK = 2
    TEAM = 3


class Choice(IntEnum):
    """How a pilot picks its target among those it knows of."""

    RANDOM = 0
    """Any, kept for three seconds."""
    NEAREST = 1
    PAINTED = 2
    """The nearest; one that its own pack has painted counts as a little nearer."""
    THREAT = 3
    FOCUS = 4
    """By threat, and the pack's focus counts for more when it is near."""


class Ranges(IntEnum):
    """What distance a pilot fights at."""

    FIXED = 0
    CLASS = 1
    ADAPTS = 2
    """To its heat and to hit points, its own and the target's."""
    KITES = 3
    """The same, and a heavy keeps its distance while its gauss is ready."""


class Missiles(IntEnum):
    """When a heavy launches."""

    NEVER = 0
    SIGHT = 1
    PAINT = 2
    """By sight or by its pack's paint."""
    WAITS = 3
    """By sight only after its scout, if near, had two seconds to paint."""
    THRIFTY = 4
    """The same, and never where a known hostile heavy shields the target."""


class Paint(IntEnum):
    """Whom a pilot paints."""

    NEVER = 0
    NEAREST = 1
    MARK = 2
    """What its pack's heavy fights."""
    FOCUS = 3
    """The pack's focus; no paint is renewed while it has long to last."""


class Ewar(IntEnum):
    """What a scout emits."""

    OFF = 0
    ECM = 1
    COOL = 2
    """ECM, the cheaper ECCM when hot."""
    AIDS = 3
    """ECCM when its pack's sensors are poor, else ECM."""
    SILENT = 4
    """The same, but nothing before there is contact."""


class Smoke(IntEnum):
    """When a pilot throws smoke."""

    NEVER = 0
    DEFENSIVE = 1
    COVERING = 2


class Jets(IntEnum):
    """What jump jets are for."""

    NEVER = 0
    UNSTICK = 1
    OBSTACLES = 2
    TACTICAL = 3
    """Also to shake off a missile and to leave a melee."""


class Route(IntEnum):
    """Which way to the zone a pilot takes."""

    STRAIGHT = 0
    FIELD = 1
    """The shortest."""
    COVERED = 2
    """By cells that the zone does not overlook, where the detour is moderate."""
    FLANKS = 3
    """The shortest, and off it for a while when a known hostile watches what lies ahead."""


class Unstick(IntEnum):
    """What a pilot does that pushes on and gets nowhere."""

    NEVER = 0
    """Pushes on."""
    BACKS = 1
    """Backs out, then steps aside."""
    LOOKS = 2
    """Feels for room as it goes, keeps off its friends, and looks for a way out."""


class Retreat(IntEnum):
    """When a pilot gives way."""

    NEVER = 0
    ONCE = 1
    """Three seconds, badly hurt outside the zone."""
    COOL = 2
    """Hurt and hot: out of sight until it has cooled."""
    ODDS = 3
    """The same, and whenever the exchange looks lost."""


class Zone(IntEnum):
    """How a pilot goes for the zone."""

    WALK_IN = 0
    HOLD = 1
    BALANCE = 2
    """Enters when its side would weigh enough or is behind, else waits outside."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """What one level of scripted pilots can do."""

    aim_sigma_deg: float
    """Spread of the aiming bias, redrawn every second [deg]."""
    delay_s: float
    """Age of what it knows of a target; a target is not known before it has been seen for so long [s]."""
    trigger_prob: float
    """Chance per decision that its triggers are pulled at all."""
    knowledge: Knowledge
    memory_s: float = 0.0
    """How long it remembers where a lost target was [s]."""
    choice: Choice
    ranges: Ranges = Ranges.CLASS
    throttle: float = 1.0
    face_within_vox: float
    """Faces its target when it is nearer than this, else the way it goes [vox]."""
    route: Route = Route.FIELD
    unsticks: Unstick = Unstick.LOOKS
    sidestep: float = 0.0
    """Share of the throttle spent on moving sideways in combat."""
    sidestep_s: float = 0.0
    """Time between changes of side, 0 never [s]."""
    sidestep_random: bool = False
    vent_above: float
    """Vents above this share of its heat cap."""
    heat_limit: float = inf
    """Fires only shots that leave its heat below this share of the cap."""
    idle_vent: float = inf
    """Vents above this share of the cap when it has nothing to shoot at."""
    vents_firing: float = inf
    """Vents above this share of the cap while it fires, too: venting costs a mech nothing."""
    best_first: bool = False
    """Spends its heat on the shots with most damage per heat."""
    cone_deg: float
    """Half cone within which kinetic triggers are pulled [deg]."""
    opportunist: bool = False
    """Fires lasers and flamers at whatever is in reach when its target is not."""
    checks_sight: bool = False
    """Does not fire its gauss blind; the autocannon's many rounds are worth it."""
    muzzle_vox: float = 0.0
    """Fires no round that would burst on terrain or wrecks so near before its muzzle [vox]."""
    missiles: Missiles = Missiles.NEVER
    paint: Paint = Paint.NEVER
    prefers_target: bool = False
    """Asks its weapons for its target."""
    ewar: Ewar = Ewar.OFF
    smoke: Smoke = Smoke.NEVER
    jets: Jets = Jets.NEVER
    retreat: Retreat = Retreat.NEVER
    zone: Zone = Zone.WALK_IN
    gathers_s: float = 0.0
    """Before a zone that hostiles alone hold, waits for packmates who can be there so soon, and no longer [s]."""
    predicts: bool = False
    """Turns to where its target will be at the end of the decision."""
    hunts: bool = False
    """Goes for hostiles near the zone that it does not see."""
    searches: bool = False
    """Goes round a contested zone when it knows of no hostile."""
    minds_rear: bool = False
    """Turns toward an attacker behind it."""


LEVELS: dict[str, Level] = {
    "trivial": Level(
        aim_sigma_deg=30, delay_s=1.0, trigger_prob=0.25, knowledge=Knowledge.OWN_SIGHT, choice=Choice.RANDOM,
        ranges=Ranges.FIXED, throttle=0.5, face_within_vox=ALWAYS, route=Route.STRAIGHT, unsticks=Unstick.NEVER,
        vent_above=0.95, cone_deg=45,
    ),
    "easy": Level(
        aim_sigma_deg=12, delay_s=0.6, trigger_prob=0.5, knowledge=Knowledge.OWN, choice=Choice.NEAREST,
        ranges=Ranges.FIXED, throttle=0.8, face_within_vox=ALWAYS, route=Route.STRAIGHT,
        unsticks=Unstick.BACKS, vent_above=0.85, cone_deg=30, missiles=Missiles.SIGHT, paint=Paint.NEAREST,
        ewar=Ewar.ECM,
    ),
    "medium": Level(
        aim_sigma_deg=4, delay_s=0.3, trigger_prob=0.85, knowledge=Knowledge.PACK, choice=Choice.PAINTED,
        face_within_vox=25, sidestep=0.25, vent_above=0.75, vents_firing=0.5, cone_deg=11.5, opportunist=True,
        missiles=Missiles.PAINT, paint=Paint.NEAREST, prefers_target=True, ewar=Ewar.COOL,
        jets=Jets.UNSTICK, retreat=Retreat.ONCE, zone=Zone.HOLD, searches=True,
    ),
    "hard": Level(
        aim_sigma_deg=1.5, delay_s=0.15, trigger_prob=1.0, knowledge=Knowledge.PACK, memory_s=3, choice=Choice.THREAT,
        ranges=Ranges.ADAPTS, face_within_vox=22, route=Route.COVERED, sidestep=0.4, sidestep_s=1.5, vent_above=0.9,
        heat_limit=0.9, idle_vent=0.4, vents_firing=0.4, cone_deg=11.5, opportunist=True, checks_sight=True,
        muzzle_vox=3, missiles=Missiles.WAITS, paint=Paint.MARK, prefers_target=True, ewar=Ewar.AIDS,
        smoke=Smoke.DEFENSIVE, jets=Jets.OBSTACLES, retreat=Retreat.COOL, zone=Zone.BALANCE, hunts=True, searches=True,
        gathers_s=5, minds_rear=True,
    ),
    "expert": Level(
        aim_sigma_deg=0.5, delay_s=0.0, trigger_prob=1.0, knowledge=Knowledge.TEAM, memory_s=5, choice=Choice.FOCUS,
        ranges=Ranges.KITES, face_within_vox=22, route=Route.FLANKS, sidestep=0.4, sidestep_s=1.4, sidestep_random=True,
        vent_above=0.97, heat_limit=0.97, idle_vent=0.0, vents_firing=0.0, best_first=True, cone_deg=11.5,
        checks_sight=True, muzzle_vox=3, predicts=True, opportunist=True, missiles=Missiles.THRIFTY, paint=Paint.FOCUS,
        prefers_target=True, ewar=Ewar.SILENT, smoke=Smoke.COVERING, jets=Jets.TACTICAL, retreat=Retreat.ODDS,
        zone=Zone.BALANCE, hunts=True, searches=True, gathers_s=8, minds_rear=True,
    ),
}  # fmt: skip
"""The levels, weakest first. Where a dial differs from the first design it was chosen by playing levels against each
other (docs/benchmarks.md): the trigger probability sets how far apart they are; a narrower cone, more sidestepping, and
holding the autocannon's fire until there is sight all lost matches."""
SKILLS = ("legacy", *LEVELS)
"""Names of all scripted pilots; ``script`` of a mech is its pilot's place in this list plus 1, 0 without one."""
FIRST_LEVEL = SKILLS.index("trivial") + 1
"""``script`` of the weakest level."""


def script_of(skill: str) -> int:
    """Return the ``script`` of a pilot by name; ``ValueError`` names those that exist."""
    if skill not in SKILLS:
        raise ValueError(f"skill {skill!r} does not exist, wanted one of: {', '.join(SKILLS)}")
    return SKILLS.index(skill) + 1


def delay_decisions(level: Level, dt_act: float) -> int:
    """Decisions that a level's knowledge lags behind, from the time of a decision [s]."""
    return ceil(level.delay_s / dt_act - 1e-6)


@wp.struct
class Skill:
    """A level as kernels read it; times in decisions, angles in radians, flags as 0 or 1."""

    aim_sigma: wp.float32
    delay: wp.int32
    trigger_prob: wp.float32
    knowledge: wp.int32
    memory: wp.int32
    choice: wp.int32
    ranges: wp.int32
    throttle: wp.float32
    face_within: wp.float32
    route: wp.int32
    unsticks: wp.int32
    sidestep: wp.float32
    sidestep_s: wp.float32
    sidestep_random: wp.int32
    vent_above: wp.float32
    heat_limit: wp.float32
    idle_vent: wp.float32
    vents_firing: wp.float32
    best_first: wp.int32
    cone: wp.float32
    checks_sight: wp.int32
    opportunist: wp.int32
    muzzle_vox: wp.float32
    missiles: wp.int32
    paint: wp.int32
    prefers_target: wp.int32
    ewar: wp.int32
    smoke: wp.int32
    jets: wp.int32
    retreat: wp.int32
    zone: wp.int32
    hunts: wp.int32
    searches: wp.int32
    gathers_s: wp.float32
    predicts: wp.int32
    minds_rear: wp.int32


def pack_levels(dt_act: float) -> list[Any]:
    """Return the levels as ``Skill`` rows, in order, for decisions of ``dt_act`` [s]."""
    derived = {"aim_sigma_deg", "delay_s", "memory_s", "face_within_vox", "cone_deg"}
    rows = []
    for level in LEVELS.values():
        row = Skill()
        for field in fields(Level):
            if field.name not in derived:
                value = getattr(level, field.name)
                setattr(row, field.name, min(value, ALWAYS) if isinstance(value, float) else int(value))
        row.aim_sigma = radians(level.aim_sigma_deg)
        row.delay = delay_decisions(level, dt_act)
        row.memory = round(level.memory_s / dt_act)
        row.face_within = level.face_within_vox
        row.cone = radians(level.cone_deg)
        rows.append(row)
    return rows


def history_decisions(dt_act: float) -> int:
    """Return how many past decisions the slowest level needs to look back over, the present one included."""
    return 1 + max(delay_decisions(level, dt_act) for level in LEVELS.values())
