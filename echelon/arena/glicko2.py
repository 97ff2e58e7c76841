"""Glicko-2 (Glickman, 2013): rating, rating deviation (RD) and volatility, updated by rating periods.

Plain float arithmetic with exactly rounded sums, so ratings do not depend on the order of a period's results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

MAX_RATING = 1e9
"""Size of a stored rating above which it counts as damaged."""
MIN_EPSILON = 1e-12
"""Smallest stored tolerance; with a smaller one the iteration may not end."""
SHOWN_CHARS = 60


@dataclass(frozen=True)
class Glicko2Config:
    """The constants of the system."""

    scale: float = 173.7178
    """Rating points per unit of the internal scale."""
    rating: float = 1500.0
    """Initial rating and centre of the scale [points]."""
    rd: float = 350.0
    """Initial rating deviation [points]."""
    vol: float = 0.06
    """Initial volatility."""
    tau: float = 0.5
    """System constant that limits changes of volatility."""
    epsilon: float = 1e-6
    """Convergence tolerance of the volatility iteration."""
    min_information: float = 1e-12
    """Lower bound of a period's information; avoids division by zero in one-sided games."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"glicko2.{name} is {value!r}, expected a number > 0")

    @classmethod
    def from_dict(cls, row: Any) -> Glicko2Config:
        """Return the constants written as a dict; ``ValueError`` names the invalid one."""
        known = {f.name for f in fields(cls)}
        if not isinstance(row, dict) or not row.keys() <= known:
            raise ValueError(f"glicko2 is {repr(row)[:SHOWN_CHARS]}, expected its constants {', '.join(sorted(known))}")
        config = cls(**{name: _number(value) for name, value in row.items()})
        if config.epsilon < MIN_EPSILON:
            raise ValueError(f"glicko2.epsilon is {config.epsilon!r}, expected at least {MIN_EPSILON}")
        return config


DEFAULT = Glicko2Config()
DEFAULT_CONSERVATISM = 2.0
"""Deviations subtracted in a conservative rating."""


@dataclass(frozen=True)
class Glicko2Rating:
    """Rating of a player at one time."""

    rating: float = DEFAULT.rating
    rd: float = DEFAULT.rd
    """Standard deviation of the rating [points]."""
    vol: float = DEFAULT.vol
    """Volatility: expected fluctuation of the rating."""

    def conservative_rating(self, k: float = DEFAULT_CONSERVATISM) -> float:
        """Return the rating minus ``k`` deviations [points]."""
        return self.rating - k * self.rd

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Glicko2Rating:
        """Return the rating written by ``as_dict``; ``ValueError`` names the invalid field."""
        values = {}
        for name in ("rating", "rd", "vol"):
            value = row.get(name)
            number = _number(value)
            if not math.isfinite(number) or (name != "rating" and number <= 0):
                expected = "a number" if name == "rating" else "a number > 0"
                raise ValueError(f"rating.{name} is {repr(value)[:SHOWN_CHARS]}, expected {expected}")
            values[name] = number
        return cls(**values)


def _number(value: Any) -> float:
    """Return a JSON number as a float; NaN for other values and for numbers that no rating reaches."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < MAX_RATING else math.nan


@dataclass(frozen=True)
class GameResult:
    """One game of a rating period, from the player's side."""

    opponent: Glicko2Rating
    """Rating of the opponent at the start of the period."""
    score: float
    """1 win, 0.5 draw, 0 loss."""
    opponent_id: str | None = None
    """Id of the opponent; a league then looks up its rating at the start of the period."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.score <= 1.0:
            raise ValueError(f"score is {self.score!r}, expected 0 to 1")


def _weight(phi: float) -> float:
    """Return g(phi), the weight of a game against an opponent with deviation ``phi`` (internal scale)."""
    return 1.0 / math.sqrt(1.0 + 3.0 * phi * phi / (math.pi * math.pi))


def _logistic(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


def expected_score(player: Glicko2Rating, opponent: Glicko2Rating, config: Glicko2Config = DEFAULT) -> float:
    """Return the expected score of ``player``, 0 to 1, given the opponent's rating deviation."""
    return _logistic(_weight(opponent.rd / config.scale) * (player.rating - opponent.rating) / config.scale)


def win_probability(one: Glicko2Rating, other: Glicko2Rating, config: Glicko2Config = DEFAULT) -> float:
    """Return the expected score of ``one`` given both deviations; the two directions add up to 1."""
    phi = math.hypot(one.rd, other.rd) / config.scale
    return _logistic(_weight(phi) * (one.rating - other.rating) / config.scale)


def rate(player: Glicko2Rating, results: Sequence[GameResult], config: Glicko2Config = DEFAULT) -> Glicko2Rating:
    """Return the rating after a period with these results; without results only the deviation grows."""
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
    information, surprise = [], []
    for game in results:
        g = _weight(game.opponent.rd / config.scale)
        e = _logistic(g * (mu - (game.opponent.rating - config.rating) / config.scale))
        information.append(g * g * e * (1.0 - e))
        surprise.append(g * (game.score - e))
    return math.fsum(information), math.fsum(surprise)


def _volatility(phi: float, sigma: float, v: float, delta: float, config: Glicko2Config) -> float:
    """Return the new volatility: the root of Glickman's f, by the Illinois algorithm."""
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
