"""Writes a recording: the shards of a wave, then the manifest that lists them.

After a crash at any time the folder has the manifest of the waves before, all of whose shards are whole; the next
recording with the same request continues there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from echelon.demos.format import (
    ARRAYS,
    MANIFEST,
    MAX_SHARD_BYTES,
    Counts,
    Manifest,
    ShardEntry,
    bytes_per_row,
    read_manifest,
)
from echelon.files import atomic_write, make_folder
from echelon.rl.checkpoint import describe

HEADER_BYTES = 4096
"""Bytes reserved for the header of a shard; it has some 700."""


class DemoWriter:
    """Appends waves of matches to a recording; it continues one of the same request."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open or create ``folder`` for the request of ``manifest``; ``ValueError`` where it has another recording."""
        self.folder, self.manifest = folder, manifest
        if (folder / MANIFEST).exists():
            stored = read_manifest(folder)
            own, other = manifest.request(), stored.request()
            if differing := [name for name, value in own.items() if other[name] != value]:
                raise ValueError(
                    f"{str(folder)!r} has demonstrations with another {', '.join(differing)}, expected the same "
                    "request to continue; try an empty folder"
                )
            self.manifest = stored
        elif folder.exists() and any(folder.iterdir()):
            leftover = [path for path in folder.iterdir() if not path.name.startswith((".", "shard-"))]
            if leftover:
                raise ValueError(f"{str(folder)!r} has {leftover[0].name!r}, expected an empty folder")
        make_folder(folder)

    @property
    def recorded(self) -> int:
        """Number of recorded matches."""
        return self.manifest.counts.episodes

    def append(self, arrays: Mapping[str, NDArray[np.generic]], counts: Counts) -> None:
        """Write a wave, arrays ``[T, N, ...]`` as in ``ARRAYS``, and list it; ``OSError`` changes nothing."""
        manifest = self.manifest
        steps, rows = arrays["episodes"].shape
        row = bytes_per_row(manifest.obs_dim, manifest.action_dim, manifest.obs_dtype)
        span = (MAX_SHARD_BYTES - HEADER_BYTES) // (row * rows)
        if span < 1:
            raise ValueError(f"one step of {rows} mechs has more than {MAX_SHARD_BYTES} bytes, expected fewer mechs")
        entries = []
        for first in range(0, steps, span):
            part = {name: np.ascontiguousarray(arrays[name][first : first + span]) for name in ARRAYS}
            file = f"shard-{len(manifest.shards) + len(entries):05d}.safetensors"
            atomic_write(self.folder / file, save(part))
            entries.append(
                ShardEntry(
                    file=file,
                    steps=len(part["episodes"]),
                    rows=rows,
                    first_step=first,
                    first_episode=self.recorded,
                    **describe(self.folder / file),
                )
            )
        listed = replace(manifest, counts=manifest.counts + counts, shards=[*manifest.shards, *entries])
        atomic_write(self.folder / MANIFEST, listed.to_json())
        self.manifest = listed
