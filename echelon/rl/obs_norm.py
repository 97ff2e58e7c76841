"""The running observation normaliser that travels with a policy; its statistics are updated by the trainer.

Only columns marked normalizable are touched: masks, one-hots, flags and maps pass as they are. Statistics are
buffers of the module, so they are saved with the weights and frozen wherever nobody updates them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

NORM_EPS = 1e-8
OBS_CLIP = 10.0


class ObsNormalizer(nn.Module):
    """Shift and scale observations ``[..., D]`` column by column, clipped to +-10."""

    mean: Tensor
    var: Tensor
    count: Tensor
    normalizable: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(self, obs_dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(obs_dim, dtype=torch.float64))
        self.register_buffer("var", torch.ones(obs_dim, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("normalizable", torch.zeros(obs_dim, dtype=torch.bool))
        self.register_buffer("scale", torch.ones(obs_dim))
        self.register_buffer("shift", torch.zeros(obs_dim))

    def set_normalizable(self, columns: Tensor) -> None:
        """Choose the columns ``[D] bool`` that are normalised."""
        self.normalizable.copy_(columns)
        self.refresh()

    def refresh(self) -> None:
        """Derive scale and shift from the statistics; call after changing them."""
        scale = torch.where(self.normalizable, 1.0 / (self.var.sqrt() + NORM_EPS), 1.0)
        self.scale.copy_(scale)
        self.shift.copy_(torch.where(self.normalizable, -self.mean * scale, 0.0))

    def forward(self, obs: Tensor) -> Tensor:
        """Return the normalised observations ``[..., D]``."""
        return torch.addcmul(self.shift, obs, self.scale).clamp_(-OBS_CLIP, OBS_CLIP)
