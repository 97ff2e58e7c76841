"""``echelon dash``: the dashboard, on all runs or on one; leaving it disturbs none."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag, complete_runs


def dash(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="Id, part of an id, folder, or 'latest'; all runs where there is none.",
            autocompletion=complete_runs,
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Watch runs live: progress, speed, results, learning curves; stop and resume them."""
    from echelon.runs import find_run, list_runs, runs_home

    chosen = find_run(run) if run else None
    if as_json:
        from echelon_cli.listing import run_row

        rows = [run_row(paths) for paths in ([chosen] if chosen else list_runs())]
        output.show_json([row.to_dict() for row in rows])
        return output.DONE
    if not output.is_interactive():
        raise ValueError("the dashboard needs a terminal; without one use: echelon runs list, or echelon logs -f RUN")
    # nothing that is loaded now is garbage: without looking for any, the first picture is there a tenth sooner
    gc.disable()
    from echelon_cli.tui.app import show

    gc.freeze()
    gc.enable()
    show(chosen.root.parent if chosen else runs_home(), chosen.root if chosen else None)
    return output.DONE
