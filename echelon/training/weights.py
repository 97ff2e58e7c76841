"""Checkpoints as single files; the names of ``echelon.rl.weights``, which loads policies, are also here."""

from __future__ import annotations

from pathlib import Path

import torch

from echelon.rl.checkpoint import Checkpoint
from echelon.rl.weights import LoadedPolicy, check_dimensions, find_checkpoint, load_policy, load_weights, policy_from

__all__ = [
    "LoadedPolicy",
    "check_dimensions",
    "export_checkpoint",
    "find_checkpoint",
    "load_policy",
    "load_weights",
    "policy_from",
]


def export_checkpoint(checkpoint: Checkpoint, target: Path) -> None:
    """Write a checkpoint's policy as one file, readable with ``torch.load(..., weights_only=True)``."""
    meta = {key: value for key, value in checkpoint.manifest.items() if key != "files"}
    building = target.with_name(f".{target.name}.tmp")
    torch.save({**meta, "model_state": checkpoint.weights()}, building)
    building.replace(target)
