"""Gradients of a minibatch: evaluated in micro-batches by a few threads, as a captured graph, or recomputed in spans.

Shapes: ``T step, D observation, A action, L chunk step, B sequence``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from echelon.config import PPOConfig
from echelon.rl.actor_critic import SequenceScores
from echelon.rl.lstm_state import LSTMState
from echelon.rl.packed_obs import PackedRows
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo.cuda_graph import CudaGraphCache
from echelon.training.ppo.losses import Gradient, LossInputs, LossTerms
from echelon.training.rollout import Minibatch, chunk_spans, micro_batch_columns
from echelon.training.runtime.precision import loss_scaler, mixed_precision
from echelon.training.runtime.thread_pool import ThreadPool

CHECKPOINTED_STEPS = 8
"""Steps whose activations exist at the same time with activation checkpointing."""


class Gradients:
    """Evaluates minibatches in micro-batches and adds their gradients to the parameters of ``model``.

    ``terms`` turns the scores of a micro-batch into loss terms. Terms and gradients of micro-batches add up, so how a
    minibatch is divided changes nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        config: PPOConfig,
        device: torch.device,
        pool: ThreadPool,
        terms: Callable[[LossInputs], LossTerms],
    ) -> None:
        self.model: Any = model
        self.config, self.device = config, device
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.scaler = loss_scaler(device, config.amp, config.amp_dtype)
        self._pool, self._terms = pool, terms
        self.score: Callable[..., Any] = self.model.score_sequence
        if config.compile:
            self.score = torch.compile(self.model.score_sequence, fullgraph=True)
        self.captured: CudaGraphCache | None = None
        if config.capture and device.type == "cuda":
            self.capture(CudaGraphCache(self.evaluate_whole))

    def capture(self, captured: CudaGraphCache) -> None:
        """Evaluate through ``captured`` from now on, with a recurrence that does not branch on data."""
        getattr(self.model, "core", self.model).branchless = True
        self.captured = captured

    def precision(self) -> AbstractContextManager[Any]:
        """Return the autocast context in which the model is evaluated."""
        return mixed_precision(self.device, self.config.amp, self.config.amp_dtype)

    def of(self, batch: Minibatch) -> tuple[LossTerms, list[Gradient] | None]:
        """Return terms of a minibatch and the gradient of each micro-batch; None if the loss is not finite."""
        if self.captured is not None:
            terms, gradient = self.captured(batch)
            return terms, [gradient] if bool(terms.loss.isfinite()) else None
        columns = micro_batch_columns(batch.dones.shape[0], batch.dones.shape[1], batch.dones.device)
        parts = self._pool.map(lambda part: self._evaluate_micro_batch(batch, part), columns)
        terms = LossTerms(*(torch.stack(values).sum(0) for values in zip(*(p[0] for p in parts), strict=True)))
        gradients = [p[1] for p in parts if p[1] is not None]
        return terms, gradients if len(gradients) == len(parts) else None

    def add(self, gradients: list[Gradient]) -> None:
        """Add micro-batch gradients to ``p.grad``, divided by the minibatches of one optimizer step.

        The gradients are not modified: compiled evaluations may return one tensor for two parameters.
        """
        count = self.config.grad_accum_steps
        for micro_batch in gradients:
            for parameter, gradient in zip(self.parameters, micro_batch, strict=True):
                if gradient is None:
                    continue
                if parameter.grad is None:
                    parameter.grad = gradient / count
                else:
                    parameter.grad.add_(gradient, alpha=1.0 / count)

    def _evaluate_micro_batch(self, batch: Minibatch, part: slice) -> tuple[LossTerms, Gradient | None]:
        """Return terms and gradients of a range of sequences; no gradients if the loss is not finite."""
        with torch.enable_grad():
            terms = self._evaluate(batch, part)
            if not bool(terms.loss.isfinite()):
                return LossTerms(*(t.detach() for t in terms)), None
            loss = self.scaler.scale(terms.loss)
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return LossTerms(*(t.detach() for t in terms)), gradients

    def evaluate_whole(self, batch: Minibatch) -> tuple[LossTerms, Gradient]:
        """Return terms and gradients of a minibatch, finite or not, without reading a value from the device."""
        with torch.enable_grad():
            terms = self._evaluate(batch, slice(None))
            loss = self.scaler.scale(terms.loss)
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return LossTerms(*(t.detach() for t in terms)), gradients

    def _evaluate(self, batch: Minibatch, part: slice) -> LossTerms:
        """Return the loss terms of the sequences ``part``."""
        obs, dones = batch.obs[:, part], batch.dones[:, part]
        state = LSTMState(batch.state.h[:, part], batch.state.c[:, part])
        with self.precision():
            labels = None if batch.labels is None else batch.labels[:, part]
            scores = self._forward(obs, batch.actions[:, part], dones, state, batch.noise[:, part], labels)
        terms = self._terms(
            LossInputs(
                batch.advantages[:, part],
                batch.returns[:, part],
                batch.old_logprobs[:, part],
                scores.logprobs,
                scores.values,
                scores.entropies,
                batch.policy_weights[:, part],
                batch.value_weights[:, part],
                scores.imitation_losses,
                ppo_losses.weighted_entropies(scores, self.config),
            )
        )
        if self.config.aux_coef:
            predicted = self.model.predict_next(scores.features[:-1].float())
            observed = self.model.obs_normalizer(obs[1:])
            aux = ppo_losses.prediction_terms(predicted, observed, dones[1:], batch.value_weights[1:, part])
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
    ) -> SequenceScores:
        """Score a chunk ``[L, B, ...]``; with activation checkpointing in spans that the backward pass recomputes.

        Nothing is drawn inside, so the recomputation needs no generator state.
        """
        if not self.config.activation_checkpointing:
            return self.score(obs, actions, dones, state, noise, labels)
        parts: list[SequenceScores] = []
        for first, end in chunk_spans(obs.shape[0], CHECKPOINTED_STEPS):
            own_labels = None if labels is None else labels[first:end]
            inputs = (obs[first:end], actions[first:end], dones[first:end], state, noise[first:end], own_labels)
            parts.append(checkpoint(self.score, *inputs, use_reentrant=False, preserve_rng_state=False))
            state = parts[-1].state
        names = [n for n in SequenceScores._fields if n != "state" and getattr(parts[0], n) is not None]
        joined = {name: torch.cat([getattr(p, name) for p in parts]) for name in names}
        return SequenceScores(**joined, state=state)
