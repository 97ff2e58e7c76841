"""Ratings of policies: what the league or the last evaluation says, on the scale of ``echelon.replay.winprob``."""

import contextlib
import math
from pathlib import Path

from echelon.arena.standings import rating_shift
from echelon.arena.store import Store, StoreError, league_path
from echelon.arena.submit import run_folder
from echelon.replay.winprob import RATING_POINTS, known_rating
from echelon.runs import RunPaths
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EvalStats, EventEval
from echelon.telemetry.log import read_events


def policy_rating(path: Path, checkpoint: str, update: int, *, sampled: bool = True) -> float | None:
    """Return the rating of the policy ``checkpoint`` in the file or folder ``path``; None where nothing measured it.

    An early policy may win half of its matches with ``sampled`` actions and none with mean ones.
    """
    rating = known_rating(checkpoint)
    if rating is None:
        rating = league_rating(checkpoint)
    run = run_folder(path / "policy")
    return evaluated_rating(RunPaths(run), update, sampled=sampled) if rating is None and run is not None else rating


def league_rating(checkpoint: str) -> float | None:
    """Return the displayed rating of the league entry with a checkpoint's id that has played."""
    with contextlib.suppress(StoreError), Store(league_path(), read_only=True) as store:
        for entry in store.league().entries.values():
            if checkpoint and entry.games and entry.meta.get("checkpoint") == checkpoint:
                return entry.rating.rating + rating_shift(store)
    return None


def evaluated_rating(run: RunPaths, update: int, *, sampled: bool) -> float | None:
    """Return the rating by a run's last evaluation up to an update; None before its first one."""
    found = [*read_events(run.metrics)[0], *read_evaluations(run.evals)]
    rated = [event for event in found if isinstance(event, EventEval) and event.update <= update and rating_by(event)]
    newest = max((event.update for event in rated), default=0)
    # of several opponents the most equal one says the most
    closest = min(
        (event for event in rated if event.update == newest),
        key=lambda event: abs(_points(event, sampled) / event.episodes - 0.5),
        default=None,
    )
    return rating_by(closest, sampled=sampled) if closest else None


def _points(result: EvalStats, sampled: bool) -> float:
    """Return wins and half the draws with sampled actions where they were measured, else those of the evaluation."""
    if sampled and not math.isnan(result.sampled_win_rate):
        return result.episodes * result.sampled_win_rate
    return result.episodes * (result.win_rate + result.draw_rate / 2)


def rating_by(result: EventEval, *, sampled: bool = True) -> float | None:
    """Return the rating that the win rate against a scripted level means; None for another opponent."""
    return rating_against(result.opponent, result.weapon_prob, result, sampled=sampled)


def rating_against(opponent: str, weapon_prob: float, result: EvalStats, *, sampled: bool) -> float | None:
    """Return what ``rating_by`` does, for a result that is not recorded yet."""
    level = known_rating(opponent)
    if level is None or weapon_prob != 1.0:
        return None
    points = _points(result, sampled)
    return level + RATING_POINTS * math.log((points + 0.5) / (result.episodes - points + 0.5))
