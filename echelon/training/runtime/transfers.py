"""Copies between host and device: the only ones of a rollout and of an update on a device.

A read waits for all queued work; an upload from pinned memory does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def read(values: Tensor) -> NDArray[Any]:
    """Return a copy of ``values``, of any shape, in host memory, after all queued work."""
    return values.detach().to("cpu", copy=True).numpy()


def upload(values: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Return ``values`` of the host, of any shape, on ``device`` without waiting for it."""
    host = values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.to(device)


def read_scalars(metrics: dict[str, Any], rows: Tensor | None = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """Return ``rows [n, W]`` in host memory and ``metrics`` with numbers for their scalars, in one read.

    Metrics are scalars on the device or mappings of such; other values stay.
    """
    scalars = [v for value in metrics.values() for v in (value.values() if isinstance(value, dict) else [value])]
    tensors = [v.reshape(1).float() for v in scalars if isinstance(v, Tensor)]
    own = [] if rows is None else [rows.flatten()]
    data = read(torch.cat([*own, *tensors])) if own or tensors else np.zeros(0, np.float32)
    count = 0 if rows is None else rows.numel()
    values = iter(data[count:].tolist())

    def number(value: Any) -> Any:
        return next(values) if isinstance(value, Tensor) else value

    numbers = {
        name: {part: number(x) for part, x in value.items()} if isinstance(value, dict) else number(value)
        for name, value in metrics.items()
    }
    return data[:count].reshape((0, 0) if rows is None else rows.shape), numbers
