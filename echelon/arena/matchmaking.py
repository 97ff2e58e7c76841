"""Matchmaking: sampling opponents of similar rating, and the fixtures of a round.

Seeded: the same league, seed and round give the same fixtures in any process.
"""

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
"""Rating gap at which an opponent is sampled 0.61 times as often as an equal one [points]."""
WARMUP_GAMES = 20
"""Games up to which a new entry is only matched with near ratings."""
WARMUP_RANGE = 200.0
"""Exclusive limit of the rating gap during warm-up [points]."""
WARMUP_WIDER = (2.0, 4.0)
"""Factors that widen the range while it contains no opponent; after the last, every opponent is eligible."""
NO_WEIGHT = 1e-300
"""Sum of weights below which sampling is uniform."""
SEED_RANGE = EVAL_SEED_BASE
"""Size of the range of match seeds, which lies above the seeds of training."""
SEED_SPREAD, SEED_OFFSET, SEED_STEP = 10**6, 12345, 9973
"""Coefficients of ``match_seed``."""


class Rated(Protocol):
    """Anything with an id and a rating."""

    entry_id: str
    rating: "Glicko2Rating"
    games: int


R = TypeVar("R", bound=Rated)


@dataclass(frozen=True)
class Warmup:
    """Limits of opponents for new entries."""

    games: int = WARMUP_GAMES
    rating_range: float = WARMUP_RANGE


@dataclass(frozen=True)
class Fixture:
    """One planned match."""

    number: int
    blue: str
    red: str
    seed: int
    """Seed of the map and of all random draws of the match."""


@dataclass(frozen=True, kw_only=True)
class RoundSpec:
    """Parameters of a round's fixtures."""

    seed: int
    number: int
    seeds: int
    """Seeds per pair; each is played from both sides."""
    opponents: int
    """Opponents sampled per entry with scheme ``skill``."""
    only: frozenset[str] = frozenset()
    """Ids of entries whose matches are planned; empty plans all."""


def opponent_weight(gap: float, sigma: float = SIGMA) -> float:
    """Return the sampling weight of an opponent at a rating gap [points], 1 at gap 0."""
    return math.exp(-gap * gap / (2.0 * sigma * sigma))


def eligible_opponents(pool: Sequence[R], rating: float, games: int | None, warmup: Warmup) -> list[R]:
    """Return the opponents a candidate may play: all, or near ratings during warm-up where there are any."""
    if games is None or games >= warmup.games:
        return list(pool)
    for factor in (1.0, *WARMUP_WIDER):
        near = [e for e in pool if abs(e.rating.rating - rating) < factor * warmup.rating_range]
        if near:
            return near
    return list(pool)


def sample_opponent(
    pool: Sequence[R],
    rating: float,
    rng: random.Random,
    sigma: float = SIGMA,
    games: int | None = None,
    warmup: Warmup | None = None,
) -> R:
    """Sample an opponent for a candidate of ``rating`` with ``games`` games; ``ValueError`` for an empty pool."""
    if not pool:
        raise ValueError("opponent pool is empty, expected at least one entry")
    choice = eligible_opponents(pool, rating, games, warmup or Warmup())
    weights = [opponent_weight(e.rating.rating - rating, sigma) for e in choice]
    if math.fsum(weights) < NO_WEIGHT:
        return rng.choice(choice)
    return rng.choices(choice, weights)[0]


def match_seed(seed: int, index: int) -> int:
    """Return seed number ``index`` of a job; indices below ``SEED_RANGE`` give distinct seeds."""
    return EVAL_SEED_BASE + (seed * SEED_SPREAD + SEED_OFFSET + SEED_STEP * index) % SEED_RANGE


def round_robin(entries: Sequence[R], spec: RoundSpec) -> list[tuple[str, str]]:
    return [(a.entry_id, b.entry_id) for a, b in combinations(entries, 2)]


def pairs_by_rating(entries: Sequence[R], spec: RoundSpec) -> list[tuple[str, str]]:
    """Return pairs of similar rating, sampled per entry; a pair sampled twice is returned once."""
    rng = random.Random(f"{spec.seed} {spec.number}")
    pairs: dict[tuple[str, str], None] = {}
    for entry in entries:
        if spec.only and entry.entry_id not in spec.only:
            continue
        rest = [e for e in entries if e is not entry]
        for _ in range(min(spec.opponents, len(rest))):
            opponent = sample_opponent(rest, entry.rating.rating, rng, games=entry.games)
            rest.remove(opponent)
            pairs[min(entry.entry_id, opponent.entry_id), max(entry.entry_id, opponent.entry_id)] = None
    return list(pairs)


SCHEMES: dict[str, Callable[[Sequence[Any], RoundSpec], list[tuple[str, str]]]] = {
    "round-robin": round_robin,
    "skill": pairs_by_rating,
}


def fixtures(entries: Sequence[R], scheme: str, spec: RoundSpec) -> list[Fixture]:
    """Return the matches of a round: every pair plays the same seeds from both sides."""
    ordered = sorted(entries, key=lambda e: e.entry_id)
    pairs = SCHEMES[scheme](ordered, spec)
    if spec.only:
        pairs = [pair for pair in pairs if spec.only & set(pair)]
    seeds = [match_seed(spec.seed, (spec.number - 1) * spec.seeds + i) for i in range(spec.seeds)]
    sides = [(blue, red, seed) for seed in seeds for a, b in pairs for blue, red in ((a, b), (b, a))]
    return [Fixture(number, *row) for number, row in enumerate(sides)]
