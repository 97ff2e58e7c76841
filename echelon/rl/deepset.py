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

    def __init__(
        self,
        entity_dim: int,
        hidden_dim: int = 64,
        output_dim: int = 64,
        aggregation: str = "mean",
        key_dim: int = 0,
    ) -> None:
        """``key_dim`` is the width of the keys of single entities, 0 if the set has none."""
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation is {aggregation!r}, expected one of {', '.join(AGGREGATIONS)}")
        self.aggregation = aggregation
        self.output_dim, self.key_dim = output_dim, key_dim
        self.phi = nn.Sequential(
            nn.Linear(entity_dim, hidden_dim),
            nn.LayerNorm(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.ReLU(),
        )
        self.rho = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, output_dim))
        if key_dim:
            self.key = nn.Linear(hidden_dim, key_dim, bias=False)

    def forward(self, entities: Tensor, mask: Tensor) -> Tensor:
        """Return the encoding ``[B, O]``; a set without a real entity is encoded as the zero sum."""
        return self.encode_with_keys(entities, mask, 0)[0]

    def encode_with_keys(self, entities: Tensor, mask: Tensor, slots: int) -> tuple[Tensor, Tensor | None]:
        """Return the encoding ``[B, O]`` and the keys ``[B, slots, K]`` of the first slots, 0 where a slot is empty.

        Keys are None without slots.
        """
        keep = 1.0 - full_precision(mask)
        if self.aggregation == "max":
            total, keys = self._max(entities, keep, slots)
        elif _packs_rows(entities):
            total, keys = self._sum_packed(entities, keep, slots)
        else:
            total, keys = self._sum_dense(entities, keep, slots)
        if self.aggregation == "mean":
            total = total / keep.sum(1, keepdim=True).clamp_min(1.0)
        return self.rho(total), keys

    def _sum_dense(self, entities: Tensor, keep: Tensor, slots: int) -> tuple[Tensor, Tensor | None]:
        real = entities.masked_fill(keep.unsqueeze(-1) == 0, 0.0)
        encoded = full_precision(self.phi(real)) * keep.unsqueeze(-1)
        return encoded.sum(1), self._keys(encoded[:, :slots]) if slots else None

    def _sum_packed(self, entities: Tensor, keep: Tensor, slots: int) -> tuple[Tensor, Tensor | None]:
        sets, slot = keep.nonzero(as_tuple=True)
        count, padding = _padding(sets)
        sets, slot = functional.pad(sets, (0, padding)), functional.pad(slot, (0, padding))
        weight = keep[sets, slot]
        weight[count:] = 0.0
        encoded = full_precision(self.phi(entities[sets, slot])) * weight.unsqueeze(1)
        total = encoded.new_zeros(keep.shape[0], encoded.shape[1]).index_add(0, sets, encoded)
        if not slots:
            return total, None
        keys = self._keys(encoded)
        # keys of later slots add up in one surplus row
        row = torch.where(slot < slots, sets * slots + slot, keep.shape[0] * slots)
        unpacked = keys.new_zeros(keep.shape[0] * slots + 1, self.key_dim).index_add(0, row, keys)
        return total, unpacked[:-1].view(keep.shape[0], slots, self.key_dim)

    def _max(self, entities: Tensor, keep: Tensor, slots: int) -> tuple[Tensor, Tensor | None]:
        empty = keep.unsqueeze(-1) == 0
        encoded = full_precision(self.phi(entities.masked_fill(empty, 0.0))).masked_fill(empty, -torch.inf)
        top = encoded.amax(1)
        keys = self._keys(encoded[:, :slots].masked_fill(empty[:, :slots], 0.0)) if slots else None
        return torch.where(torch.isneginf(top), torch.zeros_like(top), top), keys

    def _keys(self, encoded: Tensor) -> Tensor:
        return full_precision(self.key(encoded))


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
