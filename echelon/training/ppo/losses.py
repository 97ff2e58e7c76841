"""The clipped PPO objective (Schulman et al., 2017) over weighted steps, in float32, and its gradients.

Weights say how much a step counts and sum to 1 over a minibatch, so terms and gradients of micro-batches add up to
those of the minibatch. Shapes: ``T step, N learner row, L chunk step, B sequence, D observation, A action``; everything
is ``[L, B]`` unless noted.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from echelon.config import PPOConfig
from echelon.rl.actor_critic import SequenceScores
from echelon.rl.lstm_state import LSTMState
from echelon.rl.packed_obs import PackedRows
from echelon.rl.regime import HOST, Regime, compiled, sharing_weights
from echelon.training.rollout import Minibatch, chunk_spans
from echelon.training.runtime.devices import loss_scaler, mixed_precision
from echelon.training.runtime.process_group import ProcessGroup

CHECKPOINTED_STEPS = 8
"""Steps whose activations exist at the same time with activation checkpointing."""
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
    """0 where ``value_weights`` is, and for advantages below ``ppo.advantage_share``."""
    value_weights: Tensor
    """0 for dead mechs and in burn-in steps."""
    imitation_losses: Tensor | None = None
    """Negative log-likelihood of the teacher's actions; None without labels."""


class Coefficients(NamedTuple):
    """Numbers of the loss of a minibatch; ``imitates``: it has no policy loss. Values are scaled, then shifted."""

    clip: float
    entropy: float
    value: float
    imitation: float
    value_scale: float
    value_shift: float
    imitates: float


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
    entropy = (x.policy_weights * x.entropies).sum()
    loss = pg_loss - ent_coef * entropy + vf_coef * vf_loss
    with torch.no_grad():
        approx_kl = (x.policy_weights * ((ratio - 1.0) - log_ratio)).sum()
        clipfrac = (x.policy_weights * ((ratio - 1.0).abs() > clip_coef)).sum()
    zero = torch.zeros_like(loss)
    terms = LossTerms(loss, pg_loss, vf_loss, entropy, approx_kl, clipfrac, zero, zero)
    if x.imitation_losses is None:
        return terms
    imitation_loss = (x.policy_weights * x.imitation_losses).sum()
    return terms._replace(loss=loss + imitation_coef * imitation_loss, imitation_loss=imitation_loss)


def imitation_terms(x: LossInputs, imitation_coef: float | Tensor, vf_coef: float) -> LossTerms:
    """Return the loss of imitation and value regression and its parts, inputs ``[L, B]``; actions are not scored.

    The value is regressed on the returns of all environments, also of those in which the teacher acts.
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
    mean, std, _ = moments(advantages, alive, group)
    advantages.sub_(mean).div_(std + eps)


def normalize_advantages_per_role(
    advantages: Tensor, alive: Tensor, role_rows: Sequence[Tensor], eps: float, group: ProcessGroup = SINGLE_PROCESS
) -> None:
    """Standardize ``advantages [T, N]`` in place within the rows of each role, over living steps ``alive [T, N]``.

    A role with fewer than two living steps uses the moments of all roles.
    """
    shared = moments(advantages, alive, group)
    for rows in role_rows:
        part = advantages[:, rows]
        of_role = moments(part, alive[:, rows], group)
        mean, std = (torch.where(of_role[2] >= 2, own, all_) for own, all_ in zip(of_role[:2], shared[:2], strict=True))
        advantages[:, rows] = (part - mean) / (std + eps)


def largest_advantages(advantages: Tensor, living: Tensor, share: float) -> Tensor:
    """Return 1 for the ``share`` of the steps ``living [T, N]`` with the largest magnitude of ``advantages [T, N]``.

    At least one step has 1, if any is living; steps as large as the smallest of them have 1 too.
    """
    ranked = torch.where(living > 0, advantages.abs(), -1.0).flatten().sort(descending=True).values
    last = (share * (living > 0).sum().double()).round().long().clamp_min(1) - 1
    return living * (advantages.abs() >= ranked.gather(0, last.view(1)))


def moments(x: Tensor, weight: Tensor, group: ProcessGroup) -> Moments:
    """Return mean, standard deviation and count of ``x [T, N]`` where ``weight [T, N]`` is 1, over all ranks.

    Mean and deviation are 0 and 1 for fewer than two samples.
    """
    count = weight.sum()
    mean = (x * weight).sum() / count.clamp_min(1.0)
    squares = ((x - mean).square() * weight).sum()
    count, mean, squares = group.merge_moments(count, mean, squares)
    few, std = count < 2, (squares / (count - 1)).sqrt()
    return torch.where(few, 0.0, mean), torch.where(few, 1.0, std), count


Report = Callable[[str, LossTerms | None], None]
"""Handles a loss, with its terms, or a gradient that is not finite; its first argument says where."""


@dataclass
class UpdateStats:
    """Statistics that an update collects over its minibatches and optimizer steps."""

    terms: list[LossTerms] = field(default_factory=list)
    """Those of finite minibatches."""
    grad_norms: list[float] = field(default_factory=list)
    """Norm before clipping of every optimizer step."""
    overflows: int = 0


class Gradients:
    """The terms and gradients of minibatches, and of their micro-batches, which add up to them.

    ``terms`` turns the scores of a chunk into loss terms. The differentiable path begins at the stored observations,
    actions and recurrent state of a chunk; whatever was computed in the rollout is constant.
    """

    def __init__(
        self,
        model: nn.Module,
        config: PPOConfig,
        device: torch.device,
        terms: Callable[[LossInputs], LossTerms],
        coefficients: Callable[[], Coefficients],
    ) -> None:
        """``terms`` and ``coefficients`` are those of the coming minibatch, in plain torch and as numbers."""
        self.model: Any = model
        self.config, self.device, self._terms, self.coefficients = config, device, terms, coefficients
        self.regime: Regime = getattr(model, "regime", HOST)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.scaler = loss_scaler(device, config.amp, config.amp_dtype)
        self.score: Callable[..., Any] = self.model.score_sequence
        if config.compile:
            twin: Any = sharing_weights(model, compiled(self.regime))
            self.score = torch.compile(twin.score_sequence, fullgraph=True)

    @property
    def captures(self) -> bool:
        """Whether the work of minibatches is captured as CUDA graphs."""
        return self.config.capture and self.regime.captures

    def precision(self) -> AbstractContextManager[Any]:
        return mixed_precision(self.device, self.config.amp, self.config.amp_dtype)

    def micro_batch_gradient(self, batch: Minibatch, part: slice) -> tuple[LossTerms, Gradient | None]:
        """Return terms and gradients of the sequences ``part``; no gradients if the loss is not finite."""
        with torch.enable_grad():
            terms = self._terms_of(batch, part)
            if not bool(terms.loss.isfinite()):
                return _detached(terms), None
            return _detached(terms), self._gradient(terms)

    def whole_gradient(self, batch: Minibatch) -> tuple[LossTerms, Gradient]:
        """Return terms and gradients of a minibatch, finite or not, without reading a value from the device."""
        with torch.enable_grad():
            terms = self._terms_of(batch, slice(None))
            return _detached(terms), self._gradient(terms)

    def _gradient(self, terms: LossTerms) -> Gradient:
        loss = self.scaler.scale(terms.loss)
        return torch.autograd.grad(loss, self.parameters, allow_unused=True)

    def _terms_of(self, batch: Minibatch, part: slice) -> LossTerms:
        dones = batch.dones[:, part]
        state = LSTMState(batch.state.h[:, part], batch.state.c[:, part])
        chosen = None if self.config.activation_checkpointing else _living(batch, part)
        living = chosen if batch.living is None else batch.living

        def of(x: Any) -> Any:
            if batch.living is not None:
                return x
            return x[:, part] if chosen is None else x[:, part].flatten(0, 1)[chosen]

        obs = of(batch.obs)
        with self.precision():
            labels = None if batch.labels is None else of(batch.labels)
            scores = self._forward(obs, of(batch.actions), dones, state, of(batch.noise), labels, living)
        terms = self._terms(
            LossInputs(
                of(batch.advantages),
                of(batch.returns),
                of(batch.old_logprobs),
                scores.logprobs,
                scores.values,
                scores.entropies,
                of(batch.policy_weights),
                of(batch.value_weights),
                scores.imitation_losses,
            )
        )
        if self.config.aux_coef:
            predicted = self.model.predict_next(scores.features[:-1].float())
            observed = self.model.obs_normalizer(obs[1:])
            aux = prediction_terms(predicted, observed, dones[1:], batch.value_weights[1:, part])
            terms = terms._replace(loss=terms.loss + self.config.aux_coef * aux, aux_loss=aux)
        return terms

    def _forward(
        self,
        obs: Tensor | PackedRows,
        actions: Tensor,
        dones: Tensor,
        state: LSTMState,
        noise: Tensor,
        labels: Tensor | None,
        living: Tensor | None,
    ) -> SequenceScores:
        """Score a chunk ``[L, B, ...]``; with activation checkpointing in spans that the backward pass recomputes.

        With ``living`` only those of its steps, ``[K, ...]``. Nothing is drawn inside, so the recomputation needs no
        generator state.
        """
        if not self.config.activation_checkpointing:
            chosen = () if living is None else (living,)
            return self.score(obs, actions, dones, state, noise, labels, *chosen)
        parts: list[SequenceScores] = []
        for first, end in chunk_spans(obs.shape[0], CHECKPOINTED_STEPS):
            own_labels = None if labels is None else labels[first:end]
            inputs = (obs[first:end], actions[first:end], dones[first:end], state, noise[first:end], own_labels)
            parts.append(checkpoint(self.score, *inputs, use_reentrant=False, preserve_rng_state=False))
            state = parts[-1].state
        names = [n for n in SequenceScores._fields if n != "state" and getattr(parts[0], n) is not None]
        joined = {name: torch.cat([getattr(p, name) for p in parts]) for name in names}
        return SequenceScores(**joined, state=state)


def _living(batch: Minibatch, part: slice) -> Tensor | None:
    """Return the living steps ``[K]`` among the flattened steps of the sequences ``part``; None evaluates all."""
    if batch.alive is None:
        return None
    alive = batch.alive[:, part].flatten()
    living = alive.nonzero().flatten()
    return living if 0 < len(living) < len(alive) else None


def summed(terms: Iterable[LossTerms]) -> LossTerms:
    """Return the terms of a minibatch whose micro-batches have ``terms``."""
    return LossTerms(*(torch.stack(values).sum(0) for values in zip(*terms, strict=True)))


def _detached(terms: LossTerms) -> LossTerms:
    return LossTerms(*(term.detach() for term in terms))
