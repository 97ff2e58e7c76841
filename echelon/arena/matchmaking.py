"""Who meets whom: opponents of about one's own strength, and the fixtures of a round.

Pure and seeded: the same league, seed and round give the same fixtures in any process.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from echelon.config import EVAL_SEED_BASE

if TYPE_CHECKING:
    from echelon.arena.glicko2 import Glicko2Rating

SIGMA = 200.0
"""Rating gap at which an opponent is drawn 0.61 times as often as an equal one [points]."""
WARMUP_GAMES = 20
"""Games before which a newcomer meets only near ratings."""
WARMUP_RANGE = 200.0
"""How near: strictly within this [points]."""
WARMUP_WIDER = (2.0, 4.0)
"""Factors by which the range widens while nobody is in it; after the last, everybody will do."""
NO_WEIGHT = 1e-300
"""A sum of weights below this says nothing, so all are drawn alike."""
SEED_RANGE = EVAL_SEED_BASE
"""Seeds of matches lie in a range of this size above those that training draws from."""
SEED_SPREAD, SEED_OFFSET, SEED_STEP = 10**6, 12345, 9973
"""A league's seed, and the number of a match's seed in it, as a seed of the simulator."""


class Rated(Protocol):
    """Anything with a name and a rating."""

    entry_id: str
    rating: Glicko2Rating
    games: int


R = TypeVar("R", bound=Rated)


@dataclass(frozen=True)
class Warmup:
    """How newcomers are kept from being crushed."""

    games: int = WARMUP_GAMES
    rating_range: float = WARMUP_RANGE


@dataclass(frozen=True)
class Fixture:
    """A match to be played."""

    number: int
    """Its place in the round."""
    blue: str
    red: str
    seed: int
    """Of the map and everything drawn in it."""


@dataclass(frozen=True, kw_only=True)
class RoundSpec:
    """What the fixtures of a round are made from."""

    seed: int
    """Of the whole job."""
    number: int
    """Of the round in its job, from 1."""
    seeds: int
    """Seeds on which two entries meet; each is played from both sides."""
    opponents: int
    """Opponents that an entry draws where it does not meet everybody."""
    only: frozenset[str] = frozenset()
    """Ids of those whose matches are wanted; empty wants all."""


def weight(gap: float, sigma: float = SIGMA) -> float:
    """Return how often an opponent ``gap`` points away is drawn, relative to an equal one."""
    return math.exp(-gap * gap / (2.0 * sigma * sigma))


def eligible(pool: Sequence[R], rating: float, games: int | None, warmup: Warmup) -> list[R]:
    """Return whom a candidate may meet: everybody, but for a newcomer those near its rating, if there are any."""
    if games is None or games >= warmup.games:
        return list(pool)
    for factor in (1.0, *WARMUP_WIDER):
        near = [e for e in pool if abs(e.rating.rating - rating) < factor * warmup.rating_range]
        if near:
            return near
    return list(pool)


def draw(
    pool: Sequence[R],
    rating: float,
    rng: random.Random,
    sigma: float = SIGMA,
    games: int | None = None,
    warmup: Warmup | None = None,
) -> R:
    """Draw an opponent for a candidate of ``rating`` with ``games`` games; ``ValueError`` for an empty pool."""
    if not pool:
        raise ValueError("pool of opponents is empty, wanted at least one entry")
    choice = eligible(pool, rating, games, warmup or Warmup())
    weights = [weight(e.rating.rating - rating, sigma) for e in choice]
    if math.fsum(weights) < NO_WEIGHT:
        return rng.choice(choice)
    return rng.choices(choice, weights)[0]


def match_seed(seed: int, index: int) -> int:
    """Return seed number ``index`` of a job; all below ``SEED_RANGE`` differ."""
    return EVAL_SEED_BASE + (seed * SEED_SPREAD + SEED_OFFSET + SEED_STEP * index) % SEED_RANGE


def everybody(entries: Sequence[R], wanted: RoundSpec) -> list[tuple[str, str]]:
    """Return every pair once."""
    return [(a.entry_id, b.entry_id) for a, b in combinations(entries, 2)]


def near_equals(entries: Sequence[R], wanted: RoundSpec) -> list[tuple[str, str]]:
    """Return pairs that each entry draws, near its own rating; a pair that both drew is met once."""
    rng = random.Random(f"{wanted.seed} {wanted.number}")
    pairs: dict[tuple[str, str], None] = {}
    for entry in entries:
        if wanted.only and entry.entry_id not in wanted.only:
            continue
        rest = [e for e in entries if e is not entry]
        for _ in range(min(wanted.opponents, len(rest))):
            met = draw(rest, entry.rating.rating, rng, games=entry.games)
            rest.remove(met)
            pairs[min(entry.entry_id, met.entry_id), max(entry.entry_id, met.entry_id)] = None
    return list(pairs)


SCHEMES: dict[str, Callable[[Sequence[Any], RoundSpec], list[tuple[str, str]]]] = {
    "round-robin": everybody,
    "skill": near_equals,
}
"""How the pairs of a round are found."""


def fixtures(entries: Sequence[R], scheme: str, wanted: RoundSpec) -> list[Fixture]:
    """Return the matches of a round: every pair meets on the same seeds, from both sides."""
    ordered = sorted(entries, key=lambda e: e.entry_id)
    pairs = SCHEMES[scheme](ordered, wanted)
    if wanted.only:
        pairs = [pair for pair in pairs if wanted.only & set(pair)]
    seeds = [match_seed(wanted.seed, (wanted.number - 1) * wanted.seeds + i) for i in range(wanted.seeds)]
    sides = [(blue, red, seed) for seed in seeds for a, b in pairs for blue, red in ((a, b), (b, a))]
    return [Fixture(number, *row) for number, row in enumerate(sides)]
