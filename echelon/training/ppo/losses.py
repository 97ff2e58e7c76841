"""Terms of the clipped PPO objective (Schulman et al., 2017) over weighted steps, in float32.

Weights say how much a step counts and sum to 1 over a minibatch, so terms of micro-batches add up to those of the
minibatch. Shapes: ``L chunk step, B sequence``; everything is ``[L, B]`` unless noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.config import PPOConfig
from echelon.rl.actor_critic import SequenceScores
from echelon.rl.host_reads import reads_are_free
from echelon.sim.arsenal import Chassis
from echelon.training.runtime.process_group import ProcessGroup

SINGLE_PROCESS = ProcessGroup()

Moments = tuple[Tensor, Tensor, Tensor]
"""Mean, standard deviation and count."""
Gradient = Sequence[Tensor | None]
"""One tensor per parameter, in the parameter's shape; None for a parameter that is not part of the loss."""


class LossInputs(NamedTuple):
    """Inputs of the loss terms, each ``[L, B]``; values and returns are on the scale of the value loss."""

    advantages: Tensor
    returns: Tensor
    old_logprobs: Tensor
    logprobs: Tensor
    values: Tensor
    entropies: Tensor
    policy_weights: Tensor
    """0 for dead mechs and in burn-in steps."""
    value_weights: Tensor
    """0 in burn-in steps only."""
    imitation_losses: Tensor | None = None
    """Negative log-likelihood of the teacher's actions; None without labels."""
    weighted_entropies: Tensor | None = None
    """Entropies with the factors of their parts, which the bonus is made of; None where every factor is 1."""


class LossTerms(NamedTuple):
    """Scalars of a minibatch or of one of its micro-batches."""

    loss: Tensor
    pg_loss: Tensor
    vf_loss: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clipfrac: Tensor
    aux_loss: Tensor
    imitation_loss: Tensor


def ppo_terms(
    x: LossInputs, clip_coef: float, ent_coef: float | Tensor, vf_coef: float, imitation_coef: float | Tensor = 0.0
) -> LossTerms:
    """Return the loss and its parts, inputs ``[L, B]``; diagnostics carry no gradient.

    ``ent_coef`` and ``imitation_coef`` follow a schedule: as tensors they can change in a captured graph too.
    """
    log_ratio = x.logprobs - x.old_logprobs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_coef, 1.0 + clip_coef)
    pg_loss = (x.policy_weights * torch.maximum(-x.advantages * ratio, -x.advantages * clipped)).sum()
    vf_loss = 0.5 * (x.value_weights * (x.returns - x.values).square()).sum()
    entropy = bonus = (x.policy_weights * x.entropies).sum()
    if x.weighted_entropies is not None:
        bonus = (x.policy_weights * x.weighted_entropies).sum()
    loss = pg_loss - ent_coef * bonus + vf_coef * vf_loss
    with torch.no_grad():
        approx_kl = (x.policy_weights * ((ratio - 1.0) - log_ratio)).sum()
        clipfrac = (x.policy_weights * ((ratio - 1.0).abs() > clip_coef)).sum()
    zero = torch.zeros_like(loss)
    terms = LossTerms(loss, pg_loss, vf_loss, entropy, approx_kl, clipfrac, zero, zero)
    if x.imitation_losses is None:
        return terms
    imitation_loss = (x.policy_weights * x.imitation_losses).sum()
    return terms._replace(loss=loss + imitation_coef * imitation_loss, imitation_loss=imitation_loss)


def weighted_entropies(scores: SequenceScores, cfg: PPOConfig) -> Tensor | None:
    """Return the entropies ``[L, B]`` with switches and selectors scaled by their factors; None where both are 1."""
    switches, selectors = cfg.ent_factor_switches - 1.0, cfg.ent_factor_selectors - 1.0
    if not switches and not selectors:
        return None
    return scores.entropies + switches * scores.switch_entropies + selectors * scores.selector_entropies


def imitation_terms(x: LossInputs, imitation_coef: float | Tensor, vf_coef: float) -> LossTerms:
    """Return the loss of imitation and value regression and its parts, inputs ``[L, B]``; actions are not scored.

    The value is regressed on the returns of every environment, whoever acts there: where the learner does they are its
    own, elsewhere those of the policy that it becomes.
    """
    assert x.imitation_losses is not None, "imitation needs labels"
    imitation_loss = (x.policy_weights * x.imitation_losses).sum()
    vf_loss = 0.5 * (x.value_weights * (x.returns - x.values).square()).sum()
    entropy = (x.policy_weights * x.entropies).sum().detach()
    loss, zero = imitation_coef * imitation_loss + vf_coef * vf_loss, torch.zeros_like(vf_loss)
    return LossTerms(loss, zero, vf_loss, entropy, zero, zero, zero, imitation_loss)


def prediction_terms(predicted: Tensor, observed: Tensor, starts: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sum of 0.5 squared errors of next observations ``[L, B, D]``.

    ``starts [L, B]`` is 1 where the observed step starts an episode: such pairs do not count.
    """
    error = 0.5 * (predicted - observed).square().mean(-1)
    return (weight * (1.0 - starts) * error).sum()


def normalize_advantages(advantages: Tensor, alive: Tensor, eps: float, group: ProcessGroup = SINGLE_PROCESS) -> None:
    """Standardize ``advantages [T, N]`` in place over the living steps ``alive [T, N]`` of all ranks."""
    mean, std, _ = _moments(advantages, alive, group)
    advantages.sub_(mean).div_(std + eps)


def normalize_advantages_per_role(
    advantages: Tensor, alive: Tensor, roles: Tensor, eps: float, group: ProcessGroup = SINGLE_PROCESS
) -> None:
    """Standardize ``advantages [T, N]`` in place within each role ``[N]``, over living steps ``alive [T, N]``.

    A role with fewer than two living steps uses the moments of all roles.
    """
    shared = _moments(advantages, alive, group)
    if not reads_are_free(advantages.device):
        _normalize_roles_on_device(advantages, alive, roles, eps, group, shared)
        return
    for role in sorted({role for roles_of_rank in group.all_gather(roles.unique().tolist()) for role in roles_of_rank}):
        rows = (roles == role).nonzero().flatten()
        part = advantages[:, rows]
        of_role = _moments(part, alive[:, rows], group)
        mean, std, _ = of_role if float(of_role[2]) >= 2 else shared
        advantages[:, rows] = (part - mean) / (std + eps)


def _normalize_roles_on_device(
    advantages: Tensor, alive: Tensor, roles: Tensor, eps: float, group: ProcessGroup, shared: Moments
) -> None:
    """Do what ``normalize_advantages_per_role`` does for every class of the game, by weights instead of rows."""
    before = advantages.clone()
    for role in Chassis:
        own = (roles == int(role)).to(alive.dtype)
        of_role = _moments(before, alive * own, group)
        mean, std = (torch.where(of_role[2] >= 2, x, y) for x, y in zip(of_role[:2], shared[:2], strict=True))
        advantages.copy_(torch.where(own > 0, (before - mean) / (std + eps), advantages))


def largest_advantages(advantages: Tensor, living: Tensor, share: float) -> Tensor:
    """Return 1 for the ``share`` of the steps ``living [T, N]`` with the largest magnitude of ``advantages [T, N]``.

    At least one step has 1, if any is living; steps as large as the smallest of them have 1 too.
    """
    if not reads_are_free(advantages.device):
        ranked = torch.where(living > 0, advantages.abs(), -1.0).flatten().sort(descending=True).values
        last = (share * (living > 0).sum()).round().long().clamp_min(1) - 1
        return living * (advantages.abs() >= ranked.gather(0, last.view(1)))
    magnitudes = advantages.abs()[living > 0]
    count = magnitudes.numel()
    if not count:
        return living
    smallest = magnitudes.kthvalue(count - max(1, round(share * count)) + 1).values
    return living * (advantages.abs() >= smallest)


def _moments(x: Tensor, weight: Tensor, group: ProcessGroup) -> Moments:
    """Return mean, standard deviation and count of samples of weight 1; 0 and 1 for fewer than two samples."""
    count = weight.sum()
    mean = (x * weight).sum() / count.clamp_min(1.0)
    squares = ((x - mean).square() * weight).sum()
    count, mean, squares = group.merge_moments(count, mean, squares)
    few, std = count < 2, (squares / (count - 1)).sqrt()
    return torch.where(few, 0.0, mean), torch.where(few, 1.0, std), count
