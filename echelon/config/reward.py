"""Weights of the reward terms. The terms are kernels in ``echelon.env.reward``."""

from dataclasses import dataclass
from typing import Literal

from echelon.config.checks import STRICT, Finite, Fraction, NonNegative, Seconds, require_fields


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """Weights of the reward terms; each term is also logged separately."""

    __pydantic_config__ = STRICT

    approach: Finite = 0.25
    """Weight of approaching the zone."""
    approach_mode: Literal["pbrs", "decay", "off"] = "pbrs"
    """Approach reward: potential-based shaping (pbrs), distance gained outside the zone (decay), or none (off)."""
    zone: Finite = 0.10
    """Reward per environment step inside the zone, times the team's zone score of the step."""
    zone_lead: Finite = 0.0
    """Reward per environment step, dead or alive, times the team's zone score minus that of the hostile team."""
    obey: Finite = 0.0
    """Reward per environment step in which an order is obeyed in full."""
    damage: Finite = 0.005
    """Reward per point of damage dealt to hostiles."""
    kill: Finite = 1.0
    """Reward per hostile killed."""
    assist: Finite = 0.5
    """Reward per assist: damage by others to a target that the mech painted."""
    assist_period_s: Seconds = 1.0
    """Minimum time between two rewarded assists with the same target [s]."""
    death: Finite = -2.0
    """Reward for the mech's own death, from any cause."""
    win: Finite = 0.7
    """Terminal reward of each mech of the winning team, dead or alive."""
    loss: Finite = -0.7
    """Terminal reward of each mech of the losing team."""
    draw: Finite = 0.0
    """Terminal reward of each mech after a draw."""
    contested_offense: NonNegative = 2.0
    """Factor of damage, kill and assist inside a contested zone."""
    contested_death: NonNegative = 0.5
    """Factor of death inside a contested zone."""
    teammate_decay: Fraction = 0.5
    """Factor of the approach potential per teammate inside the zone."""
    team_alpha: Fraction = 1.0
    """Weight of a mech's own reward; the rest is the mean of its team, to which the dead belong."""

    def __post_init__(self) -> None:
        require_fields(self, "reward")
