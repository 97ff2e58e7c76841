"""Checkpoints on disk: a folder per step whose manifest is written last, so that a whole one is known as such.

A folder ``step-N`` holds weights, learner state, environment state and ``manifest.json`` with size and sha256
of each file. It is built beside its place, synced and renamed; a crash at any point leaves the older ones as
they were. Only tensors and plain values are stored: reading one never runs code. What goes into the learner
state is decided by ``echelon.training.session``; loading a policy from one by ``echelon.training.weights``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file as save_tensors
from torch import Tensor

from echelon.runs import atomic_write, fsync_folder, read_json
from echelon.training.faults import fault_point

FORMAT_VERSION = 1
ID_DIGITS = 16
WEIGHTS = "model.safetensors"
STATE = "state.pt"
ENVIRONMENT = "env.safetensors"
CARRY = "carry.safetensors"
MANIFEST = "manifest.json"
BEST = "best.json"
TEMPORARY = ".tmp-"
READ_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    path: Path
    manifest: dict[str, Any]

    @property
    def id(self) -> str:
        """The first hex digits of the sha256 of its weights."""
        return str(self.manifest["id"])

    @property
    def step(self) -> int:
        return int(self.manifest["global_step"])

    def weights(self, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        """Return the policy's tensors by name."""
        return load_tensors(self.path / WEIGHTS, device=str(device))

    def state(self) -> dict[str, Any]:
        """Return the learner state, on the CPU."""
        return torch.load(self.path / STATE, map_location="cpu", weights_only=True)

    def environment(self) -> dict[str, np.ndarray]:
        """Return the environment's arrays by name."""
        return load_arrays(self.path / ENVIRONMENT)

    def carry(self) -> dict[str, Tensor]:
        """Return what the next rollout starts from."""
        return load_tensors(self.path / CARRY)

    def size_mb(self) -> float:
        return sum(f["size"] for f in self.manifest["files"].values()) / 2**20


@dataclass(frozen=True, kw_only=True)
class Found:
    """The newest whole checkpoint, and what was passed over on the way to it."""

    checkpoint: Checkpoint | None
    notices: tuple[str, ...] = ()


def save_checkpoint(
    folder: Path,
    *,
    weights: dict[str, Tensor],
    state: dict[str, Any],
    environment: dict[str, np.ndarray],
    carry: dict[str, Tensor],
    manifest: dict[str, Any],
) -> Checkpoint:
    """Write ``folder/step-<global_step>`` and return it; ``OSError`` leaves what was there before."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"step-{manifest['global_step']}"
    building = folder / f"{TEMPORARY}{name}"
    _remove_leftovers(folder)
    building.mkdir()
    try:
        fault_point("save.begin")
        save_tensors({k: v.detach().contiguous() for k, v in weights.items()}, building / WEIGHTS)
        fault_point("save.weights")
        torch.save(state, building / STATE)
        save_tensors({k: v.detach().contiguous() for k, v in carry.items()}, building / CARRY)
        fault_point("save.state")
        save_arrays({k: np.ascontiguousarray(v) for k, v in environment.items()}, building / ENVIRONMENT)
        fault_point("save.environment")
        full = _write_manifest(building, manifest)
        fault_point("save.before_rename")
        _put_in_place(building, folder / name)
        fault_point("save.after_rename")
    except OSError:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return Checkpoint(path=folder / name, manifest=full)


def open_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint at ``path`` after checking every file; ``ValueError`` says what is damaged."""
    if not path.is_dir():
        raise ValueError(f"checkpoint {str(path)!r} does not exist, wanted a step-N folder")
    manifest = read_json(path / MANIFEST)
    if manifest is None:
        raise ValueError(f"checkpoint {path.name!r} has no readable {MANIFEST}: its save did not finish")
    if manifest.get("format") != FORMAT_VERSION:
        raise ValueError(f"checkpoint {path.name!r} has format {manifest.get('format')!r}, wanted {FORMAT_VERSION}")
    files = manifest.get("files")
    if not isinstance(files, dict) or not {WEIGHTS, STATE, ENVIRONMENT, CARRY} <= files.keys():
        raise ValueError(f"checkpoint {path.name!r} has a {MANIFEST} that does not list its files")
    for name, wanted in files.items():
        got = _describe(path / name) if (path / name).is_file() else None
        if got != wanted:
            raise ValueError(f"checkpoint {path.name!r} is damaged: {name} is not what its manifest says")
    return Checkpoint(path=path, manifest=manifest)


def latest_valid(folder: Path) -> Found:
    """Return the newest checkpoint in ``folder`` that is whole; notices name those passed over."""
    notices = []
    for path in _steps(folder):
        try:
            return Found(checkpoint=open_checkpoint(path), notices=tuple(notices))
        except ValueError as error:
            notices.append(f"{error}; falling back to the one before")
    return Found(checkpoint=None, notices=tuple(notices))


def mark_best(folder: Path, checkpoint: Checkpoint, evaluation: dict[str, Any]) -> None:
    """Point ``best.json`` at a checkpoint."""
    row = {"checkpoint": checkpoint.path.name, "id": checkpoint.id, "eval": evaluation}
    atomic_write(folder / BEST, json.dumps(row, indent=1) + "\n")


def read_best(folder: Path) -> dict[str, Any] | None:
    """Return the pointer to the best checkpoint, or None."""
    return read_json(folder / BEST)


def prune(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest ``keep`` checkpoints and the best; return what was removed."""
    fault_point("save.before_prune")
    best = (read_best(folder) or {}).get("checkpoint")
    removed = [path for path in _steps(folder)[keep:] if path.name != best]
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)
    return removed


def _steps(folder: Path) -> list[Path]:
    """Return the step folders, newest first; names that are not ``step-<number>`` are ignored."""
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    numbered = [(int(p.name[5:]), p) for p in found if p.name.startswith("step-") and p.name[5:].isdigit()]
    return [path for _, path in sorted(numbered, reverse=True)]


def _write_manifest(building: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    files = {}
    for path in sorted(building.iterdir()):
        _sync(path)
        files[path.name] = _describe(path)
    full = {
        **manifest,
        "format": FORMAT_VERSION,
        "id": files[WEIGHTS]["sha256"][:ID_DIGITS],
        "created_at": time.time(),
        "files": files,
    }
    text = json.dumps(full, indent=1) + "\n"
    fault_point("save.before_manifest")
    with open(building / MANIFEST, "w", encoding="utf-8") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        fault_point("save.half_manifest")
        file.write(text[len(text) // 2 :])
        file.flush()
        os.fsync(file.fileno())
    fsync_folder(building)
    return full


def _put_in_place(building: Path, target: Path) -> None:
    """Rename; an older folder of the same step, left by a superseded session, steps aside first."""
    if target.exists():
        aside = target.with_name(f"{TEMPORARY}old-{target.name}")
        os.rename(target, aside)
        os.rename(building, target)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(building, target)
    fsync_folder(target.parent)


def _remove_leftovers(folder: Path) -> None:
    for path in folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _describe(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(READ_BLOCK):
            digest.update(block)
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}
