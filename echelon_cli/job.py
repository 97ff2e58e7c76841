"""Jobs of the commands: start or queue one, follow it, and print how it ended and what comes next."""

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.files import reason_of
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.kinds import KINDS as KINDS_OF_JOBS
from echelon.jobs.spec import JobSpec, read_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.jobs.tickets import Queue
from echelon.runs import RunPaths, command, find_run, runs_home
from echelon_cli import output
from echelon_cli.listing import job_json

if TYPE_CHECKING:
    from echelon_cli.follow import Follower

KINDS = {"train": "a training run", "eval": "an evaluation job", "arena": "an arena job", "sweep": "a sweep"}
"""Kinds of jobs that a command resumes, as messages name them."""


def find_job(name: str, kind: str) -> tuple[RunPaths, JobSpec]:
    """Return folder and spec of the job with a name; ``ConfigError`` for a run of another kind."""
    paths = find_run(name, kind=kind)
    spec = read_spec(paths)
    if spec.kind != kind:
        raise ConfigError(f"run {paths.id!r} is of kind {spec.kind!r}, expected {KINDS[kind]}")
    return paths, spec


@contextlib.contextmanager
def kept_if_started(paths: RunPaths, is_new: bool = True) -> Iterator[None]:
    """Delete the folder of a new run where the block cannot start its job."""
    try:
        yield
    except (ValueError, OSError):
        if is_new and not (paths.metrics.exists() or paths.queued.exists()):
            with contextlib.suppress(OSError):
                shutil.rmtree(paths.root)
        raise


def start(
    paths: RunPaths,
    spec: JobSpec,
    arguments: Sequence[str] = (),
    named: Collection[str] = (),
    *,
    is_new: bool = True,
    queue: bool | None = None,
    as_json: bool = False,
    **following: bool,
) -> "Follower | None":
    """Start a job and return its follower, made with ``following``, or queue it; no ``queue``: there is no --queue."""
    from echelon.jobs.launch import launch
    from echelon_cli.follow import Follower

    with kept_if_started(paths, is_new):
        if queue:
            _enqueue(paths, spec, arguments, is_new, as_json)
            return None
        if not as_json:
            _warn_of_contention(spec, "" if queue is None else "; with --queue it would wait")
        follower = Follower(paths, as_json=as_json, **following)
        launch(paths, spec, KINDS_OF_JOBS[spec.kind], arguments, named)
    if not as_json:
        output.print_line(f"run {paths.id}", style="bold")
    return follower


def _enqueue(paths: RunPaths, spec: JobSpec, arguments: Sequence[str], is_new: bool, as_json: bool) -> None:
    """Queue a job, start its supervisor and print its place."""
    from echelon.jobs.queue import enqueue

    before = enqueue(paths, spec, arguments, resumed=not is_new)
    problem = revive(paths.root.parent)
    if as_json:
        output.show_json(job_json(paths, state="queued", before=before, problem=problem), indent=None)
        return
    output.print_line(f"run {paths.id}", style="bold")
    output.print_line(f"queued, {before} before it" if before else "queued, next to start")
    output.print_line(f"queue: echelon runs queue    remove: {command('runs', 'queue', paths.id, '--rm')}", style="dim")
    if problem:
        output.show_notice(problem)


def revive(home: Path | None = None) -> str:
    """Start the supervisors of queued runs that have none, as after a reboot; return why that fails, empty if not."""
    try:
        Queue(runs_home(home)).revive()
    except OSError as error:
        return f"the queue does not run: {reason_of(error)}; try: echelon runs queue"
    return ""


def _warn_of_contention(spec: JobSpec, advice: str) -> None:
    """Print a notice where a job that does not wait shares its device with running jobs."""
    from echelon.jobs.queue import contention

    with contextlib.suppress(OSError, ValueError):
        if found := contention(spec.kind, spec.config):
            output.show_notice(found + advice)


def follow(
    follower: "Follower",
    detach: bool,
    show: Callable[[JobStatus], object],
    *,
    as_json: bool,
    result: Callable[[], dict[str, Any]] | None = None,
) -> int:
    """Follow a job until it has ended or the user detaches, print its end, and return the exit code.

    With ``detach`` it is followed until it has started. ``show`` prints the end as text; as JSON, ``result`` of a
    completed job is printed, and otherwise its state.
    """
    before = follower.snapshot.start
    try:
        status = follower.follow(lambda _, seen: detach and seen.start is not before and seen.end is None)
    except KeyboardInterrupt:
        status = job_status(follower.paths)
    return end(follower.paths, status, show, as_json=as_json, result=result)


def end(
    paths: RunPaths,
    status: JobStatus,
    show: Callable[[JobStatus], object],
    *,
    as_json: bool = False,
    result: Callable[[], dict[str, Any]] | None = None,
) -> int:
    """Print the end of a job that is no longer followed, or how to follow it again; return the exit code."""
    from echelon_cli.follow import background_lines

    if as_json and result is not None and status.state == "completed":
        output.show_json(result())
    elif as_json:
        output.show_json(job_json(paths, status), indent=None)
    elif status.is_alive:
        for line in background_lines(status):
            output.print_line(line)
    else:
        show(status)
    if status.is_alive:
        return output.DONE
    if status.exit_code in (output.FAILED, output.CRASHED):
        output.show_error(f"run {status.id!r} {status.state}: {status.reason}", code=status.exit_code)
    return status.exit_code
