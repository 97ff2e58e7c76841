"""Counts what would make a GPU wait for the host, on a CPU, where the same operations cost nothing.

Torch operations whose result's shape or type lies on the host are seen as they are dispatched; methods that leave torch
or Warp are replaced while counting. ``read`` and ``upload`` of ``echelon.training.runtime.devices`` are the intended
transfers; everything else is a fault.
"""

from __future__ import annotations

import traceback
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import warp as wp
from torch.utils._python_dispatch import TorchDispatchMode

from echelon.training import batched_env, episode_log, rollout
from echelon.training.opponents import pool, runner, schedule
from echelon.training.ppo.graph import steps, update
from echelon.training.runtime import devices

READING = (
    "_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive",
    "equal", "is_nonzero", "bincount", "argwhere", "item",
)  # fmt: skip
"""Operations that need a value on the host."""
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
"""Operations that need one where an index is a mask."""
LEAVING = (
    (torch.Tensor, ("tolist", "numpy", "cpu", "__array__")),
    (torch, ("tensor", "as_tensor", "from_numpy")),
    (wp.array, ("numpy", "assign", "list")),
    (wp, ("synchronize", "synchronize_device", "synchronize_stream")),
)
"""Functions that copy between torch or Warp and the host, or wait."""
USERS = (batched_env, episode_log, rollout, steps, update, pool, runner, schedule, devices)
"""Modules that have ``read`` or ``upload`` by name."""
HOST_WORK = ((rollout, "plan_minibatches"), (update.EntityCounts, "most"))
"""Functions whose tensors all lie on the host."""


class TransferCounter(TorchDispatchMode):
    """Counts transfers of the calling thread while it is entered through ``counting``."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.uploads, self.host_work = 0, 0, 0
        self.faults: list[str] = []
        """Where something else than ``read`` and ``upload`` would wait, and why."""
        self._paused = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = name in INDEXING and any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        if name in READING or masks:
            self._fault(f"{name} of a mask" if masks else name)
        return func(*args, **(kwargs or {}))

    def _fault(self, what: str) -> None:
        if self._paused:
            return
        frames = [f for f in traceback.extract_stack() if "/echelon/" in f.filename]
        at = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "the test"
        self.faults.append(f"{what} at {at}")

    def replaced(self, owner: Any, name: str) -> Any:
        """Return a function that counts a fault and does what ``owner.name`` does."""
        real = getattr(owner, name)

        def leaving(*args: Any, **kwargs: Any) -> Any:
            self._fault(name)
            return self._uncounted(real, *args, **kwargs)

        return leaving

    def counted(self, name: str, real: Any) -> Any:
        """Return a function that counts one intended transfer in attribute ``name``."""

        def transfer(*args: Any, **kwargs: Any) -> Any:
            setattr(self, name, getattr(self, name) + 1)
            return self._uncounted(real, *args, **kwargs)

        return transfer

    def _uncounted(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        self._paused += 1
        try:
            return real(*args, **kwargs)
        finally:
            self._paused -= 1


@contextmanager
def counting():
    """Yield a counter of the transfers within."""
    counter = TransferCounter()
    with ExitStack() as stack:
        for owner, names in LEAVING:
            for name in names:
                stack.enter_context(mock.patch.object(owner, name, counter.replaced(owner, name)))
        for module in USERS:
            for name, count in (("read", "reads"), ("upload", "uploads")):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, counter.counted(count, getattr(module, name))))
        for owner, name in HOST_WORK:
            stack.enter_context(mock.patch.object(owner, name, counter.counted("host_work", getattr(owner, name))))
        stack.enter_context(counter)
        yield counter
