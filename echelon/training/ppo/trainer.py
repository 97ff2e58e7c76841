"""The update: recurrent proximal policy optimization over chunks of a rollout (Schulman et al., 2017).

A chunk is evaluated whole, from the recurrent state that the rollout had at its start, and gradients flow through all
of it. Minibatches are chunks times groups of rows, evaluated in micro-batches by a few threads. How a rollout is
divided is in ``echelon.training.rollout``, the loss terms are in ``losses``.

Shapes: ``T step, N learner row, D observation, A action, L chunk step, B sequence, H recurrent state``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from echelon.config import PPOConfig
from echelon.rl.actor_critic import ActorCritic
from echelon.rl.build import FlatPolicy
from echelon.rl.host_reads import reads_are_free
from echelon.rl.lstm_state import LSTMState
from echelon.rl.packed_obs import PackedRollout
from echelon.training.normalization import NORM_EPS, ReturnNormalizer
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo.cuda_graph import record_cuda_graph
from echelon.training.ppo.device_update import DeviceUpdate, EntityCounts, read_figures, trains_on_device
from echelon.training.ppo.gradients import Gradients
from echelon.training.ppo.losses import LossInputs, LossTerms
from echelon.training.ppo.optimizer import load_moments, make_optimizer, saved_state, set_lr
from echelon.training.ppo.teacher import Teaching, agreement
from echelon.training.rollout import (
    ChunkStates,
    Minibatch,
    RolloutBuffer,
    chunk_length,
    chunk_spans,
    gather_minibatch,
    on_device,
    plan_minibatches,
    rollout_statistics,
)
from echelon.training.runtime.precision import low_precision
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.thread_pool import ThreadPool


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
        self.optimizer = make_optimizer(model, config)
        self.ent_coef = config.ent_coef
        self._ent_coef = torch.tensor(config.ent_coef, device=self.device)
        self._imitation_coef = torch.tensor(0.0, device=self.device)
        self.teaching = Teaching()
        self.lr = config.lr
        self.on_device: DeviceUpdate | None = None
        """Trains where reading the device costs time; None where every minibatch is checked by the host."""
        keeps_flags = self.group.is_single and trains_on_device(self.optimizer, self.gradients)
        if keeps_flags and not reads_are_free(self.device):
            record = record_cuda_graph if config.capture and self.device.type == "cuda" else None
            adam = cast(torch.optim.Optimizer, self.optimizer)
            self.on_device = DeviceUpdate(self.gradients, adam, config, record)
        self.updates = 0
        self.nonfinite = 0
        self._evaluated: tuple[Tensor, Tensor] | None = None

    def set_progress(self, progress: float, teaching: Teaching | None = None) -> None:
        """Set learning rate, coefficients and width of actions for ``progress`` in [0, 1] through training.

        ``teaching`` is the teacher's part in the coming update, None without a teacher.
        """
        progress = min(1.0, max(0.0, progress))
        self._set_teaching(Teaching(lr_progress=progress) if teaching is None else teaching)
        self.ent_coef = entropy_coefficient(self.config, progress)
        self._ent_coef.fill_(self.ent_coef)
        lr_progress, factor = self.teaching.lr_progress, self.teaching.lr_factor
        self.lr = self.config.lr * factor * lr_factor(self.config.lr_schedule, lr_progress)
        for group in self.optimizer.param_groups:
            set_lr(group, self.lr * group["lr_mult"])
        core = getattr(self.model, "core", self.model)
        if isinstance(core, ActorCritic):
            core.set_progress(progress)

    def _set_teaching(self, teaching: Teaching) -> None:
        """Store the teacher's part; a captured evaluation is captured again where other terms enter the loss."""
        before, self.teaching = self.teaching, teaching
        self._imitation_coef.fill_(teaching.coef)
        changed = (before.imitates, before.has_labels) != (teaching.imitates, teaching.has_labels)
        for captured in (self.gradients.captured, self.on_device):
            if changed and captured is not None:
                captured.clear()

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
        before: dict[str, Any] = rollout_statistics(buffer)
        if self.teaching.has_labels:
            before |= agreement(buffer)
        returns = self._normalize(buffer, update_statistics=True)
        packed, counts = self._packed(buffer), self._count_entities(buffer, length)
        for epoch in range(cfg.update_epochs):
            self._run_epoch(buffer, states, returns, length, epoch, stats, packed, counts)
            is_last = epoch == cfg.update_epochs - 1
            if not is_last and cfg.target_kl > 0 and not self.teaching.imitates:
                stats.kl = self._kl(buffer, init_state, length)
                if stats.kl > cfg.target_kl:
                    break
            if cfg.recompute_advantages and not is_last:
                self._recompute(buffer, init_state, length)
                returns = self._normalize(buffer, update_statistics=False)
        if not reads_are_free(self.device):
            before = self._read(before, stats)
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
            "optimizer": saved_state(self.optimizer),
            "scaler": self.gradients.scaler.state_dict(),
            "return_rms": self.return_normalizer.state_dict(),
            "updates": self.updates,
            "nonfinite": self.nonfinite,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``; optimizer tensors move to the parameters' devices.

        The moments of the optimizer are loaded; its options stay those of this trainer's configuration.
        """
        load_moments(self.optimizer, state["optimizer"])
        if self.on_device is not None:
            self.on_device.clear()
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
        x, cfg = x._replace(values=values), self.config
        if self.teaching.imitates:
            return ppo_losses.imitation_terms(x, self._imitation_coef, cfg.vf_coef)
        return ppo_losses.ppo_terms(x, cfg.clip_coef, self._ent_coef, cfg.vf_coef, self._imitation_coef)

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
        if update_statistics and self.on_device is not None:
            self.return_normalizer.update_weighted(buffer.returns, buffer.present * buffer.returns.isfinite().all())
        elif update_statistics and not self.group.any(not bool(buffer.returns.isfinite().all())):
            has_absent = bool((buffer.present == 0).any())
            self.return_normalizer.update(buffer.returns[buffer.present > 0] if has_absent else buffer.returns)
        return self.return_normalizer.normalize(buffer.returns)

    @torch.no_grad()
    def _packed(self, buffer: RolloutBuffer) -> PackedRollout | None:
        """Return the packed observations of a rollout, where the model has them and nothing reads the whole rows."""
        cfg = self.config
        if cfg.compile or cfg.capture or cfg.aux_coef or not isinstance(self.model, FlatPolicy):
            return None
        return self.model.packed(buffer.obs)

    @torch.no_grad()
    def _count_entities(self, buffer: RolloutBuffer, length: int) -> EntityCounts | None:
        """Return the entities of the rollout where minibatches of fixed shapes pack them."""
        if self.on_device is None or not isinstance(self.model, FlatPolicy):
            return None
        counts = self.model.count_entities(buffer.obs[..., : self.model.obs_dim])
        return EntityCounts(counts, chunk_spans(buffer.num_steps, length)) if counts else None

    def _run_epoch(  # noqa: PLR0913 - a rollout, and what was computed from it before the first epoch
        self,
        buffer: RolloutBuffer,
        states: ChunkStates,
        returns: Tensor,
        length: int,
        epoch: int,
        stats: UpdateStats,
        packed: PackedRollout | None,
        counts: EntityCounts | None,
    ) -> None:
        """Train once on every step of the rollout, in shuffled minibatches."""
        cfg = self.config
        plan = plan_minibatches(
            buffer.num_steps, buffer.num_agents, length, cfg.num_minibatches, draws_rows=cfg.draw_members
        )
        if counts is not None and self.on_device is not None:
            self.on_device.make_room(counts.most(plan))
        plan = on_device(plan, self.device)
        # a compiled or captured evaluation is made for one shape
        skips_idle = reads_are_free(self.device) and not (cfg.compile or cfg.capture)
        counted = buffer.present
        if cfg.burn_in_steps:
            counted = counted * (buffer.ages() >= cfg.burn_in_steps)
        scored = buffer.alive
        if cfg.advantage_share < 1.0 and not self.teaching.imitates:
            scored = ppo_losses.largest_advantages(buffer.advantages, counted * buffer.alive, cfg.advantage_share)
        accumulated = 0
        self.optimizer.zero_grad(set_to_none=True)
        for index, units in enumerate(plan):
            batch = gather_minibatch(
                buffer,
                states,
                returns,
                counted,
                units,
                scored=scored,
                packed=packed,
                skips_idle=skips_idle,
                has_labels=self.teaching.has_labels,
            )
            if self.on_device is not None:
                ends_step = (index + 1) % cfg.grad_accum_steps == 0 or index == len(plan) - 1
                self.on_device.train(batch, steps=ends_step)
                continue
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

    def _read(self, metrics: dict[str, Any], stats: UpdateStats) -> dict[str, Any]:
        """Return ``metrics`` as numbers and store the figures of all minibatches, in the one read of an update."""
        rows = None if self.on_device is None else self.on_device.take_rows()
        figures, metrics = read_figures(rows, metrics)
        if figures is None:
            return metrics
        terms = [LossTerms(*values) for values in zip(*figures.terms, strict=True)]
        for index in (~figures.is_finite).nonzero()[0]:
            self._handle_nonfinite(f"loss at update {self.updates}, minibatch {index}", terms[index])
        for index in (figures.steps < 0).nonzero()[0]:
            self._handle_nonfinite(f"gradient norm at update {self.updates}, minibatch {index}", None)
        stats.terms = [term for term, finite in zip(terms, figures.is_finite, strict=True) if finite]
        stats.grad_norms = figures.norms[figures.steps > 0].tolist()
        return metrics

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
        optimizer = cast(torch.optim.Optimizer, self.optimizer)
        scaler.unscale_(optimizer)
        norm = float(nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm))
        if math.isfinite(norm):
            stats.grad_norms.append(norm)
        elif scaler.is_enabled():
            stats.overflows += 1
        else:
            self._handle_nonfinite(f"gradient norm at {location}", None)
        if math.isfinite(norm) or scaler.is_enabled():
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad(set_to_none=True)

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
        return _mean_of(by_rank)

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


def _mean_of(by_rank: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of the first rank with every float, also in a mapping, replaced by the mean over ranks."""
    means: dict[str, Any] = {}
    for name, value in by_rank[0].items():
        values = [metrics[name] for metrics in by_rank]
        if isinstance(value, dict):
            means[name] = _mean_of(values)
        else:
            means[name] = sum(values) / len(values) if isinstance(value, float) else value
    return means


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
