"""Write checkpoints: a folder per step whose manifest is written last, so that a complete one is recognizable.

A folder ``step-N`` contains weights, learner state, environment state and ``manifest.json`` with size and sha256 of
each file. It is written under a temporary name, synced and renamed; a crash at any point leaves older checkpoints
unchanged, and ``recover`` completes a save that was interrupted after its manifest. Only tensors and plain values are
stored: reading one never runs code. ``echelon.training.session`` decides what the learner state contains;
``echelon.rl.checkpoint`` reads checkpoints.
"""

import contextlib
import errno
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import save_file as save_tensors
from torch import Tensor

from echelon.files import atomic_write, exchange, fsync, make_folder
from echelon.rl.checkpoint import (
    BEST,
    CARRY,
    ENVIRONMENT,
    FORMAT_VERSION,
    ID_DIGITS,
    MANIFEST,
    STATE,
    STATE_TENSORS,
    STEP_NAME,
    WEIGHTS,
    Checkpoint,
    describe,
    open_checkpoint,
    rank_file_name,
    read_best,
    step_name,
    steps_in,
)
from echelon.rl.tensor_files import save_packed, split_tensors
from echelon.training.runtime.process import fault_point

TEMPORARY, REPLACED = ".tmp-", ".tmp-old-"
"""Prefixes of a folder being written and of the one it replaces."""
SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
"""Error number in a message of safetensors."""


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
    """Write ``folder/step-<global_step>`` and return it.

    ``OSError`` where it cannot be written: existing checkpoints are unchanged and no temporary folder remains.

    ``environment`` and ``carry`` are those of rank 0, ``others`` the parts of the other ranks, in order.
    """
    make_folder(folder)
    recover(folder)
    name = step_name(manifest["global_step"])
    building = folder / f"{TEMPORARY}{name}"
    try:
        building.mkdir()
        fault_point("save.begin")
        with _system_errors():
            _write_tensors(building, weights, state, environment, carry, others)
        full = _write_manifest(building, manifest)
        fault_point("save.before_rename")
        _move_into_place(building, folder / name)
    except BaseException:
        recover(folder)
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


def recover(folder: Path) -> list[Path]:
    """Put whole checkpoints of interrupted saves in place, delete other temporary folders; return the former.

    A temporary folder is deleted only if it is incomplete or its step is in place and valid. Folders of other names
    stay: a run folder may come from others, and a name like ``.tmp-..`` stands for the folder above.
    """
    recovered = []
    # of a step saved twice the new folder comes first
    for path in sorted(folder.glob(f"{TEMPORARY}*"), key=lambda path: (path.name.startswith(REPLACED), path.name)):
        name = path.name.removeprefix(REPLACED).removeprefix(TEMPORARY)
        if not STEP_NAME.fullmatch(name):
            continue
        target = folder / name
        # an error of the system says nothing about a checkpoint: it stays
        with contextlib.suppress(OSError):
            if _is_valid(path) and not _is_valid(target):
                shutil.rmtree(target, ignore_errors=True)
                os.rename(path, target)
                fsync(folder)
                recovered.append(target)
            else:
                shutil.rmtree(path, ignore_errors=True)
    return recovered


def _is_valid(path: Path) -> bool:
    try:
        open_checkpoint(path)
    except ValueError:
        return False
    return True


def _write_tensors(
    building: Path,
    weights: dict[str, Tensor],
    state: dict[str, Any],
    environment: dict[str, np.ndarray],
    carry: dict[str, Tensor],
    others: Sequence[RankPart],
) -> None:
    save_tensors(_contiguous(weights), building / WEIGHTS)
    fault_point("save.weights")
    ranks = [{"rng": part.rng, "opponents": part.opponents} for part in others]
    plain, tensors = split_tensors({**state, "ranks": ranks})
    save_tensors(tensors, building / STATE_TENSORS)
    (building / STATE).write_text(json.dumps(plain), encoding="utf-8")
    for rank, tensors in enumerate((carry, *(part.carry for part in others))):
        save_tensors(_contiguous(tensors), building / rank_file_name(CARRY, rank))
    fault_point("save.state")
    for rank, arrays in enumerate((environment, *(part.environment for part in others))):
        save_packed(arrays, building / rank_file_name(ENVIRONMENT, rank))
    fault_point("save.environment")


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    """Raise errors of safetensors as the ``OSError`` that caused them."""
    try:
        yield
    except SafetensorError as error:
        found = SYSTEM_ERROR.search(str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number)) from error


def _write_manifest(building: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    files = {}
    for path in sorted(building.iterdir()):
        fsync(path)
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
    fsync(building)
    return full


def _move_into_place(building: Path, target: Path) -> None:
    """Rename ``building`` to ``target``, of which an older version is replaced and deleted.

    Both names are exchanged atomically; where the system cannot do that, ``recover`` completes an interrupted exchange.
    """
    replaced = building
    if not target.exists():
        os.rename(building, target)
    elif not exchange(building, target):
        replaced = target.with_name(f"{REPLACED}{target.name}")
        os.rename(target, replaced)
        fsync(target.parent)
        fault_point("save.moved_away")
        os.rename(building, target)
    fault_point("save.after_rename")
    fsync(target.parent)
    shutil.rmtree(replaced, ignore_errors=True)
