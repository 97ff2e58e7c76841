"""``echelon rm``: delete runs that have ended."""

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

    chosen = {paths.id: paths for paths in map(find_run, runs)}
    if not yes:
        if as_json:
            raise typer.BadParameter("rm --json cannot ask for confirmation; add --yes")
        output.confirm(f"Delete {', '.join(chosen)}?")
    for paths in chosen.values():
        remove(paths)
        if not as_json:
            output.print_line(f"{paths.id} deleted")
    if as_json:
        output.show_json(sorted(chosen))
    return output.DONE
