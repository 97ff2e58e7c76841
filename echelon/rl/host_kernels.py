# type: ignore
"""Operations of a policy on a CPU in one native header, ``host_kernels.h``, and how they are called.

Warp compiles the header, so no compiler is needed, and a call holds no interpreter lock. Tensors are float32 on a CPU.
``echelon.rl.host_program`` makes programs of the operations; plain torch is their oracle.

Shapes: ``E entity, F entity feature, R set, D column``.
"""

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

LANES = 16
"""Widths are multiples of this: the widest vector of a processor."""
BLOCK = 96
"""Entities that ``host_kernels.h`` encodes at once."""

HEADER = Path(__file__).with_suffix(".h").read_text(encoding="utf-8")

wp.set_module_options(
    {"enable_backward": False, "fuse_fp": True, "extra_build_options": wp.ModuleBuildOptions(extra_cpu_preamble=HEADER)}
)


class Operation(IntEnum):
    """The operations of the header, in its order: called alone, for a block of rows, and for all rows of a program."""

    PACK_ENTITIES, ROWS = range(2)
    GATHER, LINEAR, LINEAR_GRADIENT, NORM, NORM_GRADIENT, SETS, SETS_GRADIENT, HOSTILE, SCORE = range(2, 11)
    NORMALIZE, PACK, ACT, SCATTER = range(11, 15)
    ENTITY_STARTS, STEPS, STEPS_GRADIENT, OFFSETS = range(15, 19)


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
    table = table_of(arguments)
    entry(bounds, ctypes.byref(_Call(operation, ctypes.addressof(table))))


def table_of(arguments: Sequence[Tensor | int | None]) -> ctypes.Array[ctypes.c_int64]:
    """Return numbers, and addresses of tensors ``[...]`` or 0 for None, as an operation reads them."""
    values = [0 if x is None else x if isinstance(x, int) else x.data_ptr() for x in arguments]
    return (ctypes.c_int64 * len(values))(*values)


def reads(*inputs: Tensor) -> bool:
    """Return whether operations can read ``inputs``: they are float32, and no gradient of them is asked for."""
    return all(x.dtype == torch.float32 and not x.requires_grad for x in inputs)


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
    ) -> "EntitySets":
        """Return the entities of each row of ``obs [R, D]``, scaled, shifted and clipped to +-``limit``.

        An entity is real where its column of ``mask``, the first and one past the last, is below 1. ``blocks`` are the
        first column and the columns of a slot, for each part of the features.
        """
        obs = obs if obs.stride(1) == 1 else obs.contiguous()
        rows, chosen, (first, end) = len(obs), torch.arange(len(obs)), mask
        offsets = torch.zeros(rows + 1, dtype=torch.int64)
        torch.cumsum((obs[:, first:end] < 1.0).sum(1), 0, out=offsets[1:])
        count, table = int(offsets[-1]), torch.tensor(blocks)
        features, slots = obs.new_empty(count, sum(blocks[1::2])), torch.empty(count, dtype=torch.int32)
        source = (obs, obs.stride(0), chosen, rows, first, end - first, table, len(blocks) // 2, scale, shift, limit)
        run(Operation.PACK_ENTITIES, *source, offsets, features, slots)
        return cls(features, slots, offsets, chosen)

    def sizes(self) -> Tensor:
        """Return the number of entities of each chosen set ``[R]``."""
        return self.offsets[self.chosen + 1] - self.offsets[self.chosen]


def scratch_width(features: int, hidden: int, keys: int) -> int:
    """Return the floats that an encoder of sets writes between its operations."""
    return BLOCK * (features + 3 * hidden + keys)
