"""``echelon bench``: measure the benchmark scenes on this machine."""

import os
from typing import Annotated, Any

from echelon.jobs.config_layers import ConfigError, did_you_mean
from echelon_cli import options, output
from echelon_cli.help import help_of
from echelon_cli.options import CHOICES, argument, complete_devices, one_of, option

REPEATS = 3


def bench(
    scenes: Annotated[
        list[str] | None,
        argument("[SCENE]...", "Scenes; default: all that run on the device.", one_of(*CHOICES["scene"])),
    ] = None,
    repeats: Annotated[int, option("--repeats", "Measurements per scene; the median is reported.", min=1)] = REPEATS,
    device: Annotated[
        str, option("--device", "Device: cpu, cuda or cuda:N; times on CUDA are events.", complete=complete_devices)
    ] = "cpu",
    envs: Annotated[
        list[int] | None,
        option("--envs", "Environments; may be repeated; default: the scene's own, 4,096 and more on CUDA.", min=1),
    ] = None,
    list_scenes: Annotated[bool, option("--list", "List the scenes and exit.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run benchmark scenes and show where the time goes."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.bench.phases import rows as tree_rows
    from echelon.bench.scenes import SCENES, run_scenes, scenes_on

    if list_scenes:
        rows = {name: (help_of(scene) or "").strip().partition("\n")[0] for name, scene in SCENES.items()}
        if as_json:
            output.show_json(rows)
        else:
            output.show_table(("scene", "measures"), rows.items())
        return
    for name in scenes or ():
        if name not in SCENES:
            raise ConfigError(f"scene {name!r} does not exist{did_you_mean(name, SCENES)} (have: {', '.join(SCENES)})")
    with output.waiting("measuring", quiet=as_json) as show_progress:
        chosen = list(scenes or scenes_on(device))
        results = run_scenes(chosen, repeats, show_progress, device=device, envs=envs or ())
    if as_json:
        output.show_json(results)
        return
    columns = ("scene", "median/s", "min", "max", "unit", "details")
    output.show_table(columns, [_row(result) for result in results], right=columns[1:4])
    for result in results:
        if phases := result.get("phases_ms"):
            where = (
                "on one thread" if "threads" in result else f"of {result['envs']} environments on {result['device']}"
            )
            title = f"{result['scene']}: milliseconds per environment step {where}"
            table = [(label, f"{value:.3f}", f"{100 * share:.0f} %") for label, value, share in tree_rows(phases)]
            output.show_table(("phase", "ms", "share"), table, right=("ms", "share"), title=title)


SHOWN = ("scene", "median_per_s", "min_per_s", "max_per_s", "unit", "phases_ms", "repeats")
"""Keys of a result that are not listed under details."""


def _row(result: dict[str, Any]) -> tuple[str, ...]:
    details = ", ".join(f"{key} {_cell(value)}" for key, value in result.items() if key not in SHOWN)
    speeds = [str(_cell(result[key])) for key in SHOWN[1:4]]
    return (result["scene"], *speeds, result["unit"], details)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return output.count(value) if abs(value) >= 1000 else output.measured(value)
    return value
