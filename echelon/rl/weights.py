"""Load policies from checkpoints: strict loading and dimension checks.

No environment is built: sizes and model kind are in the manifest. Exported policies are safetensors files with the
manifest in their header; a ``.pt`` file from elsewhere is read by ``torch.load(weights_only=True)``.
"""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from echelon.config import ModelConfig
from echelon.files import error_text
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.checkpoint import FORMAT_VERSION, find_checkpoint
from echelon.rl.messages import Messages
from echelon.rl.outside import read_outside
from echelon.rl.tensor_files import load_metadata, load_tensors, read_file
from echelon.state_files import open_regular
from echelon.validation import validated

ZIP_MAGIC = b"PK"
"""First bytes of a file of ``torch.save``; a safetensors file that began so would have a header of terabytes."""
SHAPE_KEYS = ("obs_dim", "action_dim", "map_width")
MAX_COLUMNS = 1 << 20
"""Most columns of observations or actions that a checkpoint may claim; a model lists them before it has any weight."""


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy in evaluation mode and the metadata of its checkpoint."""

    policy: FlatPolicy
    meta: dict[str, Any]


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load ``weights`` strictly; raise ``ValueError`` listing missing and unexpected names and differing shapes."""
    check_weights(model, weights)
    model.load_state_dict(weights, strict=True)


def check_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    own = model.state_dict()
    if not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise ValueError("weights do not fit the model: some are no tensors")
    problems = []
    if missing := sorted(own.keys() - weights.keys()):
        problems.append(f"missing {', '.join(missing)}")
    if extra := sorted(weights.keys() - own.keys()):
        problems.append(f"unexpected {', '.join(extra)}")
    for name in sorted(own.keys() & weights.keys()):
        if own[name].shape != weights[name].shape:
            problems.append(f"{name} is {list(weights[name].shape)}, expected {list(own[name].shape)}")
    if problems:
        raise ValueError(f"weights do not fit the model: {'; '.join(problems)}")


def _check_stored(weights: dict[str, Tensor]) -> None:
    """Raise ``ValueError`` where weights have more bytes than are stored for them; a model would hold them all."""
    tensors = [tensor for tensor in weights.values() if isinstance(tensor, Tensor)]
    stored = {(storage := tensor.untyped_storage()).data_ptr(): storage.nbytes() for tensor in tensors}
    if (needed := sum(tensor.numel() * tensor.element_size() for tensor in tensors)) > sum(stored.values()):
        raise ValueError(f"weights have {needed} bytes, of which only {sum(stored.values())} are stored")


def check_dimensions(manifest: dict[str, Any], **expected: int) -> None:
    """Raise ``ValueError`` naming each dimension of the checkpoint that differs from the expected one."""
    wrong = [f"{k} {manifest.get(k)!r}, expected {v}" for k, v in expected.items() if manifest.get(k) != v]
    if wrong:
        raise ValueError(f"checkpoint does not fit: {'; '.join(wrong)}")


@torch.inference_mode(False)  # whose tensors, unlike those of inference, count changes in place
def policy_from(meta: dict[str, Any], weights: dict[str, Tensor], device: torch.device | str = "cpu") -> FlatPolicy:
    """Return the policy that the metadata describes, with ``weights``, frozen and in evaluation mode."""
    try:
        fields = dict(meta["model_cfg"])
        config = validated(ModelConfig, fields)
        sizes = {key: int(meta[key]) for key in SHAPE_KEYS}
        sizes["extra_width"] = int(meta.get("extra_width", 0))
        if (largest := max(sizes.values())) > MAX_COLUMNS:
            raise ValueError(f"it has {largest} columns, expected at most {MAX_COLUMNS}")
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"checkpoint does not describe its model: {error}") from None
    _check_stored(weights)
    predict = bool(meta.get("predict", False))
    with torch.device("meta"):
        # nothing is allocated before the sizes are known to be those of the weights
        try:
            check_weights(build_model(config, **sizes, predict=predict), weights)
        except (RuntimeError, TypeError, OverflowError) as error:
            raise ValueError(f"checkpoint does not describe its model: {error}") from None
    policy = build_model(config, **sizes, predict=predict)
    load_weights(policy, weights)
    return policy.to(device).eval().requires_grad_(False)


def load_policy(path: Path | str, device: torch.device | str = "cpu") -> LoadedPolicy:
    """Return the policy of a checkpoint, a run (its best, else newest checkpoint), a policy folder or exported file."""
    path = Path(path)
    if path.is_file():
        if outside := read_outside(path):
            return LoadedPolicy(*outside)
        meta, weights = _read_export(path)
        return LoadedPolicy(policy_from(meta, weights, device), meta)
    checkpoint = find_checkpoint(path)
    return LoadedPolicy(policy_from(checkpoint.manifest, checkpoint.weights(), device), checkpoint.manifest)


def _read_export(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return metadata and weights of an exported policy; ``ValueError`` in one line where it has none."""
    try:
        with open_regular(path) as file:
            is_torch = file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        meta, weights = _read_torch(path) if is_torch else (load_metadata(path), load_tensors(path))
    except (ValueError, OSError) as error:
        raise ValueError(f"{str(path)!r} is not an exported policy: {error_text(error)}") from None
    if meta.get("format") != FORMAT_VERSION:
        raise ValueError(f"exported policy {str(path)!r} has format {meta.get('format')!r}, expected {FORMAT_VERSION}")
    if messages := Messages.of(meta):
        _check_stored(weights)
        meta, stored = messages.meta_without(meta), weights
        weights = read_file(path, lambda: messages.weights_without(stored))
    return meta, weights


def _read_torch(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:

    def load() -> dict[str, Any]:
        try:
            return torch.load(path, "cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise ValueError("it has more than tensors and plain values; nothing in it was run") from None

    data = read_file(path, load)
    weights = data.pop("model_state", None) if isinstance(data, dict) else None
    if not isinstance(weights, dict):
        raise ValueError(f"file {path.name!r} has no dict model_state of weights")
    return data, weights
