"""Files of evaluation jobs: the batches that a job has played, and the results of a run.

``matches.jsonl`` in the job's folder has one writer; a batch in it is never played again. ``evals.jsonl`` in the folder
of the evaluated run has any number of writers, each of which appends one result at a time under a lock. A job writes
only into folders that list it in ``.eval_jobs``, which the command that the user gave has written: a job's folder may
be a copy from another machine, which must not choose files of this one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.files import LOG_FLAGS, fsync, make_folder, open_own
from echelon.jobs import lock
from echelon.runs import RunPaths, require_plain_files
from echelon.state_files import read_bounded
from echelon.telemetry.evaluations import newest_results
from echelon.telemetry.events import EventEval, EventEvalBatch
from echelon.telemetry.log import EventFollower, EventLog, read_events

if TYPE_CHECKING:
    from echelon.training.eval_job import EvalPlan, Part, PlayedPart

ADMITTED = ".eval_jobs"
"""File of the jobs that write into a folder, one a line: id and inode."""
LOCK_LIMIT_S = 60.0
"""Longest wait for other writers of ``evals.jsonl`` [s]; an append takes milliseconds."""


def admit(folder: Path, job: RunPaths) -> None:
    """Let the evaluation ``job`` write into a folder, a run or one of recordings; ``OSError`` where it is read-only."""
    if not is_admitted(folder, job):
        make_folder(folder)
        handle = open_own(folder / ADMITTED, LOG_FLAGS)
        try:
            # a torn line before it must not swallow the job's
            os.write(handle, f"\n{_line_of(job)}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        fsync(folder)


def is_admitted(folder: Path, job: RunPaths) -> bool:
    """Whether the evaluation ``job`` may write into a folder."""
    try:
        text = read_bounded(folder / ADMITTED, follow_links=False).decode(errors="replace")
        return _line_of(job) in text.split("\n")
    except (OSError, ValueError):
        return False


def admits(folder: Path, name: str) -> bool:
    """Whether a folder lists a job of this name, whichever folder the job has now."""
    try:
        text = read_bounded(folder / ADMITTED, follow_links=False).decode(errors="replace")
        return any(line.partition(" ")[0] == name for line in text.split("\n"))
    except (OSError, ValueError):
        return False


def _line_of(job: RunPaths) -> str:
    """Return the line of a job: its id and the number of its folder, which a folder of the same name does not have."""
    return f"{job.id} {os.stat(job.root).st_ino}"


def written_folder(plan: EvalPlan) -> Path:
    """Return the folder that lists the jobs that may write there: that of the evaluated run, or of the recordings."""
    return Path(plan.run or plan.replays)


def append_evaluation(path: Path, event: EventEval) -> None:
    """Append a result durably, unless the same job has appended its result against this opponent before.

    ``OSError`` where the file cannot be written, ``ValueError`` where the run's folder contains links.
    """
    require_plain_files(RunPaths(path.parent))
    with _locked(path), EventLog(path) as log:
        written = newest_results(EventFollower(path).poll(), limit=None)
        if not any((e.job, e.opponent) == (event.job, event.opponent) for e in written):
            log.append(event)
            log.sync()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock on a file that is created where it is missing; ``OSError`` after ``LOCK_LIMIT_S``."""
    deadline = time.monotonic() + LOCK_LIMIT_S
    while (handle := lock.acquire(path)) is None:
        if time.monotonic() > deadline:
            raise OSError(f"{str(path)!r} is locked by another process")
    try:
        yield
    finally:
        os.close(handle)


def played_parts(path: Path, plan: EvalPlan) -> dict[Part, PlayedPart]:
    """Return the recorded parts of a plan in order of play; a record that is damaged or incomplete does not count."""
    from echelon.training.episode_results import EpisodeResult
    from echelon.training.eval_job import Part, PlayedPart
    from echelon.validation import validator

    read = validator(list[EpisodeResult]).validate_python
    found: dict[Part, PlayedPart] = {}
    for event in read_events(path)[0]:
        if not isinstance(event, EventEvalBatch):
            continue
        part = Part(event.batch, event.opponent, event.deterministic)
        with contextlib.suppress(ValueError):
            results = tuple(read(event.results))
            if plan.parts().get(part) == len(results):
                found.setdefault(part, PlayedPart(part=part, results=results, duration_s=event.duration_s))
    return {part: found[part] for part in plan.parts() if part in found}


def batch_event(played: Mapping[Part, PlayedPart], newest: PlayedPart, plan: EvalPlan) -> EventEvalBatch:
    """Return the record of the ``newest`` part with the counts so far, which include it."""
    from echelon.statistics import wilson_interval

    part = newest.part
    same = [p for key, p in played.items() if (key.opponent, key.deterministic) == (part.opponent, part.deterministic)]
    episodes = sum(len(p.results) for p in same)
    wins = sum(result.outcome == "win" for p in same for result in p.results)
    low, high = wilson_interval(wins, episodes)
    return EventEvalBatch(
        batch=part.batch,
        opponent=part.opponent,
        deterministic=part.deterministic,
        played=sum(len(p.results) for p in played.values()),
        matches=plan.matches,
        episodes=episodes,
        episodes_planned=2 * plan.seeds,
        wins=wins,
        win_low=low,
        win_high=high,
        duration_s=newest.duration_s,
        results=[asdict(result) for result in newest.results],
    )
