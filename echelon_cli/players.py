"""How the name of a player becomes a player: a scripted level or a policy, each perhaps under a commander."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from echelon import champion
from echelon.agent_files import AGENT
from echelon.config.opponents import COMMANDER, PILOT, SCRIPTED, PilotSkill, level_of, split_commander
from echelon.jobs.config_layers import ConfigError, did_you_mean
from echelon.runs import RunNotFoundError

if TYPE_CHECKING:
    from echelon.arena.commander import Commander

LEVELS: tuple[str, ...] = get_args(PilotSkill)


@dataclass(frozen=True)
class Player:
    """Who controls mechs."""

    name: str
    """Scripted level, or policy as it was named."""
    path: Path | None = None
    """File of the policy; None for a level."""
    commander: str = ""
    """``FILE.py[:FUNCTION]`` of its commander, if it has one."""

    @property
    def title(self) -> str:
        pilot = self.name if self.path else f"{SCRIPTED}:{self.name}"
        return f"{COMMANDER}{self.commander}{PILOT}{pilot}" if self.commander else pilot

    @property
    def is_agent(self) -> bool:
        return self.name.startswith(AGENT)

    @property
    def is_mean(self) -> bool:
        """Whether the policy plays its mean actions as an opponent; otherwise it samples."""
        return self.name == champion.NAME and self.path is not None

    def open_commander(self, meta: Mapping[str, Any] | None) -> Commander | None:
        """Return its commander; ``ConfigError`` for none, or where its policy with this ``meta`` observes no orders."""
        if not self.commander:
            return None
        from echelon.arena.commander import Commander, require_orders
        from echelon.rl.checkpoint import env_config_of

        try:
            if meta is not None:
                require_orders(env_config_of(dict(meta)), self.name)
            return Commander.from_file(self.commander)
        except ValueError as error:
            raise ConfigError(str(error)) from None


def find_player(name: str, what: str = "policy") -> Player:
    """Return the player of a name, which errors call ``what``; a level may have its prefix ``heuristic:``."""
    from echelon.arena.standings import policy_path

    try:
        commander, pilot = split_commander(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    level = level_of(pilot)
    if (level or pilot) in LEVELS:
        return Player(level or pilot, None, commander)
    if level is not None:
        near, have = did_you_mean(level, LEVELS), ", ".join(LEVELS)
        raise ConfigError(f"level {level!r} does not exist{near} (have: {have})")
    try:
        return Player(pilot, policy_path(pilot, what), commander)
    except RunNotFoundError as error:
        near = f"; a program is {AGENT}COMMAND" if " " in pilot else did_you_mean(pilot, (*LEVELS, champion.NAME))
        raise RunNotFoundError(f"{error}{near}") from None
