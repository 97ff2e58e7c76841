"""Configuration of an arena job; an invalid value raises a one-line ``ValueError``."""

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
    "hosts": (1, 10_000),
}
"""Minimum and maximum of each field."""


@dataclass(frozen=True, kw_only=True)
class ArenaConfig:
    """Matches of an arena job, recording, promotion and retirement."""

    rounds: int = 1
    """Number of rounds; each is a rating period."""
    scheme: str = "round-robin"
    """Pairing scheme: ``round-robin`` or ``skill`` (opponents of similar rating)."""
    seeds: int = 4
    """Seeds per pair and round; each seed is played from both sides."""
    opponents: int = 3
    """Opponents sampled per entry and round with scheme ``skill``."""
    only: tuple[str, ...] = ()
    """Ids of entries whose matches are played; empty plays all."""
    seed: int = 0
    """Random seed of pairs, maps, matches and sampled actions."""
    deterministic: bool = True
    """Policies use their mean action; otherwise they sample."""
    weapon_prob: float = 1.0
    """Probability that a scripted pilot's trigger takes effect."""
    envs: int = 64
    """Matches played at the same time."""
    device: str = "cpu"
    """Device of simulation and policies."""
    threads: int = 0
    """CPU threads of simulation and policies; 0 uses every core."""
    cache: int = 20
    """Capacity of the policy cache [policies]."""
    record_share: float = 0.0
    """Fraction of matches whose replay is recorded."""
    upset: float = 0.2
    """Win probability below which a win counts as an upset, whose replay is recorded."""
    most_upsets: int = 4
    """Maximum recorded upsets per round, least likely first."""
    promote_top: int = 0
    """Promote candidates ranked in the top N; 0 disables promotion."""
    conservatism: float = DEFAULT_CONSERVATISM
    """Rank candidates by rating - k * RD with this k; 0 ranks by rating alone."""
    keep_top: int = 20
    """Maximum number of commanders; the weakest beyond it retire."""
    min_games: int = 20
    """Minimum games before an entry can retire."""
    age_idle: bool = False
    """Increase the rating deviation of idle entries."""
    launcher: str = ""
    """Launcher with its options, on whose hosts the matches are played; empty plays them here."""
    hosts: int = 1
    """Shards into which a launcher's matches are divided."""

    def __post_init__(self) -> None:
        require(self.scheme in SCHEMES, "arena.scheme", self.scheme, f"one of: {', '.join(SCHEMES)}")
        require_ranges(self, "arena", RANGES)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> ArenaConfig:
        """Return the configuration written by ``as_dict``; an unknown name raises ``ValueError``."""
        known = {f.name for f in fields(cls)}
        for name in row:
            require(name in known, "arena setting", name, f"one of: {', '.join(sorted(known))}")
        return cls(**{**row, "only": tuple(row.get("only", ()))})
