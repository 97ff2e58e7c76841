"""Export policies as files, which ``echelon.rl.weights`` loads, and keep those of other runs with a run."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from echelon.arena.standings import policy_path
from echelon.files import error_text, make_folder, write_output
from echelon.rl.build import FlatPolicy
from echelon.rl.checkpoint import FORMAT_VERSION, ID_DIGITS, Checkpoint
from echelon.rl.tensor_files import metadata_of, split_tensors
from echelon.rl.weights import LoadedPolicy, load_policy

SUFFIX = ".safetensors"
"""Suffix of an exported policy."""
SOURCE = "teacher"
"""Key of the field's value in a kept policy."""


def export_checkpoint(checkpoint: Checkpoint, target: Path) -> None:
    meta = {key: value for key, value in checkpoint.manifest.items() if key != "files"}
    write_export(meta, checkpoint.weights(), target)


def export_policy_weights(policy: FlatPolicy, manifest: dict[str, Any], target: Path) -> None:
    """Write a policy and its metadata as one file, with the id that a checkpoint of these weights has."""
    write_export(*_identified(policy, manifest), target)


def exported_policy(policy: FlatPolicy, manifest: dict[str, Any]) -> bytes:
    """Return the contents of the file that ``export_policy_weights`` writes."""
    return _packed(*_identified(policy, manifest))


def _identified(policy: FlatPolicy, manifest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in policy.state_dict().items()}
    identity = hashlib.sha256(save(weights)).hexdigest()[:ID_DIGITS]
    return {**manifest, "format": FORMAT_VERSION, "id": identity}, weights


def _packed(meta: dict[str, Any], weights: dict[str, Tensor]) -> bytes:
    return save(split_tensors(weights)[1], metadata_of(meta))


def write_export(meta: dict[str, Any], weights: dict[str, Tensor], target: Path) -> None:
    """Write a policy as one safetensors file with the metadata in its header; ``OSError`` changes nothing."""
    if target.suffix != SUFFIX:
        raise ValueError(f"file of the policy is {target.name!r}, expected a name that ends in {SUFFIX}")
    write_output(target, _packed(meta, weights))


def kept_policy(
    field: str,
    value: str,
    name: str,
    stored: Path | None,
    device: torch.device | str = "cpu",
    *,
    stores: bool = True,
    find: Callable[[str, str], Path] = policy_path,
) -> LoadedPolicy:
    """Return the policy ``name`` of a configuration field: the copy in the run folder, else that which ``find`` finds.

    It is then copied there: the run that it is of may train on and delete its checkpoints, and a resumed learner needs
    the same one. Raises ``ValueError`` in one line where neither can be read.
    """
    if stored is not None and stored.is_file():
        try:
            found = load_policy(stored, device)
        except (ValueError, OSError):
            found = None  # a damaged copy is written again
        if found is not None and found.meta.get(SOURCE) == value:
            return found
    path = find(name, field)
    try:
        loaded = load_policy(path, device)
    except (ValueError, OSError) as error:
        raise ValueError(f"{field} is {value!r}, expected a policy: {error_text(error)}") from None
    if stored is not None and stores:
        make_folder(stored.parent)
        export_policy_weights(loaded.policy, {**loaded.meta, SOURCE: value}, stored)
    return loaded
