"""What a finished episode says about the policy that learned in it: side, outcome, margin, return.

Where both sides learn there is no side to win for: blue's is taken, and ``is_mirrored`` tells such episodes apart.
"""

from __future__ import annotations

from typing import Any

from echelon.config import EnvConfig
from echelon.sim.arsenal import CHASSIS, ROSTER

BLUE, RED, DRAW = 0, 1, 2


def side_of(record: Any) -> int:
    """Return the team the policy played; blue where it played both."""
    return RED if record.learner_team == RED else BLUE


def is_mirrored(record: Any) -> bool:
    """Whether the policy played both sides."""
    return record.learner_team < 0


def outcome_of(record: Any) -> str:
    """Return win, loss or draw for the learner of an episode."""
    if record.winner == DRAW:
        return "draw"
    return "win" if record.winner == side_of(record) else "loss"


def team_hit_points(env_cfg: EnvConfig) -> float:
    """Return the hit points of a fresh team."""
    return env_cfg.num_packs * sum(CHASSIS[chassis].hp for chassis in ROSTER)


def hp_margin(record: Any, full_hp: float) -> float:
    """Return the share of hit points left at the end, own minus hostile; ``full_hp`` is that of a team at capacity."""
    side, there = side_of(record), float(record.present.mean())
    return (float(record.hp[side]) - float(record.hp[1 - side])) / (full_hp * there)


def learner_return(record: Any) -> float:
    """Return the mean return of the learner's mechs; blue mechs are the first half."""
    half = len(record.returns) // 2
    team = slice(half, None) if side_of(record) == RED else slice(half)
    team = slice(None) if is_mirrored(record) else team
    mine = record.returns[team][record.present[team]]
    return float(mine.mean()) if len(mine) else 0.0
