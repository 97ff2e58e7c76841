"""What a match is: its seed and sides, who flies them, how it is played, and what came of it.

Playing them is ``echelon.arena.match_runner``. Scripted pilots fly on the device; whoever else does is a ``PolicyRunner``. Torch is
not loaded here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from echelon.agents import heuristic
from echelon.arena.episodes import EpisodeRecord
from echelon.config import EnvConfig, require
from echelon.env.engine import Engine
from echelon.replay.header import TeamInfo

BLUE, RED, DRAW = 0, 1, 2
FORFEIT = "forfeit"
"""Reason of a match that ended because a side gave no orders that can be followed."""
DEFAULT_NUM_ENVS = 64
"""Environments played at a time unless told otherwise."""
SEED_LIMIT = 2**31
"""Seeds are below this: the simulator is handed them as 32-bit integers."""
PILOT_ALIASES = {"baseline": "legacy"}
"""Further names of pilots."""


def pilot_names() -> tuple[str, ...]:
    """Return every name that a pilot answers to."""
    return (*PILOT_ALIASES, *heuristic.SKILLS)


@dataclass(frozen=True)
class Pairing:
    """One match to play."""

    number: int
    seed: int
    swapped: bool
    """Whether the first pilot flies red."""


class MatchPlan(Protocol):
    """Who plays whom in which game: what ``play`` asks about the matches it is given."""

    @property
    def env(self) -> EnvConfig:
        """The game."""
        ...

    @property
    def weapon_prob(self) -> float:
        """Chance that a scripted pilot's trigger is pulled at all."""
        ...

    def sides(self, pairing: Pairing) -> tuple[str, str]:
        """Return who flies blue and who flies red."""
        ...

    def script(self, name: str) -> int:
        """Return which scripted pilot that is, 0 for none."""
        ...

    def team(self, name: str) -> TeamInfo:
        """Return what a replay says about a pilot."""
        ...


class PolicyRunner(Protocol):
    """Those who fly what no script flies."""

    def start_matches(self, engine: Engine, seats: Mapping[int, tuple[Pairing, tuple[str, str]]]) -> None:
        """Take the seats of matches that are about to begin: pairing, blue and red by environment.

        The other environments play on, or rest.
        """
        ...

    def act(self) -> None:
        """Write the actions of the next decision; who cannot forfeits there."""
        ...

    def end_matches(self, envs: Sequence[int]) -> None:
        """Leave the matches that are over."""
        ...

    @property
    def forfeits(self) -> Mapping[int, frozenset[int]]:
        """The sides that forfeited, by environment."""
        ...


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Who plays whom, how often, and in which game; a wrong value is a ``ValueError``."""

    env: EnvConfig
    pilots: tuple[str, str]
    """The first, who flies blue unless sides are swapped, and the second."""
    matches: int
    first_seed: int = 0
    swap: bool = False
    """Whether every seed is played from both sides."""
    weapon_prob: float = 1.0
    """Chance that a trigger is pulled at all."""

    def __post_init__(self) -> None:
        names = pilot_names()
        for name in self.pilots:
            require(name in names, "pilot", name, f"one of: {', '.join(names)}")
        require(self.matches >= 1, "matches", self.matches, "at least 1")
        require(
            not self.swap or self.matches % 2 == 0, "matches", self.matches, "an even number, for sides are swapped"
        )
        last = SEED_LIMIT - self.matches
        require(0 <= self.first_seed <= last, "seed", self.first_seed, f"0 to {last}")
        require(0.0 <= self.weapon_prob <= 1.0, "weapon_prob", self.weapon_prob, "0 to 1")

    def pairings(self) -> list[Pairing]:
        """Return every match in order; the two of a swapped pair share a seed and follow each other."""
        return [
            Pairing(n, self.first_seed + (n // 2 if self.swap else n), self.swap and n % 2 == 1)
            for n in range(self.matches)
        ]

    def sides(self, pairing: Pairing) -> tuple[str, str]:
        """Return who flies blue and who flies red."""
        first, second = self.pilots
        return (second, first) if pairing.swapped else (first, second)

    def script(self, name: str) -> int:
        """Return the number of a scripted pilot."""
        return heuristic.script_of(PILOT_ALIASES.get(name, name))

    def team(self, name: str) -> TeamInfo:
        """Return what a replay says about a pilot."""
        return TeamInfo(name=name, level=f"heuristic:{name}")


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """One match that was played to its end; arrays have the M mechs as first axis, blue first."""

    pairing: Pairing
    record: EpisodeRecord
    statistics: Mapping[str, NDArray[Any]]
    """The fields of ``echelon.arena.match_statistics`` and team, chassis and present."""


@dataclass(kw_only=True)
class MatchSession:
    """How matches are played, and what became of that; fields from ``stopped`` on are filled in by ``play``."""

    envs: int = DEFAULT_NUM_ENVS
    device: str = "cpu"
    threads: int = 0
    folder: Path | None = None
    """Where replays go."""
    prefix: str = ""
    """First part of their names."""
    record: frozenset[int] = frozenset()
    """Numbers of the matches to record."""
    policy_columns: bool = False
    """Whether what pilots were shown, did and were paid is recorded too."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the replays' headers."""
    policy_runner: PolicyRunner | None = None
    """Who flies what no script flies."""
    max_decisions: int = 0
    """Decisions after which a match counts as drawn; 0 plays to the end."""
    on_status: Callable[[str], object] = lambda text: None
    should_stop: Callable[[], bool] = lambda: False
    stopped: bool = False
    """Whether it ended before all were played."""
    seconds: float = 0.0
    """Time spent playing, without compiling and without making maps [s]."""
    replays: dict[int, Path] = field(default_factory=dict)
    """Files of the recorded matches that were played to their end, by number."""
    recording_error: str = ""
    """Why recording ended early, if it did."""
    hp_at_limit: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Hit points of blue and red in the matches that ``max_decisions`` cut off, by number."""
