"""Options of ``VectorEnv`` by part: who controls the mechs, what they play on, and which episodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from echelon.config.opponents import DEFAULT_LEVEL

if TYPE_CHECKING:
    from echelon.gen.bank import MapBank

SideChoice = str | Sequence[str]
"""A side (blue, red, both, none) for all environments, or one per environment."""


@dataclass(frozen=True)
class Sides:
    """Sides whose mechs are rows: N of learners, K of policies that play against them."""

    learners: SideChoice = "blue"
    opponents: SideChoice = "none"
    """Mechs that policies can control; ``set_scripted_skills`` decides whether scripted pilots do instead."""


@dataclass(frozen=True)
class Pilots:
    """Scripted pilots of the mechs that do not learn."""

    skill: str = DEFAULT_LEVEL
    weapon_prob: float = 0.5
    """Probability that a pilot's trigger fires; a curriculum may change it."""


@dataclass(frozen=True)
class Maps:
    """Maps that episodes draw from. World size and packs of the configuration are the capacity."""

    count: int = 64
    """Maps in use."""
    spare: int = 16
    """Further slots, for new maps while the others are in use; at most ``count`` are made."""
    per_refresh: int = 0
    """Maps of a refresh, which are prefetched."""
    workers: int = 0
    """Processes that prefetch maps; with some, up to ``threads`` processes make the first maps of a large pool."""
    bank: "MapBank | None" = None
    """Maps to use instead of generated ones."""


@dataclass(frozen=True)
class Episodes:
    """Which episodes are played."""

    seed: int = 0
    """Seed of maps and episodes."""
    seeds: Sequence[int] | None = None
    """Episode seed of each environment, which plays on the map of the same seed; None draws from ``seed``."""
    autoreset: bool = True
    """Whether an environment starts the next episode where one ends."""
    first_env: int = 0
    """Number of the first environment, so that several batches of one seed play different episodes."""
