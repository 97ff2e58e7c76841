"""Where the policy of a name is: the champion, a path, a run, or a league entry."""

from __future__ import annotations

import contextlib
from pathlib import Path

from echelon import champion
from echelon.arena.standings import find_entry
from echelon.arena.store import Store, StoreError, league_path
from echelon.runs import RunNotFoundError, find_run


def policy_path(name: str, what: str = "policy") -> Path:
    """Return the path of the policy that ``name`` refers to; ``RunNotFoundError`` calls it ``what``."""
    if name == champion.NAME:
        return champion.FOLDER
    if Path(name).exists():
        return Path(name).absolute()
    try:
        return find_run(name).root
    except RunNotFoundError as unknown:
        with contextlib.suppress(StoreError), Store(league_path(), read_only=True) as store:
            entry = store.league().entry(find_entry(store, name))
            if entry.ckpt_path:
                return Path(entry.ckpt_path)
        expected = f"expected a checkpoint, a run or a league entry, or {champion.NAME}"
        raise RunNotFoundError(f"{what} is {name!r}, {expected}: {unknown}") from unknown
