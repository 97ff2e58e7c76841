"""Win probability of blue in each frame of a match, from the frame columns and the header alone.

A logistic model on features that change their sign when the teams are swapped, without a constant, so that swapping
the teams gives exactly 1 - p. The lead of blue's rating is such a feature; it is 0, that of equal pilots, where the
rating of a team is unknown.
``winprob.json`` holds what ``winprob_fit`` computed: coefficients, the width of the band, and ratings of scripted
levels and of the champion.

Ratings are on the scale of displayed league ratings: the scripted level ``medium`` has 1500, and on fair maps the odds
of a side are 10 to the power of a 400th of its lead.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.replay.columns import TEAMS, Ints
from echelon.replay.match_text import LEVEL_PREFIX
from echelon.replay.schema import WIN_GROUPS, MechFlag

Floats = NDArray[np.float64]
MODEL_FILE = Path(__file__).with_name("winprob.json")
MODEL_FORMAT = 2
"""Version of the file; another one is refused."""
RATING_POINTS = 400 / math.log(10)
"""Rating points per unit of the logarithm of the odds."""
MAX_SKILL = 4.0
"""Largest difference of ratings that counts [unit of the logarithm of the odds]."""
PILOTS = "rating"
"""Group of the features of the ratings; the other groups are ``WIN_GROUPS``."""
GROUPS = (*WIN_GROUPS, PILOTS)

TRAVEL_LIMIT_S = 30.0
"""Longest time to the zone that counts [s]."""
LEGGED_SPEED = 0.4
"""Speed of a mech with a destroyed leg, as a share."""
SIZE = 5.0
"""Mechs per team at which features of team size are zero."""
LATE_S = 10.0
"""Seconds before the time limit at which the score counts half as much as at the end."""
CLOSE_S = 6.0
"""Seconds of zone points before the limit over which its attraction falls by a factor e."""
CLASS = ("hp", "leg_hp", "max_speed")
"""Values of a mech's class that the features need."""


@dataclass(frozen=True)
class Roster:
    """Constants of a match that the features need; M mechs."""

    team: Ints
    """Team ``[M]``."""
    present: NDArray[np.bool_]
    """Whether the mech takes part ``[M]``."""
    spec: Mapping[str, Floats]
    """Values of the class of each mech ``[M]``, by the names in ``CLASS``."""
    zone: tuple[float, float, float]
    """Centre and radius [vox]."""
    limit: float
    seconds: float
    """Time limit [s]."""
    hz: float
    scale: Mapping[str, float]
    skill: float | None = None
    """Lead of blue's rating [unit of the logarithm of the odds]; None where one is unknown."""

    @staticmethod
    def of(header: Mapping[str, Any]) -> "Roster":
        mechs, classes = header["roster"], header["chassis"]
        rows = [classes[m["chassis"]] for m in mechs]
        x, y, radius = header["zone"]
        return Roster(
            team=np.array([m["team"] for m in mechs]),
            present=np.array([m["present"] for m in mechs]),
            spec={name: np.array([max(1.0, float(row[name])) for row in rows]) for name in CLASS},
            zone=(float(x), float(y), float(radius)),
            limit=max(1.0, float(header["score_to_win"])),
            seconds=max(1.0, float(header["duration_s"])),
            hz=float(header["tick_hz"]),
            scale={str(column["name"]): float(column["scale"]) for column in header["columns"]},
            skill=_skill(*(team.get("rating") for team in header["teams"])),
        )


def _skill(blue: float | None, red: float | None) -> float | None:
    if blue is None or red is None:
        return None
    return max(-MAX_SKILL, min(MAX_SKILL, (blue - red) / RATING_POINTS))


@dataclass(frozen=True)
class MatchSituation:
    """State of a match per frame: sums over each team ``[F, 2]``, and the time left ``[F]`` [s]."""

    present: Floats
    alive: Floats
    hp: Floats
    """Hit points of the living."""
    full: Floats
    """Hit points of all at the start."""
    legs: Floats
    """Share of leg hit points, summed over the living."""
    down: Floats
    """Living mechs that are fallen or shut down."""
    painted: Floats
    in_zone: Floats
    """Hit points at the start of the living mechs in the zone."""
    travel: Floats
    """Seconds to the zone at full speed, summed over the living."""
    score: Floats
    limit: float
    left: Floats
    skill: Floats
    """Lead of blue's rating ``[F]``, 0 unknown."""
    rated: bool

    @staticmethod
    def of(roster: Roster, frames: Mapping[str, Ints], ticks: Ints) -> "MatchSituation":
        """Return the state in frames of columns ``[F, W]`` at the ticks ``[F]``."""

        def column(name: str) -> Floats:
            return frames[name].astype(np.float64) * roster.scale[name]

        flags, spec = frames["flags"], roster.spec
        alive = ((flags & int(MechFlag.ALIVE)) > 0) & roster.present
        down = (flags & int(MechFlag.FALLEN | MechFlag.SHUTDOWN)) > 0
        legged = (flags & int(MechFlag.LEGGED)) > 0
        x, y, radius = roster.zone
        distance = np.sqrt((column("x") - x) ** 2 + (column("y") - y) ** 2)
        speed = spec["max_speed"] * np.where(legged, LEGGED_SPEED, 1.0)
        travel = np.minimum(TRAVEL_LIMIT_S, np.maximum(0.0, distance - radius) / speed)
        inside = distance < radius

        def of_teams(values: NDArray[Any]) -> Floats:
            sides = [np.where(alive, values, 0.0)[:, roster.team == team].sum(axis=1) for team in range(TEAMS)]
            return np.stack(sides, axis=1)

        def constant(values: Floats) -> Floats:
            return np.array([(values * roster.present)[roster.team == team].sum() for team in range(TEAMS)])

        each = np.ones(len(ticks))[:, None]
        return MatchSituation(
            present=each * constant(np.ones(len(roster.team))),
            alive=of_teams(np.ones(alive.shape)),
            hp=of_teams(column("hp")),
            full=each * constant(spec["hp"]),
            legs=of_teams(np.clip(column("leg_hp") / spec["leg_hp"], 0.0, 1.0)),
            down=of_teams(down),
            painted=of_teams((flags & int(MechFlag.PAINTED)) > 0),
            in_zone=of_teams(inside * spec["hp"]),
            travel=of_teams(travel),
            score=column("score"),
            limit=roster.limit,
            left=np.maximum(0.0, roster.seconds - ticks / roster.hz),
            skill=np.full(len(ticks), roster.skill or 0.0),
            rated=roster.skill is not None,
        )


def _difference(pair: Floats) -> Floats:
    return pair[:, 0] - pair[:, 1]


def _balance(pair: Floats) -> Floats:
    total = pair.sum(axis=1)
    return np.divide(_difference(pair), total, out=np.zeros(len(total)), where=total > 0)


def _mean(s: MatchSituation, total: Floats) -> Floats:
    return total / np.maximum(1.0, s.alive)


def _ratio(s: MatchSituation) -> Floats:
    share = s.hp / np.maximum(1.0, s.full) + HP_FLOOR
    return np.log(share[:, 0]) - np.log(share[:, 1])


def _late(s: MatchSituation) -> Floats:
    return LATE_S / (LATE_S + s.left)


def _close(s: MatchSituation) -> Floats:
    return np.exp(-np.maximum(0.0, s.limit - s.score) / CLOSE_S)


def _size(s: MatchSituation) -> Floats:
    return np.log2(np.maximum(1.0, s.present.sum(axis=1) / TEAMS) / SIZE)


HP_FLOOR = 0.05
"""Added to the shares of hit points, so that their ratio stays finite."""
LEAD_S = 2.0
"""Lead in zone points that is nearly as good as any other when the time is up [s]."""
TRAVEL_S = 10.0
"""Unit of the travel time [s]."""


@dataclass(frozen=True)
class WinFeature:
    """A value per frame that changes its sign when the teams are swapped."""

    name: str
    group: str
    """Quantity that it belongs to, as the viewer names it."""
    value: Callable[[MatchSituation], Floats]


FEATURES: tuple[WinFeature, ...] = (
    WinFeature("alive", "mechs alive", lambda s: _balance(s.alive)),
    WinFeature("alive_size", "mechs alive", lambda s: _balance(s.alive) * _size(s)),
    WinFeature("hp", "hit points", lambda s: _balance(s.hp)),
    WinFeature("hp_ratio", "hit points", _ratio),
    WinFeature("hp_size", "hit points", lambda s: _balance(s.hp) * _size(s)),
    WinFeature("hp_late", "hit points", lambda s: _balance(s.hp) * _late(s)),
    WinFeature("lead", "zone points", lambda s: _difference(s.score) / s.limit),
    WinFeature("lead_late", "zone points", lambda s: np.tanh(_difference(s.score) / LEAD_S) * _late(s)),
    WinFeature("close", "zone points", lambda s: _difference(_close(s))),
    WinFeature("zone", "zone control", lambda s: _balance(s.in_zone)),
    WinFeature("zone_late", "zone control", lambda s: _balance(s.in_zone) * _late(s)),
    WinFeature("zone_close", "zone control", lambda s: _balance(s.in_zone) * _close(s).max(axis=1)),
    WinFeature("travel", "distance to the zone", lambda s: _difference(_mean(s, s.travel)) / -TRAVEL_S),
    WinFeature("down", "knocked down", lambda s: -_difference(_mean(s, s.down))),
    WinFeature("legs", "leg damage", lambda s: _difference(_mean(s, s.legs))),
    WinFeature("painted", "painted", lambda s: -_difference(_mean(s, s.painted))),
    WinFeature("skill", PILOTS, lambda s: s.skill),
    WinFeature("skill_alive", PILOTS, lambda s: s.skill * s.alive.sum(axis=1) / np.maximum(1.0, s.present.sum(axis=1))),
    WinFeature("skill_late", PILOTS, lambda s: s.skill * _late(s)),
)
"""The inputs of the model, in the order of its coefficients."""


def features(situation: MatchSituation) -> Floats:
    return np.stack([feature.value(situation) for feature in FEATURES], axis=1)


def sigmoid(z: Floats) -> Floats:
    """Return the logistic function of z; that of -z is exactly 1 minus it."""
    upper = 1.0 / (1.0 + np.exp(-np.abs(z)))
    return np.where(z >= 0, upper, 1.0 - upper)


class WinEstimate(NamedTuple):
    """Estimates of F frames."""

    p: Floats
    """Probability that blue wins ``[F]``."""
    low: Floats
    """Ends of the band in which 90 % of the results of continuations lie ``[F]``."""
    high: Floats
    parts: Floats
    """Part of each of ``GROUPS`` in the logarithm of the odds ``[F, G]``."""


@dataclass(frozen=True)
class WinModel:
    """Coefficients of the N features."""

    weights: Floats
    """``[N]``."""
    spread: tuple[float, float]
    """Half the band's width in the logarithm of the odds, with known and with unknown ratings."""
    ratings: Mapping[str, float]
    """By scripted level and by id of a policy that ships with this version."""

    def estimate(self, situation: MatchSituation) -> WinEstimate:
        parts = features(situation) * self.weights
        groups = np.array([GROUPS.index(feature.group) for feature in FEATURES])
        z, spread = parts.sum(axis=1), self.spread[0 if situation.rated else 1]
        sums = np.stack([parts[:, groups == g].sum(axis=1) for g in range(len(GROUPS))], axis=1)
        return WinEstimate(sigmoid(z), sigmoid(z - spread), sigmoid(z + spread), sums)


@cache
def load_model(path: Path = MODEL_FILE) -> WinModel:
    """Return the model of a file; ``ValueError`` unless it has the format and the features of this version."""
    data = json.loads(path.read_text(encoding="utf-8"))
    names = [feature.name for feature in FEATURES]
    if data.get("format") != MODEL_FORMAT or data.get("features") != names:
        raise ValueError(f"win model {path.name!r} has other features than this version; try just fit-winprob")
    return WinModel(np.array(data["weights"], np.float64), tuple(data["spread"]), data["ratings"])


def known_rating(*names: str) -> float | None:
    """Return the rating of the first of ``names`` that the model has, a level or the id of a policy; None without."""
    ratings = load_model().ratings
    return next((ratings[key] for name in names if (key := name.removeprefix(LEVEL_PREFIX)) in ratings), None)
