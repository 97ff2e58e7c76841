"""Ratings of policies: what the league or the last evaluation says, on the scale of ``echelon.replay.winprob``."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

from echelon.arena.standings import rating_shift
from echelon.arena.store import Store, StoreError, league_path
from echelon.arena.submit import run_folder
from echelon.replay.winprob import RATING_POINTS, known_rating
from echelon.runs import RunPaths
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EventEval
from echelon.telemetry.log import read_events


def policy_rating(path: Path, checkpoint: str, update: int) -> float | None:
    """Return the rating of the policy ``checkpoint`` in the file or folder ``path``; None where nothing measured it."""
    rating = known_rating(checkpoint)
    if rating is None:
        rating = league_rating(checkpoint)
    run = run_folder(path / "policy")
    return evaluated_rating(RunPaths(run), update) if rating is None and run is not None else rating


def league_rating(checkpoint: str) -> float | None:
    """Return the displayed rating of the league entry with a checkpoint's id that has played."""
    with contextlib.suppress(StoreError), Store(league_path(), read_only=True) as store:
        for entry in store.league().entries.values():
            if checkpoint and entry.games and entry.meta.get("checkpoint") == checkpoint:
                return entry.rating.rating + rating_shift(store)
    return None


def evaluated_rating(run: RunPaths, update: int) -> float | None:
    """Return the rating by a run's last evaluation up to an update; None before its first one."""
    found = [*read_events(run.metrics)[0], *read_evaluations(run.evals)]
    rated = [event for event in found if isinstance(event, EventEval) and event.update <= update and rating_by(event)]
    newest = max((event.update for event in rated), default=0)
    # of several opponents the most equal one says the most
    closest = min((e for e in rated if e.update == newest), key=lambda e: abs(e.win_rate - 0.5), default=None)
    return rating_by(closest) if closest else None


def rating_by(result: EventEval) -> float | None:
    """Return the rating that the win rate against a scripted level means; None for another opponent."""
    level = known_rating(result.opponent)
    if level is None or result.weapon_prob != 1.0:
        return None
    points = result.episodes * (result.win_rate + result.draw_rate / 2)
    return level + RATING_POINTS * math.log((points + 0.5) / (result.episodes - points + 0.5))
