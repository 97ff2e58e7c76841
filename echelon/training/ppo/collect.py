"""Collection: play a rollout with the current policy, straight from environment tensors into the rollout buffer.

The environment writes observations into their row of the buffer, actions go into the environment's own tensor, so a
step costs one forward pass and a few copies of ``[N]`` vectors. No Python runs per environment.

Shapes: ``E environment, M mech, N learner row, K opponent row, D observation, A action, H recurrent state``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.training.ppo.teacher import Teacher, Teaching, flown_by_learner
from echelon.training.rollout import MAX_MICRO_BATCHES, ChunkStates, RolloutBuffer, Truncation, chunk_spans
from echelon.training.runtime.precision import mixed_precision
from echelon.training.runtime.thread_pool import ThreadPool

FORWARD_ROWS = 512
"""Smallest number of learner rows for a separate forward pass."""


class BatchedEnv(Protocol):
    """The batched environment as the learner uses it; ``VectorEnv`` documents each member."""

    num_envs: int
    rows: int
    obs_dim: int
    action_dim: int
    row_of: Tensor
    """Learner row of each mech [E, M], -1 if it is none."""
    env_of_row: Tensor
    """[N]"""
    agent_of_row: Tensor
    """Index into the flattened [E * M] mechs of each learner row [N]."""
    opponent_rows: int
    env_of_opponent_row: Tensor
    """[K]"""
    agent_of_opponent_row: Tensor
    """[K]"""
    opponent_obs: Tensor
    """[K, D]"""
    roles: Tensor
    """Mech class id of each learner row [N]."""
    normalizable: Tensor
    """Columns that a normalizer may scale [D] bool."""
    obs: Tensor
    """[T + 1, N, D]"""
    final_obs: Tensor
    """[N, D]"""
    actions: Tensor
    """[E, M, A]"""
    rewards: Tensor
    """[E, M]"""
    reward_names: tuple[str, ...]

    @property
    def truncated(self) -> Tensor: ...

    @property
    def present(self) -> Tensor: ...

    @property
    def acting(self) -> Tensor: ...

    @property
    def episode_over(self) -> Tensor: ...

    @property
    def final_mask(self) -> Tensor: ...

    @property
    def central_dim(self) -> int:
        """Columns S of the central state."""
        ...

    def write_central(self, out: Tensor) -> None: ...

    def attach(self, obs: Tensor) -> None: ...

    def reset(self, row: int = 0) -> None: ...

    def step(self, row: int = 0) -> None: ...

    def pop_episodes(self) -> list[Any]: ...

    def set_heuristic_skill(self, skill: str) -> None: ...

    def set_scripted_skills(self, skills: Sequence[str | None]) -> None: ...

    def set_teacher(self, skill: str | None) -> None: ...

    def label(self) -> None: ...

    def set_curriculum(self, **parameters: Any) -> None: ...

    def prefetch_curriculum(self, **parameters: Any) -> None: ...

    def refresh_maps(self, count: int) -> None: ...

    def map_statistics(self) -> dict[str, Any]: ...

    def get_curriculum(self) -> dict[str, Any]: ...

    def state_dict(self) -> dict[str, np.ndarray]: ...

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None: ...

    def close(self) -> None: ...


@dataclass
class EndedEpisodes:
    """Episodes that ended; results of those that a teacher controlled at their end say nothing about the learner."""

    count: int = 0
    """All of them."""
    records: list[Any] = field(default_factory=list)
    """Those of environments in which the learner acts."""
    opponents: list[str] = field(default_factory=list)
    """The opponent of each record."""


@dataclass
class CollectTimes:
    """Duration of the parts of one collection [s]."""

    env_s: float = 0.0
    forward_s: float = 0.0


class Opponents(Protocol):
    """The policies of the mechs that do not learn; ``echelon.training.opponents.pool.OpponentRunner`` is one."""

    names: list[str]
    """Opponent of each environment."""

    def reset(self) -> None:
        """Sample an opponent for every environment, from zero recurrent states."""
        ...

    def act(self) -> None:
        """Write the actions of the opponents into the environment."""
        ...

    def after_step(self, episode_over: Tensor, any_over: bool) -> None:
        """Sample again where ``episode_over [E]``; ``any_over`` says whether that is anywhere."""
        ...


class CollectionAborted(RuntimeError):
    """The collection was aborted half way; the rollout is unusable."""


class Collector:
    """Fills the rollout buffer; carries recurrent state and episode boundaries from one rollout to the next."""

    def __init__(
        self,
        env: BatchedEnv,
        policy: FlatPolicy,
        buffer: RolloutBuffer,
        *,
        chunk_length: int,
        gamma: float,
        truncation_bootstraps: bool,
        amp: bool,
        amp_dtype: str = "auto",
        pool: ThreadPool | None = None,
        opponents: Opponents | None = None,
        teacher: Teacher | None = None,
        first_env: int = 0,
    ) -> None:
        """``first_env`` is the index of the first environment among those of all ranks."""
        self.env, self.policy, self.buffer = env, policy, buffer
        self.teacher, self.first_env = teacher, first_env
        self.teaching = Teaching()
        self._flies = torch.ones(env.rows, 1, dtype=torch.bool, device=buffer.actions.device)
        self.opponents = opponents
        self.gamma = gamma
        self.truncation_bootstraps = truncation_bootstraps
        self.amp, self.amp_dtype = amp, amp_dtype
        self.device = buffer.actions.device
        self._pool = pool or ThreadPool(1)
        self._row_slices = forward_slices(env.rows, self.device)
        self._noise = torch.zeros(env.rows, policy.noise_dim, device=self.device)
        self.chunk_starts = {first: c for c, (first, _) in enumerate(chunk_spans(buffer.num_steps, chunk_length))}
        self.chunk_states = ChunkStates.create(len(self.chunk_starts), env.rows, policy.lstm_hidden_dim, self.device)
        self.start_state = policy.initial_state(env.rows, self.device)
        """Recurrent state before step 0 of the rollout, [1, N, H]."""
        self.state = policy.initial_state(env.rows, self.device)
        """Recurrent state now, [1, N, H]."""
        self.next_done = torch.ones(env.rows, device=self.device)
        """1 where the next step starts an episode [N]."""
        self._flown = torch.ones(env.num_envs, dtype=torch.bool)
        self._ended = EndedEpisodes()
        self._continues = False
        self._row_flags = torch.zeros(env.rows, dtype=torch.bool, device=self.device)
        width = env.obs_dim + policy.central_dim
        assert buffer.obs_rows.shape[1:] == (env.rows, width), "rollout and environment differ in rows or columns"
        assert buffer.actions.shape[1:] == (env.rows, env.action_dim), "rollout and environment differ in actions"
        env.attach(buffer.obs_rows[..., : env.obs_dim] if policy.central_dim else buffer.obs_rows)
        buffer.roles.copy_(env.roles)

    def set_teaching(self, teaching: Teaching) -> None:
        """Set the teacher's part in the coming rollout: whether it labels, and where the learner acts."""
        if self.teacher is not None:
            self.teacher.set_active(teaching.has_labels)
        self.teaching = teaching
        self._flown = flown_by_learner(self.env.num_envs, self.first_env, teaching.flown)
        self._flies.copy_(self._flown.to(self.device)[self.env.env_of_row].unsqueeze(-1))

    @property
    def flown_share(self) -> float:
        """Return the share of learner rows that the learner controls; the teacher controls the others."""
        return float(self._flies.float().mean())

    def reset(self) -> None:
        """Start an episode in every environment; observations go to row 0."""
        if self.opponents is not None:
            self.opponents.reset()
        self.env.reset(0)
        self._write_central(0)
        self.next_done.fill_(1.0)
        for part in self.state:
            part.zero_()
        self.buffer.start_age.zero_()
        self._continues = False

    @torch.inference_mode()
    def collect(self, should_abort: Callable[[], bool] = lambda: False) -> CollectTimes:
        """Fill the rollout except for its advantages; raise ``CollectionAborted`` if ``should_abort`` says so."""
        env, buffer, times = self.env, self.buffer, CollectTimes()
        if self._continues:
            buffer.begin()
        buffer.clear()
        self._continues = True
        _copy_state(self.start_state, self.state)
        flat_actions = env.actions.view(-1, env.action_dim)
        for t in range(buffer.num_steps):
            if should_abort():
                raise CollectionAborted(f"collection aborted at step {t}")
            began = time.perf_counter()
            if t in self.chunk_starts:
                self.chunk_states.store(self.chunk_starts[t], self.state)
            buffer.dones[t].copy_(self.next_done)
            torch.index_select(env.present.view(-1), 0, env.agent_of_row, out=self._row_flags)
            buffer.present[t].copy_(self._row_flags)
            self._noise.normal_()
            self._pool.map(lambda rows, t=t: self._act(t, rows), self._row_slices)
            if self.opponents is not None:
                self.opponents.act()
            flat_actions.index_copy_(0, env.agent_of_row, self._flown_actions(t))
            acted = time.perf_counter()
            env.step(t + 1)
            self._write_central(t + 1)
            self._store_result(t)
            times.forward_s += acted - began
            times.env_s += time.perf_counter() - acted
        return times

    def _write_central(self, t: int) -> None:
        """Write the central state of row t behind the observations, where the critic reads it."""
        if self.policy.central_dim:
            self.env.write_central(self.buffer.obs_rows[t, :, self.env.obs_dim :])

    @torch.inference_mode()
    def _act(self, t: int, rows: slice) -> None:
        """Sample the actions of a range of rows at step t; write them, log-probabilities and values."""
        buffer, state = self.buffer, LSTMState(self.state.h[:, rows], self.state.c[:, rows])
        with mixed_precision(self.device, self.amp, self.amp_dtype):
            action, logprob, value, next_state = self.policy.sample(
                buffer.obs_rows[t, rows], state, self.next_done[rows], self._noise[rows]
            )
        _copy_state(state, next_state)
        buffer.actions[t, rows].copy_(action)
        buffer.logprobs[t, rows].copy_(logprob)
        buffer.values[t, rows].copy_(value)

    def _flown_actions(self, t: int) -> Tensor:
        """Return the actions ``[N, A]`` of step t, the teacher's where it flies; write its labels."""
        actions, labels = self.buffer.actions[t], self.buffer.labels
        if not self.teaching.has_labels:
            return actions
        assert labels is not None and self.teacher is not None, "a rollout with labels has a teacher"
        self.teacher.label(self.buffer.obs_rows[t], self.next_done, labels[t])
        return torch.where(self._flies, actions, labels[t])

    @torch.no_grad()
    def bootstrap(self, gae_lambda: float) -> None:
        """Complete the rollout: the value of the next observation under the detached state, then advantages."""
        with mixed_precision(self.device, self.amp, self.amp_dtype):
            value, _ = self.policy.get_value(self.buffer.obs_rows[-1], self.state, self.next_done)
        self.buffer.compute_gae(value.float(), self.next_done, self.gamma, gae_lambda)

    def carry(self) -> dict[str, Tensor]:
        """Return the tensors that the next rollout starts from, for a checkpoint."""
        return {
            "obs": self.buffer.obs_rows[-1].clone(),
            "start_age": self.buffer.ages()[-1] + 1,
            "next_done": self.next_done.clone(),
            "h": self.state.h.clone(),
            "c": self.state.c.clone(),
            **(self.teacher.carry() if self.teacher is not None else {}),
        }

    def load_carry(self, carry: dict[str, Tensor]) -> None:
        """Continue from what ``carry`` returned; the environment must have been restored to the same step."""
        targets = {
            "obs": self.buffer.obs_rows[0],
            "start_age": self.buffer.start_age,
            "next_done": self.next_done,
            "h": self.state.h,
            "c": self.state.c,
        }
        for name, target in targets.items():
            if carry[name].shape != target.shape:
                raise ValueError(
                    f"checkpoint tensor {name!r} has shape {tuple(carry[name].shape)}, expected {tuple(target.shape)}"
                )
            target.copy_(carry[name])
        if self.teacher is not None:
            self.teacher.load_carry(carry)
        self._continues = False

    def _store_result(self, t: int) -> None:
        """Write rewards, alive flags and episode ends of step t."""
        env, buffer = self.env, self.buffer
        torch.index_select(env.rewards.view(-1), 0, env.agent_of_row, out=buffer.rewards[t])
        torch.index_select(env.acting.view(-1), 0, env.agent_of_row, out=self._row_flags)
        buffer.alive[t].copy_(self._row_flags)
        if self.truncation_bootstraps and bool(env.final_mask.any()):
            self._add_truncation_bonus(t)
        over = env.episode_over
        torch.index_select(over, 0, env.env_of_row, out=self._row_flags)
        self.next_done.copy_(self._row_flags)
        any_over = bool(over.any())
        if any_over:
            ended = env.pop_episodes()
            own = [record for record in ended if self._flown[record.env]]
            self._ended.count += len(ended)
            self._ended.records += own
            self._ended.opponents += [self.opponents.names[record.env] if self.opponents else "" for record in own]
        if self.opponents is not None:
            self.opponents.after_step(over, any_over)

    def take_episodes(self) -> EndedEpisodes:
        """Return the episodes that ended since the last call."""
        taken, self._ended = self._ended, EndedEpisodes()
        return taken

    def _add_truncation_bonus(self, t: int) -> None:
        """Add the discounted value of final observations, under the recurrent state before its reset."""
        env = self.env
        truncated = env.truncated.view(-1)[env.agent_of_row] & env.final_mask[env.env_of_row]
        rows = truncated.nonzero().flatten()
        if rows.numel() == 0:
            return
        truncation = Truncation(t, rows, env.final_obs[rows])
        state = LSTMState(self.state.h[:, rows], self.state.c[:, rows])
        with mixed_precision(self.device, self.amp, self.amp_dtype):
            value, _ = self.policy.get_value(truncation.obs, state, torch.zeros(rows.numel(), device=self.device))
        self.buffer.truncation_bonus[t, rows] = self.gamma * value.float()
        self.buffer.truncations.append(truncation)


def forward_slices(rows: int, device: torch.device) -> list[slice]:
    """Return the ranges of learner rows whose forward passes run in parallel."""
    count = min(MAX_MICRO_BATCHES, max(1, rows // FORWARD_ROWS)) if device.type == "cpu" else 1
    edges = [rows * i // count for i in range(count + 1)]
    return [slice(left, right) for left, right in zip(edges, edges[1:], strict=False)]


def _copy_state(target: LSTMState, source: LSTMState) -> None:
    """Copy a state into existing tensors, which outlive the inference mode that ``source`` was made in."""
    target.h.copy_(source.h)
    target.c.copy_(source.c)
