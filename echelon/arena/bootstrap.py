"""How a league begins: with scripted levels, which anchor its scale, and the game that it plays for good.

Loads nothing heavy.
"""

from __future__ import annotations

from typing import get_args

from echelon.arena.league import LeagueEntry
from echelon.arena.store import Store
from echelon.config import PilotSkill

ENV_SETTING = "env"
"""Name of the setting that holds the league's game."""
SCRIPTED_LEVELS: tuple[str, ...] = get_args(PilotSkill)
"""Scripted levels that may be added."""
DEFAULT_LEVELS = ("trivial", "easy", "medium", "hard", "expert")
"""Those that a new league begins with."""


def add_default_levels(store: Store) -> None:
    """Put the scripted levels into a league that has nobody yet."""
    if not store.league().entries:
        with store.editing() as league:
            for level in DEFAULT_LEVELS:
                league.add_scripted(level)


def add_level(store: Store, level: str) -> LeagueEntry:
    """Add a scripted level, or bring one back that had retired."""
    add_default_levels(store)
    with store.editing() as league:
        entry = league.add_scripted(level)
        entry.kind = "heuristic"
    return entry
