"""How a rollout is cut: chunks of time, groups of learner rows, minibatches of both, and shards of those.

Time order inside a chunk is kept and its recurrent state comes from the rollout; only whole chunks are
shuffled. Shards are the parts of a minibatch that threads work on; they never change what is computed.
Shapes: ``L chunk step, B sequence``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rl.lstm_state import LSTMState

MAX_MICRO_BATCHES = 8
"""Most shards of a minibatch."""
MICRO_BATCH_ROWS = 1280
"""Steps times sequences of a shard; a minibatch of one such shard is still cut in two."""


class Unit(NamedTuple):
    """A chunk of time for a range of rows: steps ``first`` to ``end``, rows ``left`` to ``right``."""

    chunk: int
    first: int
    end: int
    left: int
    right: int


@dataclass(frozen=True)
class ChunkStates:
    """Recurrent states at the start of every chunk, each ``[C, N, H]``, detached."""

    h: Tensor
    c: Tensor

    @classmethod
    def create(cls, chunks: int, rows: int, hidden: int, device: torch.device | str) -> ChunkStates:
        shape = (chunks, rows, hidden)
        return cls(torch.zeros(shape, device=device), torch.zeros(shape, device=device))

    def store(self, chunk: int, state: LSTMState) -> None:
        """Keep ``state [1, N, H]`` as that of ``chunk``."""
        self.h[chunk].copy_(state.h[0])
        self.c[chunk].copy_(state.c[0])

    def of(self, units: list[Unit]) -> LSTMState:
        """Return the state ``[1, B, H]`` of the sequences of ``units``, side by side."""
        return LSTMState(
            h=torch.cat([self.h[u.chunk, u.left : u.right] for u in units]).unsqueeze(0),
            c=torch.cat([self.c[u.chunk, u.left : u.right] for u in units]).unsqueeze(0),
        )


def chunk_length(steps: int, wanted: int, num_minibatches: int) -> int:
    """Return the steps per chunk: ``wanted``, or the rollout divided by the minibatches where it is 0."""
    return min(steps, wanted or max(1, steps // num_minibatches))


def chunk_spans(steps: int, length: int) -> list[tuple[int, int]]:
    """Return first and end step of every chunk; the last may be shorter."""
    return [(first, min(first + length, steps)) for first in range(0, steps, length)]


def plan_minibatches(steps: int, rows: int, length: int, num_minibatches: int) -> list[list[Unit]]:
    """Cut the rollout into shuffled minibatches of equally long units; ``torch``'s generator decides the order.

    With fewer chunks than minibatches each chunk is divided among groups of neighbouring rows. Units of a last chunk
    that is shorter come last, so that processes, which shuffle by themselves, make equally many minibatches.
    """
    spans = chunk_spans(steps, length)
    groups = min(rows, -(-num_minibatches // len(spans)))
    edges = [rows * g // groups for g in range(groups + 1)]
    units = [
        Unit(chunk, first, end, edges[g], edges[g + 1])
        for chunk, (first, end) in enumerate(spans)
        for g in range(groups)
    ]
    per_minibatch = max(1, len(units) // num_minibatches)
    order = [units[i] for i in torch.randperm(len(units), device="cpu").tolist()]
    alike = [u for u in order if u.end - u.first == length], [u for u in order if u.end - u.first != length]
    return [same[i : i + per_minibatch] for same in alike for i in range(0, len(same), per_minibatch)]


def gather(source: Tensor, units: list[Unit]) -> Tensor:
    """Return the parts ``[L, B, ...]`` of ``source [T, N, ...]`` that ``units`` name, side by side."""
    parts = [source[u.first : u.end, u.left : u.right] for u in units]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def micro_batch_columns(length: int, sequences: int, device: torch.device) -> list[slice]:
    """Return the ranges of sequences that make up the shards of a minibatch."""
    full = length * sequences // MICRO_BATCH_ROWS
    shards = min(sequences, MAX_MICRO_BATCHES, max(full, 2)) if full and device.type == "cpu" else 1
    edges = [sequences * s // shards for s in range(shards + 1)]
    return [slice(left, right) for left, right in zip(edges, edges[1:], strict=False)]
