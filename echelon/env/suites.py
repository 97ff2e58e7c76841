"""Combat suites: how much of its sensors' information a pilot observes, one row per suite.

Each mech class has a suite. ``echelon.env.display`` applies the rows; networks read the descriptor columns. Loads
neither torch nor Warp.
"""

from dataclasses import dataclass
from enum import IntEnum

from echelon.env.layout import MAX_CONTACTS

SENSOR_RANGE_MIN = 0.8
SENSOR_RANGE_SPAN = 0.7
DETAIL_MAX = 2
INTEL_RICH_SLOTS = 5


class FillRule(IntEnum):
    """What a contact slot is reserved for with ``env.display.fill=suite``; see ``echelon.env.suite_allocation``."""

    REST = 0
    """Hostiles, then friends, in the pilot's sort order; also fills slots that their own rule leaves empty."""
    SORTED = 1
    """Any mech, in the pilot's sort order."""
    THREAT = 2
    """Hostiles, the most threatening first."""
    NEWEST = 3
    """Any mech, the newest contact first."""
    AIMING = 4
    """Hostiles that aim at the observer, the most threatening first."""
    FRIENDS = 5
    """The pack's leader, then the nearest friends."""
    OBJECTIVE = 6
    """Hostiles, the nearest to the zone first."""
    ALERT = 7
    """The mech that the most urgent alert is about."""
    FIRE_LINE = 8
    """Hostiles with a clear line of fire, the most threatening first."""
    DESIGNATED = 9
    """The focus target, then hostiles painted by the pack."""
    ALLIES = 10
    """Friends, in the pilot's sort order."""


class SuiteType(IntEnum):
    """Suites; the value is the position in the descriptor's one-hot."""

    SCOUT_RECON = 0
    LIGHT_SKIRMISH = 1
    MEDIUM_ASSAULT = 2
    HEAVY_FIRE_SUPPORT = 3
    PACK_COMMAND = 4
    TACTICAL_COMMAND = 5


@dataclass(frozen=True, kw_only=True)
class CombatSuiteSpec:
    """One row of the suite table: contact and squad rows, sensor quality and reports of one suite."""

    suite: SuiteType
    visual_contact_slots: int
    sensor_range_mult: float
    """Factor on radar range."""
    sensor_fidelity: float
    """1 gives exact readings of contacts; less adds noise."""
    squad_position_slots: int
    squad_detail_level: int
    """0 icon, 1 status, 2 full."""
    intel_slots: int
    fill: tuple[tuple[FillRule, int], ...]
    """Rules of the contact slots in order, each with its number of slots; they sum to ``visual_contact_slots``."""
    sees_squad_engaged: bool = False
    issues_orders: bool = False
    receives_painted_targets: bool = True
    receives_contact_reports: bool = True

    def __post_init__(self) -> None:
        named = sum(slots for _, slots in self.fill)
        if named != self.visual_contact_slots:
            raise ValueError(f"fill of {self.suite.name} has {named} slots, expected {self.visual_contact_slots}")

    @property
    def contact_capacity(self) -> float:
        return self.visual_contact_slots / MAX_CONTACTS

    @property
    def squad_detail(self) -> float:
        return self.squad_detail_level / DETAIL_MAX


COMBAT_SUITES: dict[SuiteType, CombatSuiteSpec] = {
    spec.suite: spec
    for spec in (
        CombatSuiteSpec(
            suite=SuiteType.SCOUT_RECON,
            visual_contact_slots=20,
            sensor_range_mult=1.5,
            sensor_fidelity=0.8,
            squad_position_slots=4,
            squad_detail_level=0,
            intel_slots=5,
            fill=((FillRule.THREAT, 4), (FillRule.NEWEST, 9), (FillRule.SORTED, 7)),
            receives_contact_reports=False,
        ),
        CombatSuiteSpec(
            suite=SuiteType.LIGHT_SKIRMISH,
            visual_contact_slots=10,
            sensor_range_mult=1.2,
            sensor_fidelity=0.6,
            squad_position_slots=9,
            squad_detail_level=1,
            intel_slots=8,
            fill=((FillRule.AIMING, 3), (FillRule.FRIENDS, 4), (FillRule.OBJECTIVE, 3)),
        ),
        CombatSuiteSpec(
            suite=SuiteType.MEDIUM_ASSAULT,
            visual_contact_slots=6,
            sensor_range_mult=1.0,
            sensor_fidelity=0.7,
            squad_position_slots=9,
            squad_detail_level=1,
            intel_slots=6,
            fill=((FillRule.ALLIES, 3), (FillRule.REST, 3)),
        ),
        CombatSuiteSpec(
            suite=SuiteType.HEAVY_FIRE_SUPPORT,
            visual_contact_slots=5,
            sensor_range_mult=0.8,
            sensor_fidelity=1.0,
            squad_position_slots=4,
            squad_detail_level=0,
            intel_slots=3,
            fill=((FillRule.ALERT, 1), (FillRule.FIRE_LINE, 3), (FillRule.DESIGNATED, 1)),
        ),
        CombatSuiteSpec(
            suite=SuiteType.PACK_COMMAND,
            visual_contact_slots=8,
            sensor_range_mult=1.0,
            sensor_fidelity=0.6,
            squad_position_slots=5,
            squad_detail_level=2,
            intel_slots=10,
            fill=((FillRule.SORTED, 8),),
            sees_squad_engaged=True,
            issues_orders=True,
        ),
        CombatSuiteSpec(
            suite=SuiteType.TACTICAL_COMMAND,
            visual_contact_slots=5,
            sensor_range_mult=1.0,
            sensor_fidelity=0.6,
            squad_position_slots=9,
            squad_detail_level=2,
            intel_slots=10,
            fill=((FillRule.SORTED, 5),),
            sees_squad_engaged=True,
            issues_orders=True,
        ),
    )
}

SUITE_OF_CLASS = {
    "scout": SuiteType.SCOUT_RECON,
    "light": SuiteType.LIGHT_SKIRMISH,
    "medium": SuiteType.MEDIUM_ASSAULT,
    "heavy": SuiteType.HEAVY_FIRE_SUPPORT,
}
_SUITE_OF_COMMAND = {"squad_leader": SuiteType.TACTICAL_COMMAND, "pack_leader": SuiteType.PACK_COMMAND}


def get_suite_for_role(mech_class: str, command_role: str | None = None) -> CombatSuiteSpec:
    """Return the suite of a mech class name; a command role overrides it, an unknown class is a medium."""
    if command_role in _SUITE_OF_COMMAND:
        return COMBAT_SUITES[_SUITE_OF_COMMAND[command_role]]
    return COMBAT_SUITES[SUITE_OF_CLASS.get(mech_class.lower(), SuiteType.MEDIUM_ASSAULT)]


def build_suite_descriptor(spec: CombatSuiteSpec) -> tuple[float, ...]:
    """Return the 14 descriptor columns of a suite, each in [0, 1]: one-hot of six, then eight traits."""
    one_hot = tuple(float(spec.suite == suite) for suite in SuiteType)
    traits = (
        spec.contact_capacity,
        (spec.sensor_range_mult - SENSOR_RANGE_MIN) / SENSOR_RANGE_SPAN,
        spec.sensor_fidelity,
        spec.squad_detail,
        float(spec.sees_squad_engaged),
        float(spec.issues_orders),
        float(spec.receives_contact_reports),
        float(spec.intel_slots > INTEL_RICH_SLOTS),
    )
    return one_hot + traits
