"""Jobs for the queue: ``--queue`` of the commands that start jobs, and the warning of those that do not wait."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
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
    """Queue a job after ``prepare``, start the queue where it does not run, print the place; return the exit code."""
    from echelon.jobs import queue
    from echelon.runs import command
    from echelon_cli.listing import job_json

    try:
        prepare()
        before = queue.enqueue(paths, spec, arguments, resumed=not is_new)
    except (ValueError, OSError):
        if is_new and not paths.queued.exists():
            with contextlib.suppress(OSError):
                shutil.rmtree(paths.root)
        raise
    problem = start(paths)
    if as_json:
        output.show_json(job_json(paths, state="queued", before=before, problem=problem), indent=None)
        return output.DONE
    output.print_line(f"run {paths.id}", style="bold")
    output.print_line(f"queued, {before} before it" if before else "queued, next to start")
    output.print_line(f"queue: echelon queue list    remove: {command('queue', 'rm', paths.id)}", style="dim")
    if problem:
        output.show_notice(problem)
    return output.DONE


def start(paths: RunPaths) -> str:
    """Start the queue of a run's folder; return why it does not start, empty where it runs."""
    from echelon.jobs import queue
    from echelon.jobs.launch import LaunchError

    try:
        queue.ensure_started(paths.root.parent)
    except LaunchError as error:
        return f"the queue does not run: {error}; try: echelon queue resume"
    return ""


def warn_of_contention(spec: JobSpec) -> None:
    """Print a notice where a job that does not wait shares its device with running jobs."""
    from echelon.jobs import queue

    with contextlib.suppress(queue.StoreError, OSError):
        if found := queue.contention(spec.kind, spec.config):
            output.show_notice(found)
