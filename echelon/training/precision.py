"""Which lower precision a device has in hardware, and the context that uses it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch

CPU_FEATURES = ("avx512_bf16", "amx_bf16", "sve_bf16", "bf16")
"""Capabilities of a CPU that multiply bfloat16 in hardware."""


@cache
def has_bfloat16(device: torch.device) -> bool:
    """Say whether ``device`` computes in bfloat16 faster than in float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    features = getattr(torch.cpu, "get_capabilities", dict)()
    return any(features.get(name, False) for name in CPU_FEATURES)


def mixed_precision(device: torch.device, enabled: bool) -> AbstractContextManager[Any]:
    """Return the autocast context; it does nothing where it is not wanted or the device has no bfloat16."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled and has_bfloat16(device))
