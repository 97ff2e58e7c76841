"""The update: recurrent proximal policy optimisation over chunks of a rollout (Schulman et al., 2017).

A chunk is evaluated whole, from the recurrent state the rollout had at its start, and gradients flow through
all of it. Minibatches are chunks times groups of rows, worked on in shards by a few threads. What a rollout
is, how it is cut and what the loss terms are belongs to the neighbouring modules. Shapes: ``T step, N row``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from echelon.config import PPOConfig
from echelon.rl.lstm_state import LSTMState
from echelon.training.normalization import NORM_EPS, ReturnNormalizer
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo import minibatch, schedules
from echelon.training.ppo.batch import Batch
from echelon.training.ppo.gradients import Gradients
from echelon.training.ppo.losses import LossInputs, LossTerms
from echelon.training.ppo.minibatch import ChunkStates, Unit
from echelon.training.rollout import RolloutBuffer
from echelon.training.runtime.precision import low_precision
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.thread_pool import ThreadPool


class ReloadCheckpoint(RuntimeError):
    """The update went non-finite and the policy asks for the last checkpoint."""


@dataclass
class UpdateStats:
    """What an update adds up over its minibatches and steps."""

    terms: list[LossTerms] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    overflows: int = 0
    epochs: int = 0
    kl: float = 0.0


class PPOTrainer:
    """Owns the optimiser and the return statistics of ``model``, which it changes in place."""

    def __init__(
        self,
        model: nn.Module,
        config: PPOConfig,
        device: torch.device | str = "cpu",
        pool: ThreadPool | None = None,
        world: ProcessGroup | None = None,
    ) -> None:
        self.model = cast(Any, model)
        self.config = config
        self.device = torch.device(device)
        self.world = world or ProcessGroup()
        self.return_normalizer = ReturnNormalizer(device=self.device, world=self.world)
        self.gradients = Gradients(model, config, self.device, pool or ThreadPool(1), self._terms)
        self.optimizer = torch.optim.Adam(
            _parameter_groups(model, config), lr=config.lr, eps=config.adam_eps, fused=True
        )
        self.ent_coef = config.ent_coef
        self._ent_coef = torch.tensor(config.ent_coef, device=self.device)
        self.lr = config.lr
        self.updates = 0
        self.nonfinite = 0
        self._work: tuple[Tensor, Tensor] | None = None

    def set_progress(self, progress: float) -> None:
        """Move the schedules to ``progress`` in [0, 1] through training."""
        progress = min(1.0, max(0.0, progress))
        self.ent_coef = schedules.entropy_coefficient(self.config, progress)
        self._ent_coef.fill_(self.ent_coef)
        self.lr = self.config.lr * schedules.lr_factor(self.config.lr_schedule, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * group["lr_mult"]

    def update(
        self, buffer: RolloutBuffer, init_state: LSTMState, chunk_states: ChunkStates | None = None
    ) -> dict[str, Any]:
        """Learn from a rollout and return plain metrics, averaged over the minibatches.

        ``init_state`` is the state before step 0; ``chunk_states`` are those the rollout kept, else they are
        replayed. ``ValueError`` when the rollout has no advantages; a loss or gradient that is not finite is
        treated as ``nonfinite_policy`` says.
        """
        buffer.require_ready()
        self.updates += 1
        cfg, tally = self.config, UpdateStats()
        length = minibatch.chunk_length(buffer.num_steps, cfg.tbptt_chunk_length, cfg.num_minibatches)
        states = chunk_states or self.chunk_states(buffer, init_state)
        before = _rollout_statistics(buffer)
        returns = self._normalize(buffer, learn=True)
        for epoch in range(cfg.update_epochs):
            self._run_epoch(buffer, states, returns, length, epoch, tally)
            last = epoch == cfg.update_epochs - 1
            if self._should_stop(buffer, init_state, length, tally, last):
                break
            if cfg.recompute_advantages and not last:
                self._recompute(buffer, init_state, length)
                returns = self._normalize(buffer, learn=False)
        return self._shared({**before, **self._summary(tally)})

    def chunk_states(self, buffer: RolloutBuffer, init_state: LSTMState) -> ChunkStates:
        """Replay the rollout without gradient and return the state at every chunk start."""
        cfg, state = self.config, init_state
        length = minibatch.chunk_length(buffer.num_steps, cfg.tbptt_chunk_length, cfg.num_minibatches)
        spans = minibatch.chunk_spans(buffer.num_steps, length)
        states = ChunkStates.create(len(spans), buffer.num_agents, init_state.h.shape[-1], self.device)
        with torch.no_grad(), self.gradients.precision():
            for chunk, (first, end) in enumerate(spans):
                states.store(chunk, state)
                if end < buffer.num_steps:
                    state = self.model.replay_state(buffer.obs[first:end], buffer.dones[first:end], state)
        return states

    def state_dict(self) -> dict[str, Any]:
        """Return optimiser, statistics and counters as tensors and plain values."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.gradients.scaler.state_dict(),
            "return_rms": self.return_normalizer.state_dict(),
            "updates": self.updates,
            "nonfinite": self.nonfinite,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``; optimiser tensors move to the parameters' devices.

        What the optimiser has learned is taken over; its dials stay those of this trainer's configuration.
        """
        dials = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": dials})
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
        """Return loss and metrics of evenly weighted steps, tensors of one shape; ``new_values`` are raw."""
        even = torch.full_like(advantages, 1.0 / advantages.numel())
        terms = self._terms(
            LossInputs(
                advantages, returns_normalized, old_logprobs, new_logprobs, new_values, new_entropies, even, even
            )
        )
        names = ("pg_loss", "vf_loss", "entropy", "approx_kl", "clipfrac", "loss")
        return terms.loss, {name: float(getattr(terms, name)) for name in names}

    def _terms(self, x: LossInputs) -> LossTerms:
        values = self.return_normalizer.normalize(x.values) if self.config.value_norm else x.values
        return ppo_losses.ppo_terms(
            x._replace(values=values), self.config.clip_coef, self._ent_coef, self.config.vf_coef
        )

    def _normalize(self, buffer: RolloutBuffer, *, learn: bool) -> Tensor:
        """Normalise advantages in place and return the returns on the scale of the value loss."""
        if self.config.per_role_adv_norm:
            ppo_losses.normalize_advantages_per_role(
                buffer.advantages, buffer.alive, buffer.roles, NORM_EPS, self.world
            )
        else:
            ppo_losses.normalize_advantages(buffer.advantages, buffer.alive, NORM_EPS, self.world)
        if not self.config.value_norm:
            return buffer.returns
        if learn and not self.world.any(not bool(buffer.returns.isfinite().all())):
            empty = bool((buffer.present == 0).any())
            self.return_normalizer.update(buffer.returns[buffer.present > 0] if empty else buffer.returns)
        return self.return_normalizer.normalize(buffer.returns)

    def _run_epoch(
        self, buffer: RolloutBuffer, states: ChunkStates, returns: Tensor, length: int, epoch: int, tally: UpdateStats
    ) -> None:
        cfg = self.config
        plan = minibatch.plan_minibatches(buffer.num_steps, buffer.num_agents, length, cfg.num_minibatches)
        counted = buffer.present
        if cfg.burn_in_steps:
            counted = counted * (buffer.ages() >= cfg.burn_in_steps)
        waiting = 0
        self.optimizer.zero_grad(set_to_none=True)
        for index, units in enumerate(plan):
            batch = self._batch(buffer, states, returns, counted, units)
            where = f"update {self.updates}, epoch {epoch}, minibatch {index}"
            if not self._accumulate(batch, where, tally):
                continue
            waiting += 1
            if waiting == cfg.grad_accum_steps:
                self._step(where, tally)
                waiting = 0
        if waiting:
            self._step(f"update {self.updates}, end of epoch {epoch}", tally)
        tally.epochs += 1

    def _batch(
        self, buffer: RolloutBuffer, states: ChunkStates, returns: Tensor, counted: Tensor, units: list[Unit]
    ) -> Batch:
        actions = minibatch.gather(buffer.actions, units)
        weights = minibatch.gather(counted, units)
        living = weights * minibatch.gather(buffer.alive, units)
        return Batch(
            obs=minibatch.gather(buffer.obs, units),
            actions=actions,
            dones=minibatch.gather(buffer.dones, units),
            state=states.of(units),
            noise=torch.randn(actions.shape, device=actions.device),
            advantages=minibatch.gather(buffer.advantages, units),
            returns=minibatch.gather(returns, units),
            old_logprobs=minibatch.gather(buffer.logprobs, units),
            policy_weights=living / living.sum().clamp_min(1.0),
            value_weights=weights / weights.sum().clamp_min(1.0),
        )

    def _accumulate(self, batch: Batch, where: str, tally: UpdateStats) -> bool:
        """Add a minibatch's gradient to the parameters; False when it was skipped as not finite anywhere."""
        terms, gradients = self.gradients.of(batch)
        if self.world.any(gradients is None):
            self._not_finite(f"loss at {where}", terms)
            return False
        self.gradients.add(gradients or [])
        tally.terms.append(terms)
        return True

    def _step(self, where: str, tally: UpdateStats) -> None:
        """Average, clip and apply the accumulated gradient, then clear it.

        A gradient that float16 could not hold costs the step and lowers the scale of the loss; it is no fault.
        """
        parameters, scaler = self.gradients.parameters, self.gradients.scaler
        self.world.average([p.grad for p in parameters if p.grad is not None])
        scaler.unscale_(self.optimizer)
        norm = float(nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm))
        if math.isfinite(norm):
            tally.grad_norms.append(norm)
        elif scaler.is_enabled():
            tally.overflows += 1
        else:
            self._not_finite(f"gradient norm at {where}", None)
        if math.isfinite(norm) or scaler.is_enabled():
            scaler.step(self.optimizer)
            scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def _not_finite(self, what: str, terms: LossTerms | None) -> None:
        self.nonfinite += 1
        parts = "" if terms is None else ": " + ", ".join(f"{n} {float(v):g}" for n, v in terms._asdict().items())
        message = f"{what} is not finite{parts}"
        if self.config.nonfinite_policy == "raise":
            raise ValueError(message)
        if self.config.nonfinite_policy == "reload":
            raise ReloadCheckpoint(message)

    def _should_stop(
        self, buffer: RolloutBuffer, init_state: LSTMState, length: int, tally: UpdateStats, last: bool
    ) -> bool:
        """After an epoch: whether the policy has moved too far for another one."""
        if last or self.config.target_kl <= 0:
            return False
        logprobs, _ = self._evaluate(buffer, init_state, length)
        moved = ((buffer.logprobs - logprobs) * buffer.alive).sum() / buffer.alive.sum().clamp_min(1.0)
        self.world.average([moved])
        tally.kl = float(moved)
        return tally.kl > self.config.target_kl

    def _recompute(self, buffer: RolloutBuffer, init_state: LSTMState, length: int) -> None:
        """Re-estimate values, advantages and returns of the rollout with the current weights."""
        _, values = self._evaluate(buffer, init_state, length)
        buffer.values.copy_(values)
        buffer.compute_gae(
            buffer.next_value.clone(), buffer.next_done.clone(), self.config.gamma, self.config.gae_lambda
        )

    @torch.no_grad()
    def _evaluate(self, buffer: RolloutBuffer, state: LSTMState, length: int) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and values ``[T, N]`` under the current weights and true recurrent states.

        They lie in work buffers that are allocated once. The value after the last step is renewed too, and where
        advantages are recomputed those beyond the time limit.
        """
        if self._work is None or self._work[0].shape != buffer.logprobs.shape:
            self._work = (torch.zeros_like(buffer.logprobs), torch.zeros_like(buffer.values))
        logprobs, values = self._work
        with self.gradients.precision():
            for first, end in minibatch.chunk_spans(buffer.num_steps, length):
                span = slice(first, end)
                if self.config.recompute_advantages:
                    self._value_cuts(buffer, first, end, state)
                scores = self.gradients.score(buffer.obs[span], buffer.actions[span], buffer.dones[span], state)
                logprobs[span].copy_(scores.logprobs)
                values[span].copy_(scores.values)
                state = scores.state
            buffer.next_value.copy_(self.model.get_value(buffer.obs_rows[-1], state, buffer.next_done)[0])
        return logprobs, values

    def _value_cuts(self, buffer: RolloutBuffer, first: int, end: int, state: LSTMState) -> None:
        """Renew what the time limit adds to steps ``first`` to ``end``, from the state ``[1, N, H]`` before them."""
        for step, rows, obs in (cut for cut in buffer.cuts if first <= cut.step < end):
            seen, begun = buffer.obs[first : step + 1, rows], buffer.dones[first : step + 1, rows]
            before = self.model.replay_state(seen, begun, LSTMState(state.h[:, rows], state.c[:, rows]))
            value, _ = self.model.get_value(obs, before, torch.zeros_like(begun[0]))
            buffer.truncation_bonus[step, rows] = self.config.gamma * value.float()

    def _shared(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Return metrics whose fractions are means over all processes; counts are the same in each."""
        if self.world.is_alone:
            return metrics
        everyone = self.world.all_gather(metrics)
        fractions = [name for name, value in metrics.items() if isinstance(value, float)]
        return metrics | {name: sum(m[name] for m in everyone) / len(everyone) for name in fractions}

    def _summary(self, tally: UpdateStats) -> dict[str, Any]:
        count = max(1, len(tally.terms))
        means = {name: sum(float(getattr(t, name)) for t in tally.terms) / count for name in LossTerms._fields}
        norms = tally.grad_norms or [0.0]
        return {
            **means,
            "kl": tally.kl,
            "grad_norm": sum(norms) / len(norms),
            "grad_norm_max": max(norms),
            "grad_clipped_share": sum(n > self.config.max_grad_norm for n in norms) / len(norms),
            "epochs": tally.epochs,
            "optimizer_steps": len(tally.grad_norms),
            "overflows": tally.overflows,
            "nonfinite": self.nonfinite,
            "lr": self.lr,
            "ent_coef": self.ent_coef,
            "amp": self.config.amp and low_precision(self.device, self.config.amp_dtype) is not None,
        }


def _parameter_groups(model: nn.Module, config: PPOConfig) -> list[dict[str, Any]]:
    """Return the base group and that of the value head, each with its factor on the step size."""
    base, critic = [], []
    for name, parameter in model.named_parameters():
        (critic if "critic" in name.split(".") else base).append(parameter)
    return [
        {"params": base, "lr": config.lr, "lr_mult": 1.0},
        {"params": critic, "lr": config.lr * config.critic_lr_mult, "lr_mult": config.critic_lr_mult},
    ]


def _rollout_statistics(buffer: RolloutBuffer) -> dict[str, float]:
    """Return what the log says about a rollout's mechs; take it before advantages are normalised."""
    there = buffer.present > 0
    values, returns = buffer.values[there], buffer.returns[there]
    return {
        "explained_variance": ppo_losses.explained_variance(values, returns),
        "adv_std": _spread(buffer.advantages[buffer.alive > 0]),
        "value_std": _spread(values),
        "return_std": _spread(returns),
        "reward_std": _spread(buffer.rewards[there]),
        "dead_share": 1.0 - float(buffer.alive.sum() / buffer.present.sum().clamp_min(1.0)),
    }


def _spread(x: Tensor) -> float:
    """Return the standard deviation of ``x [K]``; 0 for fewer than two."""
    return float(x.std()) if x.numel() > 1 else 0.0
