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
