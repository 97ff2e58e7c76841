"""Matches as data: seed and sides, pilots, options of playing, and results.

``echelon.arena.match_runner`` plays them. Scripted pilots run on the device; all other actions come from a
``PolicyRunner``. Torch is not loaded here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from echelon.agents import heuristic
from echelon.arena.commander import Commander
from echelon.arena.episodes import EpisodeRecord
from echelon.config import EnvConfig, require
from echelon.config.seeds import folded, require_seed
from echelon.env.engine import Engine
from echelon.replay.header import TeamInfo

BLUE, RED, DRAW = 0, 1, 2
FORFEIT = "forfeit"
"""Reason of a match that ended because a side's actions were not finite."""
DEFAULT_NUM_ENVS = 64


@dataclass(frozen=True)
class Pairing:
    """One match to play."""

    number: int
    seed: int
    swapped: bool
    """Whether the first pilot plays red."""


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """A player of matches: a scripted level or the policy of a checkpoint."""

    id: str
    label: str
    level: str = ""
    """Name of a scripted level; empty for a policy."""
    path: str = ""
    checkpoint: str = ""
    rating: float | None = None
    """Rating on the scale of ``echelon.replay.winprob`` [points]; None unknown, or that of the level."""


@dataclass(frozen=True, kw_only=True)
class MatchPlan:
    """Configuration, pilots and sides of a list of matches."""

    env: EnvConfig
    pilots: Mapping[str, Pilot]
    """By id."""
    seats: Mapping[int, tuple[str, str]]
    """Ids of the blue and red pilot, by match number."""
    weapon_prob: float = 1.0
    """Probability that a scripted pilot's trigger takes effect."""

    def sides(self, pairing: Pairing) -> tuple[str, str]:
        return self.seats[pairing.number]

    def script(self, name: str) -> int:
        level = self.pilots[name].level
        return heuristic.script_of(level) if level else 0

    def team(self, name: str, *, mean: bool = False) -> TeamInfo:
        """Return a pilot as recordings name it; ``mean`` if policies play their mean actions."""
        pilot = self.pilots[name]
        level = f"heuristic:{pilot.level}" if pilot.level else ""
        return TeamInfo(
            name=pilot.label,
            level=level,
            checkpoint=pilot.checkpoint,
            rating=pilot.rating,
            mean=(mean and not level) or None,
        )


class PolicyRunner(Protocol):
    """Source of actions for the mechs that no script controls."""

    @property
    def deterministic(self) -> bool:
        """Whether policies play their mean actions."""
        ...

    @property
    def may_need_scripts(self) -> bool:
        """Whether scripted pilots may have to fly in a policy's place."""
        ...

    def start_matches(self, engine: Engine, seats: Mapping[int, tuple[Pairing, tuple[str, str]]]) -> None:
        """Assign policies to matches that start: pairing, blue and red by environment; other environments continue."""

    def act(self) -> None:
        """Write the actions of the next decision; a side whose actions are not finite forfeits."""

    def end_matches(self, envs: Sequence[int]) -> None: ...

    @property
    def forfeits(self) -> Mapping[int, frozenset[int]]: ...


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A series of matches between two pilots; an invalid value raises ``ValueError``."""

    env: EnvConfig
    pilots: tuple[str, str]
    """First and second pilot; the first plays blue unless sides are swapped."""
    policies: Mapping[str, Pilot] = field(default_factory=dict)
    """Pilots that are policies, by name; the others are scripted."""
    matches: int
    first_seed: int = 0
    swap: bool = False
    """Whether every seed is played from both sides."""
    weapon_prob: float = 1.0

    def __post_init__(self) -> None:
        names = (*heuristic.SKILLS, *self.policies)
        for name in self.pilots:
            require(name in names, "pilot", name, f"one of: {', '.join(names)}")
        require(self.matches >= 1, "matches", self.matches, "at least 1")
        require(
            not self.swap or self.matches % 2 == 0, "matches", self.matches, "an even number, because sides are swapped"
        )
        require_seed(self.first_seed)
        require(0.0 <= self.weapon_prob <= 1.0, "weapon_prob", self.weapon_prob, "0 to 1")

    def pairings(self) -> list[Pairing]:
        """Return every match in order; the two matches of a swapped pair share a seed and are adjacent."""
        return [
            Pairing(n, folded(self.first_seed + (n // 2 if self.swap else n)), self.swap and n % 2 == 1)
            for n in range(self.matches)
        ]

    @cached_property
    def plan(self) -> MatchPlan:
        levels = {name: Pilot(id=name, label=name, level=name) for name in self.pilots}
        first, second = self.pilots
        seats = {p.number: (second, first) if p.swapped else (first, second) for p in self.pairings()}
        return MatchPlan(env=self.env, pilots={**levels, **self.policies}, seats=seats, weapon_prob=self.weapon_prob)


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """One match that was played to its end; arrays have M mechs as first axis, blue first."""

    pairing: Pairing
    record: EpisodeRecord
    statistics: Mapping[str, NDArray[Any]]
    """The fields of ``echelon.arena.match_statistics``, and ``team``, ``chassis``, ``present``."""


@dataclass(kw_only=True)
class MatchSession:
    """Options of playing a list of matches, and its progress: ``play`` sets the fields from ``stopped`` on."""

    envs: int = DEFAULT_NUM_ENVS
    device: str = "cpu"
    threads: int = 0
    """CPU threads; 0 uses every core."""
    folder: Path | None = None
    """Folder of the replays; None records nothing."""
    prefix: str = ""
    record: frozenset[int] = frozenset()
    policy_columns: bool = False
    """Whether replays contain contacts and rewards besides actions."""
    about: Mapping[str, Any] = field(default_factory=dict)
    policy_runner: PolicyRunner | None = None
    commanders: Mapping[str, Commander] = field(default_factory=dict)
    """By id of the pilots that they command."""
    max_decisions: int = 0
    """Decisions after which a match counts as drawn; 0 is no limit."""
    on_status: Callable[[str], object] = lambda text: None
    should_stop: Callable[[], bool] = lambda: False
    stopped: bool = False
    """Whether ``should_stop`` ended the session before all matches were played."""
    seconds: float = 0.0
    """Time spent playing, without compilation and map generation [s]."""
    replays: dict[int, Path] = field(default_factory=dict)
    """Replay file by match number, of the recorded matches that reached their end."""
    recording_errors: list[str] = field(default_factory=list)
    """Why matches were not recorded, one line for each aborted batch."""
    hp_at_limit: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Hit points of blue and red by match number, of matches that ``max_decisions`` ended."""
