"""Permutation-invariant encoder of a padded set of entities (Zaheer et al., 2017).

Padding never reaches the output, and where possible it is not computed either: in a typical battle most contact slots
are empty, so real rows are packed before the entity network and summed per set afterwards. On a CPU there are as many
packed rows as real ones, on a device as many as its learner has made room for (``FlatPolicy.packing_into``).
Shapes: ``B set, N slot, F entity feature, H hidden, O output, P packed row``.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.rl.host_kernels import EntitySets
from echelon.rl.regime import HOST, Regime
from echelon.rl.squash import full_precision

MIN_BUCKET = 64
"""Packed lengths are multiples of this."""
BUCKET_BITS = 4
"""Leading bits of a packed length that are preserved; the others are rounded up."""
SURPLUS_ROWS = 4096
PADDING_SET = 32
"""Rows of padding that count as a set: a device sums the rows of a set one after another."""
NO_SLOT = 1 << 30
"""Slot of a row that is padding."""
AGGREGATIONS = ("mean", "sum")


class EntityRows(NamedTuple):
    """Real entities of B sets in rows, ordered by set and slot, with padding behind them."""

    features: Tensor
    """[P, F]"""
    sets: Tensor
    """Set of each row [P] int64, -1 for padding."""
    slots: Tensor
    """Slot of each row [P] int64, ``NO_SLOT`` for padding."""
    offsets: Tensor | None = None
    """First row of each set, then of sets that have the padding, then P int64; None where the host made the rows."""

    @classmethod
    def padded(cls, features: Tensor, sets: Tensor, slots: Tensor, regime: Regime = HOST) -> "EntityRows":
        """Return real entities, ``features [P, F]`` of ``sets`` and ``slots [P]``, padded to one of few lengths."""
        padding = _padding(sets, regime)
        return cls(
            functional.pad(features, (0, 0, 0, padding)),
            functional.pad(sets, (0, padding), value=-1),
            functional.pad(slots, (0, padding), value=NO_SLOT),
        )

    @classmethod
    def of_slots(cls, entities: Tensor, keep: Tensor) -> "EntityRows":
        """Return every slot of ``entities [B, N, F]`` as a row, without a set where ``keep [B, N]`` is 0."""
        sets, slots = keep.shape
        at = torch.arange(sets * slots, device=keep.device)
        of_set = torch.where(keep.flatten() > 0, at.div(slots, rounding_mode="floor"), -1)
        return cls(entities.flatten(0, 1), of_set, at % slots, torch.arange(sets + 1, device=keep.device) * slots)

    def sums(self, values: Tensor, sets: int) -> Tensor:
        """Return the sum of ``values [P, K]`` over each set ``[sets, K]``."""
        if self.offsets is not None:
            # sums of a device that adds by index depend on the order of its threads
            total = torch.segment_reduce(values, "sum", offsets=self.offsets, unsafe=True, initial=0)
            return total[:sets]
        # padding adds up in one surplus row
        return values.new_zeros(sets + 1, values.shape[1]).index_add(0, self.sets + 1, values)[1:]

    def by_slot(self, values: Tensor, sets: int, slots: int) -> Tensor:
        """Return ``values [P, K]`` by set and slot ``[sets, slots, K]``, 0 for an empty slot, without later slots."""
        # rows without a place add up in surplus rows: in several on a device, which adds to one row after another
        surplus, aside = 1, torch.zeros_like(self.slots)
        if self.offsets is not None:
            surplus, aside = SURPLUS_ROWS, torch.arange(len(values), device=values.device) % SURPLUS_ROWS
        row = torch.where(self.slots < slots, self.sets * slots + self.slots + surplus, aside)
        placed = values.new_zeros(sets * slots + surplus, values.shape[1]).index_add(0, row, values)
        return placed[surplus:].view(sets, slots, -1)


def rows_of(sets: EntitySets) -> EntityRows:
    """Return the entities of chosen sets in rows, by operations that a trace can follow."""
    sizes = sets.sizes()
    of_set = torch.arange(sizes.shape[0]).repeat_interleave(sizes)
    entity = torch.arange(of_set.shape[0]) + (sets.offsets[sets.chosen] - sizes.cumsum(0) + sizes)[of_set]
    return EntityRows(sets.features[entity], of_set, sets.slots[entity].long())


class LayerNorm(nn.LayerNorm):
    """A layer norm that returns the precision of its input on a device, where autocast would return float32.

    Statistics are computed in float32 all the same. What follows reads and writes half as many bytes.
    """

    regime: Regime = HOST

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x [..., normalized_shape]`` normalized over its last axis."""
        if not self.regime.lowers_norms or x.dtype == self.weight.dtype:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
            return functional.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class DeepSetEncoder(nn.Module):
    """Encode ``entities [B, N, F]`` with ``mask [B, N]`` (1 = padding) to ``[B, O]``."""

    regime: Regime = HOST

    def __init__(
        self, entity_dim: int, hidden_dim: int = 64, output_dim: int = 64, aggregation: str = "mean", key_dim: int = 0
    ) -> None:
        """``key_dim`` is the width of the keys of single entities, 0 if the set has none."""
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation is {aggregation!r}, expected one of {', '.join(AGGREGATIONS)}")
        self.aggregation = aggregation
        self.hidden_dim, self.output_dim, self.key_dim = hidden_dim, output_dim, key_dim
        self.phi = nn.Sequential(
            nn.Linear(entity_dim, hidden_dim),
            LayerNorm(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.ReLU(),
        )
        self.rho = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, output_dim))
        if key_dim:
            self.key = nn.Linear(hidden_dim, key_dim, bias=False)

    def forward(self, entities: Tensor | EntityRows | EntitySets, mask: Tensor | None) -> Tensor:
        """Return the encoding ``[B, O]``; a set without a real entity is encoded as the zero sum."""
        return self.encode_with_keys(entities, mask, 0)[0]

    def encode_with_keys(
        self, entities: Tensor | EntityRows | EntitySets, mask: Tensor | None, slots: int
    ) -> tuple[Tensor, Tensor | None]:
        """Return the encoding ``[B, O]`` and the keys ``[B, slots, K]`` of the first slots, 0 where a slot is empty.

        Keys are None without slots. An entity is real where ``mask`` is below 1; real ones may be packed already, and
        sets of entities need no mask.
        """
        if isinstance(entities, EntitySets):
            total, keys = self._sum_rows(rows_of(entities), entities.chosen.shape[0], slots)
            return self._averaged(total, entities.sizes().to(total.dtype)), keys
        assert mask is not None, "rows and tensors of entities need a mask"
        keep = (mask < 1.0).to(full_precision(mask).dtype)
        if isinstance(entities, EntityRows):
            total, keys = self._sum_rows(entities, mask.shape[0], slots)
        elif self.regime.packs:
            total, keys = self._sum_packed(entities, keep, slots)
        elif self._kernels_for(entities):
            total, keys = self._sum_rows(EntityRows.of_slots(entities, keep), keep.shape[0], slots)
        else:
            total, keys = self._sum_dense(entities, keep, slots)
        return self._averaged(total, keep.sum(1)), keys

    def _averaged(self, total: Tensor, counts: Tensor) -> Tensor:
        """Return the encoding ``[B, O]`` of sums ``[B, H]`` of ``counts [B]`` entities."""
        if self.aggregation == "mean":
            total = total / counts.unsqueeze(-1).clamp_min(1.0)
        return self.rho(total)

    def _sum_dense(self, entities: Tensor, keep: Tensor, slots: int) -> tuple[Tensor, Tensor | None]:
        encoded = self.phi(entities.masked_fill(keep.unsqueeze(-1) == 0, 0.0))
        # a product sums in full precision and, unlike a sum of masked rows, stores no row in it
        total = full_precision(torch.bmm(keep.to(encoded.dtype).unsqueeze(1), encoded).squeeze(1))
        return total, self._keys(encoded[:, :slots]) * keep[:, :slots].unsqueeze(-1) if slots else None

    def _sum_packed(self, entities: Tensor, keep: Tensor, slots: int) -> tuple[Tensor, Tensor | None]:
        sets, slot = keep.nonzero(as_tuple=True)
        return self._sum_rows(EntityRows.padded(entities[sets, slot], sets, slot, self.regime), keep.shape[0], slots)

    def _kernels_for(self, features: Tensor) -> Any:
        """Return ``device_kernels`` if they encode ``features [..., F]`` here, else None."""
        if self.regime.encoder != "device":
            return None
        from echelon.rl import device_kernels

        fits = device_kernels.encodes(features, self.hidden_dim, self.key_dim or self.hidden_dim)
        return device_kernels if fits else None

    def _sum_rows(self, rows: EntityRows, sets: int, slots: int) -> tuple[Tensor, Tensor | None]:
        if kernels := self._kernels_for(rows.features):
            return kernels.encode_rows(rows, sets, self.phi, self.key if slots else None, slots)
        encoded = full_precision(self.phi(rows.features))
        total = rows.sums(encoded, sets)
        return total, rows.by_slot(self._keys(encoded), sets, slots) if slots else None

    def _keys(self, encoded: Tensor) -> Tensor:
        return full_precision(self.key(encoded))


class Compacted(NamedTuple):
    """Where real entities of B sets lie, in a fixed number of rows; the same on every device, without a read."""

    sets: Tensor
    """[P] int64, -1 for padding"""
    slots: Tensor
    """[P] int64, ``NO_SLOT`` for padding"""
    offsets: Tensor
    """First row of each set, then of sets of padding, then P int64."""

    @classmethod
    def of(cls, real: Tensor, rows: int) -> "Compacted":
        """Return the first ``rows`` of the entities that are ``real [B, N]``, ordered by set and slot."""
        sets, slots = real.shape
        before = real.flatten().cumsum(0)
        place = torch.where(real.flatten(), before - 1, rows).clamp_(max=rows)
        entity = torch.arange(real.numel(), device=real.device)
        found = torch.full((rows + 1,), -1, dtype=torch.int64, device=real.device).scatter_(0, place, entity)[:rows]
        empty = found < 0
        ends = before.view(sets, slots)[:, -1].clamp(max=rows)
        padding = torch.arange(PADDING_SET, rows + PADDING_SET, PADDING_SET, device=real.device).add_(ends[-1])
        return cls(
            torch.where(empty, -1, found.div(slots, rounding_mode="floor")),
            torch.where(empty, NO_SLOT, found % slots),
            torch.cat([ends.new_zeros(1), ends, padding.clamp_(max=rows)]),
        )


def bucket(count: int) -> int:
    """Return the packed length for ``count`` rows: one of eight per power of two.

    Matrix products compile and cache a kernel per shape, so lengths must come from a small set.
    """
    step = max(MIN_BUCKET, 1 << max(0, count.bit_length() - BUCKET_BITS))
    return max(1, -(-count // step)) * step


def _padding(rows: Tensor, regime: Regime) -> int:
    """Return the number of rows that pad packed ``rows [P]`` to a bucket."""
    if regime.pads_to_buckets:
        return bucket(rows.numel()) - rows.numel()
    # it must stay a computed value in a trace, which has no branch and compiles no kernel per shape
    return -rows.shape[0] % MIN_BUCKET
