"""Running observation normalizer, part of a policy; the trainer updates its statistics.

Only normalizable columns are scaled: masks, one-hots, flags and maps pass unchanged; hidden columns become 0.
Statistics, scale and shift are buffers of the module, so they are saved with the weights and constant outside of
training. Shape: ``D column``.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

NORM_EPS = 1e-8
OBS_CLIP = 10.0


class ObsNormalizer(nn.Module):
    """Shift and scale the columns of observations ``[..., D]``, clipped to +-10."""

    mean: Tensor
    var: Tensor
    count: Tensor
    normalizable: Tensor
    hidden: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(self, obs_dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(obs_dim, dtype=torch.float64))
        self.register_buffer("var", torch.ones(obs_dim, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("normalizable", torch.zeros(obs_dim, dtype=torch.bool))
        self.register_buffer("hidden", torch.zeros(obs_dim, dtype=torch.bool), persistent=False)
        self.register_buffer("scale", torch.ones(obs_dim))
        self.register_buffer("shift", torch.zeros(obs_dim))

    def set_normalizable(self, columns: Tensor) -> None:
        """Choose the normalized columns ``[D] bool``."""
        self.normalizable.copy_(columns)
        self.refresh()

    def set_hidden(self, columns: Sequence[int]) -> None:
        self.hidden.zero_()
        self.hidden[list(columns)] = True
        self.refresh()

    def refresh(self) -> None:
        """Recompute scale and shift from the statistics; call it after changing them."""
        scale = torch.where(self.normalizable, 1.0 / (self.var.sqrt() + NORM_EPS), 1.0)
        scale = torch.where(self.hidden, 0.0, scale)
        self.scale.copy_(scale)
        self.shift.copy_(torch.where(self.normalizable, -self.mean * scale, 0.0))

    def forward(self, obs: Tensor) -> Tensor:
        """Return normalized observations ``[..., D]``."""
        return self.part(obs, 0, obs.shape[-1])

    def part(self, obs: Tensor, first: int, end: int) -> Tensor:
        """Return the normalized columns ``[first, end)`` of ``obs [..., D]``."""
        columns = slice(first, end)
        return normalized(obs[..., columns], self.scale[columns], self.shift[columns])


def normalized(columns: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return ``columns * scale + shift``, of any shape, clipped; in float32 also where the columns are bfloat16."""
    # autocast would first store the columns in float32
    with torch.autocast(columns.device.type, enabled=False) if columns.dtype is not scale.dtype else nullcontext():
        result = torch.addcmul(shift, columns, scale)
    # unlike clamp_, of the same result, it can be mapped over policies
    return functional.hardtanh_(result, -OBS_CLIP, OBS_CLIP)
