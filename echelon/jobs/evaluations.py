"""Evaluation jobs: ``python -m echelon.jobs.evaluations RUN``, started by a supervisor.

``matches.jsonl`` in the job's folder has one writer. A batch in it is never played again, so the process needs no
checkpoint. ``evals.jsonl`` in the folder of the evaluated run has any number of writers, each of which appends one
result at a time under a lock. A job writes only into folders that list it in ``.eval_jobs``, which the user's command
has written: a job's folder may be a copy from another machine, which must not choose files of this one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.files import LOG_FLAGS, atomic_write, fsync, make_folder, open_own, reason_of
from echelon.jobs import lock, worker
from echelon.jobs.leave import leave
from echelon.jobs.memory import require_match_memory
from echelon.jobs.spec import read_spec
from echelon.jobs.worker import LEVEL_ABANDON, RunLink
from echelon.replay.schema import WORLDS_FOLDER
from echelon.runs import RunPaths, command, read_json, require_plain_files, require_plain_folder, runs_home
from echelon.state_files import read_bounded
from echelon.telemetry.evaluations import newest_results
from echelon.telemetry.events import EventAlert, EventEnd, EventEval, EventEvalBatch, EventStart
from echelon.telemetry.lines import strict
from echelon.telemetry.log import EventFollower, EventLog, read_events

if TYPE_CHECKING:
    from echelon.training.eval_job import PlayedPart
    from echelon.training.eval_plan import CommanderCopy, EvalPart, EvalPlan

ADMITTED = ".eval_jobs"
"""File of the jobs that write into a folder, one a line: id and inode."""
KNOWN_COMMANDERS = ".commanders"
"""File in the runs folder with the hashes of the commanders that its user has named: no other code runs."""
LOCK_LIMIT_S = 60.0
"""Longest wait for other writers of ``evals.jsonl`` [s]; an append takes milliseconds."""


@dataclass(frozen=True)
class PolicySource:
    """Metadata of a policy, and the function that copies it."""

    meta: dict[str, Any]
    copy: Callable[[Path], object]


def open_policy(path: Path, files: Collection[str] = ()) -> PolicySource:
    """Return a policy after checking its files; copies have ``files`` too. Torch is loaded for an exported file."""
    from echelon.rl.checkpoint import POLICY_FILES, export_policy_folder, find_checkpoint

    if path.is_file():
        from echelon.rl.weights import load_policy

        return PolicySource(load_policy(path).meta, partial(shutil.copyfile, path))
    checkpoint = find_checkpoint(path)
    return PolicySource(checkpoint.manifest, partial(export_policy_folder, checkpoint, files={*POLICY_FILES, *files}))


def admit(folder: Path, job: RunPaths) -> None:
    """Let the evaluation ``job`` write into a folder, a run or one of recordings; ``OSError`` where it is read-only."""
    if not is_admitted(folder, job):
        make_folder(folder)
        _append_line(folder / ADMITTED, _line_of(job))


def _append_line(path: Path, line: str) -> None:
    handle = open_own(path, LOG_FLAGS)
    try:
        # a torn line before it must not swallow this one
        os.write(handle, f"\n{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    fsync(path.parent)


def is_admitted(folder: Path, job: RunPaths) -> bool:
    return _line_of(job) in _lines(folder / ADMITTED)


def admits(folder: Path, name: str) -> bool:
    """Whether a folder lists a job of this name, whichever folder the job has now."""
    return any(line.partition(" ")[0] == name for line in _lines(folder / ADMITTED))


def _lines(path: Path) -> list[str]:
    try:
        return read_bounded(path, follow_links=False).decode(errors="replace").split("\n")
    except (OSError, ValueError):
        return []


def _line_of(job: RunPaths) -> str:
    """Return the job's id with the number of its folder, which another folder of that name does not have."""
    return f"{job.id} {os.stat(job.root).st_ino}"


def copy_commander(commander: str, target: Path) -> CommanderCopy:
    """Copy ``FILE.py[:FUNCTION]``, which the user has named, and let jobs run files of this content."""
    from echelon.training.eval_plan import CommanderCopy

    file, *function = commander.split(":", 1)
    raw = read_bounded(Path(file).expanduser())
    atomic_write(target, raw)
    copied = CommanderCopy(commander=":".join((target.name, *function)), sha256=hashlib.sha256(raw).hexdigest())
    known = runs_home() / KNOWN_COMMANDERS
    if copied.sha256 not in _lines(known):
        _append_line(known, copied.sha256)
    return copied


def require_known_commanders(plan: EvalPlan, job: RunPaths) -> None:
    """Raise ``ValueError`` where a commander is not the file that the user named: a job's folder may be a copy."""
    for player, copied in plan.commanders.items():
        raw = read_bounded(job.root / copied.commander.split(":", 1)[0], follow_links=False)
        if hashlib.sha256(raw).hexdigest() != copied.sha256:
            raise ValueError(f"commander of {player!r} is not the file that the evaluation began with; start it again")
        if copied.sha256 not in _lines(runs_home() / KNOWN_COMMANDERS):
            raise ValueError(f"commander of {player!r} was not named by you, expected one that was; start it again")


def written_folder(plan: EvalPlan) -> Path:
    """Return the evaluated run's folder, or that of the recordings: the one that lists its writers."""
    return Path(plan.run or plan.replays)


def append_evaluation(path: Path, event: EventEval) -> None:
    """Append a result durably, unless the same job has appended its result against this opponent before.

    ``OSError`` where the file cannot be written, ``ValueError`` where the run's folder contains links.
    """
    require_plain_files(RunPaths(path.parent))
    refusal = OSError(f"{str(path)!r} is locked by another process")
    with lock.locked(path, refusal, LOCK_LIMIT_S), EventLog(path) as log:
        written = newest_results(EventFollower(path).poll(), limit=None)
        if not any((e.job, e.opponent) == (event.job, event.opponent) for e in written):
            log.append(event)
            log.sync()


def played_parts(path: Path, plan: EvalPlan) -> dict[EvalPart, PlayedPart]:
    """Return the recorded parts of a plan in order of play; a record that is damaged or incomplete does not count."""
    from echelon.arena.commander import Calls
    from echelon.training.episode_results import EpisodeResult
    from echelon.training.eval_job import PlayedPart
    from echelon.training.eval_plan import EvalPart
    from echelon.validation import validator

    read = validator(list[EpisodeResult]).validate_python
    calls = validator(dict[str, Calls]).validate_python
    found: dict[EvalPart, PlayedPart] = {}
    planned = plan.parts()
    for event in read_events(path)[0]:
        if not isinstance(event, EventEvalBatch):
            continue
        part = EvalPart(event.batch, event.opponent, event.deterministic, event.condition)
        with contextlib.suppress(ValueError):
            results = tuple(read(event.results))
            if planned.get(part) == len(results):
                led = calls(event.commanders)
                played = PlayedPart(part=part, results=results, duration_s=event.duration_s, commanders=led)
                found.setdefault(part, played)
    return {part: found[part] for part in planned if part in found}


def batch_event(played: Mapping[EvalPart, PlayedPart], newest: PlayedPart, plan: EvalPlan) -> EventEvalBatch:
    """Return the record of the ``newest`` part with the counts so far."""
    from echelon.statistics import wilson_interval

    part = newest.part
    same = [p for key, p in played.items() if replace(key, batch=part.batch) == part]
    episodes = sum(len(p.results) for p in same)
    wins = sum(result.outcome == "win" for p in same for result in p.results)
    low, high = wilson_interval(wins, episodes)
    return EventEvalBatch(
        batch=part.batch,
        opponent=part.opponent,
        deterministic=part.deterministic,
        condition=part.condition,
        played=sum(len(p.results) for p in played.values()),
        matches=plan.matches,
        episodes=episodes,
        episodes_planned=2 * plan.seeds,
        wins=wins,
        win_low=low,
        win_high=high,
        duration_s=newest.duration_s,
        results=[asdict(result) for result in newest.results],
        commanders={player: asdict(calls) for player, calls in newest.commanders.items()},
    )


class _Abandoned(Exception):
    """A stop was requested that does not wait for the end of the batch."""


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    with worker.loading():
        from echelon.training.eval_job import EvalMatches
        from echelon.training.eval_plan import EvalPlan
        from echelon.training.runtime.devices import resolve_device

    plan = EvalPlan.from_dict(read_spec(paths).config.get("eval"))
    require_own_folders(plan, paths)
    require_known_commanders(plan, paths)
    matches = EvalMatches(replace(plan, device=str(resolve_device(plan.device))), paths.root)
    position: dict[str, Any] = {"update": matches.update, "global_step": matches.global_step}
    played = played_parts(paths.matches, plan)
    batch_size = 2 * max(len(each.positions) for each in plan.rounds())
    for game, positions, _ in plan.rounds():
        require_match_memory(matches.env_of(game), 2 * len(positions), matches.plan.device)
    link.emit(EventStart(device=matches.plan.device, seed=matches.seeds[0], preset="eval", num_envs=batch_size))

    planned = plan.matches

    def on_step(finished: int) -> None:
        link.report(sum(len(part.results) for part in played.values()) + finished, planned, "matches")
        if link.should_stop() >= LEVEL_ABANDON:
            raise _Abandoned

    try:
        with EventLog(paths.matches) as log, closing(matches.play(tuple(played), on_step, link.progress)) as parts:
            while not link.should_stop() and (newest := next(parts, None)) is not None:
                played[newest.part] = newest
                event = batch_event(played, newest, plan)
                log.append(event)
                log.sync()
                link.emit(replace(event, results=[], commanders={}))
    except _Abandoned:
        pass
    if len(played) < len(plan.parts()):
        link.emit(EventEnd(reason="stopped", **position))
        return
    stats = {} if plan.games else {opponent: matches.stats(opponent, played) for opponent in plan.opponents}
    replays = sorted(result.replay for part in played.values() for result in part.results if result.replay)
    result = {
        **matches.result(stats, replays), **matches.teamwork(played), **matches.matrix(played),
        **matches.commanders(played), "job": paths.id,
    }  # fmt: skip
    atomic_write(paths.result, json.dumps(strict(result)) + "\n")
    for opponent, found in stats.items():
        event = matches.event(opponent, found, paths.id)
        link.emit(event)
        if plan.run:
            _append(RunPaths(Path(plan.run)), event, link)
    link.emit(EventEnd(reason="completed", episodes=planned, **position))


def _append(run: RunPaths, event: EventEval, link: RunLink) -> None:
    """Append a result to the evaluated run. The job has it too, so a missing run costs an alert."""
    reason: object
    if is_admitted(run.root, link.paths):
        try:
            return append_evaluation(run.evals, event)
        except (OSError, ValueError) as error:
            reason = reason_of(error)
    else:
        reason = f"the run does not know this job; try: {command('eval', run.root, '--resume', link.paths.id)}"
    link.emit(EventAlert(message=f"result could not be appended to {str(run.evals)!r}: {reason}"))


def require_own_folders(plan: EvalPlan, job: RunPaths) -> None:
    """Raise ``ValueError`` where a plan would write anywhere but into its job and the run that it evaluates.

    A job folder may be a copy from another machine, which must not choose files of this one: recordings go only into a
    folder that lists the job.
    """
    run, replays = plan.run, plan.replays
    evaluated = RunPaths(Path(run)) if run else job
    if run and not (evaluated.root.is_absolute() and read_json(evaluated.spec)):
        raise ValueError(f"evaluation plan names the run {run!r}, which is no run folder")
    require_plain_files(evaluated)
    folder = Path(replays)
    # matches of a policy in no run are recorded in a folder `replays` beside its file
    is_expected = folder in (evaluated.replays, job.replays) if run else folder.name == job.replays.name
    if replays and (not is_expected or folder.is_symlink()):
        raise ValueError(f"evaluation plan records into {replays!r}, expected {str(evaluated.replays)!r}")
    if replays and folder != job.replays and not is_admitted(written_folder(plan), job):
        again = command("eval", Path(run or plan.target), "--resume", job.id)
        raise ValueError(f"evaluation plan records into {replays!r}, which does not know this job; try: {again}")
    if replays:
        for each in (folder, folder / WORLDS_FOLDER):
            require_plain_folder(each, f"folder {str(each)!r}")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", plan.replay_prefix):
        raise ValueError(
            f"evaluation plan has the replay prefix {plan.replay_prefix!r}, expected letters, digits, '-' and '_'"
        )


if __name__ == "__main__":
    leave(worker.main(work=work, phase="playing"))
