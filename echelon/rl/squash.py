"""Squashed Gaussian over actions: sample, log-probability and entropy with one epsilon.

Actions are ``tanh`` of a Gaussian draw, clamped ``TANH_EPS`` inside the borders. The pre-squash value is always
recovered from the stored action, so re-evaluating an action under unchanged weights gives ratio 1. Everything is
computed in float32 or wider, also under autocast. Shapes: ``... rows, A action``.
"""

import math

import torch
from torch import Tensor

from echelon.config import TANH_EPS

LOG_STD_MIN = -20.0
LOG_STD_MAX = 2.0
UNIFORM_MIN = 1e-7
"""Smallest distance of uniform draws of the Gumbel trick from 0 and 1."""
_LOG_2PI = math.log(2.0 * math.pi)


def full_precision(x: Tensor) -> Tensor:
    """Return ``x``, of any shape, in float32, or unchanged if it is wider."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def squash(u: Tensor) -> Tensor:
    """Return the action of pre-squash values ``u [..., A]``, inside (-1, 1)."""
    return torch.tanh(u).clamp(-1.0 + TANH_EPS, 1.0 - TANH_EPS)


def unsquash(action: Tensor) -> Tensor:
    """Return the pre-squash values of ``action [..., A]``; borders map to about 7.254 in magnitude."""
    return unsquash_with_borders(action)[0]


def unsquash_with_borders(action: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pre-squash values of ``action [..., A]``, and the action inside the borders that they belong to."""
    x = full_precision(action).clamp(-1.0 + TANH_EPS, 1.0 - TANH_EPS)
    return 0.5 * (torch.log1p(x) - torch.log1p(-x)), x


def log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Return the log density ``[...]`` of ``action [..., A]``, the Jacobian of tanh included."""
    mean, log_std = full_precision(mean), full_precision(log_std)
    u, inside = unsquash_with_borders(action)
    gauss = -0.5 * ((u - mean) * torch.exp(-log_std)).square() - log_std - 0.5 * _LOG_2PI
    return (gauss - log_slope(inside)).sum(-1)


def entropy(mean: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
    """Return a one-sample estimate ``[...]`` of the squashed entropy from standard normal ``noise [..., A]``.

    The draw is reparametrised, so the estimate has a gradient through mean and log standard deviation.
    """
    mean, log_std = full_precision(mean), full_precision(log_std)
    gauss = 0.5 * (1.0 + _LOG_2PI) + log_std
    return (gauss + log_slope(torch.tanh(mean + torch.exp(log_std) * noise))).sum(-1)


def sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
    """Return the action ``[..., A]`` drawn with standard normal ``noise [..., A]``."""
    mean, log_std = full_precision(mean), full_precision(log_std)
    return squash(mean + torch.exp(log_std) * noise)


def gumbel(noise: Tensor) -> Tensor:
    """Return standard Gumbel draws ``[...]`` made from standard normal ``noise [...]``."""
    uniform = torch.special.ndtr(noise).clamp(UNIFORM_MIN, 1.0 - UNIFORM_MIN)
    return -torch.log(-torch.log(uniform))


def log_slope(a: Tensor) -> Tensor:
    """Return the logarithm of the slope of tanh where it is ``a``, of any shape."""
    return torch.log((1.0 - a * a).clamp_min(TANH_EPS))
