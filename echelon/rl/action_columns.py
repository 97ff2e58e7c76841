"""Runs of consecutive columns of an action, read and written as slices: indices would be copied to the device.

Shapes: ``... rows, A action``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Run = tuple[int, int]
"""First and one-past-last of consecutive columns."""


def runs_of(columns: Sequence[int]) -> tuple[Run, ...]:
    """Return the runs of consecutive columns in ascending ``columns``."""
    runs: list[Run] = []
    for column in map(int, columns):
        if runs and runs[-1][1] == column:
            runs[-1] = (runs[-1][0], column + 1)
        else:
            runs.append((column, column + 1))
    return tuple(runs)


def take(x: Tensor, runs: Sequence[Run]) -> Tensor:
    """Return the columns of ``x [..., A]`` in ``runs``."""
    if len(runs) == 1:
        first, end = runs[0]
        return x if end - first == x.shape[-1] else x[..., first:end]
    return torch.cat([x[..., first:end] for first, end in runs], -1) if runs else x[..., :0]


def split_runs(x: Tensor, runs: Sequence[Run]) -> dict[int, Tensor]:
    """Return ``x [..., all columns of runs]`` divided into its runs, by first column."""
    pieces = x.split([end - first for first, end in runs], -1)
    return {first: piece for (first, _), piece in zip(runs, pieces, strict=True)}


def put(x: Tensor, values: Tensor, runs: Sequence[Run]) -> None:
    """Write ``values [..., all columns of runs]`` into the columns of ``x [..., A]`` in ``runs``."""
    for first, piece in split_runs(values, runs).items():
        x[..., first : first + piece.shape[-1]] = piece
