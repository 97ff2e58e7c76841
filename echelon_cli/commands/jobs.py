"""``echelon runs jobs``: background jobs and their states."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.options import FilterOption, JsonFlag

RECENT = 10
"""Ended jobs that are listed beside the running ones."""


def jobs(
    all_jobs: Annotated[bool, typer.Option("--all", "-a", help="List every job.")] = False,
    filter_query: FilterOption = None,
    as_json: JsonFlag = False,
) -> int:
    """List running jobs and the latest ended ones."""
    from echelon.jobs.status import job_status
    from echelon.runs import list_runs, require_home, runs_home
    from echelon_cli.listing import job_json, run_row, shown_id
    from echelon_cli.query import read_query

    require_home()
    query, now, found = read_query(filter_query or ""), time.time(), []
    for run in list_runs():
        if filter_query and not query.matches(run_row(run), now):
            continue
        try:
            found.append((run, job_status(run)))
        except ValueError as error:
            output.show_error(str(error), code=output.FAILED)
    running, ended = [pair for pair in found if pair[1].is_alive], [pair for pair in found if not pair[1].is_alive]
    shown = running + (ended if all_jobs else ended[:RECENT])
    if as_json:
        output.show_json([job_json(run, status) for run, status in shown])
        return output.DONE
    if not shown:
        empty = f"no jobs in {runs_home()}; start one with: echelon train"
        output.print_line(f"no job matches {filter_query!r}" if filter_query else empty)
        return output.DONE
    output.show_table(
        ("run", "state", "update", "steps", "age", "status"),
        [
            (
                shown_id(s.id),
                output.state_text(s.state),
                s.update,
                output.count(s.global_step),
                output.duration(now - s.created if s.created else None),
                s.reason or s.phase,
            )
            for _, s in shown
        ],
        right=("update", "steps", "age"),
        unwrapped=("state",),
    )
    if len(ended) > RECENT and not all_jobs:
        output.print_line(f"{len(ended) - RECENT} older: echelon runs jobs --all", style="dim")
    return output.DONE
