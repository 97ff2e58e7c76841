"""``echelon export``: a run's curves for other tools, and its policy as a stand-alone file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag, RunArgument

PROJECT = "echelon"


def export(
    run: RunArgument,
    tensorboard: Annotated[
        Path | None,
        typer.Option("--tensorboard", metavar="DIR", help="Write a TensorBoard event file into this folder."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write a CSV table: a line per update, a column per curve."),
    ] = None,
    wandb: Annotated[bool, typer.Option("--wandb", help="Log the curves to W&B.")] = False,
    torchscript: Annotated[
        Path | None, typer.Option("--torchscript", metavar="FILE", help="Write the policy as TorchScript.")
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", metavar="FILE", help="Write the policy as an ONNX model.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE", help="Write the policy's weights as one file for Echelon."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="DIR", help="Write the policy as a folder: safetensors and manifest.json."),
    ] = None,
    project: Annotated[str, typer.Option("--project", help="W&B project.")] = PROJECT,
    offline: Annotated[bool, typer.Option("--offline", help="Write W&B files locally, to be synced later.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Export a run's curves, or the policy of its best (else newest) checkpoint; exported policies are verified."""
    from echelon.jobs.spec import read_spec
    from echelon.runs import find_run
    from echelon.telemetry import export as exports
    from echelon.telemetry.log import read_events
    from echelon_cli.listing import job_json

    policies = {"torchscript": torchscript, "onnx": onnx, "weights": weights, "policy": policy}
    if tensorboard is None and csv is None and not wandb and not any(policies.values()):
        raise typer.BadParameter(
            "nothing to export, expected one of --csv, --tensorboard, --wandb, --torchscript, --onnx, --weights, "
            "--policy"
        )
    for target in filter(None, (csv, torchscript, onnx, weights)):
        if not target.parent.is_dir():
            raise ValueError(f"folder {str(target.parent)!r} does not exist; create it, or name another one")
    paths = find_run(run)
    events, skipped = read_events(paths.metrics)
    written: dict[str, Any] = {}
    if csv is not None:
        written["csv"] = {"path": str(csv), "lines": exports.to_csv(events, csv)}
    if tensorboard is not None:
        written["tensorboard"] = {"path": str(tensorboard), "points": exports.to_tensorboard(events, tensorboard)}
    if wandb:
        mode = "offline" if offline else "online"
        config = read_spec(paths).config
        steps = exports.to_wandb(
            events, project=project, name=paths.id, config=config, mode=mode, images=lambda: _heat(paths.heat)
        )
        written["wandb"] = {"project": project, "mode": mode, "steps": steps}
    for kind, target in policies.items():
        if target is not None:
            with output.waiting(f"exporting as {kind}", quiet=as_json):
                written[kind] = _policy(paths.root, kind, target)
    if as_json:
        output.show_json(job_json(paths, unreadable_lines=skipped, **written))
        return output.DONE
    for target, facts in written.items():
        output.print_line(f"{target}: {', '.join(f'{key} {value}' for key, value in facts.items())}")
    return output.DONE


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
