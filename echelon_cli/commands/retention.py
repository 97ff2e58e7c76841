"""``echelon runs disk``, ``archive``, ``restore`` and ``prune``: the disk space of runs."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.foreign_text import completable
from echelon_cli.options import FilterOption, JsonFlag, complete_runs, one_of

if TYPE_CHECKING:
    from echelon.jobs.retention import Keep
    from echelon.runs import RunPaths

BYTES = ((1e3, 1.0, "B"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (float("inf"), 1e9, "GB"))
"""(limit, divisor, unit)"""

SomeRunsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="Ids, parts of ids, folders.", autocompletion=complete_runs),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="RULE",
        help="What stays: all, best, latest=N, replays=N, separated by commas; default: all.",
        autocompletion=one_of("all", "best", "latest=", "replays=", "best,latest"),
    ),
]
YesFlag = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]


def amount(size: float) -> str:
    """Return a number of bytes in at most eight characters."""
    for limit, divisor, unit in BYTES:
        if size < limit:
            return f"{size / divisor:.3g} {unit}"
    raise AssertionError("unreachable")


def chosen(names: list[str] | None, query: str | None) -> list[RunPaths]:
    """Return the runs of these names, and those that match a query; ``BadParameter`` for neither."""
    from echelon.runs import find_run, list_runs
    from echelon_cli.listing import run_row
    from echelon_cli.query import read_query

    if not names and query is None:
        raise typer.BadParameter("no runs are named, expected RUN or --filter; try --filter 'age>30d state:completed'")
    found = {paths.root: paths for paths in map(find_run, names or ())}
    if query is not None:
        matches, now = read_query(query), time.time()
        rows = {paths.root: paths for paths in list_runs() if matches.matches(run_row(paths), now)}
        found = {root: paths for root, paths in found.items() if root in rows} if names else rows
    return list(found.values())


def keep_of(rules: list[str] | None) -> Keep:
    """Return the rule of ``--keep``; ``BadParameter`` where it is none."""
    from echelon.jobs.retention import parse_keep

    try:
        return parse_keep(rules or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def confirm(what: str, yes: bool, as_json: bool) -> None:
    """Ask before something is deleted."""
    if yes:
        return
    if as_json:
        raise typer.BadParameter("--json cannot ask for confirmation; add --yes")
    output.confirm(what)


def disk(runs: SomeRunsArgument = None, filter_query: FilterOption = None, as_json: JsonFlag = False) -> int:
    """Show the disk space of runs, the largest first."""
    from echelon.jobs.retention import archives, disk_use
    from echelon.runs import list_runs, require_home
    from echelon_cli.listing import job_json, shown_id

    require_home()
    found = chosen(runs, filter_query) if runs or filter_query is not None else list_runs()
    sizes = sorted(((disk_use(paths), paths) for paths in found), key=lambda pair: -pair[0].total)
    stored = {} if runs or filter_query is not None else {path.name: path.stat().st_size for path in archives()}
    if as_json:
        measured = [job_json(paths, **asdict(use), total=use.total) for use, paths in sizes]
        output.show_json({"runs": measured, "archives": stored})
        return output.DONE
    parts = ("checkpoints", "replays", "log", "other", "total")
    rows: list[list[Any]] = [
        [shown_id(paths.id), *(amount(getattr(use, part)) for part in parts)] for use, paths in sizes
    ]
    if len(sizes) != 1:
        rows.append(["all", *(amount(sum(getattr(use, part) for use, _ in sizes)) for part in parts)])
    output.show_table(("run", *parts), rows, right=parts, optional=("log", "other"))
    if stored:
        output.print_line(f"{len(stored)} archives: {amount(sum(stored.values()))}", style="dim")
    return output.DONE


def archive(
    runs: SomeRunsArgument = None,
    filter_query: FilterOption = None,
    keep: KeepOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Move ended runs into compressed archives beside the runs. echelon runs restore brings one back."""
    from echelon.jobs import retention
    from echelon_cli.listing import job_json

    rule, found = keep_of(keep), chosen(runs, filter_query)
    for paths in found:
        retention.require_ended(paths)
    if found:
        confirm(f"Archive {', '.join(paths.id for paths in found)}?", yes, as_json)
    rows = []
    for paths in found:
        before = retention.disk_use(paths).total
        with output.waiting(f"archiving {paths.id}", quiet=as_json):
            target = retention.archive(paths, rule)
        rows.append(job_json(paths, archive=str(target), bytes_before=before, bytes=target.stat().st_size))
        if not as_json:
            output.print_line(f"{paths.id}: {amount(before)} to {amount(target.stat().st_size)} in {target}")
    if as_json:
        output.show_json(rows)
    return output.DONE


def complete_archives(incomplete: str) -> list[str]:
    """Return the archives that start with ``incomplete``."""
    from echelon.jobs.retention import SUFFIX, archives

    names = completable(path.name.removesuffix(SUFFIX) for path in archives())
    return [name for name in names if name.startswith(incomplete)]


def restore(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE", help="Id of an archived run, part of it, or a file.", autocompletion=complete_archives
        ),
    ],
    as_json: JsonFlag = False,
) -> int:
    """Bring back an archived run; the archive stays."""
    from echelon.jobs import retention
    from echelon.runs import RunNotFoundError
    from echelon_cli.listing import job_json

    matches = [Path(name)] if Path(name).is_file() else [path for path in retention.archives() if name in path.name]
    if len(matches) != 1:
        found = f"is ambiguous: {', '.join(path.name for path in matches)}" if matches else "does not exist"
        raise RunNotFoundError(f"archive {name!r} {found}")
    with output.waiting(f"restoring {matches[0].name}", quiet=as_json):
        paths = retention.restore(matches[0])
    output.show_json(job_json(paths)) if as_json else output.print_line(f"{paths.id} restored")
    return output.DONE


def prune(
    runs: SomeRunsArgument = None,
    filter_query: FilterOption = None,
    keep: KeepOption = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Delete checkpoints and replays that --keep does not name. The newest checkpoint always stays."""
    from echelon.jobs import retention
    from echelon_cli.listing import job_json

    if not keep:
        raise typer.BadParameter("prune has no --keep, expected what stays; try --keep best,latest")
    rule, found = keep_of(keep), chosen(runs, filter_query)
    for paths in found:
        retention.require_ended(paths)
    if found:
        confirm(f"Delete all but {','.join(keep)} of {', '.join(paths.id for paths in found)}?", yes, as_json)
    rows = []
    for paths in found:
        freed = retention.prune(paths, rule)
        rows.append(job_json(paths, freed=freed))
        if not as_json:
            output.print_line(f"{paths.id}: {amount(freed)} freed")
    if as_json:
        output.show_json(rows)
    return output.DONE
