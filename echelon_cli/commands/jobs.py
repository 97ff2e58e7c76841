"""``echelon jobs``: the background jobs and the state each is in."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.options import FilterOption, JsonFlag

WHOLE_FROM = 100
"""Columns of a terminal from which whole ids are shown; the words at their end call a run as well."""

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
    from echelon_cli.listing import run_row
    from echelon_cli.query import read_query
    from echelon_cli.tui.format import run_words

    query, now, found = read_query(wanted or ""), time.time(), []
    for run in list_runs():
        if wanted and not query.matches(run_row(run), now):
            continue
        try:
            found.append(job_status(run))
        except ValueError as error:
            output.show_error(str(error), code=output.FAILED)
    living, ended = [s for s in found if s.is_alive], [s for s in found if not s.is_alive]
    shown = living + (ended if all_jobs else ended[:RECENT])
    if as_json:
        output.show_json([status.to_dict() for status in shown])
        return output.DONE
    if not shown:
        none = f"no job matches {wanted!r}" if wanted else f"no jobs in {runs_home()}; start one with: echelon train"
        output.say(none)
        return output.DONE
    output.show_table(
        ("run", "state", "update", "steps", "age", "note"),
        [
            (
                s.id if output.console().width >= WHOLE_FROM else run_words(s.id),
                output.state_text(s.state),
                s.update,
                output.count(s.global_step),
                output.duration(now - s.created),
                s.reason or s.phase,
            )
            for s in shown
        ],
        right=("update", "steps", "age"),
        whole=("state",),
    )
    if len(ended) > RECENT and not all_jobs:
        output.say(f"{len(ended) - RECENT} older: echelon jobs --all", style="dim")
    return output.DONE
