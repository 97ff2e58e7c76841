"""Observation buffers that are handed out without a copy and written again only when the caller has released them."""

from __future__ import annotations

import sys

import numpy as np
import warp as wp
from numpy.typing import NDArray

LENT = 3
"""Buffers that callers may hold at a time; beyond them they get copies."""
SPARE = LENT
"""Index of the buffer that is never handed out."""


class RowBuffers:
    """Buffers ``[LENT + 1, N, D]`` for ``Engine.attach``.

    A caller holds a buffer while any array or tensor that shares its memory is referenced. Every such array refers to
    the flat array of its buffer, because numpy follows the bases of a view only as far as they are arrays; so the
    reference count of the flat array tells whether it is held.
    """

    def __init__(self, rows: int, width: int, device: str) -> None:
        shape = (LENT + 1, rows, width)
        self.row = SPARE
        """Index of the buffer that is written."""
        self._shape, self._on_cpu = shape[1:], device == "cpu"
        self._flat: list[NDArray[np.float32]] = []
        if self._on_cpu:
            memory = np.zeros(shape, np.float32)
            self._flat = [np.frombuffer(memoryview(buffer.reshape(-1)), np.float32) for buffer in memory[:LENT]]
            self.array = wp.array(memory, dtype=wp.float32, device="cpu", copy=False)
        else:
            self.array = wp.zeros(shape, dtype=wp.float32, device=device)
        self._references = [sys.getrefcount(flat) for flat in self._flat]

    def advance(self) -> int:
        """Return the index of a buffer that no caller holds, which is written from now on."""
        counts = [sys.getrefcount(flat) for flat in self._flat]
        free = (i for i, (now, idle) in enumerate(zip(counts, self._references, strict=True)) if now == idle)
        self.row = next(free, SPARE)
        return self.row

    def read(self) -> NDArray[np.float32]:
        """Return the written buffer ``[N, D]``, which stays as it is while the caller holds it."""
        if self.row == SPARE:
            return np.array(self.array.numpy()[SPARE])
        return self._flat[self.row].reshape(self._shape)
