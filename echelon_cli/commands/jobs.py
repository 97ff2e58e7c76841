"""``echelon jobs``: the background jobs and the state each is in."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.options import FilterOption, JsonFlag

RECENT = 10
"""Ended jobs that are listed beside the living ones."""


def jobs(
    all_jobs: Annotated[bool, typer.Option("--all", "-a", help="List every job, however old.")] = False,
    wanted: FilterOption = None,
    as_json: JsonFlag = False,
) -> int:
    """List running jobs and the latest ended ones, or those that match a query."""
    from echelon.jobs.status import job_status
    from echelon.runs import list_runs, runs_home
    from echelon_cli.listing import job_json, run_row, shown_id
    from echelon_cli.query import read_query

    query, now, found = read_query(wanted or ""), time.time(), []
    for run in list_runs():
        if wanted and not query.matches(run_row(run), now):
            continue
        try:
            found.append((run, job_status(run)))
        except ValueError as error:
            output.show_error(str(error), code=output.FAILED)
    living, ended = [pair for pair in found if pair[1].is_alive], [pair for pair in found if not pair[1].is_alive]
    shown = living + (ended if all_jobs else ended[:RECENT])
    if as_json:
        output.show_json([job_json(run, status) for run, status in shown])
        return output.DONE
    if not shown:
        none = f"no job matches {wanted!r}" if wanted else f"no jobs in {runs_home()}; start one with: echelon train"
        output.say(none)
        return output.DONE
    output.show_table(
        ("run", "state", "update", "steps", "age", "note"),
        [
            (
                shown_id(s.id),
                output.state_text(s.state),
                s.update,
                output.count(s.global_step),
                output.duration(now - s.created),
                s.reason or s.phase,
            )
            for _, s in shown
        ],
        right=("update", "steps", "age"),
        whole=("state",),
    )
    if len(ended) > RECENT and not all_jobs:
        output.say(f"{len(ended) - RECENT} older: echelon jobs --all", style="dim")
    return output.DONE
