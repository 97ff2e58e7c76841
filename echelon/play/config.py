"""Options of a play session, as its job stores them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from echelon.arena.standings import find_entry
from echelon.arena.store import Store, StoreError, league_path
from echelon.play_protocol import MAX_SEATS, SPEEDS, Changes, Name, Seed
from echelon.runs import command
from echelon.validation import validated

DEFAULT_LEVEL = "medium"
"""Opponent where no run has a checkpoint."""
RATED = "rated"
"""Value of ``league`` that lets a match count for ratings."""
TUTORIAL_S = 60.0
"""Length of the tutorial [s]."""


class PlayConfig(BaseModel):
    """What a session plays; pilots are names of the catalogue."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    opponent: Name = ""
    """"" the newest run with a checkpoint, else ``DEFAULT_LEVEL``."""
    mates: Name = ""
    """Pilots of the human's team mates, "" as the opponent."""
    team: Literal["blue", "red"] = "blue"
    chassis: Name = ""
    """Class of the human's mech, "" any."""
    preset: Name = ""
    """Preset whose game is played, "" that of the opponent's training."""
    size: Annotated[int, Field(ge=20, le=1024)] | None = None
    """Map edge [vox]."""
    packs: Annotated[int, Field(ge=1, le=40)] | None = None
    seconds: Annotated[float, Field(gt=0, le=7200)] | None = None
    seed: Seed = 0
    speed: Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1])] = 1.0
    seats: Annotated[int, Field(ge=1, le=MAX_SEATS)] = 1
    changes: Changes = {}
    league: Literal["", "unrated", "rated"] = ""
    """How matches enter the league as those of the entry ``human``; "" not at all."""
    tutorial: bool = False
    idle: bool = False
    """Whether it begins without a match and waits for requests as long as its server runs."""

    @classmethod
    def from_dict(cls, values: Any) -> PlayConfig:
        """Return the options of a job's spec; ``ValueError`` in one line for one of another form."""
        try:
            return validated(cls, values)
        except ValueError as error:
            raise ValueError(f"play option {error}") from None

    def as_dict(self) -> Mapping[str, Any]:
        """Return the options as plain values."""
        return self.model_dump()


def league_opponent(config: PlayConfig, home: Path) -> str:
    """Return the league entry that the options name as opponent; ``ValueError`` for options that no league allows."""
    if not config.opponent or config.seats > 1 or config.tutorial or config.idle:
        raise ValueError("a match of the league needs a named OPPONENT and one human pilot, and is no tutorial")
    given = (config.mates, config.preset, config.size, config.packs, config.seconds, config.changes, config.speed != 1)
    if config.league == RATED and any(given):
        raise ValueError(
            "a rated match is the league's game at its speed, "
            "expected no --with, --preset, --size, --packs, --seconds and --speed"
        )
    try:
        with Store(league_path(home), create=False, read_only=True) as store:
            return find_entry(store, config.opponent)
    except StoreError as error:
        raise ValueError(f"{error}; add it with: {command('arena', 'add', config.opponent)}") from None
