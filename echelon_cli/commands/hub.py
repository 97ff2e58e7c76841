"""``echelon policy push`` and ``echelon policy pull``: policies to and from the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from echelon_cli import output
from echelon_cli.options import JsonFlag, PolicyArgument, argument, option
from echelon_cli.usage import usage_errors

RepoArgument = Annotated[str, argument("OWNER/NAME", "Model repository on the Hub.")]


def push(
    policy: PolicyArgument,
    repo: RepoArgument,
    replay: Annotated[
        str | None, option("--replay", "Match to show; default: the newest of the run.", "FILE|MATCH|none")
    ] = None,
    private: Annotated[bool, option("--private", "Make a new repository private.")] = False,
    dry_run: Annotated[
        Path | None, option("--dry-run", "Write the files into a new folder, upload nothing.", "DIR")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Publish a policy with a model card and a match.

    Weights as safetensors, results with intervals, commands to use it, and a match as one page.
    """
    import tempfile

    from echelon import hub
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
        output.print_line(f"{where}: {', '.join(f'{name} {output.count(size)}B' for name, size in files.items())}")
    return output.DONE


def pull(
    repo: RepoArgument,
    out: Annotated[
        Path | None, option("--out", "New folder; default: the name of the repository.", "DIR", short="-o")
    ] = None,
    revision: Annotated[
        str | None, option("--revision", "Branch, tag or commit; default: the main branch.", "NAME")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Download a published policy and verify it. What it can be used for is printed."""
    from echelon import hub
    from echelon.rl.weights import find_checkpoint
    from echelon.runs import command
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
        return output.DONE
    output.print_line(f"{target}: policy {manifest['id']}, {manifest['global_step']:,} steps")
    output.print_line(f"evaluate it: {command('eval', target, '--ladder')}; play against it: {command('play', target)}")
    return output.DONE


def _prepare(source: Path, repo: str, folder: Path, replay: str | None) -> str:
    """Write the files of the repository into ``folder`` and return the id of the policy."""
    from dataclasses import replace

    from echelon import hub
    from echelon.files import atomic_write
    from echelon.rl.weights import find_checkpoint
    from echelon.runs import RunPaths, read_json
    from echelon.training.champion import DROPPED, portable
    from echelon.training.policy_readme import policy_readme
    from echelon.training.weights import export_policy_folder
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
    text = policy_readme(repo, manifest, rows, preset=preset, has_match=match is not None)
    atomic_write(folder / hub.README, text)
    return checkpoint.id


def _rows(run: Any, identity: str) -> list[Any]:
    """Return the newest result of ``echelon eval`` against each opponent, of this checkpoint alone."""
    from echelon.telemetry.evaluations import read_evaluations, row_of

    found = {event.opponent: row_of(event) for event in read_evaluations(run.evals) if event.checkpoint == identity}
    return list(found.values())


def _match(replay: str | None, run: Any) -> tuple[bytes, str] | None:
    """Return a match with its world, and as a page; None for ``none`` and where the run has no match."""
    from echelon.replay.embed import embed_world
    from echelon.replay.reader import Replay
    from echelon.server.page import single_page
    from echelon_cli.matches import find_replay

    if replay == "none" or (replay is None and (run is None or not any(run.replays.glob("*.ecr")))):
        return None
    path = find_replay(replay if replay is not None else str(run.root))
    with Replay(path) as opened:
        data = embed_world(opened)
        title = " against ".join(str(team["name"]) for team in opened.header["teams"]) + " · Echelon"
        return data, single_page(data, path.name, title)
