"""From a minibatch to gradients: chunks are evaluated whole, in shards that a few threads work on.

Terms and gradients of shards add up, so how a minibatch is cut changes nothing. Shapes: ``L chunk step, B sequence``.
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
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo import minibatch
from echelon.training.ppo.batch import Batch, Gradient
from echelon.training.ppo.cuda_graph import CudaGraphCache
from echelon.training.ppo.losses import LossInputs, LossTerms
from echelon.training.runtime.precision import loss_scaler, mixed_precision
from echelon.training.runtime.thread_pool import ThreadPool

CHECKPOINTED_STEPS = 8
"""Steps of a chunk whose activations exist at the same time where they are rebuilt."""


class Gradients:
    """Evaluates minibatches and adds their gradients to the parameters of ``model``.

    ``terms`` turns what a shard scored into loss terms.
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
            self.capture(CudaGraphCache(self._whole))

    def capture(self, captured: CudaGraphCache) -> None:
        """Evaluate by way of ``captured`` from now on, with a recurrence that does not branch on data."""
        getattr(self.model, "core", self.model).branchless = True
        self.captured = captured

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context in which the model is evaluated."""
        return mixed_precision(self.device, self.config.amp, self.config.amp_dtype)

    def of(self, batch: Batch) -> tuple[LossTerms, list[Gradient] | None]:
        """Return the terms of a minibatch and the gradients of its shards; None where the loss is not finite."""
        if self.captured is not None:
            terms, whole = self.captured(batch)
            return terms, [whole] if bool(terms.loss.isfinite()) else None
        columns = minibatch.micro_batch_columns(batch.dones.shape[0], batch.dones.shape[1], batch.dones.device)
        parts = self._pool.map(lambda part: self._shard(batch, part), columns)
        terms = LossTerms(*(torch.stack(values).sum(0) for values in zip(*(p[0] for p in parts), strict=True)))
        gradients = [p[1] for p in parts if p[1] is not None]
        return terms, gradients if len(gradients) == len(parts) else None

    def add(self, gradients: list[Gradient]) -> None:
        """Add shards' gradients to the parameters, as a share of the minibatches that make up a step.

        They are left as they are: compiled evaluations return one tensor for parameters that are only ever added up.
        """
        count = self.config.grad_accum_steps
        for shard in gradients:
            for parameter, gradient in zip(self.parameters, shard, strict=True):
                if gradient is None:
                    continue
                if parameter.grad is None:
                    parameter.grad = gradient / count
                else:
                    parameter.grad.add_(gradient, alpha=1.0 / count)

    def _shard(self, batch: Batch, part: slice) -> tuple[LossTerms, Gradient | None]:
        """Return the terms and gradients of a range of sequences; no gradients when the loss is not finite."""
        with torch.enable_grad():
            terms = self._evaluate(batch, part)
            if not bool(terms.loss.isfinite()):
                return LossTerms(*(t.detach() for t in terms)), None
            loss = self.scaler.scale(terms.loss)
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return LossTerms(*(t.detach() for t in terms)), gradients

    def _whole(self, batch: Batch) -> tuple[LossTerms, Gradient]:
        """Return the terms and gradients of a minibatch, finite or not, without asking the device anything."""
        with torch.enable_grad():
            terms = self._evaluate(batch, slice(None))
            loss = self.scaler.scale(terms.loss)
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return LossTerms(*(t.detach() for t in terms)), gradients

    def _evaluate(self, batch: Batch, part: slice) -> LossTerms:
        obs, dones = batch.obs[:, part], batch.dones[:, part]
        state = LSTMState(batch.state.h[:, part], batch.state.c[:, part])
        with self.precision():
            scores = self._forward(obs, batch.actions[:, part], dones, state, batch.noise[:, part])
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
            )
        )
        if self.config.aux_coef:
            predicted = self.model.predict_next(scores.features[:-1].float())
            observed = self.model.obs_normalizer(obs[1:])
            aux = ppo_losses.prediction_terms(predicted, observed, dones[1:], batch.value_weights[1:, part])
            terms = terms._replace(loss=terms.loss + self.config.aux_coef * aux, aux_loss=aux)
        return terms

    def _forward(self, obs: Tensor, actions: Tensor, dones: Tensor, state: LSTMState, noise: Tensor) -> SequenceScores:
        """Score a chunk; with checkpointing in pieces of time, of which the backward pass rebuilds one after another.

        Nothing is drawn inside, so the second evaluation needs no generator state.
        """
        if not self.config.activation_checkpointing:
            return self.score(obs, actions, dones, state, noise)
        pieces: list[SequenceScores] = []
        for first, end in minibatch.chunk_spans(obs.shape[0], CHECKPOINTED_STEPS):
            part = (x[first:end] for x in (obs, actions, dones))
            given = (*part, state, noise[first:end])
            pieces.append(checkpoint(self.score, *given, use_reentrant=False, preserve_rng_state=False))
            state = pieces[-1].state
        whole = {
            name: torch.cat([getattr(p, name) for p in pieces]) for name in SequenceScores._fields if name != "state"
        }
        return SequenceScores(**whole, state=state)
