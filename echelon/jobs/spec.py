"""Spec of a job: its resolved configuration with provenance, written once as ``spec.json``.

A resume with a changed configuration writes ``resume.json`` of the same form beside it. ``config_layers`` resolves
configurations. A job script writes the spec of a run by ``python -m echelon.jobs.spec RUN [--preset P] [--set K=V]``.
"""

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from echelon.files import atomic_write, make_folder
from echelon.jobs.environment import git_state
from echelon.runs import RunPaths, read_json

NOTIFY_OPTION, HIDDEN = "--notify", "(hidden)"
"""Option whose value is a secret, and what is recorded instead."""
NOTIFY_VARIABLE = "ECHELON_NOTIFY"
"""Variable with further URLs, separated by blanks; unlike a command line, other users cannot read it."""
ENVIRONMENT_PREFIXES = ("ECHELON_", "CUDA_", "OMP_", "MKL_", "WARP_", "TORCH_")


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """Request for a job."""

    kind: str
    """Row of ``kinds.KINDS``."""
    config: dict[str, Any]
    provenance: dict[str, str] = field(default_factory=dict)
    """Layer of each value that is not a default, by dotted key."""
    argv: list[str] = field(default_factory=list)
    created: float = field(default_factory=time.time)
    host: str = field(default_factory=socket.gethostname)
    git: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    parent: str = ""
    """The sweep or red team that has started it; ``latest`` names no such run."""


def new_spec(
    kind: str, config: dict[str, Any], provenance: dict[str, str], argv: Sequence[str] | None = None, parent: str = ""
) -> JobSpec:
    return JobSpec(
        kind=kind,
        config=config,
        provenance=provenance,
        argv=without_secrets(sys.argv if argv is None else argv),
        git=git_state(),
        environment={k: v for k, v in sorted(os.environ.items()) if is_recorded(k)},
        parent=parent,
    )


def is_recorded(variable: str) -> bool:
    return variable.startswith(ENVIRONMENT_PREFIXES) and variable != NOTIFY_VARIABLE


def without_secrets(argv: Sequence[str]) -> list[str]:
    """Return a command line without the URLs of ``--notify``: run folders are copied between people."""
    shown: list[str] = []
    for word in argv:
        if shown and shown[-1] == NOTIFY_OPTION:
            word = HIDDEN
        elif word.startswith(f"{NOTIFY_OPTION}="):
            word = f"{NOTIFY_OPTION}={HIDDEN}"
        shown.append(word)
    return shown


def write_spec(paths: RunPaths, spec: JobSpec) -> None:
    """Write ``spec.json``, or ``resume.json`` where the run has a spec."""
    target = paths.extension if paths.spec.exists() else paths.spec
    atomic_write(target, json.dumps(asdict(spec), indent=2, default=str) + "\n")


def read_spec(paths: RunPaths) -> JobSpec:
    """Return the newest spec of a run; ``ValueError`` where spec.json is missing or damaged."""
    row = read_json(paths.extension, names=True) or read_json(paths.spec, names=True)
    if row is None:
        raise ValueError(f"run {paths.id!r} has no readable spec.json in {str(paths.root)!r}")
    if not isinstance(row.get("kind"), str) or not isinstance(row.get("config"), dict):
        raise ValueError(f"spec.json of run {paths.id!r} has no kind and config, expected both")
    hints = get_type_hints(JobSpec)
    return JobSpec(**{name: value for name, value in row.items() if name in hints and _is_of(value, hints[name])})


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a JSON value has the type of a field; a damaged field gets its default."""
    if hint is Any:
        return True
    cls = get_origin(hint) or hint
    if not isinstance(value, (int, float) if cls is float else cls) or isinstance(value, bool):
        return False
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(_is_of(item, get_args(hint)[-1]) for item in items)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the spec of a training run into its folder unless it has one."""
    from echelon.jobs.config_layers import parse_assignment, resolve

    parser = argparse.ArgumentParser(prog="echelon.jobs.spec")
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--preset", default="gpu", help="preset of a new run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="option of a new run")
    options = parser.parse_args(argv)
    paths = RunPaths(options.run)
    if paths.spec.exists():
        return
    try:
        resolved = resolve(options.preset, None, dict(map(parse_assignment, options.set)))
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
    make_folder(paths.root)
    write_spec(paths, new_spec("train", resolved.nested(), resolved.provenance))


if __name__ == "__main__":
    main()
