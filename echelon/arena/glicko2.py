"""Glicko-2 (Glickman, 2013): rating, rating deviation (RD) and volatility, updated by rating periods.

Plain float arithmetic with exactly rounded sums, so ratings do not depend on the order of a period's results.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

MAX_RATING = 1e9
"""Size of a rating that no games lead to."""
MIN_EPSILON = 1e-12
"""Smallest tolerance; with a smaller one the iteration may not end."""
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
        if self.epsilon < MIN_EPSILON:
            raise ValueError(f"glicko2.epsilon is {self.epsilon!r}, expected at least {MIN_EPSILON}")

    @classmethod
    def from_dict(cls, row: Any) -> "Glicko2Config":
        """Return the constants written as a dict; ``ValueError`` names the invalid one."""
        try:
            return cls(**row)
        except (TypeError, OverflowError):
            known = ", ".join(field.name for field in fields(cls))
            raise ValueError(f"glicko2 is {repr(row)[:SHOWN_CHARS]}, expected its constants {known}") from None


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

    def __post_init__(self) -> None:
        if not (abs(self.rating) < MAX_RATING and 0 < self.rd < MAX_RATING and 0 < self.vol < MAX_RATING):
            raise ValueError(f"rating is {self.rating!r}, rd {self.rd!r}, vol {self.vol!r}, expected numbers, two > 0")

    def conservative_rating(self, k: float = DEFAULT_CONSERVATISM) -> float:
        """Return the rating minus ``k`` deviations [points]."""
        return self.rating - k * self.rd


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
