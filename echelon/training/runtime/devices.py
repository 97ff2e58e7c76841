"""The device of a training process: its choice, determinism, precision, memory, and copies between it and the host.

The copies are the only ones of a rollout and of an update. A read waits for all queued work; an upload from pinned
memory does not.
"""

import os
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray
from torch import Tensor

from echelon.sim.backend import start_warp


def resolve_device(name: str, local_rank: int = 0, local_size: int = 1) -> torch.device:
    """Return the device for ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    With several ranks on one machine each takes a separate CUDA device. Raises ``ValueError`` if there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}, expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but this machine has no CUDA device; try cpu")
    if device.type == "cuda" and local_size > 1:
        if local_size > torch.cuda.device_count():
            raise ValueError(f"nproc is {local_size}, but there are {torch.cuda.device_count()} CUDA devices")
        return torch.device("cuda", local_rank)
    return device


def free_memory(name: str) -> int | None:
    """Return the free memory of the CUDA device that ``resolve_device`` chooses [B], None for a CPU."""
    if name == "cpu" or not torch.cuda.is_available():
        return None
    local_rank, local_size = (int(os.environ.get(f"LOCAL_{part}") or 0) for part in ("RANK", "WORLD_SIZE"))
    return int(torch.cuda.mem_get_info(resolve_device(name, local_rank, local_size))[0])


def set_determinism(device: torch.device, deterministic: bool) -> None:
    """Allow only deterministic operations, or let cuDNN search for its fastest kernels; make ``device`` current."""
    torch.use_deterministic_algorithms(deterministic)
    if device.type != "cuda":
        return
    if device.index is not None:
        torch.cuda.set_device(device)  # streams and graphs belong to the current device
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.deterministic = deterministic
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def share_stream(device: torch.device | str) -> None:
    """Let Warp work on torch's current stream of a CUDA ``device``, so that each sees what the other has queued."""
    chosen = torch.device(device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda":
        start_warp()
        stream = wp.stream_from_torch(torch.cuda.current_stream(chosen))
        wp.set_stream(stream, stream.device, sync=True)


def release_cache(device: torch.device, update: int, every: int) -> None:
    if device.type == "cuda" and every and update % every == 0:
        torch.cuda.empty_cache()


CPU_FEATURES = ("avx512_bf16", "amx_bf16", "sve_bf16", "bf16")
"""CPU capabilities with bfloat16 multiplication in hardware."""
AUTO = "auto"
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@cache
def has_bfloat16(device: torch.device) -> bool:
    """Return whether ``device`` computes bfloat16 faster than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    features = getattr(torch.cpu, "get_capabilities", dict)()
    return any(features.get(name, False) for name in CPU_FEATURES)


def low_precision(device: torch.device, requested: str = AUTO) -> torch.dtype | None:
    """Return the dtype for ``requested`` (``auto``, ``bfloat16`` or ``float16``) on ``device``; None is float32.

    ``auto`` is bfloat16 where that is fast, else float16 on CUDA, else None.
    """
    if requested != AUTO:
        return DTYPES[requested]
    if has_bfloat16(device):
        return torch.bfloat16
    return torch.float16 if device.type == "cuda" else None


def mixed_precision(device: torch.device, enabled: bool, requested: str = AUTO) -> AbstractContextManager[Any]:
    """Return the autocast context; it does nothing if not ``enabled`` or without a lower precision."""
    dtype = low_precision(device, requested) if enabled else None
    return torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None)


def observation_dtype(device: torch.device, amp: bool, requested: str = AUTO) -> torch.dtype:
    """Return the dtype of a rollout's observations: bfloat16 on a GPU whose networks compute in it, else float32."""
    narrow = amp and device.type == "cuda" and low_precision(device, requested) is torch.bfloat16
    return torch.bfloat16 if narrow else torch.float32


def loss_scaler(device: torch.device, enabled: bool, requested: str = AUTO) -> torch.amp.GradScaler:
    needed = enabled and low_precision(device, requested) is torch.float16
    return torch.amp.GradScaler(device.type, enabled=needed)


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
