"""Options of a play session, as its job stores them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from echelon.config.seeds import MAX_SEED
from echelon.play_protocol import MAX_SEATS, SPEEDS, Changes, Name

DEFAULT_LEVEL = "medium"
"""Opponent where no run has a checkpoint."""
FIRST_LEVEL = "trivial"
"""Opponent after the tutorial."""
TUTORIAL_S = 3600.0
"""Length of the tutorial, which waits for its pilot [s]."""


class PlayConfig(BaseModel):
    """What a session plays; pilots are names of the catalogue."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    opponent: Name = ""
    """"" the newest run with a checkpoint, else ``DEFAULT_LEVEL``."""
    mates: Name = ""
    """Pilots of the human's team mates, "" as the opponent."""
    commander: Annotated[str, Field(max_length=4096)] = ""
    """``FILE.py[:FUNCTION]`` that commands the hostiles, "" nobody; no message of a client sets it."""
    team: Literal["blue", "red"] = "blue"
    chassis: Name = ""
    """Class of the human's mech, "" any."""
    preset: Name = ""
    """Preset whose game is played, "" that of the opponent's training."""
    size: Annotated[int, Field(ge=20, le=1024)] | None = None
    """Map edge [vox]."""
    packs: Annotated[int, Field(ge=1, le=40)] | None = None
    seconds: Annotated[float, Field(gt=0, le=7200)] | None = None
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 0
    speed: Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1])] = 1.0
    seats: Annotated[int, Field(ge=1, le=MAX_SEATS)] = 1
    changes: Changes = {}
    tutorial: bool = False
    command: bool = False
    """Whether the human commands the team and flies no mech."""
    idle: bool = False
    """Whether it begins without a match and waits for requests as long as its server runs."""
