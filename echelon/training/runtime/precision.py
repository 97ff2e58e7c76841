"""Lower precision of a device in hardware, and the autocast context that uses it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch

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


def loss_scaler(device: torch.device, enabled: bool, requested: str = AUTO) -> torch.amp.GradScaler:
    """Return the loss scaler of float16; it does nothing in any other precision."""
    needed = enabled and low_precision(device, requested) is torch.float16
    return torch.amp.GradScaler(device.type, enabled=needed)
