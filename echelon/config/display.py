"""Configuration of the display manager: memory, hysteresis, noise, jamming, alerts and ablations.

The display manager selects and degrades what a mech's sensors detect before it is observed. Values that differ between
mech classes are the suites of ``echelon.env.layout``. The classic layout has none: it ignores these fields.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from echelon.config.checks import STRICT, TINY, Angle, Fraction, NonNegative, Seconds, require_fields


@dataclass(frozen=True, kw_only=True)
class DisplayConfig:
    """Display manager of the suite layout; booleans are ablation switches."""

    __pydantic_config__ = STRICT

    memory_s: Annotated[float, Interval(ge=0.0, le=60.0)] = 5.0
    """Time for which a lost contact is shown as last seen [s]; 0 removes it at once."""
    margin: NonNegative = 0.20
    """Relative priority advantage that a contact needs to replace one in a slot."""
    noise: Fraction = 0.10
    """Standard deviation of readings at fidelity 0, as a fraction of their range."""
    class_certainty: Fraction = 0.5
    """Confidence below which all classes are shown as equally likely."""
    quality_age_s: NonNegative = 2.0
    """Track age added per unit of lost sensor quality [s]."""
    jam_age_s: NonNegative = 2.0
    """Track age added at full jamming [s]."""
    jam_confidence: Fraction = 0.7
    """Fraction of track confidence lost at full jamming."""
    jam_class: Fraction = 0.5
    """Fraction of class confidence lost at full jamming."""
    eccm_most: Fraction = 0.5
    """Maximum jamming that friendly ECCM compensates."""
    eccm_confidence: NonNegative = 0.5
    """Track confidence regained per unit of compensated jamming."""
    eccm_class: NonNegative = 0.3
    """Class confidence regained per unit of compensated jamming."""
    faint: Annotated[float, Interval(ge=TINY, le=1.0)] = 0.1
    """Confidence below which a track is faint; also the priority factor of faint tracks."""
    collision_s: Seconds = 1.0
    """Time to collision below which an approaching mech raises an alert [s]."""
    reactor_heat: NonNegative = 0.9
    """Fraction of the heat capacity above which the reactor alert is raised."""
    low_stability: NonNegative = 20.0
    """Stability below which the stability alert is raised."""
    attention: Annotated[int, Interval(ge=0, le=10**6)] = 0
    """Display budget: a contact costs 5 points, a squad icon 2, squad status 8, alerts 0; 0 disables the budget."""
    fill: Literal["quotas", "suite"] = "quotas"
    """Slot allocation: the same friend and hostile quotas for every class, or the reserved slots of each suite."""
    aim_cone_rad: Angle = 0.35
    """Angle to a mech within which another counts as aiming at it, for reserved slots [rad]."""
    keeps_slots: bool = True
    """Keep contacts in their slots; off ranks all contacts again at every environment step."""
    alerts: bool = True
    """Show alerts, and pin their contact to slot 0 of the heavy suite."""
    reports: bool = True
    """Receive painted targets from the pack."""
    scope: bool = True
    """Show the acoustic quadrants."""
    descriptor: bool = True
    """Observe the descriptor of the own suite."""
    degrades: bool = True
    """Let poor sensor quality and jamming reduce confidence, age and class of tracks."""
    oracle: bool = False
    """Show the exact state of every living mech in all slots."""
    suites: Literal["own", "swapped", "scout", "light", "medium", "heavy"] = "own"
    """Suite of each class: its own, swapped (scout with heavy, light with medium), or the named one for all."""

    def __post_init__(self) -> None:
        require_fields(self, "display")
