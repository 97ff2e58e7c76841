"""``echelon policy``: policies as files for other programs, and to and from the Hugging Face Hub."""

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from echelon import hub
from echelon.files import atomic_write
from echelon.runs import RunPaths, command, list_runs, read_json
from echelon.telemetry.evaluations import read_evaluations, row_of
from echelon_cli import options, output
from echelon_cli.commands.export import require_folder, show_written
from echelon_cli.options import argument, option, usage_errors

app = typer.Typer(
    help="Export policies, publish and fetch them (Hugging Face Hub).", no_args_is_help=True, rich_markup_mode=None
)

RepoArgument = Annotated[str, argument("OWNER/NAME", "Model repository on the Hub.")]


@app.command("export")
def export_policy(
    name: options.Policy,
    torchscript: Annotated[Path | None, option("--torchscript", "Write TorchScript.", "FILE")] = None,
    onnx: Annotated[Path | None, option("--onnx", "Write an ONNX model.", "FILE")] = None,
    weights: Annotated[Path | None, option("--weights", "Write the weights as one file for Echelon.", "FILE")] = None,
    policy: Annotated[Path | None, option("--policy", "Write a folder: safetensors and manifest.json.", "DIR")] = None,
    as_json: options.Json = False,
) -> None:
    """Export a policy for other programs; what is written is verified."""
    from echelon.arena.standings import policy_path

    policies = {"torchscript": torchscript, "onnx": onnx, "weights": weights, "policy": policy}
    if not any(policies.values()):
        raise typer.BadParameter("nothing to export, expected one of --torchscript, --onnx, --weights, --policy")
    for kind, target in policies.items():
        if target is not None and kind != "policy":
            require_folder(target)
    source = policy_path(name)
    show_written({"source": str(source)}, _policies(source, policies, as_json), as_json)


def _policies(source: Path, policies: Mapping[str, Path | None], as_json: bool) -> dict[str, Any]:
    """Write a policy in the requested forms; return what was written by kind."""
    written = {}
    for kind, target in policies.items():
        if target is not None:
            with output.waiting(f"exporting as {kind}", quiet=as_json):
                written[kind] = _policy(source, kind, target)
    return written


def _policy(source: Path, kind: str, target: Path) -> dict[str, Any]:
    """Export a run's policy; return its path, size and largest difference from the original's outputs."""
    from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
    from echelon.rl.weights import load_policy
    from echelon.training.export import export_policy
    from echelon.training.weights import export_checkpoint

    facts: dict[str, Any] = {"path": str(target)}
    if kind == "weights":
        export_checkpoint(find_checkpoint(source), target)
    elif kind == "policy":
        export_policy_folder(find_checkpoint(source), target)
    else:
        facts["difference"] = export_policy(load_policy(source), target, kind)
    files = target.iterdir() if target.is_dir() else [target]
    return {**facts, "bytes": sum(file.stat().st_size for file in files)}


@app.command("push")
def push(
    policy: options.Policy,
    repo: RepoArgument,
    replay: Annotated[str | None, option("--replay", "Match to show; default: the newest.", "FILE|MATCH|none")] = None,
    private: Annotated[bool, option("--private", "Make a new repository private.")] = False,
    dry_run: Annotated[Path | None, option("--dry-run", "Write into a new folder, upload nothing.", "DIR")] = None,
    as_json: options.Json = False,
) -> None:
    """Publish a policy with a model card and a match.

    Weights as safetensors, results with intervals, commands to use it, and a match as one page.
    """
    from echelon.arena.standings import policy_path

    with usage_errors():
        hub.require_name(repo)
    if dry_run is not None and dry_run.exists():
        raise ValueError(f"folder {str(dry_run)!r} already exists; try another --dry-run")
    source = policy_path(policy)
    with tempfile.TemporaryDirectory(prefix="echelon-push-") as parent:
        folder = dry_run or Path(parent) / "policy"
        with output.waiting("preparing", quiet=as_json):
            identity = _prepare(source, repo, folder, replay)
        files = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
        url = ""
        if dry_run is None:
            with output.waiting(f"uploading to {repo}", quiet=as_json):
                url = hub.upload(folder, repo, private=private, message=f"Policy {identity}")
    where = url or str(dry_run)
    if as_json:
        output.show_json({"repo": repo, "id": identity, "url": url, "folder": str(dry_run or ""), "files": files})
    else:
        output.print_line(f"{where}: {', '.join(f'{name} {output.size(size)}' for name, size in files.items())}")


@app.command("pull")
def pull(
    repo: RepoArgument,
    out: Annotated[Path | None, option("--out", "New folder; default: NAME.", "DIR", short="-o")] = None,
    revision: Annotated[str | None, option("--revision", "Branch, tag or commit; default: main.", "NAME")] = None,
    as_json: options.Json = False,
) -> None:
    """Download a published policy and verify it. The commands that use it are printed."""
    from echelon.rl.checkpoint import find_checkpoint
    from echelon.training.policy_readme import local_name

    with usage_errors():
        hub.require_name(repo)
    target = out or Path(local_name(repo))
    with output.waiting(f"downloading {repo}", quiet=as_json):
        hub.download(repo, target, revision=revision)
    manifest = find_checkpoint(target).manifest
    if as_json:
        found = sorted(file.name for file in target.iterdir())
        output.show_json({"repo": repo, "folder": str(target), "id": manifest["id"], "files": found})
        return
    output.print_line(f"{target}: policy {manifest['id']}, {manifest['global_step']:,} steps")
    output.print_line(f"evaluate it: {command('eval', target, '--ladder')}; play against it: {command('play', target)}")


def _prepare(source: Path, repo: str, folder: Path, replay: str | None) -> str:
    """Write the files of the repository into ``folder`` and return the id of the policy."""
    from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
    from echelon.training.champion import DROPPED, portable
    from echelon.training.policy_readme import policy_readme
    from echelon_cli.eval_job import run_of

    checkpoint = find_checkpoint(source)
    manifest = {key: portable(value) for key, value in checkpoint.manifest.items() if key not in DROPPED}
    export_policy_folder(replace(checkpoint, manifest=manifest), folder)
    root = run_of(source)
    run = None if root is None else RunPaths(root)
    match = _match(replay, run)
    if match is not None:
        data, page = match
        atomic_write(folder / hub.REPLAY, data)
        atomic_write(folder / hub.PAGE, page)
    preset = "" if run is None else str(((read_json(run.spec) or {}).get("config") or {}).get("preset", ""))
    rows = [] if run is None else _rows(run, checkpoint.id)
    attacks = _attacks(checkpoint.id)
    text = policy_readme(repo, manifest, rows, preset=preset, has_match=match is not None, attacks=attacks)
    atomic_write(folder / hub.README, text)
    return checkpoint.id


def _rows(run: Any, identity: str) -> list[Any]:
    """Return the newest result of ``echelon eval`` against each opponent, of this checkpoint alone."""
    found = {event.opponent: row_of(event) for event in read_evaluations(run.evals) if event.checkpoint == identity}
    return list(found.values())


def _attacks(identity: str) -> tuple[list[Any], list[str]]:
    """Return the best attackers of the newest red team that attacks this checkpoint, and what it has found."""
    from echelon.jobs.sweeps.results import read_report

    for paths in list_runs(kind="sweep"):
        with contextlib.suppress(ValueError, OSError):
            report = read_report(paths)
            found = [point for point in report.curve if point.mean]
            if report.attack.checkpoint == identity and found:
                rows = [(f"{p.steps:,}", p.name, str(p.before or "-"), str(p.rates), str(p.episodes)) for p in found]
                return rows, report.findings
    return [], []


def _match(replay: str | None, run: Any) -> tuple[bytes, str] | None:
    """Return a match with its world, and as a page; None for ``none`` and where the run has no match."""
    from echelon.replay.embed import embed_world
    from echelon.replay.find import find_replay
    from echelon.replay.match_text import match_title
    from echelon.replay.reader import Replay
    from echelon.server.page import single_page

    if replay == "none" or (replay is None and (run is None or not any(run.replays.glob("*.ecr")))):
        return None
    path = find_replay(replay if replay is not None else str(run.root))
    with Replay(path) as opened:
        data = embed_world(opened)
        title = f"{match_title(opened.header)} · Echelon"
        return data, single_page(data, path.name, title)
