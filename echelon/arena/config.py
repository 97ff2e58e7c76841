"""The dials of an arena job, with a unit and a reason each; what cannot be is a ``ValueError`` in one line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from echelon.arena.glicko2 import DEFAULT_CONSERVATISM
from echelon.arena.matchmaking import SCHEMES
from echelon.config import require
from echelon.config.ranges import require_ranges

COUNT = (1, 10**6)
RANGES: dict[str, tuple[float, float]] = {
    "rounds": COUNT,
    "seeds": COUNT,
    "opponents": COUNT,
    "seed": (0, 2**31 - 1),
    "weapon_prob": (0.0, 1.0),
    "envs": COUNT,
    "threads": (0, 4096),
    "cache": COUNT,
    "record_share": (0.0, 1.0),
    "upset": (0.0, 0.5),
    "most_upsets": (0, 10**6),
    "promote_top": (0, 10**6),
    "conservatism": (0.0, 3.0),
    "keep_top": (1, 10**6),
    "min_games": (0, 10**6),
}
"""Least and most of each dial."""


@dataclass(frozen=True, kw_only=True)
class ArenaConfig:
    """What an arena job plays, and what it makes of the results."""

    rounds: int = 1
    """Rounds; each is a rating period."""
    scheme: str = "round-robin"
    """A row of ``matchmaking.SCHEMES``."""
    seeds: int = 4
    """Seeds on which two entries meet in a round; each is played from both sides."""
    opponents: int = 3
    """Opponents that an entry draws in a round of scheme ``skill``."""
    only: tuple[str, ...] = ()
    """Ids of entries whose matches are wanted; empty wants all."""
    seed: int = 0
    """Of everything drawn: pairs, maps, battles, actions."""
    deterministic: bool = True
    """Policies fly their mean action; otherwise they draw."""
    weapon_prob: float = 1.0
    """Chance that a scripted pilot's triggers are kept."""
    envs: int = 64
    """Matches played at a time."""
    device: str = "cpu"
    """Where battles and policies are computed."""
    threads: int = 0
    """Threads shared by battles and policies; 0 takes every core."""
    cache: int = 20
    """Policies kept loaded."""
    record_share: float = 0.0
    """Share of the matches whose replay is kept."""
    upset: float = 0.2
    """A win is an upset where less than this score was expected; its replay is kept."""
    most_upsets: int = 4
    """Upsets of a round whose replays are kept, the most surprising first."""
    promote_top: int = 0
    """A candidate becomes commander when it ranks among the first so many; 0 promotes nobody."""
    conservatism: float = DEFAULT_CONSERVATISM
    """Deviations below its rating by which that rank is counted: 0 promotes by the rating alone."""
    keep_top: int = 20
    """Commanders beyond so many retire."""
    min_games: int = 20
    """Games before which nobody retires."""
    age_idle: bool = False
    """Whether a round makes those who did not play less certain."""

    def __post_init__(self) -> None:
        require(self.scheme in SCHEMES, "arena.scheme", self.scheme, f"one of: {', '.join(SCHEMES)}")
        require_ranges(self, "arena", RANGES)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> ArenaConfig:
        """Return the settings written as ``as_dict``; unknown names are errors."""
        known = {f.name for f in fields(cls)}
        for name in row:
            require(name in known, "arena setting", name, f"one of: {', '.join(sorted(known))}")
        return cls(**{**row, "only": tuple(row.get("only", ()))})
