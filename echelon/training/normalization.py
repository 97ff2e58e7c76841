"""Running statistics of returns (for the value loss) and of observations (for the policy's input).

Batches are merged by the parallel formula of Chan, Golub and LeVeque (1979), in float64. The observation normalizer is
part of the policy (``echelon.rl.obs_norm``); ``update_obs_normalizer`` updates its statistics, and
``update_obs_normalizer_stepwise`` does so without a read of the device.
"""

from typing import Any

import torch
from torch import Tensor

from echelon.rl.obs_norm import NORM_EPS, ObsNormalizer
from echelon.training.runtime.process_group import ProcessGroup

START_COUNT = 1e-4
"""Weight of the initial mean 0 and variance 1."""


class RunningMeanStd:
    """Running mean and variance per element of ``shape``."""

    def __init__(
        self,
        epsilon: float = START_COUNT,
        shape: tuple[int, ...] = (),
        device: torch.device | str = "cpu",
        group: ProcessGroup | None = None,
    ) -> None:
        self._group = group or ProcessGroup()
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self.var = torch.ones(shape, dtype=torch.float64, device=device)
        self.count = torch.full((), epsilon, dtype=torch.float64, device=device)

    def update(self, batch: Tensor) -> None:
        """Merge the ``batch [n, *shape]`` of every rank; an empty one changes nothing."""
        samples = batch.detach().reshape(-1, *self.mean.shape).to(self.mean)
        count = samples.shape[0]
        if self._group.is_single:
            if count:
                var, mean = torch.var_mean(samples, 0, correction=int(count > 1))
                self.merge(mean, var, count)
            return
        mean = samples.sum(0) / max(count, 1)
        squares = (samples - mean).square().sum(0)
        total, mean, squares = self._group.merge_moments(self.count.new_tensor(count), mean, squares)
        if float(total):
            self.merge(mean, squares / (total - 1).clamp_min(1.0), total)

    def update_weighted(self, samples: Tensor, weights: Tensor) -> None:
        """Merge the ``samples [..., *shape]`` of weight 1 in ``weights [...]`` of every rank, without reading them."""
        samples = samples.detach().reshape(-1, *self.mean.shape).to(self.mean)
        weights = weights.to(self.mean).reshape(-1, *[1] * self.mean.dim())
        samples = torch.where(weights > 0, samples, 0.0)
        count = weights.sum()
        mean = samples.sum(0) / count.clamp_min(1.0)
        squares = ((samples - mean).square() * weights).sum(0)
        total, mean, squares = self._group.merge_moments(count, mean, squares)
        self.merge(mean, squares / (total - 1).clamp_min(1.0), total)

    def merge(self, mean: Tensor, var: Tensor, count: int | Tensor) -> None:
        """Merge a batch given by its mean and variance ``[*shape]`` and its count."""
        total = self.count + count
        delta = mean - self.mean
        squares = self.var * self.count + var * count + delta.square() * self.count * count / total
        self.mean.copy_(self.mean + delta * count / total)
        self.var.copy_(squares / total)
        self.count.copy_(total)

    def normalize(self, x: Tensor) -> Tensor:
        """Return ``(x - mean) / (std + 1e-8)`` in the dtype of ``x [..., *shape]``; gradients pass."""
        return (x - self.mean.to(x.dtype)) / (self.var.sqrt().to(x.dtype) + NORM_EPS)

    def state_dict(self) -> dict[str, Tensor]:
        return {"mean": self.mean.clone(), "var": self.var.clone(), "count": self.count.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned, in place: captured graphs read these tensors."""
        for name, target in (("mean", self.mean), ("var", self.var), ("count", self.count)):
            target.copy_(torch.as_tensor(state[name]))


class ReturnNormalizer(RunningMeanStd):
    """Scalar running statistics of all returns, which scale the value loss."""

    def __init__(
        self, epsilon: float = START_COUNT, device: torch.device | str = "cpu", group: ProcessGroup | None = None
    ) -> None:
        super().__init__(epsilon, device=device, group=group)

    def update(self, returns: Tensor) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Merge ``returns`` of any shape."""
        super().update(returns)


@torch.no_grad()
def update_obs_normalizer(
    normalizer: ObsNormalizer, obs: Tensor, alive: Tensor, group: ProcessGroup | None = None
) -> None:
    """Merge the rows of ``obs [T, N, D]`` where ``alive [T, N]``, of every rank, into the statistics."""
    group = group or ProcessGroup()
    columns = normalizer.normalizable.nonzero().flatten()
    rows = alive.bool()
    if columns.numel() == 0 or (group.is_single and not bool(rows.any())):
        return
    rms = RunningMeanStd(0.0, (columns.numel(),), device=obs.device, group=group)
    rms.mean, rms.var = normalizer.mean[columns], normalizer.var[columns]
    rms.count = torch.clamp_min(normalizer.count, START_COUNT)
    rms.update(obs[..., columns][rows])
    normalizer.mean[columns] = rms.mean
    normalizer.var[columns] = rms.var
    normalizer.count.copy_(rms.count)
    normalizer.refresh()


@torch.no_grad()
def update_obs_normalizer_stepwise(normalizer: ObsNormalizer, obs: Tensor, alive: Tensor, group: ProcessGroup) -> None:
    """Do what ``update_obs_normalizer`` does for each step of ``obs [T, N, D]``, without a read or a copy of all."""
    width = normalizer.mean.shape[0]
    rms = RunningMeanStd(0.0, (width,), device=obs.device, group=group)
    rms.mean, rms.var = normalizer.mean.clone(), normalizer.var.clone()
    rms.count = torch.clamp_min(normalizer.count, START_COUNT)
    for rows, living in zip(obs, alive, strict=True):
        rms.update_weighted(rows[:, :width], living)
    columns = normalizer.normalizable
    normalizer.mean.copy_(torch.where(columns, rms.mean, normalizer.mean))
    normalizer.var.copy_(torch.where(columns, rms.var, normalizer.var))
    normalizer.count.copy_(rms.count)
    normalizer.refresh()
