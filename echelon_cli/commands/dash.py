"""``echelon dash``: the dashboard of all runs or of one; closing it does not affect them."""

import gc
import shutil
import sys
from typing import Annotated

from echelon.runs import RunPaths, find_run, list_runs, read_json, require_home, runs_home
from echelon_cli import job, options, output
from echelon_cli.options import argument, complete_runs, option

PIPE_COLUMNS = 120
"""Width of ``--once`` without a terminal [columns]."""

COLLECT_EVERY = (2_000, 5, 2)
"""Thresholds of garbage collection: every frame leaves some 1,000 objects of Textual in reference cycles, and those of
more than 20 frames would be a visible part of the memory of a dashboard that stays open."""


def dash(
    run: Annotated[
        str | None, argument("[RUN]", "Id, part of an id, folder, or 'latest'; default: all runs.", complete_runs)
    ] = None,
    once: Annotated[bool, option("--once", "Print the content once and exit; needs no terminal.")] = False,
    width: Annotated[
        int | None, option("--width", "Width of --once [columns]; default: the terminal's.", "COLUMNS", min=60, max=400)
    ] = None,
    as_json: options.Json = False,
) -> int | None:
    """Open the dashboard of all runs, or of one.

    Progress, results and learning curves, the league, matches and logs; runs are started, stopped and resumed there.
    """
    chosen = find_run(run) if run else None
    if chosen is None and (once or as_json):
        require_home()
    if problem := job.revive(chosen.root.parent if chosen else None):
        output.show_notice(problem)
    if as_json:
        from echelon_cli.listing import run_rows

        rows = run_rows([chosen] if chosen else list_runs())
        return output.show_json([row.to_dict() for row in rows])
    if once:
        return _once(chosen, width)
    if not output.is_interactive():
        raise ValueError("the dashboard needs a terminal; try: echelon dash --once, or echelon runs logs -f RUN")
    # nothing loaded at start-up is garbage: without collections the first frame appears 10 % earlier
    gc.disable()
    from echelon_cli.tui.app import show

    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
    gc.enable()
    return show(chosen.root.parent if chosen else runs_home(), chosen.root if chosen else None)


def _once(chosen: RunPaths | None, width: int | None) -> None:
    """Print the content of the dashboard for one run or for all; of a sweep its tables."""
    from echelon_cli.tui import plain_text

    theme = plain_text.theme_for_file(sys.stdout)
    columns = width or max(plain_text.MIN_WIDTH, shutil.get_terminal_size((PIPE_COLUMNS, 0)).columns)
    if chosen is not None and (read_json(chosen.spec) or {}).get("kind") == "sweep":
        from echelon.jobs.sweeps.results import read_results
        from echelon_cli.sweep_tables import show_results

        show_results(read_results(chosen))
        return
    if chosen is not None:
        plain_text.show(plain_text.draw_run(plain_text.read_run(chosen), columns, theme), theme)
        return
    runs = list_runs()
    if not runs:
        output.print_line(f"no runs in {runs_home()}; start one with: echelon train")
        return
    plain_text.show(plain_text.draw_runs(runs, columns, theme), theme)
