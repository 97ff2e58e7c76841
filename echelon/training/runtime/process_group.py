"""Several training processes as one: who they are, and the few things they must agree on.

Each process collects from environments of its own and computes gradients of its own; gradients are averaged before
every step and running statistics are merged, so weights stay equal to the bit. Whatever decides the course of training
(a stop, a save, the end) is decided once and told to all, since a process that leaves alone leaves the rest waiting.
A lone process is a world of one, for which every method is free. The environment variables are torchrun's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")
PATIENCE = timedelta(hours=6)
"""How long processes wait for each other; whoever started them notices at once when one of them dies."""


class ProcessGroup:
    """The processes that train together, seen from one of them; a context manager."""

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0, local_size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size
        self._control: Any = None
        self._joined = False

    @property
    def is_main(self) -> bool:
        """Whether this is the process that speaks and saves."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        return self.size == 1

    def join(self, device: torch.device) -> None:
        """Meet the other processes; gradients travel by the device's own backend, decisions by gloo."""
        if self.is_alone or self._joined:
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, rank=self.rank, world_size=self.size, timeout=PATIENCE)
        self._control = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._joined = True

    def close(self) -> None:
        """Leave the others."""
        if self._joined:
            dist.destroy_process_group()
            self._joined = False

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, of any shape, by its mean over all processes, in one exchange."""
        if self.is_alone or not tensors:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        dist.all_reduce(flat)
        flat.div_(self.size)
        for mine, mean in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            mine.copy_(mean.view_as(mine))

    def merge(self, count: Tensor, mean: Tensor, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Merge samples known by count, mean and sum of squared deviations over all processes.

        ``mean`` and ``spread`` share a shape, ``count`` is a scalar, all of one type (Chan, Golub and LeVeque, 1979).
        """
        if self.is_alone:
            return count, mean, spread
        packed = torch.cat([count.reshape(1), mean.reshape(-1), spread.reshape(-1)])
        parts = [torch.empty_like(packed) for _ in range(self.size)]
        dist.all_gather(parts, packed)
        counts = torch.stack([part[0] for part in parts])
        means, spreads = torch.stack([part[1:] for part in parts]).view(self.size, 2, -1).unbind(1)
        total = counts.sum()
        weight = (counts / total.clamp_min(1.0)).unsqueeze(1)
        center = (weight * means).sum(0)
        merged = spreads.sum(0) + (counts.unsqueeze(1) * (means - center).square()).sum(0)
        return total, center.view_as(mean), merged.view_as(spread)

    def any(self, flag: bool) -> bool:
        """Return whether the flag is up in any process."""
        return bool(self.most(int(flag)))

    def most(self, value: int) -> int:
        """Return the largest value of all processes."""
        return value if self.is_alone else self._reduce(value, dist.ReduceOp.MAX)

    def total(self, value: int) -> int:
        """Return the sum over all processes."""
        return value if self.is_alone else self._reduce(value, dist.ReduceOp.SUM)

    def broadcast(self, value: T) -> T:
        """Return the main process's value in all of them."""
        if self.is_alone:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._control, device=torch.device("cpu"))
        return box[0]

    def all_gather(self, value: T) -> list[T]:
        """Return every process's value, in order of rank."""
        if self.is_alone:
            return [value]
        boxes: list[Any] = [None] * self.size
        dist.all_gather_object(boxes, value, group=self._control)
        return cast("list[T]", boxes)

    def copy_from_main(self, module: nn.Module) -> None:
        """Give every process the main one's parameters and buffers."""
        if self.is_alone:
            return
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)

    def _reduce(self, value: int, how: Any) -> int:
        box = torch.tensor([value], dtype=torch.int64)
        dist.all_reduce(box, how, group=self._control)
        return int(box)

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def process_group_from_environment() -> ProcessGroup:
    """Return the world that the environment variables of torchrun describe: this process alone where there are none."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    given = [os.environ.get(name, "") for name in names]
    if not all(word.isdigit() for word in given) or int(given[1]) <= 1:
        return ProcessGroup()
    return ProcessGroup(*(int(word) for word in given))
