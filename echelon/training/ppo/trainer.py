"""The update: recurrent proximal policy optimization over chunks of a rollout (Schulman et al., 2017).

A chunk is scored whole, from the recurrent state that the rollout had at its start, and gradients flow through all
of it. Minibatches are chunks times groups of rows. How a rollout is divided is in ``echelon.training.rollout``, terms
and gradients are in ``losses``; ``host.update`` and ``graph.update`` train on minibatches.

Shapes: ``T step, N learner row, D observation, A action, L chunk step, B sequence, H recurrent state``.
"""

import math
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from echelon.config import PPOConfig
from echelon.rl.actor_critic import ActorCritic
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.training import rollout
from echelon.training.normalization import NORM_EPS, ReturnNormalizer
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo.actor import forward_slices
from echelon.training.ppo.critic import CriticTrainer, TeamCritic
from echelon.training.ppo.execution import make_update
from echelon.training.ppo.losses import Coefficients, Gradients, LossInputs, LossTerms, UpdateStats
from echelon.training.ppo.optimizer import LearningRate, load_moments, make_optimizer, saved_state
from echelon.training.ppo.teacher import Teaching
from echelon.training.runtime.devices import low_precision
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.threads import ThreadPool
from echelon.training.starting_point import RETURN_STATISTICS

START_FROM_COUNT = 5e6
"""Largest count of statistics of returns that a run starts from."""


class ReloadCheckpoint(RuntimeError):
    """The update was not finite and ``nonfinite_policy`` is ``reload``."""


class PPOTrainer:
    """The optimizer and return statistics of ``model``, whose weights it changes in place."""

    def __init__(
        self,
        model: nn.Module,
        config: PPOConfig,
        device: torch.device | str = "cpu",
        pool: ThreadPool | None = None,
        group: ProcessGroup | None = None,
        magnet: FlatPolicy | None = None,
        critic: TeamCritic | None = None,
    ) -> None:
        """``magnet`` is the policy that ``ppo.magnet_coef`` pulls ``model`` to; ``critic`` values rollouts."""
        self.model, self.magnet = cast(Any, model), magnet
        self._core: ActorCritic = self.model.core
        self.config = config
        self.device = torch.device(device)
        self.group = group or ProcessGroup()
        self.return_normalizer = ReturnNormalizer(device=self.device, group=self.group)
        self.gradients = Gradients(model, config, self.device, self._terms, self._coefficients)
        self.optimizer = make_optimizer(model, config, capturable=self.gradients.captures)
        self.learning_rate = LearningRate(self.optimizer, config, self.device)
        self._pool = pool or ThreadPool(1)
        self.minibatch_update = make_update(
            self.gradients, self.optimizer, self.learning_rate, self._pool, self.group, self._report
        )
        self.ent_coef = config.ent_coef
        self._ent_coef = torch.tensor(config.ent_coef, device=self.device)
        self._imitation_coef = torch.tensor(0.0, device=self.device)
        self.teaching = Teaching()
        self.lr = config.lr
        self.updates = 0
        self.nonfinite = 0
        self._scored: tuple[Tensor, Tensor] | None = None
        parts = config, self.gradients.regime, self._pool, self.group
        self.critic = None if critic is None else CriticTrainer(critic.to(self.device), *parts)

    def set_progress(self, progress: float, teaching: Teaching | None = None) -> None:
        """Set learning rate, coefficients and width of actions for ``progress`` in [0, 1] through training.

        ``teaching`` is the teacher's part in the coming update, None without a teacher.
        """
        progress = min(1.0, max(0.0, progress))
        self._set_teaching(Teaching(lr_progress=progress) if teaching is None else teaching)
        first, last = self.config.ent_coef, self.config.ent_coef_end
        self.ent_coef = first if last is None else first + (last - first) * progress
        self._ent_coef.fill_(self.ent_coef)
        lr_progress, factor = self.teaching.lr_progress, self.teaching.lr_factor
        self.lr = self.config.lr * factor * schedule_factor(self.config.lr_schedule, lr_progress)
        self.learning_rate.set(self.lr)
        self._core.set_progress(progress)

    def _set_teaching(self, teaching: Teaching) -> None:
        """Store the teacher's part; a captured gradient is captured again where other terms enter the loss."""
        before, self.teaching = self.teaching, teaching
        self._imitation_coef.fill_(teaching.coef)
        if teaching.imitates:
            self.learning_rate.restart(1.0)
        elif before.imitates:
            self.learning_rate.restart()
        if (before.imitates, before.has_labels) != (teaching.imitates, teaching.has_labels):
            self.minibatch_update.clear()

    def update(
        self, buffer: rollout.RolloutBuffer, init_state: LSTMState, chunk_states: rollout.ChunkStates | None = None
    ) -> dict[str, Any]:
        """Train on a rollout and return plain metrics, averaged over the minibatches.

        ``init_state [1, N, H]`` is the state before step 0; ``chunk_states`` are those stored by the collector,
        recomputed if None. Raises ``ValueError`` if the rollout has no advantages; a loss or gradient that is not
        finite is handled as ``nonfinite_policy`` says.
        """
        return self.finish(self.begin(buffer, init_state, chunk_states))

    def begin(
        self, buffer: rollout.RolloutBuffer, init_state: LSTMState, chunk_states: rollout.ChunkStates | None = None
    ) -> dict[str, Any]:
        """Begin an update, on a GPU without waiting for its end, and return what ``finish`` needs."""
        buffer.require_ready()
        self.updates += 1
        cfg, kl, epochs = self.config, 0.0, 0
        length = rollout.chunk_length(buffer.num_steps, cfg.tbptt_chunk_length, cfg.num_minibatches)
        states = chunk_states or self.chunk_states(buffer, init_state)
        if self.critic is not None:
            self._compute_gae(buffer)
        before = rollout.rollout_statistics(buffer) | {"lr_factor": self.learning_rate.factor}
        if self.teaching.has_labels:
            before |= rollout.agreement(buffer)
        returns = self._normalize(buffer, update_statistics=True)
        if cfg.magnet_coef and not self.teaching.imitates:
            before |= {"magnet_kl": self._pull(buffer, init_state, length)}
        if self.critic is not None:
            self.critic.train(buffer, returns, self._scaled, self.lr)
        self.minibatch_update.begin(buffer, length)
        for epoch in range(cfg.update_epochs):
            self._run_epoch(buffer, states, returns, length, epoch)
            epochs, stops = epoch + 1, cfg.target_kl > 0 and not self.teaching.imitates
            if epochs == cfg.update_epochs or not (stops or cfg.recompute_advantages):
                continue
            logprobs, values = self._score_rollout(buffer, init_state, length)
            if stops and (kl := self._kl(buffer, logprobs)) > cfg.target_kl:
                break
            if cfg.recompute_advantages:
                buffer.values.copy_(values)
                self._compute_gae(buffer)
                returns = self._normalize(buffer, update_statistics=False)
        return {**before, "kl": kl, "epochs": epochs}

    def finish(self, begun: dict[str, Any]) -> dict[str, Any]:
        """Wait for the update that has begun and return its metrics."""
        stats, metrics = self.minibatch_update.finish(begun)
        return self._averaged({**metrics, **self._metrics(stats)})

    def update_obs_normalizer(self, buffer: rollout.RolloutBuffer) -> None:
        self.minibatch_update.update_observations(self.model.obs_normalizer, buffer.obs, buffer.alive)

    def chunk_states(self, buffer: rollout.RolloutBuffer, init_state: LSTMState) -> rollout.ChunkStates:
        """Return the state at every chunk start, replayed from ``init_state [1, N, H]`` without gradient."""
        cfg, state = self.config, init_state
        length = rollout.chunk_length(buffer.num_steps, cfg.tbptt_chunk_length, cfg.num_minibatches)
        spans = rollout.chunk_spans(buffer.num_steps, length)
        states = rollout.ChunkStates.create(len(spans), buffer.num_agents, init_state.h.shape[-1], self.device)
        with torch.no_grad(), self.gradients.precision():
            for chunk, (first, end) in enumerate(spans):
                states.store(chunk, state)
                if end < buffer.num_steps:
                    state = self.model.replay_state(buffer.obs[first:end], buffer.dones[first:end], state)
        return states

    def state_dict(self) -> dict[str, Any]:
        return {
            "optimizer": saved_state(self.optimizer),
            "scaler": self.gradients.scaler.state_dict(),
            RETURN_STATISTICS: self.return_normalizer.state_dict(),
            "lr_factor": self.learning_rate.factor.clone(),
            "imitates": self.teaching.imitates,
            "log_std_start": self._core.log_std_span[0],
            "updates": self.updates,
            "nonfinite": self.nonfinite,
            **({} if self.critic is None else {"critic": self.critic.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``; optimizer tensors move to the parameters' devices.

        The moments of the optimizer are loaded; its options stay those of this trainer's configuration.
        """
        load_moments(self.optimizer, state["optimizer"])
        self.teaching = replace(self.teaching, imitates=state.get("imitates", False))
        self._core.log_std_span = (state.get("log_std_start", self._core.log_std_span[0]), self._core.log_std_span[1])
        self.learning_rate.factor.copy_(torch.as_tensor(state.get("lr_factor", 1.0)))
        self.minibatch_update.clear()
        if state.get("scaler"):
            self.gradients.scaler.load_state_dict(state["scaler"])
        self.return_normalizer.load_state_dict(state[RETURN_STATISTICS])
        self.updates = int(state["updates"])
        self.nonfinite = int(state["nonfinite"])
        self._load_critic(state)

    def start_from(self, state: dict[str, Any]) -> None:
        """Begin a new run with the model's loaded weights and what ``state``, another trainer's, has beside them.

        Statistics of returns count so little that they follow the new task, and the bound of the log standard deviation
        begins at that of the weights. Those of observations stay: others would change what the weights do.
        """
        if state.get("optimizer", {}).keys() == {"adam"}:
            load_moments(self.optimizer, state["optimizer"])
        if RETURN_STATISTICS in state:
            self.return_normalizer.load_state_dict(state[RETURN_STATISTICS])
        self.return_normalizer.count.clamp_(max=START_FROM_COUNT)
        if self._core.log_std_max is not None:
            self._core.log_std_span = (float(self._core.log_std_max), self._core.log_std_span[1])
        self._load_critic(state)

    def _load_critic(self, state: dict[str, Any]) -> None:
        if self.critic is not None and "critic" in state:
            self.critic.load_state_dict(state["critic"])

    def _compute_gae(self, buffer: rollout.RolloutBuffer) -> None:
        """Recompute returns and advantages, from values of the critic where there is one."""
        if self.critic is not None:
            self.critic.value(buffer)
        next_value, next_done = buffer.next_value.clone(), buffer.next_done.clone()
        buffer.compute_gae(next_value, next_done, self.config.gamma, self.config.gae_lambda)

    def _scaled(self, values: Tensor) -> Tensor:
        """Return values on the scale of the value loss."""
        return self.return_normalizer.normalize(values) if self.config.value_norm else values

    def _terms(self, x: LossInputs) -> LossTerms:
        x, cfg = x._replace(values=self._scaled(x.values)), self.config
        if self.teaching.imitates:
            return ppo_losses.imitation_terms(x, self._imitation_coef, cfg.vf_coef)
        return ppo_losses.ppo_terms(x, cfg.clip_coef, self._ent_coef, cfg.vf_coef, self._imitation_coef)

    def _coefficients(self) -> Coefficients:
        """Return what ``_terms`` reads."""
        cfg, scale, shift = self.config, 1.0, 0.0
        if cfg.value_norm:
            mean, zero = (float(self.return_normalizer.normalize(torch.tensor(x))) for x in (1.0, 0.0))
            scale, shift = mean - zero, zero
        imitation = float(self._imitation_coef) if self.teaching.has_labels else 0.0
        imitates = float(self.teaching.imitates)
        return Coefficients(cfg.clip_coef, self.ent_coef, cfg.vf_coef, imitation, scale, shift, imitates)

    def _normalize(self, buffer: rollout.RolloutBuffer, *, update_statistics: bool) -> Tensor:
        """Normalize advantages in place and return the returns ``[T, N]`` on the scale of the value loss."""
        if self.config.per_role_adv_norm:
            ppo_losses.normalize_advantages_per_role(
                buffer.advantages, buffer.alive, buffer.role_rows, NORM_EPS, self.group
            )
        else:
            ppo_losses.normalize_advantages(buffer.advantages, buffer.alive, NORM_EPS, self.group)
        if not self.config.value_norm:
            return buffer.returns
        if update_statistics:
            self.minibatch_update.update_returns(self.return_normalizer, buffer.returns, buffer.alive)
        return self.return_normalizer.normalize(buffer.returns)

    def _run_epoch(
        self, buffer: rollout.RolloutBuffer, states: rollout.ChunkStates, returns: Tensor, length: int, epoch: int
    ) -> None:
        cfg = self.config
        plan = rollout.plan_minibatches(
            buffer.num_steps, buffer.num_agents, length, cfg.num_minibatches, draws_rows=cfg.draw_members
        )
        self.minibatch_update.make_room(plan)
        plan = rollout.upload_plan(plan, self.device)
        if epoch == 0:
            self.learning_rate.begin(cfg.update_epochs * len(plan), buffer.updates_behind)
        counted = buffer.alive * buffer.present
        if cfg.burn_in_steps:
            counted = counted * (buffer.ages() >= cfg.burn_in_steps)
        scored = None
        if cfg.advantage_share < 1.0 and not self.teaching.imitates:
            scored = ppo_losses.largest_advantages(buffer.advantages, counted, cfg.advantage_share)
        batches = (
            rollout.gather_minibatch(
                buffer,
                states,
                returns,
                counted,
                units,
                scored=scored,
                packed=self.minibatch_update.packed,
                skips_idle=self.minibatch_update.skips_idle,
                has_labels=self.teaching.has_labels,
            )
            for units in plan
        )
        self.minibatch_update.train(batches, len(plan), f"update {self.updates}, epoch {epoch}")

    def _pull(self, buffer: rollout.RolloutBuffer, start: LSTMState, length: int) -> Tensor:
        """Lower the normalized advantages of actions that are likelier than under the magnet, and return the mean KL.

        Their gradient is then that of magnetic mirror descent (Sokota et al., 2023). The magnet reads the recurrent
        states that the collecting policy had at the start of the rollout.
        """
        magnet, pulls = self.magnet, torch.empty_like(buffer.logprobs)
        assert magnet is not None, "ppo.magnet_coef needs a magnet"

        def score(rows: slice) -> None:
            state = LSTMState(start.h[:, rows], start.c[:, rows])
            with torch.no_grad(), self.gradients.precision():
                for first, end in rollout.chunk_spans(buffer.num_steps, length):
                    own = slice(first, end), rows
                    scores = magnet.score_sequence(buffer.obs[own], buffer.actions[own], buffer.dones[own], state)
                    pulls[own], state = buffer.logprobs[own] - scores.logprobs, scores.state

        self._pool.map(score, forward_slices(buffer.num_agents, magnet.regime))
        kl, _, _ = ppo_losses.moments(pulls, buffer.alive, self.group)
        buffer.advantages.sub_(self.config.magnet_coef * (pulls - kl))
        return kl

    def _report(self, what: str, terms: LossTerms | None) -> None:
        self.nonfinite += 1
        parts = "" if terms is None else ": " + ", ".join(f"{n} {float(v):g}" for n, v in terms._asdict().items())
        message = f"{what} is not finite{parts}"
        if self.config.nonfinite_policy == "raise":
            raise ValueError(message)
        if self.config.nonfinite_policy == "reload":
            raise ReloadCheckpoint(message)

    def _kl(self, buffer: rollout.RolloutBuffer, logprobs: Tensor) -> float:
        """Return the mean KL estimate over living steps from the collecting policy to that of ``logprobs [T, N]``."""
        kl = ((buffer.logprobs - logprobs) * buffer.alive).sum() / buffer.alive.sum().clamp_min(1.0)
        self.group.average([kl])
        return float(kl)

    @torch.no_grad()
    def _score_rollout(self, buffer: rollout.RolloutBuffer, state: LSTMState, length: int) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and values ``[T, N]`` under the current weights and exact recurrent states.

        They lie in buffers that are allocated once. ``buffer.next_value`` is recomputed too and, with
        ``recompute_advantages``, ``buffer.truncation_bonus``.
        """
        if self._scored is None or self._scored[0].shape != buffer.logprobs.shape:
            self._scored = (torch.zeros_like(buffer.logprobs), torch.zeros_like(buffer.values))
        logprobs, values = self._scored
        with self.gradients.precision():
            for first, end in rollout.chunk_spans(buffer.num_steps, length):
                span = slice(first, end)
                if self.config.recompute_advantages:
                    self._revalue_truncations(buffer, first, end, state)
                scores = self.gradients.score(buffer.obs[span], buffer.actions[span], buffer.dones[span], state)
                logprobs[span].copy_(scores.logprobs)
                values[span].copy_(scores.values)
                state = scores.state
            buffer.next_value.copy_(self.model.get_value(buffer.obs_rows[-1], state, buffer.next_done)[0])
        return logprobs, values

    def _revalue_truncations(self, buffer: rollout.RolloutBuffer, first: int, end: int, state: LSTMState) -> None:
        for step, rows, final_obs in (t for t in buffer.truncations if first <= t.step < end):
            obs, dones = buffer.obs[first : step + 1, rows], buffer.dones[first : step + 1, rows]
            before = self.model.replay_state(obs, dones, LSTMState(state.h[:, rows], state.c[:, rows]))
            value, _ = self.model.get_value(final_obs, before, torch.zeros_like(dones[0]))
            buffer.truncation_bonus[step, rows] = self.config.gamma * value.float()

    def _averaged(self, metrics: dict[str, Any]) -> dict[str, Any]:
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
            "grad_norm": sum(norms) / len(norms),
            "grad_norm_max": max(norms),
            "grad_clipped_share": sum(n > self.config.max_grad_norm for n in norms) / len(norms),
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


def schedule_factor(schedule: str, progress: float) -> float:
    if schedule == "none":
        return 1.0
    if schedule == "linear":
        return 1.0 - progress
    if schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    raise ValueError(f"lr_schedule is {schedule!r}, expected none, linear or cosine")
