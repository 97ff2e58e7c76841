"""Outcome of a finished episode from the learner's point of view: side, result, HP margin, return.

Where both sides learn (self-play) the learner's side is blue; ``is_self_play`` tells such episodes apart.
"""

from typing import Any

import numpy as np

from echelon.sim.arsenal import CHASSIS, ROSTER

BLUE, RED, DRAW = 0, 1, 2
HULLS = np.array([CHASSIS[chassis].hp for chassis in ROSTER])
"""Hit points of an undamaged mech by its position in a pack."""
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


def hp_margin(record: Any) -> float:
    """Return the learner's share of its team's hit points that remain, minus the opponent's."""
    side, hulls = side_of(record), HULLS[np.flatnonzero(record.present) % len(HULLS)]
    return (float(record.hp[side]) - float(record.hp[1 - side])) / float(hulls.sum() / 2)


def learner_return(record: Any) -> float:
    """Return the mean return of the learner's mechs; blue mechs are the first half."""
    half = len(record.returns) // 2
    team = slice(half, None) if side_of(record) == RED else slice(half)
    team = slice(None) if is_self_play(record) else team
    returns = record.returns[team][record.present[team]]
    return float(returns.mean()) if len(returns) else 0.0
