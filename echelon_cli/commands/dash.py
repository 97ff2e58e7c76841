"""``echelon dash``: the dashboard, on all runs or on one; leaving it disturbs none."""

from __future__ import annotations

import gc
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag, complete_runs

if TYPE_CHECKING:
    from echelon.runs import RunPaths

PIPE_COLUMNS = 120
"""Columns of ``--once`` where there is no terminal to ask."""


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
    once: Annotated[
        bool, typer.Option("--once", help="Print what it would show and leave; needs no terminal.")
    ] = False,
    width: Annotated[
        int | None, typer.Option("--width", metavar="COLUMNS", min=60, max=400, help="Columns of --once.")
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
    if once:
        return _once(chosen, width)
    if not output.is_interactive():
        raise ValueError("the dashboard needs a terminal; without one use: echelon dash --once, or echelon logs -f RUN")
    # nothing that is loaded now is garbage: without looking for any, the first picture is there a tenth sooner
    gc.disable()
    from echelon_cli.tui.app import show

    gc.freeze()
    gc.enable()
    return show(chosen.root.parent if chosen else runs_home(), chosen.root if chosen else None)


def _once(chosen: RunPaths | None, width: int | None) -> int:
    """Print the picture of a run, or of all."""
    from echelon.runs import list_runs, runs_home
    from echelon_cli.tui import plain_text as once

    look = once.theme_for_file(sys.stdout)
    columns = width or max(once.MIN_WIDTH, shutil.get_terminal_size((PIPE_COLUMNS, 0)).columns)
    if chosen is not None:
        once.show(once.draw_run(once.read_run(chosen), columns, look), look)
        return output.DONE
    runs = list_runs()
    if not runs:
        output.say(f"no runs in {runs_home()}; start one with: echelon train")
        return output.DONE
    once.show(once.draw_runs(runs, columns, look), look)
    return output.DONE
