"""``echelon runs wait``: wait until a job has ended and return its exit code."""

from __future__ import annotations

from typing import Annotated

from echelon_cli import output
from echelon_cli.options import JsonFlag, RunArgument, option


def wait(
    run: RunArgument,
    timeout: Annotated[
        float | None, option("--timeout", "Longest wait [s]; default: without limit.", "SECONDS")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Wait until a job has ended; the exit code tells how."""
    from echelon.jobs.launch import wait_until
    from echelon.runs import find_run
    from echelon_cli.listing import job_json

    paths = find_run(run)
    status = wait_until(paths, lambda s: s.has_ended, timeout_s=timeout)
    if status is None:
        raise ValueError(f"run {paths.id!r} is still running after {timeout:g} s")
    if as_json:
        output.show_json(job_json(paths, status))
    else:
        output.print_line(f"{status.id} {status.state}" + (f": {status.reason}" if status.reason else ""))
    return status.exit_code
