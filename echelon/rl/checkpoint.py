"""Read checkpoints: a folder per step, valid if its manifest and every file agree.

Only tensors and plain values are read: opening one never runs code. ``echelon.training.checkpoint`` writes them,
``echelon.rl.weights`` makes policies from them.
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
"""Number of hex digits of a checkpoint's id."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A valid checkpoint on disk."""

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
        """Return the policy's state dict."""
        return load_tensors(self.path / WEIGHTS, device=str(device))

    def state(self) -> dict[str, Any]:
        """Return the state of the learner (trainer, counters, generators, opponents), on the CPU."""
        return torch.load(self.path / STATE, map_location="cpu", weights_only=True)

    def environment(self, rank: int = 0) -> dict[str, np.ndarray]:
        """Return the environment arrays of ``rank`` by name."""
        return load_arrays(self.path / rank_file_name(ENVIRONMENT, rank))

    def carry(self, rank: int = 0) -> dict[str, Tensor]:
        """Return the tensors that the next rollout of ``rank`` starts from, by name."""
        return load_tensors(self.path / rank_file_name(CARRY, rank))

    def size_mb(self) -> float:
        """Return the size of all files [MiB]."""
        return sum(f["size"] for f in self.manifest["files"].values()) / 2**20


@dataclass(frozen=True, kw_only=True)
class CheckpointSearch:
    """Result of a search for the newest valid checkpoint."""

    checkpoint: Checkpoint | None
    notices: tuple[str, ...] = ()
    """One message for each newer checkpoint that was skipped."""


def rank_file_name(name: str, rank: int) -> str:
    """Return the file of ``rank`` that corresponds to the file ``name`` of rank 0."""
    stem, _, suffix = name.rpartition(".")
    return f"{stem}-{rank}.{suffix}" if rank else name


def open_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint at ``path`` after checking every file; raise ``ValueError`` naming what is damaged."""
    if not path.is_dir():
        raise ValueError(f"checkpoint {str(path)!r} does not exist, expected a step-N folder")
    manifest = read_json(path / MANIFEST)
    if manifest is None:
        raise ValueError(f"checkpoint {path.name!r} has no readable {MANIFEST}: it was not completely saved")
    if manifest.get("format") != FORMAT_VERSION:
        raise ValueError(f"checkpoint {path.name!r} has format {manifest.get('format')!r}, expected {FORMAT_VERSION}")
    files = manifest.get("files")
    if not isinstance(files, dict) or not {WEIGHTS, STATE, ENVIRONMENT, CARRY} <= files.keys():
        raise ValueError(f"checkpoint {path.name!r} has a {MANIFEST} that does not list its files")
    for name, expected in files.items():
        actual = describe(path / name) if (path / name).is_file() else None
        if actual != expected:
            raise ValueError(f"checkpoint {path.name!r} is damaged: {name} does not match its manifest")
    return Checkpoint(path=path, manifest=manifest)


def latest_valid(folder: Path) -> CheckpointSearch:
    """Return the newest valid checkpoint in ``folder``; notices name the skipped ones."""
    notices = []
    for path in steps_in(folder):
        try:
            return CheckpointSearch(checkpoint=open_checkpoint(path), notices=tuple(notices))
        except ValueError as error:
            notices.append(f"{error}; falling back to the previous one")
    return CheckpointSearch(checkpoint=None, notices=tuple(notices))


def read_best(folder: Path) -> dict[str, Any] | None:
    """Return the contents of ``best.json``, the pointer to the best checkpoint, or None."""
    return read_json(folder / BEST)


def steps_in(folder: Path) -> list[Path]:
    """Return the folders named ``step-<number>``, newest first."""
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    numbered = [(int(p.name[5:]), p) for p in found if p.name.startswith("step-") and p.name[5:].isdigit()]
    return [path for _, path in sorted(numbered, reverse=True)]


def describe(path: Path) -> dict[str, Any]:
    """Return ``size`` and ``sha256`` of a file, as a manifest lists them."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(READ_BLOCK):
            digest.update(block)
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}
