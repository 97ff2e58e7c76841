"""Outcome of a finished episode from the learner's point of view: side, result, HP margin, return.

Where both sides learn (self-play) the learner's side is blue; ``is_self_play`` tells such episodes apart.
"""

from __future__ import annotations

from typing import Any

from echelon.config import EnvConfig
from echelon.sim.arsenal import CHASSIS, ROSTER

BLUE, RED, DRAW = 0, 1, 2
SCORES = {"win": 1.0, "draw": 0.5, "loss": 0.0}
"""Score of an outcome."""


def side_of(record: Any) -> int:
    """Return the learner's team; blue in self-play."""
    return RED if record.learner_team == RED else BLUE


def is_self_play(record: Any) -> bool:
    """Return whether both sides learned."""
    return record.learner_team < 0


def outcome_of(record: Any) -> str:
    """Return win, loss or draw for the learner of an episode."""
    if record.winner == DRAW:
        return "draw"
    return "win" if record.winner == side_of(record) else "loss"


def team_hit_points(env_cfg: EnvConfig) -> float:
    return env_cfg.num_packs * sum(CHASSIS[chassis].hp for chassis in ROSTER)


def hp_margin(record: Any, full_hp: float) -> float:
    """Return the learner's share of remaining hit points minus the opponent's; ``full_hp`` is that of a full team."""
    side, present_share = side_of(record), float(record.present.mean())
    return (float(record.hp[side]) - float(record.hp[1 - side])) / (full_hp * present_share)


def learner_return(record: Any) -> float:
    """Return the mean return of the learner's mechs; blue mechs are the first half."""
    half = len(record.returns) // 2
    team = slice(half, None) if side_of(record) == RED else slice(half)
    team = slice(None) if is_self_play(record) else team
    returns = record.returns[team][record.present[team]]
    return float(returns.mean()) if len(returns) else 0.0
