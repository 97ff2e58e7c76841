"""``echelon runs export`` and ``echelon policy export``: curves for other tools, and policies as stand-alone files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag, PolicyArgument, RunArgument, option

if TYPE_CHECKING:
    from echelon.runs import RunPaths
    from echelon.telemetry.events import Event

PROJECT = "echelon"


def export(
    run: RunArgument,
    tensorboard: Annotated[
        Path | None, option("--tensorboard", "Write a TensorBoard event file into this folder.", "DIR")
    ] = None,
    csv: Annotated[
        Path | None, option("--csv", "Write a CSV table: a line per update, a column per curve.", "FILE")
    ] = None,
    wandb: Annotated[bool, option("--wandb", "Log the curves to W&B.")] = False,
    torchscript: Annotated[
        Path | None, option("--torchscript", "Write the policy as TorchScript.", "FILE", hidden=True)
    ] = None,
    onnx: Annotated[Path | None, option("--onnx", "Write the policy as an ONNX model.", "FILE", hidden=True)] = None,
    weights: Annotated[
        Path | None, option("--weights", "Write the policy's weights as one file for Echelon.", "FILE", hidden=True)
    ] = None,
    policy: Annotated[
        Path | None, option("--policy", "Write the policy as a folder: safetensors, manifest.json.", "DIR", hidden=True)
    ] = None,
    project: Annotated[str, option("--project", "W&B project.", "NAME")] = PROJECT,
    offline: Annotated[bool, option("--offline", "Write W&B files locally, to be synced later.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Export curves as CSV, to TensorBoard or to W&B. echelon policy export writes a run's policy."""
    from echelon.runs import find_run
    from echelon.telemetry.log import read_events
    from echelon_cli.listing import job_json

    policies = {"torchscript": torchscript, "onnx": onnx, "weights": weights, "policy": policy}
    if tensorboard is None and csv is None and not wandb and not any(policies.values()):
        raise typer.BadParameter("nothing to export, expected one of --csv, --tensorboard, --wandb")
    _require_folders(csv, policies)
    paths = find_run(run)
    events, skipped = read_events(paths.metrics)
    site = (project, "offline" if offline else "online") if wandb else None
    written = _curves(paths, events, tensorboard, csv, site) | _policies(paths.root, policies, as_json)
    _show(job_json(paths, unreadable_lines=skipped), written, as_json)
    return output.DONE


def export_policy(
    name: PolicyArgument,
    torchscript: Annotated[Path | None, option("--torchscript", "Write TorchScript.", "FILE")] = None,
    onnx: Annotated[Path | None, option("--onnx", "Write an ONNX model.", "FILE")] = None,
    weights: Annotated[Path | None, option("--weights", "Write the weights as one file for Echelon.", "FILE")] = None,
    policy: Annotated[Path | None, option("--policy", "Write a folder: safetensors and manifest.json.", "DIR")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Export a policy for other programs; what is written is verified."""
    from echelon.arena.standings import policy_path

    policies = {"torchscript": torchscript, "onnx": onnx, "weights": weights, "policy": policy}
    if not any(policies.values()):
        raise typer.BadParameter("nothing to export, expected one of --torchscript, --onnx, --weights, --policy")
    _require_folders(None, policies)
    source = policy_path(name)
    _show({"source": str(source)}, _policies(source, policies, as_json), as_json)
    return output.DONE


def _require_folders(csv: Path | None, policies: Mapping[str, Path | None]) -> None:
    """Raise ``ValueError`` for a file in a folder that does not exist, before anything is written."""
    for target in filter(None, (csv, *(path for kind, path in policies.items() if kind != "policy"))):
        if not target.parent.is_dir():
            raise ValueError(f"folder {str(target.parent)!r} does not exist; create it, or name another one")


def _curves(
    paths: RunPaths, events: Sequence[Event], tensorboard: Path | None, csv: Path | None, wandb: tuple[str, str] | None
) -> dict[str, Any]:
    """Write curves, to W&B with its project and mode; return what was written by kind."""
    from echelon.jobs.spec import read_spec
    from echelon.telemetry import export as exports

    written: dict[str, Any] = {}
    if tensorboard is not None or csv is not None or wandb is not None:
        exports.require_curves(events, paths.id)
    if csv is not None:
        written["csv"] = {"path": str(csv), "lines": exports.to_csv(events, csv)}
    if tensorboard is not None:
        written["tensorboard"] = {"path": str(tensorboard), "points": exports.to_tensorboard(events, tensorboard)}
    if wandb is not None:
        (project, mode), config = wandb, read_spec(paths).config
        steps = exports.to_wandb(
            events, project=project, name=paths.id, config=config, mode=mode, images=lambda: _heat(paths.heat)
        )
        written["wandb"] = {"project": project, "mode": mode, "steps": steps}
    return written


def _policies(source: Path, policies: Mapping[str, Path | None], as_json: bool) -> dict[str, Any]:
    """Write a policy in the requested forms; return what was written by kind."""
    written = {}
    for kind, target in policies.items():
        if target is not None:
            with output.waiting(f"exporting as {kind}", quiet=as_json):
                written[kind] = _policy(source, kind, target)
    return written


def _show(origin: Mapping[str, Any], written: dict[str, Any], as_json: bool) -> None:
    """Print what was exported."""
    if as_json:
        output.show_json({**origin, **written})
        return
    for target, facts in written.items():
        output.print_line(f"{target}: {', '.join(f'{key} {value}' for key, value in facts.items())}")


def _policy(source: Path, kind: str, target: Path) -> dict[str, Any]:
    """Export a run's policy; return its path, size and largest difference from the original's outputs."""
    from echelon.training.export import export_policy
    from echelon.training.weights import export_checkpoint, export_policy_folder, find_checkpoint, load_policy

    facts: dict[str, Any] = {"path": str(target)}
    if kind == "weights":
        export_checkpoint(find_checkpoint(source), target)
    elif kind == "policy":
        export_policy_folder(find_checkpoint(source), target)
    else:
        facts["difference"] = export_policy(load_policy(source), target, kind)
    files = target.iterdir() if target.is_dir() else [target]
    return {**facts, "bytes": sum(file.stat().st_size for file in files)}


def _heat(folder: Path) -> dict[str, Any]:
    """Return the newest heat maps as images; empty if there are none."""
    from echelon.telemetry.heat_maps import heat_files
    from echelon.training.spatial import load_heat

    files = list(heat_files(folder).values())
    return load_heat(files[-1]).to_images() if files else {}
