"""What a class's display makes of what its sensors find: memory, steadiness, noise, jamming, alerts and ablations.

Import it from ``echelon.config``. What differs between classes is a row of ``echelon.env.layout``. The classic layout has
no display manager: none of these dials touches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from echelon.config.ranges import DISPLAY_RANGES, STRICT, require_ranges


@dataclass(frozen=True, kw_only=True)
class DisplayConfig:
    """The display manager of the suite layout; switches are ablations, on by default unless they say otherwise."""

    __pydantic_config__ = STRICT

    memory_s: float = 5.0
    """How long a contact is shown as last seen [s]; 0 drops it with sight."""
    margin: float = 0.20
    """How much better a contact must be than one in a slot to take it, as a share."""
    noise: float = 0.10
    """Standard deviation of readings at fidelity 0, as a share of their range."""
    class_certainty: float = 0.5
    """Confidence below which all classes look equally likely."""
    quality_age_s: float = 2.0
    """Age added per lost unit of sensor quality [s]."""
    jam_age_s: float = 2.0
    """Age added at full jamming [s]."""
    jam_confidence: float = 0.7
    """Share of a track's confidence lost at full jamming."""
    jam_class: float = 0.5
    """Share of the confidence in its class lost at full jamming."""
    eccm_most: float = 0.5
    """Most jamming that friendly ECCM makes up for."""
    eccm_confidence: float = 0.5
    """Confidence regained per unit made up for."""
    eccm_class: float = 0.3
    """Confidence in the class regained per unit made up for."""
    faint: float = 0.1
    """Confidence below which a track is faint; also the priority of a faint track, as a share."""
    collision_s: float = 1.0
    """Time to contact below which a closing mech is an alert [s]."""
    reactor_heat: float = 0.9
    """Share of the heat cap above which the reactor is critical."""
    low_stability: float = 20.0
    """Stability below which it is critical."""
    attention: int = 0
    """Points for contacts (5), squad icons (2) or status (8); alerts are free. 0 is no budget, 100 the designed one."""
    fill: Literal["quotas", "suite"] = "quotas"
    """What slots are for: the same quotas of friends and hostiles for all, or what each suite reserves them for."""
    aim_cone_rad: float = 0.35
    """How near to a mech another must face to count as aiming at it, where suites reserve slots [rad]."""
    keeps_slots: bool = True
    """Contacts keep their slots; off, every decision ranks them anew."""
    alerts: bool = True
    """Alerts light up, and take slot 0 of the heavy suite."""
    reports: bool = True
    """Painted targets are received from the pack."""
    scope: bool = True
    """The acoustic quadrants are shown."""
    descriptor: bool = True
    """Pilots are shown which suite they have."""
    degrades: bool = True
    """Poor sensor quality and jamming take confidence, age and class."""
    oracle: bool = False
    """Show the truth about every living mech, in every slot there is."""
    suites: Literal["own", "swapped", "scout", "light", "medium", "heavy"] = "own"
    """Each class's own suite, scout's and heavy's, light's and medium's swapped, or one for all."""

    def __post_init__(self) -> None:
        require_ranges(self, "display", DISPLAY_RANGES)
