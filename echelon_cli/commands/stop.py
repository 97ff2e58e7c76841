"""``echelon runs stop`` and ``echelon runs wait``: request running jobs to save and end, and wait for their end."""

import time
from collections.abc import Sequence
from typing import Annotated

from echelon.jobs.status import foreign_process
from echelon.runs import RunPaths, command, find_run
from echelon.telemetry.events import EventCheckpoint
from echelon.telemetry.latest import read_latest
from echelon_cli import options, output
from echelon_cli.listing import job_json
from echelon_cli.options import option

TIMEOUT_S = 300.0
KILL_LIMIT_S = 10.0
"""Longest wait for a killed sweep, which starts trials until then, and for its trials [s]."""
ASK_AGAIN_S = 2.0


def stop(
    runs: options.Runs,
    now: Annotated[bool, option("--now", "Kill at once; unsaved progress is lost.")] = False,
    timeout: Annotated[float, option("--timeout", "Longest wait [s].", "SECONDS")] = TIMEOUT_S,
    as_json: options.Json = False,
) -> int:
    """Save and stop jobs. The current update is completed; a second stop discards it."""
    from echelon.jobs import launch

    chosen = [find_run(name) for name in runs]
    before = {paths.id: launch.job_status(paths) for paths in chosen}
    saved = {paths.id: _newest_checkpoint(paths) for paths in chosen}
    orphans = {paths.id for paths in chosen if launch.has_orphan(paths)}
    for paths in chosen:
        launch.stop(paths, now=now)
    if now:
        _kill_trials(chosen)
    rows, timed_out = [], False
    for paths in chosen:
        ended = launch.wait_until(
            paths, lambda s, paths=paths: not (s.is_alive or launch.has_orphan(paths)), timeout_s=timeout
        )
        timed_out = timed_out or ended is None
        status = ended or launch.job_status(paths)
        orphan = paths.id in orphans
        foreign = "" if before[paths.id].is_alive or orphan else foreign_process(paths)
        rows.append(job_json(paths, status, was=before[paths.id].state, orphan=orphan, foreign=foreign))
        if not as_json:
            output.print_line(
                _orphan_line(status, ended is not None) if orphan else _line(before[paths.id], status, saved[paths.id])
            )
            if foreign:
                output.print_line(foreign)
    if as_json:
        output.show_json(rows)
    return output.FAILED if timed_out else output.DONE


def _kill_trials(chosen: Sequence[RunPaths]) -> None:
    """Kill the trials of killed sweeps, which no process stops any more."""
    from echelon.jobs import launch
    from echelon.jobs.sweeps.trials import running_trials

    for paths in chosen:
        if launch.job_status(paths).kind == "sweep":
            launch.wait_until(paths, lambda status: not status.is_alive, timeout_s=KILL_LIMIT_S)
            deadline = time.monotonic() + KILL_LIMIT_S
            # one that is just starting clears the requests to earlier sessions: it is asked again
            while (running := running_trials(paths)) and time.monotonic() < deadline:
                for run in running:
                    launch.stop(run, now=True)
                    launch.wait_until(run, lambda status: not status.is_alive, timeout_s=ASK_AGAIN_S)


def _orphan_line(status, ended: bool) -> str:
    """Return the line of a worker whose supervisor was killed."""
    if ended:
        return f"{status.id} {status.state}; its orphaned worker has ended"
    again = command("runs", "stop", "--now", status.id)
    return f"{status.id} {status.state}; its orphaned worker is still ending; try {again}"


def _newest_checkpoint(paths: RunPaths) -> str:
    """Return the path of the newest checkpoint of a run in its folder; empty where it has none."""
    found = read_latest(paths.metrics, until=(EventCheckpoint,)).checkpoints
    return found[-1].path if found else ""


def _line(before, status, checkpoint: str) -> str:
    """Return how a stop has ended; ``checkpoint`` was the newest one before it."""
    if not before.is_alive:
        return f"{status.id} was not running ({status.state})"
    if status.is_alive:
        return f"{status.id} still {status.state}: {status.reason}; try {command('runs', 'stop', '--now', status.id)}"
    verb = "newest checkpoint" if status.checkpoint == checkpoint else "saved"
    saved = f", {verb} {status.checkpoint}" if status.checkpoint else ""
    where = f" at update {status.update}" if status.kind in ("", "train") else ""
    return f"{status.id} {status.state}{where}{saved}"


def wait(
    runs: options.Runs,
    timeout: Annotated[float | None, option("--timeout", "Longest wait [s]; default: no limit.", "SECONDS")] = None,
    as_json: options.Json = False,
) -> int:
    """Wait until jobs have ended. The exit code tells how; that of several is the largest."""
    from echelon.jobs.launch import wait_until

    chosen, found = [find_run(name) for name in runs], []
    deadline = None if timeout is None else time.monotonic() + timeout
    for paths in chosen:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        status = wait_until(paths, lambda s: s.has_ended, timeout_s=left)
        if status is None:
            raise ValueError(f"run {paths.id!r} is still running after {timeout:g} s")
        found.append(status)
        if not as_json:
            output.print_line(f"{status.id} {status.state}" + (f": {status.reason}" if status.reason else ""))
    if as_json:
        rows = [job_json(paths, status) for paths, status in zip(chosen, found, strict=True)]
        output.show_json(rows[0] if len(rows) == 1 else rows)
    return max(status.exit_code for status in found)
