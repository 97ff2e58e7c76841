"""Checkpoints as readers see them: a folder per step, whole if its manifest and every file agree.

Only tensors and plain values are read: opening one never runs code. How they are written is
``echelon.training.checkpoint``; from one to a policy that plays, ``echelon.rl.weights``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file as load_tensors
from torch import Tensor

from echelon.runs import read_json

FORMAT_VERSION = 1
WEIGHTS = "model.safetensors"
STATE = "state.pt"
ENVIRONMENT = "env.safetensors"
CARRY = "carry.safetensors"
MANIFEST = "manifest.json"
BEST = "best.json"
READ_BLOCK = 1 << 20
ID_DIGITS = 16
"""Hex digits of a checkpoint's id."""


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

    def environment(self, rank: int = 0) -> dict[str, np.ndarray]:
        """Return the arrays by name of the environments of process ``rank``."""
        return load_arrays(self.path / rank_file_name(ENVIRONMENT, rank))

    def carry(self, rank: int = 0) -> dict[str, Tensor]:
        """Return what the next rollout of process ``rank`` starts from."""
        return load_tensors(self.path / rank_file_name(CARRY, rank))

    def size_mb(self) -> float:
        return sum(f["size"] for f in self.manifest["files"].values()) / 2**20


@dataclass(frozen=True, kw_only=True)
class CheckpointSearch:
    """The newest whole checkpoint, and what was passed over on the way to it."""

    checkpoint: Checkpoint | None
    notices: tuple[str, ...] = ()


def rank_file_name(name: str, rank: int) -> str:
    """Return the file that holds for process ``rank`` what ``name`` holds for the first."""
    stem, _, suffix = name.rpartition(".")
    return f"{stem}-{rank}.{suffix}" if rank else name


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
        got = describe(path / name) if (path / name).is_file() else None
        if got != wanted:
            raise ValueError(f"checkpoint {path.name!r} is damaged: {name} is not what its manifest says")
    return Checkpoint(path=path, manifest=manifest)


def latest_valid(folder: Path) -> CheckpointSearch:
    """Return the newest checkpoint in ``folder`` that is whole; notices name those passed over."""
    notices = []
    for path in steps_in(folder):
        try:
            return CheckpointSearch(checkpoint=open_checkpoint(path), notices=tuple(notices))
        except ValueError as error:
            notices.append(f"{error}; falling back to the one before")
    return CheckpointSearch(checkpoint=None, notices=tuple(notices))


def read_best(folder: Path) -> dict[str, Any] | None:
    """Return the pointer to the best checkpoint, or None."""
    return read_json(folder / BEST)


def steps_in(folder: Path) -> list[Path]:
    """Return the step folders, newest first; names that are not ``step-<number>`` are ignored."""
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    numbered = [(int(p.name[5:]), p) for p in found if p.name.startswith("step-") and p.name[5:].isdigit()]
    return [path for _, path in sorted(numbered, reverse=True)]


def describe(path: Path) -> dict[str, Any]:
    """Return size and sha256 of a file, as a manifest lists them."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(READ_BLOCK):
            digest.update(block)
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}
