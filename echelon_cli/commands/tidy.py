"""``echelon runs tidy`` and ``rm``: the disk space of runs."""

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from echelon.runs import RunPaths, find_run, list_runs, require_home
from echelon_cli import options, output
from echelon_cli.listing import job_json, run_row, shown_id
from echelon_cli.options import argument, complete_runs, one_of, option, usage_errors
from echelon_cli.query import read_query

PARTS = ("checkpoints", "replays", "log", "other", "total")


def chosen(names: list[str] | None, query: str | None) -> list[RunPaths]:
    """Return the runs of these names that match a query; all runs for neither."""
    found = list({paths.root: paths for paths in map(find_run, names)}.values()) if names else list_runs()
    if query is None:
        return found
    matches, now = read_query(query), time.time()
    return [paths for paths in found if matches.matches(run_row(paths), now)]


def tidy(
    runs: Annotated[list[str] | None, argument("[RUN]...", "Ids, parts of ids, folders.", complete_runs)] = None,
    filter_query: options.Filter = None,
    keep: Annotated[
        list[str] | None,
        option(
            "--keep",
            "Delete checkpoints and replays except best, latest=N and replays=N, separated by commas.",
            "RULE",
            one_of("best", "latest=", "replays=", "best,latest"),
        ),
    ] = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Show the disk space of runs, the largest first. --keep deletes what it does not name.

    The newest checkpoint always stays, and so do records, logs and settings.
    """
    require_home()
    if not keep:
        return _show(chosen(runs, filter_query), as_json)
    from echelon.jobs import retention

    if not runs and filter_query is None:
        raise typer.BadParameter(
            "--keep names no runs, expected RUN or --filter; try --filter 'age>30d state:completed'"
        )
    with usage_errors():
        rule = retention.parse_keep(keep)
    found = chosen(runs, filter_query)
    for paths in found:
        retention.require_ended(paths)
    if found:
        output.confirm(f"Delete all but {','.join(keep)} of {', '.join(paths.id for paths in found)}?", yes, as_json)
    rows = []
    for paths in found:
        freed = retention.prune(paths, rule)
        rows.append(job_json(paths, freed=freed))
        if not as_json:
            output.print_line(f"{paths.id}: {output.size(freed)} freed")
    if as_json:
        output.show_json(rows)
    elif not found:
        output.print_line("no run matches; nothing was deleted")


def _show(found: list[RunPaths], as_json: bool) -> None:
    from echelon.jobs.retention import disk_use

    sizes = sorted(((disk_use(paths), paths) for paths in found), key=lambda pair: -pair[0].total)
    if as_json:
        output.show_json([job_json(paths, **asdict(use), total=use.total) for use, paths in sizes])
        return
    rows: list[list[Any]] = [
        [shown_id(paths.id), *(output.size(getattr(use, part)) for part in PARTS)] for use, paths in sizes
    ]
    if len(sizes) != 1:
        rows.append(["all", *(output.size(sum(getattr(use, part) for use, _ in sizes)) for part in PARTS)])
    output.show_table(("run", *PARTS), rows, right=PARTS, optional=("log", "other"))


def rm(runs: options.Runs, yes: options.Yes = False, as_json: options.Json = False) -> None:
    """Delete runs with their checkpoints and logs."""
    from echelon.jobs.launch import remove

    found = chosen(runs, None)
    names = [paths.id for paths in found]
    output.confirm(f"Delete {', '.join(names)}?", yes, as_json)
    for paths in found:
        remove(paths)
        if not as_json:
            output.print_line(f"{paths.id} deleted")
    if as_json:
        output.show_json(sorted(names))
