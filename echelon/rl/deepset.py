"""Permutation-invariant encoder of a padded set of entities (Zaheer et al., 2017).

Padding never reaches the output. On a CPU padded rows are not computed either: in a typical battle most contact slots
are empty, so real rows are packed before the entity network and summed per set afterwards.
Shapes: ``B set, N slot, F entity feature, H hidden, O output``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.rl.squash import full_precision

MIN_BUCKET = 64
"""Packed lengths are multiples of this."""
BUCKET_BITS = 4
"""Leading bits of a packed length that are preserved; the others are rounded up."""
AGGREGATIONS = ("mean", "sum", "max")


class DeepSetEncoder(nn.Module):
    """Encode ``entities [B, N, F]`` with ``mask [B, N]`` (1 = padding) to ``[B, O]``."""

    def __init__(self, entity_dim: int, hidden_dim: int = 64, output_dim: int = 64, aggregation: str = "mean") -> None:
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation is {aggregation!r}, expected one of {', '.join(AGGREGATIONS)}")
        self.aggregation = aggregation
        self.output_dim = output_dim
        self.phi = nn.Sequential(
            nn.Linear(entity_dim, hidden_dim),
            nn.LayerNorm(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.ReLU(),
        )
        self.rho = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, output_dim))

    def forward(self, entities: Tensor, mask: Tensor) -> Tensor:
        """Return the encoding ``[B, O]``; a set without a real entity is encoded as the zero sum."""
        keep = 1.0 - full_precision(mask)
        if self.aggregation == "max":
            return self.rho(self._max(entities, keep))
        total = self._sum_packed(entities, keep) if _packs_rows(entities) else self._sum_dense(entities, keep)
        if self.aggregation == "mean":
            total = total / keep.sum(1, keepdim=True).clamp_min(1.0)
        return self.rho(total)

    def _sum_dense(self, entities: Tensor, keep: Tensor) -> Tensor:
        real = entities.masked_fill(keep.unsqueeze(-1) == 0, 0.0)
        return (full_precision(self.phi(real)) * keep.unsqueeze(-1)).sum(1)

    def _sum_packed(self, entities: Tensor, keep: Tensor) -> Tensor:
        rows, slots = keep.nonzero(as_tuple=True)
        count, padding = _padding(rows)
        rows, slots = functional.pad(rows, (0, padding)), functional.pad(slots, (0, padding))
        weight = keep[rows, slots]
        weight[count:] = 0.0
        encoded = full_precision(self.phi(entities[rows, slots])) * weight.unsqueeze(1)
        return encoded.new_zeros(keep.shape[0], encoded.shape[1]).index_add(0, rows, encoded)

    def _max(self, entities: Tensor, keep: Tensor) -> Tensor:
        real = entities.masked_fill(keep.unsqueeze(-1) == 0, 0.0)
        encoded = full_precision(self.phi(real)).masked_fill(keep.unsqueeze(-1) == 0, -torch.inf)
        top = encoded.amax(1)
        return torch.where(torch.isneginf(top), torch.zeros_like(top), top)


def bucket(count: int) -> int:
    """Return the packed length for ``count`` rows: one of eight per power of two.

    Matrix products compile and cache a kernel per shape, so lengths must come from a small set.
    """
    step = max(MIN_BUCKET, 1 << max(0, count.bit_length() - BUCKET_BITS))
    return max(1, -(-count // step)) * step


_traces_pack: ContextVar[bool] = ContextVar("traces_pack", default=False)


@contextmanager
def packing_traces() -> Iterator[None]:
    """Let a trace made inside pack rows too: it runs on a CPU only, and its shapes depend on its input."""
    token = _traces_pack.set(True)
    try:
        yield
    finally:
        _traces_pack.reset(token)


def _padding(rows: Tensor) -> tuple[int, int]:
    """Return the number of packed ``rows [P]`` and the number of rows that pad them to a bucket."""
    if torch.jit.is_tracing():  # pyright: ignore
        # both must stay computed values in a trace, which has no branch and compiles no kernel per shape
        count = rows.shape[0]
        return count, -count % MIN_BUCKET
    count = rows.numel()
    return count, bucket(count) - count


def _packs_rows(entities: Tensor) -> bool:
    """Return whether shapes may depend on data: not in a compiled or captured region, nor in an exported one."""
    if entities.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return _traces_pack.get() or not torch.jit.is_tracing()  # pyright: ignore
