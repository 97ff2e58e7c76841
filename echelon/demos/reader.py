"""Reads recordings of demonstrations of any origin: shard by shard, bounded in size, checked against the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from echelon.demos.format import ACTION_LEVELS, ARRAYS, NO_EPISODE, RANGES, Manifest, ShardEntry, read_manifest
from echelon.rl.checkpoint import describe
from echelon.rl.tensor_files import load_arrays


@dataclass(frozen=True, kw_only=True)
class Shard:
    """T steps of N rows; ``echelon.demos.format.ARRAYS`` says what the arrays mean."""

    entry: ShardEntry
    obs: NDArray[np.floating]
    """[T, N, D]"""
    actions: NDArray[np.int8]
    """[T, N, A], in units of 1/127"""
    rewards: NDArray[np.float32]
    """[T, N]"""
    dones: NDArray[np.uint8]
    """[T, N]"""
    alive: NDArray[np.uint8]
    """[T, N]"""
    episodes: NDArray[np.int32]
    """[T, N]"""
    outcomes: NDArray[np.int8]
    """[T, N]"""

    def float_actions(self) -> NDArray[np.float32]:
        """Return the actions ``[T, N, A]`` in [-1, 1]."""
        return self.actions.astype(np.float32) / np.float32(ACTION_LEVELS)


@dataclass(frozen=True)
class Demonstrations:
    """A recording; iterating loads and checks one shard at a time."""

    folder: Path
    manifest: Manifest

    def __len__(self) -> int:
        return len(self.manifest.shards)

    def __iter__(self) -> Iterator[Shard]:
        return (self.shard(number) for number in range(len(self)))

    def shard(self, number: int) -> Shard:
        """Return a shard; ``ValueError`` naming its file where it is missing, damaged or not as the manifest says."""
        entry, manifest = self.manifest.shards[number], self.manifest
        self.check(number)
        arrays = load_arrays(self.folder / entry.file)
        sizes = {"T": entry.steps, "N": entry.rows, "D": manifest.obs_dim, "A": manifest.action_dim}
        for name, (axes, kind) in ARRAYS.items():
            expected = (tuple(sizes[axis] for axis in axes), kind or manifest.obs_dtype)
            found = (arrays[name].shape, arrays[name].dtype.name) if name in arrays else None
            if found != expected:
                raise ValueError(f"shard {entry.file!r} has {name} {found}, expected {expected}")
            values, (low, high) = arrays[name], RANGES[name]
            if not (low <= float(values.min()) and float(values.max()) <= high):
                raise ValueError(f"shard {entry.file!r} has {name} outside {low:g} to {high:g}")
        if arrays["alive"][arrays["episodes"] == NO_EPISODE].any():
            raise ValueError(f"shard {entry.file!r} has mechs alive after the end of their match, expected none")
        return Shard(entry=entry, **{name: arrays[name] for name in ARRAYS})

    def check(self, number: int) -> None:
        """Raise ``ValueError`` unless a shard's file has the size and hash of the manifest."""
        entry = self.manifest.shards[number]
        path = self.folder / entry.file
        actual = path.stat().st_size if path.is_file() else -1
        if actual != entry.size:
            state = "is missing" if actual < 0 else f"has {actual} bytes"
            raise ValueError(f"shard {entry.file!r} {state}, expected {entry.size} bytes")
        if describe(path)["sha256"] != entry.sha256:
            raise ValueError(f"shard {entry.file!r} is damaged: its hash differs from the manifest's")


def load(path: Path | str, *, partial: bool = False) -> Demonstrations:
    """Return the recording in the folder ``path``; shards are read when they are used.

    Raises ``ValueError`` where there is none, it is damaged, or, unless ``partial``, not all its matches are recorded.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    _ = manifest.env  # raises ``ValueError`` where this version has no such environment
    if not (manifest.is_complete or partial):
        raise ValueError(
            f"{str(folder)!r} has {manifest.counts.episodes} of {manifest.matches} matches, expected all; run the same "
            "`echelon demos record` again to continue"
        )
    return Demonstrations(folder, manifest)
