"""Results of evaluation jobs: the file ``evals.jsonl`` of a run, and rows for its tables.

A job writes one ``EventEval`` per opponent into the run that it evaluated; its own records contain the same results,
and before them the batches that it has played.
"""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from echelon import champion
from echelon.statistics import Z_95, Estimate
from echelon.telemetry.events import EventEval, EventEvalBatch
from echelon.telemetry.log import EventFollower
from echelon.telemetry.snapshot import RunSnapshot

MAX_EVALUATIONS = 1000

UNTRAINED = "untrained"

PURPOSES = {"choice": "selection", "report": "report"}


@dataclass(frozen=True, kw_only=True)
class EvaluationRow:
    """One line of a table of evaluations: a policy against one opponent."""

    opponent: str
    mean: Estimate | None = None
    """Win rate with mean actions and its 95 % confidence interval."""
    sampled: Estimate | None = None
    """With sampled actions."""
    episodes: int = 0
    planned: int = 0
    update: int = 0
    first_seed: int = -1
    """First seed; -1 where unknown."""
    maps: str = ""
    """Kind and size of the maps; empty where unknown."""
    job: str = ""
    purpose: str = ""
    """selection where it decides which checkpoint is the best, report where it decides nothing; empty where unknown."""
    chosen: bool = False
    """Whether it chose its checkpoint as the best so far."""
    global_step: int = 0
    draw_rate: float = 0.0
    time: float = 0.0
    """End of the evaluation, or of its newest batch [s since the epoch]."""


def newest_results(events: Iterable[object], limit: int | None = MAX_EVALUATIONS) -> tuple[EventEval, ...]:
    """Return the newest results among ``events``, oldest first; one that a resumed job wrote again counts once."""
    found: dict[tuple[str, str], EventEval] = {}
    for event in events:
        if isinstance(event, EventEval):
            found.setdefault((event.job, event.opponent), event)
    return tuple(found.values())[-(limit or len(found)) :]


def read_evaluations(path: Path, tail_bytes: int | None = None) -> tuple[EventEval, ...]:
    """Return the results of evaluation jobs in ``evals.jsonl``, oldest first; none where there is no such file.

    With ``tail_bytes`` only those at the end of the file, for lists of runs.
    """
    try:
        offset = max(0, os.stat(path).st_size - tail_bytes) if tail_bytes else 0
        return newest_results(EventFollower(path, offset=offset).poll())
    except OSError:
        return ()


def evaluation_rows(snapshot: RunSnapshot) -> list[EvaluationRow]:
    """Return the rows of a run or of an evaluation job: the newest job first, its opponents in order of play."""
    if snapshot.is_evaluation:
        done = {event.opponent: row_of(event) for event in newest_results(snapshot.evals)}
        running = rows_of_batches(snapshot.batches)
        return [done.get(row.opponent, row) for row in running]
    jobs: dict[str, list[EvaluationRow]] = {}
    for event in snapshot.reports:
        jobs.setdefault(event.job, []).append(row_of(event))
    return [row for rows in reversed(jobs.values()) for row in rows]


def training_rows(snapshot: RunSnapshot) -> list[EvaluationRow]:
    """Return the rows of the evaluations during training, newest first; none of an evaluation job."""
    events = () if snapshot.is_evaluation else reversed(snapshot.evals)
    return [row_of(e) if snapshot.is_trained(e) else replace(row_of(e), purpose=UNTRAINED) for e in events]


def row_of(event: EventEval) -> EvaluationRow:
    rate = Estimate(event.win_rate, event.win_low, event.win_high)
    sampled = Estimate(event.sampled_win_rate, event.sampled_low, event.sampled_high)
    has_both = math.isfinite(event.sampled_win_rate)
    size = "x".join(map(str, event.map_size))
    return EvaluationRow(
        opponent=event.opponent,
        mean=rate if event.deterministic else None,
        sampled=rate if not event.deterministic else sampled if has_both else None,
        episodes=event.episodes,
        planned=event.episodes,
        update=event.update,
        first_seed=event.seeds[0] if event.seeds else -1,
        maps=f"{event.maps} {size}".strip(),
        job=event.job,
        purpose=PURPOSES.get(event.purpose, ""),
        chosen=event.is_best and event.purpose == "choice",
        global_step=event.global_step,
        draw_rate=event.draw_rate,
        time=event.time,
    )


def rows_of_batches(batches: Iterable[EventEvalBatch]) -> list[EvaluationRow]:
    newest: dict[str, dict[bool, EventEvalBatch]] = {}
    for batch in (batch for batch in batches if batch.condition == EventEvalBatch.condition):
        newest.setdefault(batch.opponent, {})[batch.deterministic] = batch
    return [_running_row(opponent, found) for opponent, found in newest.items()]


def _running_row(opponent: str, found: dict[bool, EventEvalBatch]) -> EvaluationRow:
    rates = {key: Estimate(b.win_rate, b.win_low, b.win_high) for key, b in found.items()}
    return EvaluationRow(
        opponent=opponent,
        mean=rates.get(True),
        sampled=rates.get(False),
        episodes=max(b.episodes for b in found.values()),
        planned=max(b.episodes_planned for b in found.values()),
        time=max(b.time for b in found.values()),
    )


YARDSTICK: tuple[str, ...] = (
    "heuristic:trivial",
    "heuristic:easy",
    "heuristic:medium",
    "heuristic:hard",
    "heuristic:expert",
    champion.NAME,
)
"""Opponents of the ladder (``echelon eval RUN --ladder``); the levels are those of ``echelon.config.LADDER``, which
lists of runs do not load. The ladder score is the mean win rate against them. A run without a result against one has
none: means over different opponents would not compare."""

ADDED = 2
"""Wins, and as many losses, that are added for the interval (Agresti and Coull, 1998)."""


def ladder_score(results: Iterable[EventEval]) -> Estimate:
    """Return the ladder score with its 95 % interval, of the newest checkpoint evaluated; NaN where it has none.

    Results of one checkpoint by several jobs are combined, the newest against each opponent.
    """
    rated = [e for e in results if e.deterministic and e.episodes > 0 and not e.weapon_prob < 1.0]
    newest = max((e.update for e in rated), default=0)
    found = {e.opponent: e for e in rated if e.update == newest}
    if not all(name in found for name in YARDSTICK):
        return Estimate(math.nan, math.nan, math.nan)
    played = [found[name] for name in YARDSTICK]
    value = sum(e.win_rate for e in played) / len(played)
    variance = 0.0
    for e in played:
        share = (e.win_rate * e.episodes + ADDED) / (e.episodes + 2 * ADDED)
        variance += share * (1 - share) / (e.episodes + 2 * ADDED)
    half = Z_95 * math.sqrt(variance) / len(played)
    return Estimate(value, max(0.0, value - half), min(1.0, value + half))
