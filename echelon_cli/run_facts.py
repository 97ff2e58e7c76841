"""State and results of a run as plain values, and the labelled facts that tables show of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from echelon.jobs.environment import read_environment
from echelon.runs import RunPaths
from echelon.telemetry.snapshot import read_snapshot
from echelon_cli import output
from echelon_cli.listing import opponent_name, run_row

OF_UPDATE = ("elapsed_s", "map_stalls", "imitation_loss", "agreement", "learner_share")
"""Values of the newest update."""

COMMIT_CHARS = 12
"""Characters shown of a commit."""


def describe(paths: RunPaths) -> dict[str, Any]:
    """Return a run's state and results as plain values: those of lists of runs, and more."""
    snapshot = read_snapshot(paths.metrics)
    best, last = snapshot.best, snapshot.evals[-1] if snapshot.evals else None
    return {
        **run_row(paths).to_dict(),
        **source_facts(read_environment(paths)),
        **{name: getattr(snapshot.update, name, math.nan) for name in OF_UPDATE},
        **{f"best_{name}": getattr(best, name, math.nan) for name in ("win_rate", "win_low", "win_high")},
        "best_step": best.global_step if best else 0,
        "last_step": last.global_step if last else 0,
        "episodes": snapshot.episodes.count,
        "checkpoint": snapshot.checkpoints[-1].path if snapshot.checkpoints else "",
        "unreadable_lines": snapshot.skipped,
    }


def source_facts(environment: dict[str, Any]) -> dict[str, str]:
    """Return commit, packages and devices of a run as one line each; empty where unknown."""
    git, installed, devices = (
        found if isinstance(found := environment.get(name), dict) else {} for name in ("git", "packages", "devices")
    )
    commit = str(git.get("commit", ""))[:COMMIT_CHARS]
    if git.get("dirty"):
        lines = git.get("diff_bytes")
        commit += f" with uncommitted changes ({lines} B in source.diff)" if lines else " with uncommitted changes"
    main = [f"{name} {installed[name]}" for name in ("torch", "warp-lang", "numpy") if name in installed]
    gpus = ", ".join(names) if isinstance(names := devices.get("gpus"), list) else ""
    driver = f"{gpus}, driver {devices.get('driver', '-')}" if gpus else "no NVIDIA GPU" if devices else ""
    machine = f"{devices.get('processor', '-')}, {devices.get('cores', '-')} cores; {driver}" if devices else ""
    python = [f"python {environment['python']}"] if "python" in environment else []
    more = [f"{len(installed)} in all"] if installed else []
    return {"commit": commit, "packages": ", ".join([*python, *main, *more]), "machine": machine}


Row = dict[str, Any]
FACTS: dict[str, tuple[tuple[str, ...], Callable[..., object]]] = {
    "run": (("id",), str),
    "folder": (("folder",), str),
    "state": (("state",), output.state_text),
    "reason": (("reason",), str),
    "preset": (("preset",), str),
    "created": (("created",), output.local_time),
    "evaluation, 95 % interval": (("last_win_rate", "last_win_low", "last_win_high"), output.rate),
    "evaluated against": (("last_win_rate", "opponent"), lambda _, name: opponent_name(name)),
    "evaluated at step": (("last_step",), output.count),
    "best checkpoint": (("best_win_rate", "best_win_low", "best_win_high"), output.rate),
    "best at step": (("best_step",), output.count),
    "ladder score": (("ladder", "ladder_low", "ladder_high"), output.rate),
    "training win rate (current mix)": (("win_rate",), output.percent),
    "return": (("avg_return",), output.measured),
    "updates": (("update",), str),
    "steps": (("global_step",), output.count),
    "progress": (("progress",), output.percent),
    "training time": (("elapsed_s",), output.duration),
    "episodes": (("episodes",), output.count),
    "steps/s": (("steps_per_s",), output.count),
    "waits for maps": (("map_stalls",), output.count),
    "imitation loss": (("imitation_loss",), output.measured),
    "agreement with teacher": (("agreement",), output.percent),
    "learner controls": (("learner_share",), output.percent),
    "newest checkpoint": (("checkpoint",), str),
    "group": (("group",), str),
    "tags": (("tags",), " ".join),
    "notes": (("notes",), str),
    "commit": (("commit",), str),
    "packages": (("packages",), str),
    "machine": (("machine",), str),
    "unreadable lines": (("unreadable_lines",), str),
}
"""Label of each row of ``runs show`` and ``compare``, the values of ``describe`` in it, and their text."""

COUNTS = frozenset(
    "created last_step best_step update global_step progress elapsed_s episodes map_stalls imitation_loss "
    "unreadable_lines".split()
)
"""Values of ``describe`` that are 0 where there is nothing to show; a rate of 0 is a result."""


def shown_facts(rows: Sequence[Row]) -> list[tuple[str, Callable[[Row], object]]]:
    """Return label and text of the facts that any of the rows has."""
    shown: list[tuple[str, Callable[[Row], object]]] = []
    for label, (keys, text) in FACTS.items():
        if any(_is_known(keys[0], row[keys[0]]) for row in rows):
            shown.append((label, lambda row, keys=keys, text=text: text(*(row[key] for key in keys))))
    return shown


def _is_known(key: str, value: Any) -> bool:
    """Return whether a value of ``describe`` is shown: not empty, NaN, or a count of 0."""
    return value not in ("", (), None) and value == value and not (key in COUNTS and value == 0)
