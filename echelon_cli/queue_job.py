"""Jobs for the queue: ``--queue`` of the commands that start jobs, and the warning of those that do not wait."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from echelon_cli import output

if TYPE_CHECKING:
    from echelon.jobs.spec import JobSpec
    from echelon.runs import RunPaths


def add(
    paths: RunPaths,
    spec: JobSpec,
    arguments: Sequence[str] = (),
    prepare: Callable[[], None] = lambda: None,
    is_new: bool = True,
    as_json: bool = False,
) -> int:
    """Queue a job after ``prepare``, start its supervisor, print its place; return the exit code."""
    from echelon.jobs.queue import enqueue
    from echelon.runs import command
    from echelon_cli.listing import job_json

    try:
        prepare()
        before = enqueue(paths, spec, arguments, resumed=not is_new)
    except (ValueError, OSError):
        if is_new and not paths.queued.exists():
            with contextlib.suppress(OSError):
                shutil.rmtree(paths.root)
        raise
    problem = revive(paths.root.parent)
    if as_json:
        output.show_json(job_json(paths, state="queued", before=before, problem=problem), indent=None)
        return output.DONE
    output.print_line(f"run {paths.id}", style="bold")
    output.print_line(f"queued, {before} before it" if before else "queued, next to start")
    output.print_line(f"queue: echelon runs queue    remove: {command('runs', 'queue', paths.id, '--rm')}", style="dim")
    if problem:
        output.show_notice(problem)
    return output.DONE


def revive(home: Path | None = None) -> str:
    """Start the supervisors of queued runs that have none, as after a reboot; return why that fails, empty if not."""
    from echelon.files import reason_of
    from echelon.jobs.tickets import Queue
    from echelon.runs import runs_home

    try:
        Queue(runs_home(home)).revive()
    except OSError as error:
        return f"the queue does not run: {reason_of(error)}; try: echelon runs queue"
    return ""


def warn_of_contention(spec: JobSpec) -> None:
    """Print a notice where a job that does not wait shares its device with running jobs."""
    from echelon.jobs.queue import contention

    with contextlib.suppress(OSError, ValueError):
        if found := contention(spec.kind, spec.config):
            output.show_notice(found)
