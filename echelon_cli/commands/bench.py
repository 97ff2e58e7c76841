"""``echelon bench``: measure the benchmark scenes on this machine."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag

REPEATS = 3


def complete_scenes(incomplete: str) -> list[str]:
    """Return the scenes that start with ``incomplete``."""
    from echelon.bench.scenes import SCENES

    return [name for name in SCENES if name.startswith(incomplete)]


def bench(
    scenes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENE]...", help="Scenes; default: all.", autocompletion=complete_scenes),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Measurements per scene; the median is reported.")
    ] = REPEATS,
    list_scenes: Annotated[bool, typer.Option("--list", help="List the scenes and exit.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Run benchmark scenes and show where the time goes."""
    from echelon.jobs.config_layers import ConfigError, did_you_mean
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.bench.phases import rows as tree_rows
    from echelon.bench.scenes import SCENES, run_scenes

    if list_scenes:
        rows = {name: (scene.__doc__ or "").strip().partition("\n")[0] for name, scene in SCENES.items()}
        if as_json:
            output.show_json(rows)
        else:
            output.show_table(("scene", "measures"), rows.items())
        return output.DONE
    for name in scenes or ():
        if name not in SCENES:
            raise ConfigError(f"scene {name!r} does not exist{did_you_mean(name, SCENES)} (have: {', '.join(SCENES)})")
    with output.waiting("measuring", quiet=as_json) as show_progress:
        results = run_scenes(list(scenes or SCENES), repeats, show_progress)
    if as_json:
        output.show_json(results)
        return output.DONE
    columns = ("scene", "median/s", "min", "max", "unit", "details")
    output.show_table(columns, [_row(result) for result in results], right=columns[1:4])
    for result in results:
        if phases := result.get("phases_ms"):
            output.print_line()
            output.print_line(f"{result['scene']}: milliseconds per environment step on one thread", style="bold")
            table = [(label, f"{value:.3f}", f"{100 * share:.0f} %") for label, value, share in tree_rows(phases)]
            output.show_table(("phase", "ms", "share"), table, right=("ms", "share"))
    return output.DONE


SHOWN = ("scene", "median_per_s", "min_per_s", "max_per_s", "unit", "phases_ms", "repeats")
"""Keys of a result that are not listed under details."""


def _row(result: dict[str, Any]) -> tuple[str, ...]:
    details = ", ".join(f"{key} {_cell(value)}" for key, value in result.items() if key not in SHOWN)
    speeds = [str(_cell(result[key])) for key in SHOWN[1:4]]
    return (result["scene"], *speeds, result["unit"], details)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return output.count(value) if abs(value) >= 1000 else output.figure(value)
    return value
