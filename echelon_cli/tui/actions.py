"""What the dashboard does to a run, besides looking: start, stop, resume, save. Blocking; called on a thread.

Each returns a sentence for the screen and its role, and raises nothing that a person could cause. What starts
processes is loaded when it is asked for, so that the first picture is there at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from echelon.jobs import control
from echelon.jobs.process import PYTHON_MODULE
from echelon.jobs.status import job_status
from echelon.runs import HOME_VARIABLE, RunPaths

ActionResult = tuple[str, str]
"""What was done, and good, info, warn or bad."""


def stop(root: Path) -> ActionResult:
    """Ask a run to stop after its update; a second time, to give the update up."""
    from echelon.jobs import launch

    paths = RunPaths(root)
    try:
        if not job_status(paths).is_alive:
            return f"{paths.id} is not running", "warn"
        launch.stop(paths)
        again = len(control.stop_requests(paths)) > 1
    except (ValueError, OSError) as error:
        return str(error), "bad"
    if again:
        return "asked again: it gives up the update and keeps the last checkpoint", "warn"
    return "asked to stop: it ends its update, then saves", "info"


def save(root: Path) -> ActionResult:
    """Ask a run for a checkpoint."""
    paths = RunPaths(root)
    try:
        if not job_status(paths).is_alive:
            return f"{paths.id} is not running", "warn"
        control.request_checkpoint(paths)
    except (ValueError, OSError) as error:
        return str(error), "bad"
    return "asked for a checkpoint: it saves after its update", "info"


def start(home: Path, preset: str, changes: dict[str, Any]) -> tuple[Path | None, ActionResult]:
    """Start a run and return its folder, None where that was impossible; the answer says why."""
    from echelon.jobs import launch
    from echelon.jobs.config_layers import resolve
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.spec import new_spec
    from echelon.runs import create_run

    paths = None
    try:
        resolved = resolve(preset, None, changes)
        paths = create_run(resolved.config.preset, home)
        launch.launch(paths, new_spec("train", resolved.nested(), resolved.provenance), KINDS["train"])
    except (ValueError, OSError) as error:
        if paths is not None and not paths.metrics.exists():
            shutil.rmtree(paths.root, ignore_errors=True)
        return None, (str(error), "bad")
    return paths.root, (f"{paths.id} has begun", "good")


def play_round(home: Path) -> ActionResult:
    """Begin a round of the league in the background, as the command does."""
    words = [*PYTHON_MODULE, "echelon_cli.main", "arena", "run", "--detach", "--json"]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, HOME_VARIABLE: str(home)}
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    try:
        said = json.loads(last)
    except ValueError:
        said = {}
    if done.returncode == 0:
        return f"{said.get('id')} plays a round", "good"
    return said.get("error") or "the round did not begin; to see why: echelon arena run", "bad"


def resume(root: Path) -> ActionResult:
    """Let a run go on from its newest checkpoint."""
    from echelon.jobs import launch
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.spec import new_spec, read_spec

    paths = RunPaths(root)
    try:
        if job_status(paths).is_alive:
            return f"{paths.id} is running already", "warn"
        spec = read_spec(paths)
        if spec.kind not in KINDS:
            return f"{paths.id} is of kind {spec.kind!r}, which cannot go on", "warn"
        launch.launch(
            paths, new_spec(spec.kind, spec.config, spec.provenance), KINDS[spec.kind], ["--resume", "latest"]
        )
    except (ValueError, OSError) as error:
        return str(error), "bad"
    return f"{paths.id} goes on", "good"
