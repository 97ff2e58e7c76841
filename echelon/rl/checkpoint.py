"""Read checkpoints: a folder per step, valid if its manifest and every file agree.

Only tensors and plain values are read: opening one never runs code. ``echelon.training.checkpoint`` writes them,
``echelon.rl.weights`` makes policies from them. Torch is loaded with the first tensor.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.config import EnvConfig
from echelon.files import atomic_write, make_folder
from echelon.rl.messages import Messages
from echelon.rl.tensor_files import load_arrays, load_state, load_tensors, read_file
from echelon.runs import load_json
from echelon.state_files import IrregularFileError, open_regular, read_bounded
from echelon.validation import validated
from echelon.version import SIM_VERSION

if TYPE_CHECKING:
    import torch
    from torch import Tensor

FORMAT_VERSION = 2
WEIGHTS = "model.safetensors"
"""The policy; a folder with this file and a manifest alone is a policy folder."""
STATE, STATE_TENSORS = "state.json", "state.safetensors"
"""The learner's state, and its tensors."""
ENVIRONMENT = "env.safetensors"
CARRY = "carry.safetensors"
STEP_PREFIX = "step-"
MANIFEST = "manifest.json"
BEST = "best.json"
STEP_NAME = re.compile(rf"{STEP_PREFIX}([0-9]{{1,18}})")
"""Name of a checkpoint's folder."""
FILE_NAME = re.compile(r"(?!manifest)[a-z]{1,32}(-[0-9]{1,9})?\.(safetensors|json)")
"""Name of a file of a checkpoint."""
CHECKPOINT_FILES = frozenset({WEIGHTS, STATE, STATE_TENSORS, ENVIRONMENT, CARRY})
"""Files that every checkpoint has."""
POLICY_FILES = frozenset({WEIGHTS})
"""Files that every policy folder has."""
LEARNER_FILES = frozenset({WEIGHTS, STATE, STATE_TENSORS})
"""Files that a run which starts from a policy reads: its weights, and the optimizer's moments where it has them."""
READ_BLOCK = 1 << 20
ID_DIGITS = 16
"""Number of hex digits of a checkpoint's id."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A valid checkpoint on disk."""

    path: Path
    manifest: dict[str, Any]
    messages: Messages | None = None
    """Columns of messages in its files; manifest and weights are without them."""

    @property
    def id(self) -> str:
        """The first hex digits of the sha256 of its weights."""
        return str(self.manifest["id"])

    @property
    def step(self) -> int:
        return int(self.manifest["global_step"])

    @property
    def version_notice(self) -> str:
        """Return a notice if the checkpoint was saved with another simulation version, else an empty string."""
        version = self.manifest.get("sim_version", 1)
        if version == SIM_VERSION:
            return ""
        return f"saved with simulation version {str(version)[:20]}, now {SIM_VERSION}: matches differ from those before"

    def weights(self, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        path, messages = self.path / WEIGHTS, self.messages
        weights = load_tensors(path, device)
        return read_file(path, lambda: messages.weights_without(weights)) if messages else weights

    def state(self) -> dict[str, Any]:
        return load_state(self.path / STATE, self.path / STATE_TENSORS)

    def environment(self, rank: int = 0) -> dict[str, np.ndarray]:
        return load_arrays(self.path / rank_file_name(ENVIRONMENT, rank))

    def carry(self, rank: int = 0) -> dict[str, Tensor]:
        """Return the tensors that the next rollout of ``rank`` starts from, by name."""
        return load_tensors(self.path / rank_file_name(CARRY, rank))

    def size_mb(self) -> float:
        return sum(f["size"] for f in self.manifest["files"].values()) / 2**20


@dataclass(frozen=True, kw_only=True)
class CheckpointSearch:
    """Result of a search for the newest valid checkpoint."""

    checkpoint: Checkpoint | None
    notices: tuple[str, ...] = ()
    """One message for each newer checkpoint that was skipped."""


def step_name(global_step: int) -> str:
    return f"{STEP_PREFIX}{global_step}"


def rank_file_name(name: str, rank: int) -> str:
    """Return the file of ``rank`` that corresponds to the file ``name`` of rank 0."""
    stem, _, suffix = name.rpartition(".")
    return f"{stem}-{rank}.{suffix}" if rank else name


def open_checkpoint(path: Path, required: frozenset[str] = CHECKPOINT_FILES) -> Checkpoint:
    """Return the checkpoint at ``path`` after checking every file; raise ``ValueError`` naming what is damaged.

    ``required`` are the files that it must have, ``POLICY_FILES`` for a policy folder.

    ``OSError`` where the system cannot read it: a resume must not fall back from a checkpoint that may be whole.
    """
    if not path.is_dir():
        raise ValueError(f"checkpoint {str(path)!r} does not exist, expected a step-N folder")
    manifest = load_json(path / MANIFEST)
    if manifest is None:
        raise ValueError(f"checkpoint {path.name!r} has no readable {MANIFEST}: it was not completely saved")
    if manifest.get("format") != FORMAT_VERSION:
        raise ValueError(f"checkpoint {path.name!r} has format {manifest.get('format')!r}, expected {FORMAT_VERSION}")
    files = manifest.get("files")
    if not isinstance(files, dict) or not required <= files.keys():
        raise ValueError(f"checkpoint {path.name!r} has a {MANIFEST} that does not list its files")
    identity, step = manifest.get("id"), manifest.get("global_step")
    if not (isinstance(identity, str) and identity and isinstance(step, int) and step >= 0):
        raise ValueError(f"checkpoint {path.name!r} has a {MANIFEST} without id and global_step, expected both")
    for name, expected in files.items():
        if not FILE_NAME.fullmatch(name):
            raise ValueError(f"checkpoint {path.name!r} is damaged: {name[:60]!r} is no name of a file of a checkpoint")
        file = path / name
        size = expected.get("size") if isinstance(expected, dict) else None
        # a file of another size is not hashed: it may be endless
        actual = None
        with contextlib.suppress(IrregularFileError):
            actual = describe(file) if file.is_file() and file.stat().st_size == size else None
        if actual is None or actual != expected:
            raise ValueError(f"checkpoint {path.name!r} is damaged: {name} does not match its manifest")
    messages = Messages.of(manifest)
    manifest = messages.meta_without(manifest) if messages else manifest
    return Checkpoint(path=path, manifest=manifest, messages=messages)


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
    """Return the contents of ``best.json``, the pointer to the best checkpoint; None where it points to none."""
    best = load_json(folder / BEST)
    name = best.get("checkpoint") if best else None
    return best if isinstance(name, str) and STEP_NAME.fullmatch(name) else None


def steps_in(folder: Path) -> list[Path]:
    """Return the folders named ``step-<number>``, newest first."""
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    numbered = [(int(name[1]), path) for path in found if (name := STEP_NAME.fullmatch(path.name))]
    return [path for _, path in sorted(numbered, reverse=True)]


def describe(path: Path) -> dict[str, Any]:
    """Return ``size`` and ``sha256`` of a file, as a manifest lists them."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(READ_BLOCK):
            digest.update(block)
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}


def find_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint at ``path``: a step or policy folder, or the best, else the newest one of a run."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{str(path)!r} is no folder, expected a run, a checkpoint or the folder of a policy")
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    if folder.name.startswith("step-"):
        return open_checkpoint(folder)
    if (folder / WEIGHTS).is_file():
        return open_checkpoint(folder, POLICY_FILES)
    best = read_best(folder)
    if best is not None and (folder / str(best.get("checkpoint"))).is_dir():
        return open_checkpoint(folder / str(best["checkpoint"]))
    found = latest_valid(folder)
    if found.checkpoint is None:
        raise ValueError(f"{str(path)!r} contains no valid checkpoint")
    return found.checkpoint


def export_policy_folder(
    checkpoint: Checkpoint, target: Path, facts: Mapping[str, Any] | None = None, files: Collection[str] = POLICY_FILES
) -> None:
    """Write a checkpoint's policy as a folder: ``model.safetensors``, and last ``manifest.json``, which lists it.

    ``facts`` replace entries of the manifest. Those of ``files`` that the checkpoint has are written, of one with
    messages the weights alone. The policy keeps its id.
    """
    files = files if checkpoint.messages is None else POLICY_FILES
    sizes = {name: row["size"] for name, row in checkpoint.manifest["files"].items() if name in files}
    contents = {name: read_bounded(checkpoint.path / name, size) for name, size in sizes.items()}
    if checkpoint.messages is not None:
        from safetensors.torch import save

        contents[WEIGHTS] = save(checkpoint.weights())
    is_new = not target.exists()
    try:
        make_folder(target)
        for name, content in contents.items():
            atomic_write(target / name, content)
        manifest = {**checkpoint.manifest, **(facts or {}), "files": {name: describe(target / name) for name in sizes}}
        atomic_write(target / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    except OSError:
        if is_new:
            shutil.rmtree(target, ignore_errors=True)
        raise


def env_config_of(meta: Mapping[str, Any]) -> EnvConfig:
    """Return the environment configuration in a checkpoint's metadata; raise ``ValueError`` if it has none."""
    return validated(EnvConfig, meta.get("env_cfg"), "checkpoint does not describe its environment: ")
