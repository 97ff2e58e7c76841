"""Several training processes that train one policy, seen from one of them.

Each rank collects from its own environments and computes its own gradients. Gradients are averaged before every
optimizer step and running statistics are merged, so weights stay bit-equal. A stop, a save or the end is decided once
for all ranks: the others would wait for a rank that leaves alone. A single process is a group of one, for which every
method is free. The environment variables are torchrun's.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from echelon.closing import Closing

T = TypeVar("T")
TIMEOUT = timedelta(hours=6)
"""How long ranks wait for each other, as while one evaluates; the launcher notices at once when one of them dies."""
BEAT_S, SILENT_BEATS = 10.0, 30
"""Time between two signs of life of a rank on another node [s], and own ones without any of it until it counts as lost:
a node that goes down closes no connection."""
LOST = 5
"""Exit code of a rank that lost another."""


class ProcessGroup(Closing):
    """The ranks of one training run; a context manager."""

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0, local_size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size
        self._control: Any = None
        self._initialized = False
        self._closed, self._beats = threading.Event(), 0

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def is_single(self) -> bool:
        return self.size == 1

    def join(self, device: torch.device) -> None:
        """Connect to the other ranks; gradients use the device's backend, decisions use gloo."""
        if self.is_single or self._initialized:
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, rank=self.rank, world_size=self.size, timeout=TIMEOUT)
        self._control = dist.new_group(backend="gloo", timeout=TIMEOUT)
        self._initialized = True
        if self.local_size < self.size:
            for loop in (self._exchange_beats, self._watch):
                threading.Thread(target=loop, daemon=True).start()

    def _exchange_beats(self) -> None:
        """Give signs of life and read those of the next rank, while the first rank's node is up."""
        own, watched = (f"beats/{rank % self.size}" for rank in (self.rank, self.rank + 1))
        with contextlib.suppress(RuntimeError):
            address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            store = cast("Any", dist).TCPStore(*address, wait_for_workers=False)
            while not self._closed.wait(BEAT_S):
                store.add(own, 1)
                self._beats = store.add(watched, 0)

    def _watch(self) -> None:
        """End this process where signs of life no longer arrive."""
        seen, silent = -1, 0
        while silent < SILENT_BEATS:
            if self._closed.wait(BEAT_S):
                return
            seen, silent = self._beats, silent + 1 if self._beats == seen else 0
        print("lost another process of the run: it gives no sign of life", file=sys.stderr, flush=True)
        os._exit(LOST)

    def close(self) -> None:
        self._closed.set()
        if self._initialized:
            dist.destroy_process_group()
            self._initialized = False

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, of any shape, by its mean over all ranks, in one all-reduce."""
        if self.is_single or not tensors:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        dist.all_reduce(flat)
        flat.div_(self.size)
        for target, mean in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            target.copy_(mean.view_as(target))

    def merge_moments(self, count: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return count, mean and sum of squared deviations of the samples of all ranks.

        ``mean`` and ``squares`` share a shape, ``count`` is a scalar, all of one dtype (Chan, Golub and LeVeque, 1979).
        """
        if self.is_single:
            return count, mean, squares
        packed = torch.cat([count.reshape(1), mean.reshape(-1), squares.reshape(-1)])
        parts = [torch.empty_like(packed) for _ in range(self.size)]
        dist.all_gather(parts, packed)
        counts = torch.stack([part[0] for part in parts])
        means, deviations = torch.stack([part[1:] for part in parts]).view(self.size, 2, -1).unbind(1)
        total = counts.sum()
        weight = (counts / total.clamp_min(1.0)).unsqueeze(1)
        center = (weight * means).sum(0)
        merged = deviations.sum(0) + (counts.unsqueeze(1) * (means - center).square()).sum(0)
        return total, center.view_as(mean), merged.view_as(squares)

    def any(self, flag: bool) -> bool:
        return bool(self.all_max(int(flag)))

    def all_max(self, value: int) -> int:
        return value if self.is_single else self._reduce(value, dist.ReduceOp.MAX)

    def all_sum(self, value: int) -> int:
        return value if self.is_single else self._reduce(value, dist.ReduceOp.SUM)

    def broadcast(self, value: T) -> T:
        if self.is_single:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._control, device=torch.device("cpu"))
        return box[0]

    def all_gather(self, value: T) -> list[T]:
        if self.is_single:
            return [value]
        boxes: list[Any] = [None] * self.size
        dist.all_gather_object(boxes, value, group=self._control)
        return cast("list[T]", boxes)

    def broadcast_module(self, module: nn.Module) -> None:
        if self.is_single:
            return
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)

    def _reduce(self, value: int, operation: Any) -> int:
        box = torch.tensor([value], dtype=torch.int64)
        dist.all_reduce(box, operation, group=self._control)
        return int(box)


def process_group_from_environment() -> ProcessGroup:
    """Return the group that torchrun's environment variables describe; a group of one if they are not set."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    values = [os.environ.get(name, "") for name in names]
    if not all(value.isdigit() for value in values) or int(values[1]) <= 1:
        return ProcessGroup()
    return ProcessGroup(*(int(value) for value in values))
