# type: ignore
"""Operations of a policy on a CPU that are fused, with their gradients written out: ``host_kernels.h``.

A set encoder and a MinGRU each cost torch a dozen passes over rows that leave the cache. Warp
compiles the header, so no compiler is needed, and a call holds no interpreter lock. Tensors are float32 on a CPU, and
widths are multiples of ``LANES``. Callers ask ``reads`` and ``fits``, and else use plain torch, which is the oracle.

Shapes: ``E entity, F entity feature, R set, H hidden, S slot, K key, T step, B sequence``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import torch
import warp as wp
from torch import Tensor
from torch.autograd.function import once_differentiable

LANES = 16
"""Widths are multiples of this: the widest vector of a processor."""
BLOCK = 96
"""Entities that ``host_kernels.h`` encodes at once."""

HEADER = Path(__file__).with_suffix(".h").read_text(encoding="utf-8")

wp.set_module_options(
    {"enable_backward": False, "fuse_fp": True, "extra_build_options": wp.ModuleBuildOptions(extra_cpu_preamble=HEADER)}
)


class Operation(IntEnum):
    """The operations of the header, in its order."""

    ENCODE_SETS = 0
    ENCODE_SETS_GRADIENT = 1
    SCAN = 2
    SCAN_GRADIENT = 3
    FIRST_SLOTS = 4
    PACK_ENTITIES = 5


@wp.func_native(
    """
    #ifndef __CUDA_ARCH__
    echelon::run(operation, reinterpret_cast<const wp::int64*>(arguments));
    #endif
    """
)
def run_operation(operation: int, arguments: wp.uint64):
    """Run an operation with the 64-bit arguments at an address."""
    ...


@wp.kernel
def run_on_host(operation: int, arguments: wp.uint64):
    """Run an operation; its only thread reads and writes tensors at the addresses among its arguments."""
    i = wp.tid()
    if i == 0:
        run_operation(operation, arguments)


_compiling = Lock()


class _Call(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_int32), ("arguments", ctypes.c_uint64)]


@cache
def _entry() -> tuple[Any, Any, Any]:
    """Return the compiled entry point, its launch bounds, and what owns them."""
    with _compiling:
        command = wp.launch(run_on_host, dim=1, inputs=[0, 0], device="cpu", record_cmd=True)
    return command.hooks.forward, ctypes.byref(command.params[0]), command


def run(operation: Operation, *arguments: Tensor | int | None) -> None:
    """Run an operation with addresses of contiguous tensors, 0 for None, and numbers."""
    entry, bounds, _ = _entry()
    values = [0 if x is None else x if isinstance(x, int) else x.data_ptr() for x in arguments]
    table = (ctypes.c_int64 * len(values))(*values)
    entry(bounds, ctypes.byref(_Call(operation, ctypes.addressof(table))))


def reads(*inputs: Tensor) -> bool:
    """Return whether operations can read ``inputs``: they are float32, and no gradient of them is asked for."""
    return all(x.dtype == torch.float32 and not x.requires_grad for x in inputs)


def fits(*tensors: Tensor) -> bool:
    """Return whether the last axes of ``tensors`` are multiples of ``LANES``, and all are float32."""
    return all(x.dtype == torch.float32 and x.shape[-1] % LANES == 0 for x in tensors)


class EntitySets(NamedTuple):
    """Chosen sets of entities, each a run of rows."""

    features: Tensor
    """[E, F]"""
    slots: Tensor
    """Slot of each entity in its set [E] int32, ascending within a set."""
    offsets: Tensor
    """First entity of each set, then E, int64."""
    chosen: Tensor
    """Chosen sets [R] int64."""

    @classmethod
    def of(
        cls, obs: Tensor, mask: tuple[int, int], blocks: Sequence[int], scale: Tensor, shift: Tensor, limit: int
    ) -> EntitySets:
        """Return the entities of each row of ``obs [R, D]``, scaled, shifted and clipped to +-``limit``.

        An entity is real where its column of ``mask``, the first and one past the last, is below 1. ``blocks`` are the
        first column and the columns of a slot, for each part of the features.
        """
        return cls(*torch.ops.echelon.pack_entities(obs, list(mask), list(blocks), scale, shift, limit))

    def sizes(self) -> Tensor:
        """Return the number of entities of each chosen set ``[R]``."""
        return self.offsets[self.chosen + 1] - self.offsets[self.chosen]

    def first_slots(self, column: int, slots: int) -> Tensor:
        """Return a column of the entities in the first slots ``[R, slots]``, 0 for an empty slot."""
        return torch.ops.echelon.first_slots(*self, column, slots)

    def arguments(self) -> tuple[Tensor | int, ...]:
        return (*self, len(self.chosen), self.features.shape[1])


def _pack_entities(obs, mask, blocks, scale, shift, limit):
    obs = obs if obs.stride(1) == 1 else obs.contiguous()
    rows, (first, end) = len(obs), mask
    offsets = torch.zeros(rows + 1, dtype=torch.int64)
    torch.cumsum((obs[:, first:end] < 1.0).sum(1), 0, out=offsets[1:])
    count, table = int(offsets[-1]), torch.tensor(blocks)
    features, slots = obs.new_empty(count, sum(blocks[1::2])), torch.empty(count, dtype=torch.int32)
    source = (obs, obs.stride(0), rows, first, end - first, table, len(blocks) // 2, scale, shift, limit)
    run(Operation.PACK_ENTITIES, *source, offsets, features, slots)
    return features, slots, offsets, torch.arange(rows)


def _first_slots(features, slots, offsets, chosen, column, count):
    out = features.new_zeros(len(chosen), count)
    run(Operation.FIRST_SLOTS, *EntitySets(features, slots, offsets, chosen).arguments(), column, count, out)
    return out


def _encode_sets(features, slots, offsets, chosen, key_slots, mean, weights, kept=(None, None, None)):
    """Return sums or means ``[R, H]`` and keys ``[R, key_slots, K]``; ``kept`` is written for the gradient."""
    first, first_bias, gain, norm_bias, second, second_bias, *key = weights
    hidden, key_width, rows = len(first), len(key[0]) if key else 0, len(chosen)
    scratch = first.new_empty(BLOCK * (first.shape[1] + 3 * hidden + key_width))
    out, keys = first.new_zeros(rows, hidden), first.new_zeros(rows, key_slots, key_width)
    turned = [first.t().contiguous(), first_bias, gain, norm_bias, second.t().contiguous(), second_bias]
    turned.append(key[0].t().contiguous() if key else None)
    sets = EntitySets(features, slots, offsets, chosen)
    sizes = (hidden, key_slots, key_width, int(mean))
    run(Operation.ENCODE_SETS, *sets.arguments(), *turned, *sizes, scratch, *kept, out, keys)
    return out, keys


def _scan(gates, keep, memory):
    gates, keep, memory = gates.contiguous(), keep.contiguous(), memory.contiguous()
    steps, sequences, width = *gates.shape[:2], memory.shape[-1]
    y, after = (gates.new_empty(steps, sequences, width) for _ in range(2))
    run(Operation.SCAN, gates, keep, memory, y, after, steps, sequences, width)
    return y, after


_library = torch.library.Library("echelon", "DEF")
"""Operations without a gradient; traces call them too."""
_SETS = "Tensor features, Tensor slots, Tensor offsets, Tensor chosen"
for _signature, _work in {
    "pack_entities(Tensor obs, int[] mask, int[] blocks, Tensor scale, Tensor shift, int limit)"
    " -> (Tensor, Tensor, Tensor, Tensor)": _pack_entities,
    f"first_slots({_SETS}, int column, int count) -> Tensor": _first_slots,
    f"encode_sets({_SETS}, int key_slots, bool mean, Tensor[] weights) -> (Tensor, Tensor)": _encode_sets,
    "scan(Tensor gates, Tensor keep, Tensor memory) -> (Tensor, Tensor)": _scan,
}.items():
    _library.define(_signature)
    _library.impl(_signature.split("(")[0], _work, "CPU")


class _SetEncoding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sets, slots, mean, *weights):
        first, hidden = weights[0], len(weights[0])
        count = int(sets.sizes().sum())
        ctx.kept = first.new_empty(count, hidden), first.new_empty(count), first.new_empty(count, hidden)
        ctx.sets, ctx.sizes = sets, (hidden, slots, len(weights[6]) if slots else 0, int(mean))
        ctx.save_for_backward(*weights)
        return _encode_sets(*sets, slots, mean, weights, ctx.kept)

    @staticmethod
    @once_differentiable
    def backward(ctx, out, keys):
        first, *others = ctx.saved_tensors
        weights = [first.t().contiguous(), *others]
        grads = [torch.zeros_like(x) for x in weights]
        absent = [None] * (7 - len(weights))
        scratch = first.new_empty(BLOCK * (first.shape[1] + 3 * len(first) + ctx.sizes[2]))
        given = (*ctx.sets.arguments(), *weights, *absent, *ctx.sizes, scratch, *ctx.kept)
        run(Operation.ENCODE_SETS_GRADIENT, *given, out.contiguous(), keys.contiguous(), *grads, *absent)
        return None, None, None, grads[0].t().contiguous(), *grads[1:]


def encode_sets(sets: EntitySets, phi: Any, key: Any, slots: int, *, mean: bool) -> tuple[Tensor, Tensor | None]:
    """Return sums or means of encoded entities ``[R, H]``, and the keys ``[R, slots, K]`` of the first slots.

    ``phi`` is linear, norm, rectifier, linear, rectifier; ``key`` a linear layer without a bias.
    """
    first, norm, _, second, _ = phi
    weights = [first.weight, first.bias, norm.weight, norm.bias, second.weight, second.bias]
    weights += [key.weight] if slots else []
    if torch.is_grad_enabled():
        out, keys = _SetEncoding.apply(sets, slots, mean, *weights)
    else:
        out, keys = torch.ops.echelon.encode_sets(*sets, slots, mean, weights)
    return out, keys if slots else None


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gates, keep, memory):
        y, after = _scan(gates, keep, memory)
        ctx.save_for_backward(gates.contiguous(), keep.contiguous(), memory.contiguous(), after)
        return y, after[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, last):
        gates, keep, memory, after = ctx.saved_tensors
        slopes, d_memory = torch.empty_like(gates), torch.empty_like(memory)
        given = (grad.contiguous(), last.contiguous())
        run(Operation.SCAN_GRADIENT, gates, keep, memory, after, *given, slopes, d_memory, *after.shape)
        return slopes, None, d_memory


def scan(gates: Tensor, keep: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return what ``echelon.rl.recurrent.scan_stepwise`` returns for ``gates [T, B, 3 H]``."""
    if torch.is_grad_enabled():
        return _Scan.apply(gates, keep, memory)
    y, after = torch.ops.echelon.scan(gates, keep, memory)
    return y, after[-1]
