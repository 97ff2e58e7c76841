"""Export policies as files or folders, which ``echelon.rl.weights`` loads."""

import hashlib
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from echelon.files import write_output
from echelon.rl.build import FlatPolicy
from echelon.rl.checkpoint import FORMAT_VERSION, ID_DIGITS, Checkpoint
from echelon.rl.tensor_files import metadata_of, split_tensors

SUFFIX = ".safetensors"
"""Suffix of an exported policy."""


def export_checkpoint(checkpoint: Checkpoint, target: Path) -> None:
    meta = {key: value for key, value in checkpoint.manifest.items() if key != "files"}
    write_export(meta, checkpoint.weights(), target)


def export_policy_weights(policy: FlatPolicy, manifest: dict[str, Any], target: Path) -> None:
    """Write a policy and its metadata as one file, with the id that a checkpoint of these weights has."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in policy.state_dict().items()}
    identity = hashlib.sha256(save(weights)).hexdigest()[:ID_DIGITS]
    write_export({**manifest, "format": FORMAT_VERSION, "id": identity}, weights, target)


def write_export(meta: dict[str, Any], weights: dict[str, Tensor], target: Path) -> None:
    """Write a policy as one safetensors file with the metadata in its header; ``OSError`` changes nothing."""
    if target.suffix != SUFFIX:
        raise ValueError(f"file of the policy is {target.name!r}, expected a name that ends in {SUFFIX}")
    write_output(target, save(split_tensors(weights)[1], metadata_of(meta)))
