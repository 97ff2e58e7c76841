"""Initial content of a league: the scripted levels that anchor its rating scale. Import-light."""

from __future__ import annotations

from typing import get_args

from echelon.arena.league import LeagueEntry
from echelon.arena.store import Store
from echelon.config import PilotSkill

ENV_SETTING = "env"
"""Setting that holds the environment configuration of the league."""
SCRIPTED_LEVELS: tuple[str, ...] = get_args(PilotSkill)
"""Scripted levels that can be added."""
DEFAULT_LEVELS = ("trivial", "easy", "medium", "hard", "expert")
"""Scripted levels of a new league."""


def add_default_levels(store: Store) -> None:
    if not store.league().entries:
        with store.editing() as league:
            for level in DEFAULT_LEVELS:
                league.add_scripted(level)


def add_level(store: Store, level: str) -> LeagueEntry:
    add_default_levels(store)
    with store.editing() as league:
        entry = league.add_scripted(level)
        entry.kind = "heuristic"
    return entry
