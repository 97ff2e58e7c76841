"""Write checkpoints: a folder per step whose manifest is written last, so that a complete one is recognizable.

A folder ``step-N`` contains weights, learner state, environment state and ``manifest.json`` with size and sha256 of
each file. It is written under a temporary name, synced and renamed; a crash at any point leaves older checkpoints
unchanged. Only tensors and plain values are stored: reading one never runs code. ``echelon.training.session`` decides
what the learner state contains; ``echelon.rl.checkpoint`` reads checkpoints, and its names are re-exported here.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file as save_tensors
from torch import Tensor

from echelon.rl.checkpoint import (
    BEST,
    CARRY,
    ENVIRONMENT,
    FORMAT_VERSION,
    ID_DIGITS,
    MANIFEST,
    STATE,
    WEIGHTS,
    Checkpoint,
    CheckpointSearch,
    describe,
    latest_valid,
    open_checkpoint,
    rank_file_name,
    read_best,
    steps_in,
)
from echelon.runs import atomic_write, fsync_folder
from echelon.training.runtime.fault_points import fault_point

__all__ = [
    "Checkpoint",
    "CheckpointSearch",
    "RankPart",
    "latest_valid",
    "mark_best",
    "open_checkpoint",
    "prune",
    "read_best",
    "save_checkpoint",
]

TEMPORARY = ".tmp-"


@dataclass(frozen=True)
class RankPart:
    """The part of a checkpoint that belongs to one rank."""

    environment: dict[str, np.ndarray]
    carry: dict[str, Tensor]
    rng: dict[str, Any]
    opponents: dict[str, Any]


def save_checkpoint(
    folder: Path,
    *,
    weights: dict[str, Tensor],
    state: dict[str, Any],
    environment: dict[str, np.ndarray],
    carry: dict[str, Tensor],
    manifest: dict[str, Any],
    others: Sequence[RankPart] = (),
) -> Checkpoint:
    """Write ``folder/step-<global_step>`` and return it; an ``OSError`` leaves existing checkpoints unchanged.

    ``environment`` and ``carry`` are those of rank 0, ``others`` the parts of the other ranks, in order.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"step-{manifest['global_step']}"
    building = folder / f"{TEMPORARY}{name}"
    _remove_leftovers(folder)
    building.mkdir()
    try:
        fault_point("save.begin")
        save_tensors({k: v.detach().contiguous() for k, v in weights.items()}, building / WEIGHTS)
        fault_point("save.weights")
        ranks = [{"rng": part.rng, "opponents": part.opponents} for part in others]
        torch.save({**state, "ranks": ranks}, building / STATE)
        carries = (carry, *(part.carry for part in others))
        for rank, tensors in enumerate(carries):
            save_tensors(
                {k: v.detach().contiguous() for k, v in tensors.items()}, building / rank_file_name(CARRY, rank)
            )
        fault_point("save.state")
        environments = (environment, *(part.environment for part in others))
        for rank, arrays in enumerate(environments):
            contiguous = {k: np.ascontiguousarray(v) for k, v in arrays.items()}
            save_arrays(contiguous, building / rank_file_name(ENVIRONMENT, rank))
        fault_point("save.environment")
        full = _write_manifest(building, manifest)
        fault_point("save.before_rename")
        _move_into_place(building, folder / name)
        fault_point("save.after_rename")
    except OSError:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return Checkpoint(path=folder / name, manifest=full)


def mark_best(folder: Path, checkpoint: Checkpoint, evaluation: dict[str, Any]) -> None:
    """Point ``best.json`` at a checkpoint."""
    row = {"checkpoint": checkpoint.path.name, "id": checkpoint.id, "eval": evaluation}
    atomic_write(folder / BEST, json.dumps(row, indent=1) + "\n")


def prune(folder: Path, keep: int) -> list[Path]:
    """Delete all but the newest ``keep`` checkpoints and the best; return the deleted folders."""
    fault_point("save.before_prune")
    best = (read_best(folder) or {}).get("checkpoint")
    removed = [path for path in steps_in(folder)[keep:] if path.name != best]
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)
    return removed


def _write_manifest(building: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    files = {}
    for path in sorted(building.iterdir()):
        _sync(path)
        files[path.name] = describe(path)
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


def _move_into_place(building: Path, target: Path) -> None:
    """Rename ``building`` to ``target``; an existing folder of the same step is moved away first and then deleted."""
    if target.exists():
        replaced = target.with_name(f"{TEMPORARY}old-{target.name}")
        os.rename(target, replaced)
        os.rename(building, target)
        shutil.rmtree(replaced, ignore_errors=True)
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
