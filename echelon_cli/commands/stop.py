"""``echelon stop``: ask running jobs to save and end, and return once they have."""

from __future__ import annotations

from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag, RunsArgument

TIMEOUT_S = 300.0


def stop(
    runs: RunsArgument,
    now: Annotated[bool, typer.Option("--now", help="Kill at once; what is not saved is lost.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Longest wait.")] = TIMEOUT_S,
    as_json: JsonFlag = False,
) -> int:
    """Stop jobs: the update ends and is saved; stop again to give up the update."""
    from echelon.jobs import launch
    from echelon.runs import find_run
    from echelon_cli.listing import job_json

    chosen = [find_run(name) for name in runs]
    before = {paths.id: launch.job_status(paths) for paths in chosen}
    orphans = {paths.id for paths in chosen if launch.has_orphan(paths)}
    for paths in chosen:
        launch.stop(paths, now=now)
    rows, late = [], False
    for paths in chosen:
        ended = launch.wait_until(
            paths, lambda s, paths=paths: not (s.is_alive or launch.has_orphan(paths)), timeout_s=timeout
        )
        late = late or ended is None
        status = ended or launch.job_status(paths)
        orphan = paths.id in orphans
        rows.append(job_json(paths, status, was=before[paths.id].state, orphan=orphan))
        if not as_json:
            output.say(_orphan_line(status, ended is not None) if orphan else _line(before[paths.id], status))
    if as_json:
        output.show_json(rows)
    return output.FAILED if late else output.DONE


def _orphan_line(status, gone: bool) -> str:
    """Return what became of a trainer whose supervisor was killed."""
    if gone:
        return f"{status.id} {status.state}; the trainer that its supervisor left behind has ended"
    return f"{status.id} {status.state}; its trainer is still ending; echelon stop --now {status.id} kills it"


def _line(before, status) -> str:
    if not before.is_alive:
        return f"{status.id} was not running ({status.state})"
    if status.is_alive:
        return f"{status.id} still {status.state}: {status.reason}; echelon stop --now {status.id} kills it"
    saved = f", saved {status.checkpoint}" if status.checkpoint else ""
    return f"{status.id} {status.state} at update {status.update}{saved}"
