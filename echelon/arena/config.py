"""Configuration of an arena job; an invalid value raises a one-line ``ValueError``."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from echelon.arena.glicko2 import DEFAULT_CONSERVATISM
from echelon.arena.matchmaking import SCHEMES
from echelon.config import require
from echelon.config.checks import STRICT, Count, Fraction, require_fields
from echelon.config.seeds import MAX_SEED


@dataclass(frozen=True, kw_only=True)
class ArenaConfig:
    """Matches of an arena job, recording, promotion and retirement."""

    __pydantic_config__ = STRICT

    rounds: Annotated[int, Interval(ge=1, le=10**6)] = 1
    """Number of rounds; each is a rating period."""
    scheme: str = "round-robin"
    """Pairing scheme: ``round-robin`` or ``skill`` (opponents of similar rating)."""
    seeds: Annotated[int, Interval(ge=1, le=10**6)] = 4
    """Seeds per pair and round; each seed is played from both sides."""
    opponents: Annotated[int, Interval(ge=1, le=10**6)] = 3
    """Opponents sampled per entry and round with scheme ``skill``."""
    only: tuple[str, ...] = ()
    """Ids of entries whose matches are played; empty plays all."""
    seed: Annotated[int, Interval(ge=0, le=MAX_SEED)] = 0
    """Random seed of pairs, maps, matches and sampled actions."""
    deterministic: bool = True
    """Policies use their mean action; otherwise they sample."""
    weapon_prob: Fraction = 1.0
    """Probability that a scripted pilot's trigger takes effect."""
    envs: Annotated[int, Interval(ge=1, le=10**6)] = 64
    """Matches played at the same time."""
    device: str = "cpu"
    """Device of simulation and policies."""
    threads: Annotated[int, Interval(ge=0, le=4096)] = 0
    """CPU threads of simulation and policies; 0 uses every core."""
    cache: Annotated[int, Interval(ge=1, le=10**6)] = 20
    """Capacity of the policy cache [policies]."""
    record_share: Fraction = 0.0
    """Fraction of matches whose replay is recorded."""
    upset: Annotated[float, Interval(ge=0.0, le=0.5)] = 0.2
    """Win probability below which a win counts as an upset, whose replay is recorded."""
    most_upsets: Count = 4
    """Maximum recorded upsets per round, least likely first."""
    promote_top: Count = 0
    """Promote candidates ranked in the top N; 0 disables promotion."""
    conservatism: Annotated[float, Interval(ge=0.0, le=3.0)] = DEFAULT_CONSERVATISM
    """Rank candidates by rating - k * RD with this k; 0 ranks by rating alone."""
    keep_top: Annotated[int, Interval(ge=1, le=10**6)] = 20
    """Maximum number of commanders; the weakest beyond it retire."""
    min_games: Count = 20
    """Minimum games before an entry can retire."""
    age_idle: bool = False
    """Increase the rating deviation of idle entries."""
    launcher: str = ""
    """Launcher with its options, on whose hosts the matches are played; empty plays them here."""
    hosts: Annotated[int, Interval(ge=1, le=10_000)] = 1
    """Shards into which a launcher's matches are divided."""

    def __post_init__(self) -> None:
        require(self.scheme in SCHEMES, "arena.scheme", self.scheme, f"one of: {', '.join(SCHEMES)}")
        require_fields(self, "arena")
