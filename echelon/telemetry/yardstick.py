"""The ladder score of a run: one number by which runs are compared, from their evaluations against the same opponents.

It is the mean win rate of mean actions over ``YARDSTICK``, so a run without a result against one of them has none:
means over different opponents would not compare. ``echelon eval RUN --ladder`` plays all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from echelon import champion
from echelon.statistics import Z_95, Estimate
from echelon.telemetry.events import EventEval

YARDSTICK: tuple[str, ...] = (
    "heuristic:trivial",
    "heuristic:easy",
    "heuristic:medium",
    "heuristic:hard",
    "heuristic:expert",
    champion.NAME,
)
"""Opponents of the ladder as evaluations name them: the levels of ``echelon.config.LADDER``, which lists of runs do not
load, and the champion."""

ADDED = 2
"""Wins, and as many losses, that are added for the interval (Agresti and Coull, 1998)."""


def ladder_score(results: Iterable[EventEval]) -> Estimate:
    """Return the ladder score with its 95 % interval, of the newest checkpoint evaluated; NaN where it has none.

    Results of one checkpoint by several jobs are combined, the newest against each opponent.
    """
    rated = [e for e in results if e.deterministic and e.episodes > 0 and not e.weapon_prob < 1.0]
    newest = max((e.update for e in rated), default=0)
    found = {e.opponent: e for e in rated if e.update == newest}
    if not all(name in found for name in YARDSTICK):
        return Estimate(math.nan, math.nan, math.nan)
    played = [found[name] for name in YARDSTICK]
    value = sum(e.win_rate for e in played) / len(played)
    variance = 0.0
    for e in played:
        share = (e.win_rate * e.episodes + ADDED) / (e.episodes + 2 * ADDED)
        variance += share * (1 - share) / (e.episodes + 2 * ADDED)
    half = Z_95 * math.sqrt(variance) / len(played)
    return Estimate(value, max(0.0, value - half), min(1.0, value + half))
