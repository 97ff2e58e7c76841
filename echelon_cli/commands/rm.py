"""``echelon runs rm``: delete runs that have ended."""

from __future__ import annotations

from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag, RunsArgument


def rm(
    runs: RunsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Delete runs with their checkpoints and logs."""
    from echelon.jobs.launch import remove
    from echelon.runs import find_run

    # runs of two homes may have one id
    chosen = list({paths.root: paths for paths in map(find_run, runs)}.values())
    names = [paths.id for paths in chosen]
    if not yes:
        if as_json:
            raise typer.BadParameter("rm --json cannot ask for confirmation; add --yes")
        output.confirm(f"Delete {', '.join(names)}?")
    for paths in chosen:
        remove(paths)
        if not as_json:
            output.print_line(f"{paths.id} deleted")
    if as_json:
        output.show_json(sorted(names))
    return output.DONE
