"""Glicko-2 ratings (Glickman, 2013): strength, how sure it is, and how steady, from one rating period to the next.

Pure arithmetic on plain floats. Sums are exactly rounded, so the order of a period's results never shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Glicko2Config:
    """The constants of the system."""

    scale: float = 173.7178
    """Rating points per unit of the internal scale."""
    rating: float = 1500.0
    """Where everybody begins, and the middle of the scale."""
    rd: float = 350.0
    """Rating deviation of somebody unknown [points]."""
    vol: float = 0.06
    """Volatility at the start."""
    tau: float = 0.5
    """How much volatilities may change."""
    epsilon: float = 1e-6
    """Width at which the search for the volatility ends."""
    min_information: float = 1e-12
    """Least information of a period, so that hopeless games do not divide by zero."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"glicko2.{name} is {value!r}, wanted a number > 0")


DEFAULT = Glicko2Config()
DEFAULT_CONSERVATISM = 2.0
"""Deviations that a conservative rating lies below the rating."""


@dataclass(frozen=True)
class Glicko2Rating:
    """A player's strength at one moment."""

    rating: float = DEFAULT.rating
    rd: float = DEFAULT.rd
    """Standard deviation of the rating [points]."""
    vol: float = DEFAULT.vol
    """How erratic its results are."""

    def conservative_rating(self, k: float = DEFAULT_CONSERVATISM) -> float:
        """Return what it is worth at least, ``k`` deviations below its rating."""
        return self.rating - k * self.rd

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Glicko2Rating:
        """Return the rating written as ``as_dict``; ``ValueError`` names what is wrong."""
        values = {}
        for name in ("rating", "rd", "vol"):
            value = row.get(name)
            number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
            if not math.isfinite(number) or (name != "rating" and number <= 0):
                raise ValueError(f"rating.{name} is {value!r}, wanted a number{'' if name == 'rating' else ' > 0'}")
            values[name] = number
        return cls(**values)


@dataclass(frozen=True)
class GameResult:
    """One game of a rating period, from the player's side."""

    opponent: Glicko2Rating
    """As it was when the period began."""
    score: float
    """1 won, 0.5 drawn, 0 lost."""
    opponent_id: str | None = None
    """Who it was; a league then takes its rating from the period's start."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.score <= 1.0:
            raise ValueError(f"score is {self.score!r}, wanted 0 to 1")


def _weight(phi: float) -> float:
    """Return how much a game against somebody with deviation ``phi`` (internal scale) says."""
    return 1.0 / math.sqrt(1.0 + 3.0 * phi * phi / (math.pi * math.pi))


def _logistic(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


def expected_score(player: Glicko2Rating, opponent: Glicko2Rating, config: Glicko2Config = DEFAULT) -> float:
    """Return the score expected of ``player``, 0 to 1, given how unsure the opponent's rating is."""
    return _logistic(_weight(opponent.rd / config.scale) * (player.rating - opponent.rating) / config.scale)


def win_probability(one: Glicko2Rating, other: Glicko2Rating, config: Glicko2Config = DEFAULT) -> float:
    """Return the score expected of ``one`` where neither rating is sure; the two directions add up to 1."""
    phi = math.hypot(one.rd, other.rd) / config.scale
    return _logistic(_weight(phi) * (one.rating - other.rating) / config.scale)


def rate(player: Glicko2Rating, results: Sequence[GameResult], config: Glicko2Config = DEFAULT) -> Glicko2Rating:
    """Return the rating after a period with these results; without any, only the doubt grows."""
    phi = player.rd / config.scale
    if not results:
        return Glicko2Rating(player.rating, config.scale * math.hypot(phi, player.vol), player.vol)
    mu = (player.rating - config.rating) / config.scale
    information, surprise = _evidence(mu, results, config)
    v = 1.0 / max(information, config.min_information)
    vol = _volatility(phi, player.vol, v, v * surprise, config)
    before = math.hypot(phi, vol)
    after = 1.0 / math.sqrt(1.0 / (before * before) + 1.0 / v)
    rating = config.rating + config.scale * (mu + after * after * surprise)
    return Glicko2Rating(rating, config.scale * after, vol)


def _evidence(mu: float, results: Iterable[GameResult], config: Glicko2Config) -> tuple[float, float]:
    """Return the information of the games and the sum of scores beyond expectation, both weighted."""
    information, surprise = [], []
    for game in results:
        g = _weight(game.opponent.rd / config.scale)
        e = _logistic(g * (mu - (game.opponent.rating - config.rating) / config.scale))
        information.append(g * g * e * (1.0 - e))
        surprise.append(g * (game.score - e))
    return math.fsum(information), math.fsum(surprise)


def _volatility(phi: float, sigma: float, v: float, delta: float, config: Glicko2Config) -> float:
    """Return the new volatility: the root of Glickman's f by the Illinois variant of regula falsi."""
    a = math.log(sigma * sigma)
    spread, tau2 = phi * phi + v, config.tau * config.tau

    def f(x: float) -> float:
        e = math.exp(x)
        return e * (delta * delta - spread - e) / (2.0 * (spread + e) ** 2) - (x - a) / tau2

    low = a
    if delta * delta > spread:
        high = math.log(delta * delta - spread)
    else:
        k = 1
        while f(a - k * config.tau) < 0.0:
            k += 1
        high = a - k * config.tau
    f_low, f_high = f(low), f(high)
    while abs(high - low) > config.epsilon:
        middle = low + (low - high) * f_low / (f_high - f_low)
        f_middle = f(middle)
        if f_middle * f_high <= 0.0:
            low, f_low = high, f_high
        else:
            f_low /= 2.0
        high, f_high = middle, f_middle
    return math.exp(low / 2.0)
