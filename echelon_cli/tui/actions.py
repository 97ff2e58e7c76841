"""Actions of the dashboard on runs and the league: start, stop, resume, checkpoint, play a round.

All block, so the app calls them in a thread. Each returns a notice and its role; the app shows a ``ValueError`` or
``OSError`` as one. Modules that start processes are imported when needed, which keeps the dashboard's start fast.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echelon.files import error_text
from echelon.jobs import control
from echelon.jobs.status import job_status
from echelon.jobs.tickets import PYTHON_MODULE
from echelon.runs import HOME_VARIABLE, RunPaths, list_runs, read_json

ActionResult = tuple[str, str]
"""The notice, and its role: good, info, warn or bad."""


def stop(root: Path) -> ActionResult:
    """Request that a run stops after its update; a second request stops it at once."""
    from echelon.jobs import launch

    paths = RunPaths(root)
    if not job_status(paths).is_alive:
        return f"{paths.id} is not running", "warn"
    launch.stop(paths)
    if len(control.stop_requests(paths)) > 1:
        return "stopping now: discards the current update, keeps the last checkpoint", "warn"
    return "stop requested: finishes the current update, then saves", "info"


def save(root: Path) -> ActionResult:
    paths = RunPaths(root)
    if not job_status(paths).is_alive:
        return f"{paths.id} is not running", "warn"
    control.request_checkpoint(paths)
    return "checkpoint requested: saved after the current update", "info"


def start(home: Path, preset: str, changes: dict[str, Any]) -> tuple[Path | None, ActionResult]:
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
        return None, (error_text(error), "bad")
    return paths.root, (f"{paths.id} started", "good")


def play_round(home: Path) -> ActionResult:
    """Start a round of the league in the background with ``echelon arena run --detach``."""
    command = [*PYTHON_MODULE, "echelon_cli.main", "arena", "run", "--detach", "--json"]
    env = {**os.environ, HOME_VARIABLE: str(home)}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env)
    last_line = (done.stdout.strip().splitlines() or [""])[-1]
    try:
        reply = json.loads(last_line)
    except ValueError:
        reply = {}
    if done.returncode == 0:
        return f"{reply.get('id')} started a league round", "good"
    return reply.get("error") or "the league round did not start; for details: echelon arena run", "bad"


def pin(root: Path, pinned: Sequence[Path]) -> ActionResult:
    """Make a run the baseline instead of those ``pinned``; where it is the baseline, there is none afterwards."""
    from echelon.jobs.labels import BASELINE, change_labels

    for other in pinned:
        change_labels(RunPaths(other), remove=[BASELINE])
    if root not in pinned:
        change_labels(RunPaths(root), add=[BASELINE])
    return ("no baseline" if root in pinned else f"baseline: {root.name}"), "info"


def baseline_of(root: Path) -> Path | None:
    """Return the baseline that a training run is compared with; None without one, or where it is the run itself."""
    from echelon.jobs.labels import BASELINE, read_labels

    if (read_json(RunPaths(root).spec) or {}).get("kind") != "train":
        return None
    others = (paths for paths in list_runs(root.parent, "train") if paths.root != root)
    return next((paths.root for paths in others if BASELINE in read_labels(paths).tags), None)


def resume(root: Path) -> ActionResult:
    from echelon.jobs import launch
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.spec import new_spec, read_spec

    paths = RunPaths(root)
    status = job_status(paths)
    if not status.has_ended:
        return f"{paths.id} {'is already running' if status.is_alive else status.reason}", "warn"
    spec = read_spec(paths)
    if spec.kind not in KINDS:
        return f"{paths.id} is of kind {spec.kind!r}, which cannot be resumed", "warn"
    launch.launch(paths, new_spec(spec.kind, spec.config, spec.provenance), KINDS[spec.kind], ["--resume", "latest"])
    return f"{paths.id} resumed", "good"
