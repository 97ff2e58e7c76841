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

    chosen = [find_run(name) for name in runs]
    before = {paths.id: launch.job_status(paths) for paths in chosen}
    for paths in chosen:
        launch.stop(paths, now=now)
    rows, late = [], False
    for paths in chosen:
        status = launch.wait_until(paths, lambda s: not s.is_alive, timeout_s=timeout)
        late = late or status is None
        status = status or launch.job_status(paths)
        rows.append({**status.to_dict(), "was": before[paths.id].state})
        if not as_json:
            output.say(_line(before[paths.id], status))
    if as_json:
        output.show_json(rows)
    return output.FAILED if late else output.DONE


def _line(before, status) -> str:
    if not before.is_alive:
        return f"{status.id} was not running ({status.state})"
    if status.is_alive:
        return f"{status.id} still {status.state}: {status.reason}; echelon stop --now {status.id} kills it"
    saved = f", saved {status.checkpoint}" if status.checkpoint else ""
    return f"{status.id} {status.state} at update {status.update}{saved}"
