"""Environment of a run: source, packages and devices, kept in its folder so that its result can be reproduced.

The first session writes ``environment.json`` and, where the checkout has uncommitted changes, ``source.diff``; a
resume writes ``environment.resume.json`` and ``source.resume.diff``. An installed wheel has no checkout: it contains
the commit that it was built from.
"""

import contextlib
import hashlib
import importlib
import json
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import echelon
from echelon import machine
from echelon.files import atomic_write
from echelon.runs import RunPaths, read_json

GIT_TIMEOUT_S = 5.0
MAX_DIFF_BYTES = 1 << 20
"""Longest difference to the commit that is kept; of a longer one only its hash is."""
BAKED = Path(echelon.__file__).parent / "commit.json"
"""Commit that a wheel was built from, written by ``hatch_build.py``."""
DIFF = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", "--", ":/")
MIB = 2**20
MAX_CHARS = 200


def git(*arguments: str) -> bytes:
    """Return the output of git in the checkout of this package; ``OSError`` or ``SubprocessError`` where it fails."""
    return subprocess.run(
        ["git", "-C", str(Path(echelon.__file__).parent), *arguments],
        capture_output=True,
        timeout=GIT_TIMEOUT_S,
        check=True,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    ).stdout


def git_state() -> dict[str, Any]:
    """Return commit, branch and dirty flag of Echelon's checkout, else the commit of its wheel; empty without one.

    A checkout of something else around an installed package is none of Echelon's.
    """
    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        return {
            "commit": git("rev-parse", "HEAD").decode().strip(),
            "branch": git("rev-parse", "--abbrev-ref", "HEAD").decode().strip(),
            "dirty": bool(git("status", "--porcelain", "--untracked-files=no", ".").strip()),
        }
    except (OSError, subprocess.SubprocessError):
        return read_json(BAKED) or {}


def source_diff() -> bytes:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        git("ls-files", "--error-unmatch", "__init__.py")
        return git(*DIFF)
    return b""


def packages() -> dict[str, str]:
    read = (distribution.metadata for distribution in metadata.distributions())
    found = ((described["Name"], described["Version"]) for described in read)
    return dict(sorted(((name, version) for name, version in found if name), key=lambda item: item[0].lower()))


def devices() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": machine.cores(),
        "memory_mb": machine.memory().total // MIB,
        **_gpus(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def _gpus() -> dict[str, Any]:
    try:
        library = importlib.import_module("pynvml")
        library.nvmlInit()
        handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
        return {
            "driver": library.nvmlSystemGetDriverVersion(),
            "gpus": [library.nvmlDeviceGetName(handle) for handle in handles],
            "gpu_memory_mb": [library.nvmlDeviceGetMemoryInfo(handle).total // MIB for handle in handles],
        }
    except Exception:
        # no library, no driver, or a mismatch of both: there is no usable GPU to name
        return {}


def record_environment(paths: RunPaths) -> None:
    """Write source, packages and devices of this session into a run folder; ``OSError`` where it cannot be written."""
    is_first = not paths.environment.exists()
    target = paths.environment if is_first else paths.resumed_environment
    diff, state = source_diff(), git_state()
    if diff:
        state |= {"diff_sha256": hashlib.sha256(diff).hexdigest(), "diff_bytes": len(diff)}
        if len(diff) <= MAX_DIFF_BYTES:
            atomic_write(paths.source_diff if is_first else paths.resumed_source_diff, diff)
    found = {"python": platform.python_version(), "git": state, "packages": packages(), "devices": devices()}
    atomic_write(target, json.dumps(found, indent=1) + "\n")


def read_environment(paths: RunPaths) -> dict[str, Any]:
    found = read_json(paths.resumed_environment, names=True) or read_json(paths.environment, names=True) or {}
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    """Return a value of a file that anyone may have written as bounded text, numbers, and lists and a dict of those."""
    if isinstance(value, dict):
        return {str(name)[:MAX_CHARS]: _plain(item) for name, item in value.items() if not isinstance(item, dict)}
    if isinstance(value, list):
        return [str(item)[:MAX_CHARS] for item in value]
    return value if isinstance(value, bool | int | float | None) else str(value)[:MAX_CHARS]


def flat_environment(found: dict[str, Any]) -> dict[str, str]:
    """Return what can differ between two environments as text by dotted key."""
    flat: dict[str, str] = {}
    for section, values in found.items():
        for name, value in values.items() if isinstance(values, dict) else (("", values),):
            key = f"environment.{section}.{name}" if name else f"environment.{section}"
            flat[key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat
