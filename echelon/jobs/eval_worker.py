"""The process that plays an evaluation: ``python -m echelon.jobs.eval_worker RUN``, started by a supervisor.

It reports, writes progress and stops like the training process. Every batch is recorded when it has been played, so the
process needs no checkpoint: started again after any end, it plays the batches that are not recorded yet.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.files import atomic_write, reason_of
from echelon.jobs import worker
from echelon.jobs.evaluations import append_evaluation, batch_event, is_admitted, played_parts, written_folder
from echelon.jobs.memory import require_match_memory
from echelon.jobs.spec import read_spec
from echelon.jobs.worker import LEVEL_ABANDON, RunLink
from echelon.replay.schema import WORLDS_FOLDER
from echelon.runs import RunPaths, command, read_json, require_plain_files, require_plain_folder
from echelon.telemetry.events import EventAlert, EventEnd, EventEval, EventStart
from echelon.telemetry.lines import strict
from echelon.telemetry.log import EventLog

if TYPE_CHECKING:
    from echelon.training.eval_job import EvalPlan


class _Abandoned(Exception):
    """A stop was requested that does not wait for the end of the batch."""


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    """Play the evaluation that the spec asks for and write its results."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.training.eval_job import EvalMatches, EvalPlan
    from echelon.training.runtime.devices import resolve_device

    plan = EvalPlan.from_dict(read_spec(paths).config.get("eval"))
    require_own_folders(plan, paths)
    matches = EvalMatches(replace(plan, device=str(resolve_device(plan.device))), paths.root)
    position: dict[str, Any] = {"update": matches.update, "global_step": matches.global_step}
    played = played_parts(paths.matches, plan)
    batch_size = 2 * max(map(len, plan.batches()))
    require_match_memory(matches.env, batch_size, matches.plan.device)
    link.emit(EventStart(device=matches.plan.device, seed=matches.seeds[0], preset="eval", num_envs=batch_size))

    def on_step(finished: int) -> None:
        link.report(sum(len(part.results) for part in played.values()) + finished, plan.matches, "matches")
        if link.should_stop() >= LEVEL_ABANDON:
            raise _Abandoned

    try:
        with EventLog(paths.matches) as log, closing(matches.play(tuple(played), on_step, link.progress)) as parts:
            while not link.should_stop() and (newest := next(parts, None)) is not None:
                played[newest.part] = newest
                event = batch_event(played, newest, plan)
                log.append(event)
                log.sync()
                link.emit(replace(event, results=[]))
    except _Abandoned:
        pass
    if len(played) < len(plan.parts()):
        link.emit(EventEnd(reason="stopped", **position))
        return
    stats = {opponent: matches.stats(opponent, played) for opponent in plan.opponents}
    replays = sorted(result.replay for part in played.values() for result in part.results if result.replay)
    atomic_write(paths.result, json.dumps(strict({**matches.result(stats, replays), "job": paths.id})) + "\n")
    for opponent, found in stats.items():
        event = matches.event(opponent, found, paths.id)
        link.emit(event)
        if plan.run:
            _append(RunPaths(Path(plan.run)), event, link)
    link.emit(EventEnd(reason="completed", episodes=plan.matches, **position))


def _append(run: RunPaths, event: EventEval, link: RunLink) -> None:
    """Append a result to the evaluated run; the job has it too, so a run that is gone costs an alert."""
    reason: object
    if is_admitted(run.root, link.paths):
        try:
            return append_evaluation(run.evals, event)
        except (OSError, ValueError) as error:
            reason = reason_of(error)
    else:
        reason = f"the run does not know this job; try: {_naming(run.root, link.paths)}"
    link.emit(EventAlert(message=f"result could not be appended to {str(run.evals)!r}: {reason}"))


def _naming(target: Path, job: RunPaths) -> str:
    """Return the command that lets a job write beside the policy that it evaluates."""
    return command("eval", target, "--resume", job.id)


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
        again = _naming(Path(run or plan.target), job)
        raise ValueError(f"evaluation plan records into {replays!r}, which does not know this job; try: {again}")
    if replays:
        for each in (folder, folder / WORLDS_FOLDER):
            require_plain_folder(each, f"folder {str(each)!r}")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", plan.replay_prefix):
        raise ValueError(
            f"evaluation plan has the replay prefix {plan.replay_prefix!r}, expected letters, digits, '-' and '_'"
        )


if __name__ == "__main__":
    sys.exit(worker.main(work=work, phase="playing"))
