"""Log-probability and entropy of the parts of an action in one pass, with their gradients written out.

The parts have few columns, so that automatic differentiation would spend more time between operations than in them.
Each function equals the log-probability and the entropy of ``ActionDistribution``, which are differentiated
automatically. Shapes: ``... rows, G column of numbers, W switch, S selector, K choice``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from echelon.rl import squash
from echelon.rl.action_columns import Run, put, take

LOG_PROB_MIN = -80.0
"""Log-probability of an unavailable choice; the exponential of a smaller one underflows, which CPUs compute slowly."""
NO_PROBABILITY = 1e-30
"""Probability below which a choice has no gradient: products with it would underflow."""
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

Scores = tuple[Tensor, Tensor]
"""Log-probability and entropy ``[...]``."""


def score_numbers(mean: Tensor, log_std: Tensor, action: Tensor, noise: Tensor) -> Scores:
    """Return ``squash.log_prob`` of ``action [..., G]`` and ``squash.entropy`` with ``noise [..., G]``."""
    return _Numbers.apply(*map(squash.full_precision, (mean, log_std, action, noise)))  # type: ignore[return-value]


def score_switches(logit: Tensor, on: Tensor) -> Scores:
    """Return log-probability and entropy ``[...]`` of switches with ``logit [..., W]`` that are ``on [..., W]``."""
    return _Switches.apply(squash.full_precision(logit), on)  # type: ignore[return-value]


def score_choices(logits: Tensor, choice: Tensor) -> Scores:
    """Return log-probability and entropy ``[...]`` of choices ``[..., S, 1]`` from ``logits [..., S, K]``."""
    return _Choices.apply(logits, choice)  # type: ignore[return-value]


def take_columns(x: Tensor, runs: tuple[Run, ...]) -> Tensor:
    """Return ``take(x, runs)`` of ``x [..., A]``, whose gradient is written at once instead of run by run."""
    if len(runs) == 1 and runs[0] == (0, x.shape[-1]):
        return x
    return _Take.apply(x, runs)  # type: ignore[return-value]


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probabilities ``[..., K]``, at least about ``LOG_PROB_MIN``; faster than torch's for few choices."""
    shifted = (logits - logits.detach().amax(-1, keepdim=True)).clamp_min(LOG_PROB_MIN)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()


class _Numbers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_std: Tensor, action: Tensor, noise: Tensor) -> Scores:  # pyright: ignore
        """Return log-probability and entropy ``[...]``."""
        u, borders = squash.unsquash_with_borders(action)
        inverse, std = torch.exp(-log_std), torch.exp(log_std)
        z = (u - mean) * inverse
        gauss = -0.5 * z.square() - log_std - _HALF_LOG_2PI
        drawn = torch.tanh(mean + std * noise)
        slope = (1.0 - drawn * drawn).clamp_min(squash.TANH_EPS)
        ctx.save_for_backward(z, inverse, drawn, slope, std, noise)
        width = (0.5 + _HALF_LOG_2PI) + log_std
        return (gauss - squash.log_slope(borders)).sum(-1), (width + torch.log(slope)).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprob: Tensor, entropy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Return the gradients of mean and log standard deviation ``[..., G]``."""
        z, inverse, drawn, slope, std, noise = ctx.saved_tensors
        logprob, entropy = logprob.unsqueeze(-1), entropy.unsqueeze(-1)
        pull = torch.mul(drawn, entropy).mul_(-2.0).mul_(slope > squash.TANH_EPS)
        mean = torch.addcmul(pull, z * inverse, logprob)
        return mean, (z.square() - 1.0).mul_(logprob).add_(entropy).addcmul_(pull, std * noise), None, None


class _Switches(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logit: Tensor, on: Tensor) -> Scores:  # pyright: ignore
        """Return log-probability and entropy ``[...]``."""
        softplus, share, on = functional.softplus(logit), torch.sigmoid(logit), on.to(logit.dtype)
        ctx.save_for_backward(logit, on, share)
        return (logit * on - softplus).sum(-1), (softplus - logit * share).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprob: Tensor, entropy: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        """Return the gradient of the logits ``[..., W]``."""
        logit, on, share = ctx.saved_tensors
        spread = (share - share.square()).mul_(logit).mul_(entropy.unsqueeze(-1))
        return (on - share).mul_(logprob.unsqueeze(-1)).sub_(spread), None


class _Choices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, choice: Tensor) -> Scores:  # pyright: ignore
        """Return log-probability and entropy ``[...]``."""
        log_share = log_softmax(logits)
        share = log_share.exp()
        weighted = share * log_share
        ctx.save_for_backward(log_share, share, weighted, choice)
        return log_share.gather(-1, choice).sum((-2, -1)), -weighted.sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprob: Tensor, entropy: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        """Return the gradient of the logits ``[..., S, K]``."""
        log_share, share, weighted, choice = ctx.saved_tensors
        logprob, entropy = (x.unsqueeze(-1).unsqueeze(-1) for x in (logprob, entropy))
        surprise = (log_share - weighted.sum(-1, keepdim=True)).mul_(entropy).add_(logprob)
        slopes = torch.threshold(share, NO_PROBABILITY, 0.0).mul_(surprise).neg_()
        return slopes.scatter_add_(-1, choice, logprob.expand(choice.shape)), None


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, runs: tuple[Run, ...]) -> Tensor:  # pyright: ignore
        """Return the columns of ``x [..., A]`` in ``runs``."""
        ctx.runs, ctx.shape = runs, x.shape
        return take(x, runs).clone() if len(runs) == 1 else take(x, runs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        """Return the gradient of ``x [..., A]``."""
        slopes = grad.new_zeros(ctx.shape)
        put(slopes, grad, ctx.runs)
        return slopes, None
