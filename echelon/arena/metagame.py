"""The league as a meta-game: head-to-head scores with intervals, their Nash equilibrium and alpha-rank."""

from typing import Any

import numpy as np

from echelon.arena.glicko2 import win_probability
from echelon.arena.standings import head_to_head
from echelon.arena.store import Store
from echelon.statistics import POPULATION, alpha_rank, nash_weights, support_frequency, wilson_interval

OUTCOMES = ("wins", "draws", "losses")
RESAMPLES, FEWEST_RESAMPLES = 1000, 100
"""Bootstrap samples of a small league and of a large one."""
MOST_ENTRIES = 200
"""Best-rated entries that are compared: the time for an equilibrium grows with the cube of their number."""
RESAMPLED_SCORES = 2_000_000
"""Scores in all samples of a league that is neither: a second of one core."""


def cross_play(store: Store, *, retired: bool = False) -> dict[str, Any]:
    """Return ``head_to_head`` with 95 % intervals of the scores, ``score_low`` to ``score_high``, and ``metagame``."""
    found = head_to_head(store, retired=retired, best=MOST_ENTRIES)
    for pair in found["pairs"]:
        points = pair["wins"] + pair["draws"] / 2
        pair["score_low"], pair["score_high"] = wilson_interval(points, pair["wins"] + pair["draws"] + pair["losses"])
    return {**found, "metagame": metagame(store, found)}


def metagame(store: Store, found: dict[str, Any]) -> dict[str, Any]:
    """Return Nash weight, frequency in its support, alpha-rank mass and score against the mixture of each entry.

    ``found`` is the result of ``head_to_head``. Entries without matches are left out. A pair without matches
    has the score that the ratings expect; ``unplayed`` counts those pairs.
    """
    played = {pair["id"] for pair in found["pairs"]}
    entries = [entry for entry in found["entries"] if entry["id"] in played]
    order, n = [entry["id"] for entry in entries], len(entries)
    empty = {"entries": [], "pairs": 0, "unplayed": 0, "resamples": 0, "population": POPULATION}
    if not n:
        return empty
    at, ratings = {entry_id: i for i, entry_id in enumerate(order)}, store.league().entries
    results, scores = np.zeros((n, n, 3), int), np.full((n, n), 0.5)
    for i, one in enumerate(order):
        for j, other in enumerate(order[:i]):
            scores[i, j] = win_probability(ratings[one].rating, ratings[other].rating)
            scores[j, i] = 1.0 - scores[i, j]
    for pair in found["pairs"]:
        where = at[pair["id"]], at[pair["against"]]
        results[where], scores[where] = [pair[outcome] for outcome in OUTCOMES], pair["score"]
    resamples = min(RESAMPLES, max(FEWEST_RESAMPLES, RESAMPLED_SCORES // (n * n)))
    weights, masses = nash_weights(scores), alpha_rank(scores)
    columns = {
        "nash": weights,
        "support": support_frequency(results, scores, resamples=resamples),
        "alpha_rank": masses,
        "nash_averaged": scores @ weights,
        "matches": results.sum((1, 2)),
    }
    pairs, pairs_played = n * (n - 1) // 2, len(found["pairs"]) // 2
    return {
        **empty,
        "entries": [
            {**entry, **{name: column[i].item() for name, column in columns.items()}} for i, entry in enumerate(entries)
        ],
        "pairs": pairs,
        "unplayed": pairs - pairs_played,
        "resamples": resamples,
    }
