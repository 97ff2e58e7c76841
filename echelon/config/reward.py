"""What agents are paid: the weight of every reward term, and named sets of weights.

Import them from ``echelon.config``. The terms themselves are kernels in ``echelon.env.reward``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from echelon.config.ranges import REWARD_RANGES, STRICT, require_ranges


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """Weights of the reward terms; every term is also reported on its own."""

    __pydantic_config__ = STRICT

    approach: float = 0.25
    """Potential-based approach to the zone."""
    approach_mode: Literal["pbrs", "decay", "off"] = "pbrs"
    """Potential-based shaping, the older decaying form, or none."""
    zone: float = 0.10
    """Per decision, times the team's zone tick, for mechs inside."""
    damage: float = 0.005
    """Per point of hostile damage dealt."""
    kill: float = 1.0
    """Per hostile kill."""
    assist: float = 0.5
    """Per paint assist, one paid per target and second."""
    assist_period_s: float = 1.0
    """Time in which one painted target pays at most one assist [s]."""
    death: float = -2.0
    """On the decision of death, whatever the cause."""
    win: float = 0.7
    """Terminal, to every member of the winning team, dead or alive."""
    loss: float = -0.7
    """Terminal, to every member of the losing team."""
    draw: float = 0.0
    """Terminal, to everyone after a draw."""
    contested_offense: float = 2.0
    """Factor on damage, kill and assist inside a contested zone."""
    contested_death: float = 0.5
    """Factor on death inside a contested zone."""
    teammate_decay: float = 0.5
    """Factor on the approach potential per teammate inside the zone."""
    team_alpha: float = 1.0
    """Share of own reward; the rest is the team's mean."""

    def __post_init__(self) -> None:
        require_ranges(self, "reward", REWARD_RANGES)


REWARD_PROFILES: Mapping[str, RewardConfig] = {
    "seed": RewardConfig(),
    "snap10x": RewardConfig(approach=1.5, zone=3.0, damage=0.05, kill=10.0, assist=5.0, death=-1.0, win=0.0, loss=0.0),
}
"""Sets of weights by name: the default, and ten times the pay for deeds with nothing for the end."""
