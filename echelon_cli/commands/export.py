"""``echelon runs export``: curves of a run for other tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from echelon.jobs.spec import read_spec
from echelon.runs import RunPaths, find_run
from echelon.telemetry.events import Event
from echelon.telemetry.heat_maps import heat_files
from echelon.telemetry.log import read_events
from echelon_cli import options, output
from echelon_cli.listing import job_json
from echelon_cli.options import option

PROJECT = "echelon"


def export(
    run: options.Run,
    tensorboard: Annotated[Path | None, option("--tensorboard", "Write TensorBoard events to a folder.", "DIR")] = None,
    csv: Annotated[Path | None, option("--csv", "Write CSV: a line per update, a column per curve.", "FILE")] = None,
    wandb: Annotated[bool, option("--wandb", "Log the curves to W&B.")] = False,
    project: Annotated[str, option("--project", "W&B project.", "NAME")] = PROJECT,
    offline: Annotated[bool, option("--offline", "Write W&B files locally, to be synced later.")] = False,
    as_json: options.Json = False,
) -> None:
    """Export curves as CSV, to TensorBoard or to W&B. echelon policy export writes a run's policy."""
    if tensorboard is None and csv is None and not wandb:
        raise typer.BadParameter("nothing to export, expected one of --csv, --tensorboard, --wandb")
    if csv is not None:
        require_folder(csv)
    paths = find_run(run)
    events, skipped = read_events(paths.metrics)
    site = (project, "offline" if offline else "online") if wandb else None
    written = _curves(paths, events, tensorboard, csv, site)
    show_written(job_json(paths, unreadable_lines=skipped), written, as_json)


def require_folder(target: Path) -> None:
    """Raise ``ValueError`` for a file in a folder that does not exist, before anything is written."""
    if not target.parent.is_dir():
        raise ValueError(f"folder {str(target.parent)!r} does not exist; create it, or name another one")


def _curves(
    paths: RunPaths, events: Sequence[Event], tensorboard: Path | None, csv: Path | None, wandb: tuple[str, str] | None
) -> dict[str, Any]:
    """Write curves, to W&B with its project and mode; return what was written by kind."""
    from echelon.telemetry.export import rows, to_csv
    from echelon.telemetry.mirrors import TensorBoard, Wandb, require_mirror

    for name, is_asked in (("tensorboard", tensorboard), ("wandb", wandb)):
        if is_asked is not None:
            require_mirror(name)
    found = list(rows(events))
    if not found:
        raise ValueError(f"run {paths.id!r} has no measurements to export yet; wait for its first update")
    points = sum(len(row.values) for row in found)
    written: dict[str, Any] = {}
    if csv is not None:
        written["csv"] = {"path": str(csv), "lines": to_csv(found, csv)}
    if tensorboard is not None:
        board = TensorBoard(paths.root, str(tensorboard), {})
        board.write(found)
        board.close(failed=False)
        written["tensorboard"] = {"path": str(tensorboard), "points": points}
    if wandb is not None:
        project, mode = wandb
        site = Wandb(paths.root, project, read_spec(paths).config, mode)
        site.write(found)
        site.log_images(_heat(paths.heat))
        site.close(failed=False)
        written["wandb"] = {"project": project, "mode": mode, "points": points}
    return written


def show_written(origin: Mapping[str, Any], written: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.show_json({**origin, **written})
        return
    for target, facts in written.items():
        output.print_line(f"{target}: {', '.join(f'{key} {value}' for key, value in facts.items())}")


def _heat(folder: Path) -> dict[str, Any]:
    """Return the newest heat maps as images; empty if there are none."""
    from echelon.training.spatial import load_heat

    files = list(heat_files(folder).values())
    return load_heat(files[-1]).to_images() if files else {}
