"""The update: recurrent proximal policy optimization over chunks of a rollout (Schulman et al., 2017).

A chunk is evaluated whole, from the recurrent state that the rollout had at its start, and gradients flow through all
of it. Minibatches are chunks times groups of rows, evaluated in micro-batches by a few threads. How a rollout is
divided is in ``echelon.training.rollout``, the loss terms are in ``losses``.

Shapes: ``T step, N learner row, D observation, A action, L chunk step, B sequence, H recurrent state``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from echelon.config import PPOConfig
from echelon.rl.actor_critic import SequenceScores
from echelon.rl.lstm_state import LSTMState
from echelon.training.normalization import NORM_EPS, ReturnNormalizer
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo.cuda_graph import CudaGraphCache
from echelon.training.ppo.losses import Gradient, LossInputs, LossTerms
from echelon.training.rollout import (
    ChunkStates,
    Minibatch,
    RolloutBuffer,
    chunk_length,
    chunk_spans,
    gather_minibatch,
    micro_batch_columns,
    plan_minibatches,
    rollout_statistics,
)
from echelon.training.runtime.precision import loss_scaler, low_precision, mixed_precision
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.thread_pool import ThreadPool

CHECKPOINTED_STEPS = 8
"""Steps whose activations exist at the same time with activation checkpointing."""


class ReloadCheckpoint(RuntimeError):
    """The update was not finite and ``nonfinite_policy`` is ``reload``."""


@dataclass
class UpdateStats:
    """Statistics that an update collects over its minibatches and optimizer steps."""

    terms: list[LossTerms] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    overflows: int = 0
    epochs: int = 0
    kl: float = 0.0


class PPOTrainer:
    """The optimizer and return statistics of ``model``, whose weights it changes in place."""

    def __init__(
        self,
        model: nn.Module,
        config: PPOConfig,
        device: torch.device | str = "cpu",
        pool: ThreadPool | None = None,
        group: ProcessGroup | None = None,
    ) -> None:
        self.model = cast(Any, model)
        self.config = config
        self.device = torch.device(device)
        self.group = group or ProcessGroup()
        self.return_normalizer = ReturnNormalizer(device=self.device, group=self.group)
        self.gradients = Gradients(model, config, self.device, pool or ThreadPool(1), self._terms)
        self.optimizer = torch.optim.Adam(
            _parameter_groups(model, config), lr=config.lr, eps=config.adam_eps, fused=True
        )
        self.ent_coef = config.ent_coef
        self._ent_coef = torch.tensor(config.ent_coef, device=self.device)
        self.lr = config.lr
        self.updates = 0
        self.nonfinite = 0
        self._evaluated: tuple[Tensor, Tensor] | None = None

    def set_progress(self, progress: float) -> None:
        """Set learning rate and entropy coefficient for ``progress`` in [0, 1] through training."""
        progress = min(1.0, max(0.0, progress))
        self.ent_coef = entropy_coefficient(self.config, progress)
        self._ent_coef.fill_(self.ent_coef)
        self.lr = self.config.lr * lr_factor(self.config.lr_schedule, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * group["lr_mult"]

    def update(
        self, buffer: RolloutBuffer, init_state: LSTMState, chunk_states: ChunkStates | None = None
    ) -> dict[str, Any]:
        """Train on a rollout and return plain metrics, averaged over the minibatches.

        ``init_state [1, N, H]`` is the state before step 0; ``chunk_states`` are those stored by the collector,
        recomputed if None. Raises ``ValueError`` if the rollout has no advantages; a loss or gradient that is not
        finite is handled as ``nonfinite_policy`` says.
        """
        buffer.require_ready()
        self.updates += 1
        cfg, stats = self.config, UpdateStats()
        length = chunk_length(buffer.num_steps, cfg.tbptt_chunk_length, cfg.num_minibatches)
        states = chunk_states or self.chunk_states(buffer, init_state)
        before = rollout_statistics(buffer)
        returns = self._normalize(buffer, update_statistics=True)
        for epoch in range(cfg.update_epochs):
            self._run_epoch(buffer, states, returns, length, epoch, stats)
            is_last = epoch == cfg.update_epochs - 1
            if not is_last and cfg.target_kl > 0:
                stats.kl = self._kl(buffer, init_state, length)
                if stats.kl > cfg.target_kl:
                    break
            if cfg.recompute_advantages and not is_last:
                self._recompute(buffer, init_state, length)
                returns = self._normalize(buffer, update_statistics=False)
        return self._averaged({**before, **self._metrics(stats)})

    def chunk_states(self, buffer: RolloutBuffer, init_state: LSTMState) -> ChunkStates:
        """Return the state at every chunk start, replayed from ``init_state [1, N, H]`` without gradient."""
        cfg, state = self.config, init_state
        length = chunk_length(buffer.num_steps, cfg.tbptt_chunk_length, cfg.num_minibatches)
        spans = chunk_spans(buffer.num_steps, length)
        states = ChunkStates.create(len(spans), buffer.num_agents, init_state.h.shape[-1], self.device)
        with torch.no_grad(), self.gradients.precision():
            for chunk, (first, end) in enumerate(spans):
                states.store(chunk, state)
                if end < buffer.num_steps:
                    state = self.model.replay_state(buffer.obs[first:end], buffer.dones[first:end], state)
        return states

    def state_dict(self) -> dict[str, Any]:
        """Return optimizer, statistics and counters as tensors and plain values."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.gradients.scaler.state_dict(),
            "return_rms": self.return_normalizer.state_dict(),
            "updates": self.updates,
            "nonfinite": self.nonfinite,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``; optimizer tensors move to the parameters' devices.

        The moments of the optimizer are loaded; its options stay those of this trainer's configuration.
        """
        options = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": options})
        if state.get("scaler"):
            self.gradients.scaler.load_state_dict(state["scaler"])
        self.return_normalizer.load_state_dict(state["return_rms"])
        self.updates = int(state["updates"])
        self.nonfinite = int(state["nonfinite"])

    def _compute_losses(
        self,
        advantages: Tensor,
        returns_normalized: Tensor,
        old_logprobs: Tensor,
        new_logprobs: Tensor,
        new_values: Tensor,
        new_entropies: Tensor,
    ) -> tuple[Tensor, dict[str, float]]:
        """Return loss and metrics of equally weighted steps, tensors of one shape; ``new_values`` are raw."""
        equal = torch.full_like(advantages, 1.0 / advantages.numel())
        terms = self._terms(
            LossInputs(
                advantages, returns_normalized, old_logprobs, new_logprobs, new_values, new_entropies, equal, equal
            )
        )
        names = ("pg_loss", "vf_loss", "entropy", "approx_kl", "clipfrac", "loss")
        return terms.loss, {name: float(getattr(terms, name)) for name in names}

    def _terms(self, x: LossInputs) -> LossTerms:
        values = self.return_normalizer.normalize(x.values) if self.config.value_norm else x.values
        return ppo_losses.ppo_terms(
            x._replace(values=values), self.config.clip_coef, self._ent_coef, self.config.vf_coef
        )

    def _normalize(self, buffer: RolloutBuffer, *, update_statistics: bool) -> Tensor:
        """Normalize advantages in place and return the returns ``[T, N]`` on the scale of the value loss."""
        if self.config.per_role_adv_norm:
            ppo_losses.normalize_advantages_per_role(
                buffer.advantages, buffer.alive, buffer.roles, NORM_EPS, self.group
            )
        else:
            ppo_losses.normalize_advantages(buffer.advantages, buffer.alive, NORM_EPS, self.group)
        if not self.config.value_norm:
            return buffer.returns
        if update_statistics and not self.group.any(not bool(buffer.returns.isfinite().all())):
            has_absent = bool((buffer.present == 0).any())
            self.return_normalizer.update(buffer.returns[buffer.present > 0] if has_absent else buffer.returns)
        return self.return_normalizer.normalize(buffer.returns)

    def _run_epoch(
        self, buffer: RolloutBuffer, states: ChunkStates, returns: Tensor, length: int, epoch: int, stats: UpdateStats
    ) -> None:
        """Train once on every step of the rollout, in shuffled minibatches."""
        cfg = self.config
        plan = plan_minibatches(buffer.num_steps, buffer.num_agents, length, cfg.num_minibatches)
        counted = buffer.present
        if cfg.burn_in_steps:
            counted = counted * (buffer.ages() >= cfg.burn_in_steps)
        accumulated = 0
        self.optimizer.zero_grad(set_to_none=True)
        for index, units in enumerate(plan):
            batch = gather_minibatch(buffer, states, returns, counted, units)
            location = f"update {self.updates}, epoch {epoch}, minibatch {index}"
            if not self._accumulate(batch, location, stats):
                continue
            accumulated += 1
            if accumulated == cfg.grad_accum_steps:
                self._step(location, stats)
                accumulated = 0
        if accumulated:
            self._step(f"update {self.updates}, end of epoch {epoch}", stats)
        stats.epochs += 1

    def _accumulate(self, batch: Minibatch, location: str, stats: UpdateStats) -> bool:
        """Add a minibatch's gradient to the parameters; return False if it was skipped as not finite on any rank."""
        terms, gradients = self.gradients.of(batch)
        if self.group.any(gradients is None):
            self._handle_nonfinite(f"loss at {location}", terms)
            return False
        self.gradients.add(gradients or [])
        stats.terms.append(terms)
        return True

    def _step(self, location: str, stats: UpdateStats) -> None:
        """Average, clip and apply the accumulated gradient, then clear it.

        A gradient that overflows float16 skips the step and lowers the loss scale; that is no fault.
        """
        parameters, scaler = self.gradients.parameters, self.gradients.scaler
        self.group.average([p.grad for p in parameters if p.grad is not None])
        scaler.unscale_(self.optimizer)
        norm = float(nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm))
        if math.isfinite(norm):
            stats.grad_norms.append(norm)
        elif scaler.is_enabled():
            stats.overflows += 1
        else:
            self._handle_nonfinite(f"gradient norm at {location}", None)
        if math.isfinite(norm) or scaler.is_enabled():
            scaler.step(self.optimizer)
            scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def _handle_nonfinite(self, what: str, terms: LossTerms | None) -> None:
        self.nonfinite += 1
        parts = "" if terms is None else ": " + ", ".join(f"{n} {float(v):g}" for n, v in terms._asdict().items())
        message = f"{what} is not finite{parts}"
        if self.config.nonfinite_policy == "raise":
            raise ValueError(message)
        if self.config.nonfinite_policy == "reload":
            raise ReloadCheckpoint(message)

    def _kl(self, buffer: RolloutBuffer, init_state: LSTMState, length: int) -> float:
        """Return the mean KL estimate over living steps between the collecting and the current policy."""
        logprobs, _ = self._evaluate(buffer, init_state, length)
        kl = ((buffer.logprobs - logprobs) * buffer.alive).sum() / buffer.alive.sum().clamp_min(1.0)
        self.group.average([kl])
        return float(kl)

    def _recompute(self, buffer: RolloutBuffer, init_state: LSTMState, length: int) -> None:
        """Recompute values, advantages and returns of the rollout with the current weights."""
        _, values = self._evaluate(buffer, init_state, length)
        buffer.values.copy_(values)
        buffer.compute_gae(
            buffer.next_value.clone(), buffer.next_done.clone(), self.config.gamma, self.config.gae_lambda
        )

    @torch.no_grad()
    def _evaluate(self, buffer: RolloutBuffer, state: LSTMState, length: int) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and values ``[T, N]`` under the current weights and exact recurrent states.

        They lie in buffers that are allocated once. ``buffer.next_value`` is recomputed too and, with
        ``recompute_advantages``, ``buffer.truncation_bonus``.
        """
        if self._evaluated is None or self._evaluated[0].shape != buffer.logprobs.shape:
            self._evaluated = (torch.zeros_like(buffer.logprobs), torch.zeros_like(buffer.values))
        logprobs, values = self._evaluated
        with self.gradients.precision():
            for first, end in chunk_spans(buffer.num_steps, length):
                span = slice(first, end)
                if self.config.recompute_advantages:
                    self._revalue_truncations(buffer, first, end, state)
                scores = self.gradients.score(buffer.obs[span], buffer.actions[span], buffer.dones[span], state)
                logprobs[span].copy_(scores.logprobs)
                values[span].copy_(scores.values)
                state = scores.state
            buffer.next_value.copy_(self.model.get_value(buffer.obs_rows[-1], state, buffer.next_done)[0])
        return logprobs, values

    def _revalue_truncations(self, buffer: RolloutBuffer, first: int, end: int, state: LSTMState) -> None:
        """Recompute the truncation bonus of steps ``first`` to ``end`` from the state ``[1, N, H]`` before them."""
        for step, rows, final_obs in (cut for cut in buffer.truncations if first <= cut.step < end):
            obs, dones = buffer.obs[first : step + 1, rows], buffer.dones[first : step + 1, rows]
            before = self.model.replay_state(obs, dones, LSTMState(state.h[:, rows], state.c[:, rows]))
            value, _ = self.model.get_value(final_obs, before, torch.zeros_like(dones[0]))
            buffer.truncation_bonus[step, rows] = self.config.gamma * value.float()

    def _averaged(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Return metrics whose floats are means over all ranks; counts are equal on every rank."""
        if self.group.is_single:
            return metrics
        by_rank = self.group.all_gather(metrics)
        floats = [name for name, value in metrics.items() if isinstance(value, float)]
        return metrics | {name: sum(m[name] for m in by_rank) / len(by_rank) for name in floats}

    def _metrics(self, stats: UpdateStats) -> dict[str, Any]:
        count = max(1, len(stats.terms))
        means = {name: sum(float(getattr(t, name)) for t in stats.terms) / count for name in LossTerms._fields}
        norms = stats.grad_norms or [0.0]
        return {
            **means,
            "kl": stats.kl,
            "grad_norm": sum(norms) / len(norms),
            "grad_norm_max": max(norms),
            "grad_clipped_share": sum(n > self.config.max_grad_norm for n in norms) / len(norms),
            "epochs": stats.epochs,
            "optimizer_steps": len(stats.grad_norms),
            "overflows": stats.overflows,
            "nonfinite": self.nonfinite,
            "lr": self.lr,
            "ent_coef": self.ent_coef,
            "amp": self.config.amp and low_precision(self.device, self.config.amp_dtype) is not None,
        }


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
            self.capture(CudaGraphCache(self._evaluate_whole))

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

    def _evaluate_whole(self, batch: Minibatch) -> tuple[LossTerms, Gradient]:
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
        """Score a chunk ``[L, B, ...]``; with activation checkpointing in spans that the backward pass recomputes.

        Nothing is drawn inside, so the recomputation needs no generator state.
        """
        if not self.config.activation_checkpointing:
            return self.score(obs, actions, dones, state, noise)
        parts: list[SequenceScores] = []
        for first, end in chunk_spans(obs.shape[0], CHECKPOINTED_STEPS):
            inputs = (obs[first:end], actions[first:end], dones[first:end], state, noise[first:end])
            parts.append(checkpoint(self.score, *inputs, use_reentrant=False, preserve_rng_state=False))
            state = parts[-1].state
        joined = {
            name: torch.cat([getattr(p, name) for p in parts]) for name in SequenceScores._fields if name != "state"
        }
        return SequenceScores(**joined, state=state)


def lr_factor(kind: str, progress: float) -> float:
    """Return the factor on the learning rate for schedule ``none``, ``linear`` or ``cosine``."""
    if kind == "none":
        return 1.0
    if kind == "linear":
        return 1.0 - progress
    if kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    raise ValueError(f"lr_schedule is {kind!r}, expected none, linear or cosine")


def entropy_coefficient(cfg: PPOConfig, progress: float) -> float:
    """Return the weight of the entropy bonus, linear from its start to its end value."""
    end = cfg.ent_coef if cfg.ent_coef_end is None else cfg.ent_coef_end
    return cfg.ent_coef + (end - cfg.ent_coef) * progress


def _parameter_groups(model: nn.Module, config: PPOConfig) -> list[dict[str, Any]]:
    """Return the base group and that of the value head, each with its factor on the learning rate."""
    base, critic = [], []
    for name, parameter in model.named_parameters():
        (critic if "critic" in name.split(".") else base).append(parameter)
    return [
        {"params": base, "lr": config.lr, "lr_mult": 1.0},
        {"params": critic, "lr": config.lr * config.critic_lr_mult, "lr_mult": config.critic_lr_mult},
    ]
