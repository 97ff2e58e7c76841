"""The terms of the clipped objective (Schulman et al., 2017) over weighted steps, in float32.

Weights say how much a step counts and sum to one over a minibatch, so that a minibatch may be evaluated in
shards whose terms simply add up. Everything is ``[L, B]``: ``L chunk step, B sequence``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from echelon.training.runtime.process_group import ProcessGroup

ALONE = ProcessGroup()


class LossInputs(NamedTuple):
    """What the terms are made of; values and returns are on the scale of the value loss."""

    advantages: Tensor
    returns: Tensor
    old_logprobs: Tensor
    logprobs: Tensor
    values: Tensor
    entropies: Tensor
    policy_weights: Tensor
    """Zero for dead mechs and while burning in."""
    value_weights: Tensor
    """Zero only while burning in."""


class LossTerms(NamedTuple):
    """Scalars of a minibatch or of one of its shards."""

    loss: Tensor
    pg_loss: Tensor
    vf_loss: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clipfrac: Tensor
    aux_loss: Tensor


def ppo_terms(x: LossInputs, clip_coef: float, ent_coef: float | Tensor, vf_coef: float) -> LossTerms:
    """Return the loss and its parts, inputs ``[L, B]``; diagnostics carry no gradient.

    The entropy bonus changes while training goes on: as a tensor it does so in recorded evaluations too.
    """
    log_ratio = x.logprobs - x.old_logprobs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_coef, 1.0 + clip_coef)
    pg_loss = (x.policy_weights * torch.maximum(-x.advantages * ratio, -x.advantages * clipped)).sum()
    vf_loss = 0.5 * (x.value_weights * (x.returns - x.values).square()).sum()
    entropy = (x.policy_weights * x.entropies).sum()
    loss = pg_loss - ent_coef * entropy + vf_coef * vf_loss
    with torch.no_grad():
        approx_kl = (x.policy_weights * ((ratio - 1.0) - log_ratio)).sum()
        clipfrac = (x.policy_weights * ((ratio - 1.0).abs() > clip_coef)).sum()
    return LossTerms(loss, pg_loss, vf_loss, entropy, approx_kl, clipfrac, torch.zeros_like(loss))


def prediction_terms(predicted: Tensor, observed: Tensor, starts: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sum of 0.5 squared errors of next observations ``[L, B, D]``.

    ``starts [L, B]`` marks observed steps that begin an episode: no pair crosses a boundary.
    """
    error = 0.5 * (predicted - observed).square().mean(-1)
    return (weight * (1.0 - starts) * error).sum()


def normalize_advantages(advantages: Tensor, alive: Tensor, eps: float, world: ProcessGroup = ALONE) -> None:
    """Give the living steps ``[T, N]`` of all processes mean 0 and standard deviation 1, in place."""
    mean, std, _ = _moments(advantages, alive, world)
    advantages.sub_(mean).div_(std + eps)


def normalize_advantages_per_role(
    advantages: Tensor, alive: Tensor, roles: Tensor, eps: float, world: ProcessGroup = ALONE
) -> None:
    """Do so within each role ``[N]``; a role with fewer than two living steps uses the moments of all."""
    shared = _moments(advantages, alive, world)
    for role in sorted({role for found in world.all_gather(roles.unique().tolist()) for role in found}):
        rows = (roles == role).nonzero().flatten()
        part = advantages[:, rows]
        own = _moments(part, alive[:, rows], world)
        mean, std, _ = own if own[2] >= 2 else shared
        advantages[:, rows] = (part - mean) / (std + eps)


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """Return the share of the variance of ``returns [T, N]`` that the values explain; 0 where returns do not vary."""
    spread = float(returns.var(correction=0))
    return 1.0 - float((returns - values).var(correction=0)) / spread if spread > 0 else 0.0


def _moments(x: Tensor, weight: Tensor, world: ProcessGroup) -> tuple[Tensor, Tensor, float]:
    """Return mean, standard deviation and count of what has weight 1; 0 and 1 for fewer than two samples."""
    count = weight.sum()
    mean = (x * weight).sum() / count.clamp_min(1.0)
    spread = ((x - mean).square() * weight).sum()
    count, mean, spread = world.merge(count, mean, spread)
    if float(count) < 2:
        return torch.zeros_like(count), torch.ones_like(count), float(count)
    return mean, (spread / (count - 1)).sqrt(), float(count)
