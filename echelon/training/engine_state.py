"""Restores the running episodes of a training run; ``echelon.env.engine_state`` saves and loads the state."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from echelon.env.engine_state import FIRST_TERMS, TERMS, EngineStateMismatch, load_engine_state, save_engine_state
from echelon.training.runtime.process_group import ProcessGroup

__all__ = ["FIRST_TERMS", "TERMS", "EngineStateMismatch", "load_engine_state", "restore_episodes", "save_engine_state"]


def restore_episodes(env: Any, state: dict[str, NDArray[Any]], group: ProcessGroup) -> str:
    """Restore the running episodes of a rank's ``env``; return why new ones begin instead, the same on every rank."""
    notice = ""
    try:
        env.load_state_dict(state)
    except EngineStateMismatch as error:
        notice = f"new episodes begin: {error}"
    return next(filter(None, group.all_gather(notice)), "")
