"""Collection: play a rollout with the current policy, straight from environment tensors into the rollout.

Observations are written into their row by the environment itself, actions into the environment's own tensor,
so a step costs one forward pass and a few copies of ``[N]`` vectors. No Python runs per environment. Shapes:
``E env, M mech, N learner row, A action``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.training.ppo.minibatch import MAX_MICRO_BATCHES, ChunkStates, chunk_spans
from echelon.training.rollout import RolloutBuffer, Truncation
from echelon.training.runtime.precision import mixed_precision
from echelon.training.runtime.thread_pool import ThreadPool

FORWARD_ROWS = 512
"""Fewest learner rows that are worth a forward pass of their own."""


class BatchedEnv(Protocol):
    """What the learner needs of a batched environment; ``VectorEnv`` is the real one."""

    num_envs: int
    rows: int
    obs_dim: int
    action_dim: int
    row_of: Tensor
    env_of_row: Tensor
    agent_of_row: Tensor
    opponent_rows: int
    env_of_opponent_row: Tensor
    agent_of_opponent_row: Tensor
    opponent_obs: Tensor
    roles: Tensor
    normalizable: Tensor
    obs: Tensor
    final_obs: Tensor
    actions: Tensor
    rewards: Tensor
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

    def attach(self, obs: Tensor) -> None: ...

    def reset(self, row: int = 0) -> None: ...

    def step(self, row: int = 0) -> None: ...

    def pop_episodes(self) -> list[Any]: ...

    def set_heuristic_skill(self, skill: str) -> None: ...

    def set_scripted_skills(self, skills: Sequence[str | None]) -> None: ...

    def set_curriculum(self, **levers: Any) -> None: ...

    def prefetch_curriculum(self, **levers: Any) -> None: ...

    def refresh_maps(self, count: int) -> None: ...

    def map_statistics(self) -> dict[str, Any]: ...

    def get_curriculum(self) -> dict[str, Any]: ...

    def state_dict(self) -> dict[str, np.ndarray]: ...

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None: ...

    def close(self) -> None: ...


@dataclass
class CollectTimes:
    """Where the time of one collection went [s]."""

    env_s: float = 0.0
    forward_s: float = 0.0


class Opponents(Protocol):
    """Who flies the mechs that do not learn; ``echelon.training.opponents.pool`` has the real ones."""

    names: list[str]

    def begin(self) -> None: ...

    def act(self) -> None: ...

    def after_step(self, over: Tensor, some: bool) -> None: ...


class CollectionAborted(RuntimeError):
    """The collection was given up half way; the rollout is worthless."""


class Collector:
    """Carries the recurrent state and episode boundary from one rollout to the next."""

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
    ) -> None:
        self.env, self.policy, self.buffer = env, policy, buffer
        self.opponents = opponents
        self.gamma = gamma
        self.truncation_bootstraps = truncation_bootstraps
        self.amp, self.amp_dtype = amp, amp_dtype
        self.device = buffer.actions.device
        self._pool = pool or ThreadPool(1)
        self._parts = row_parts(env.rows, self.device)
        self._noise = torch.zeros(env.rows, policy.noise_dim, device=self.device)
        self.chunk_starts = {first: c for c, (first, _) in enumerate(chunk_spans(buffer.num_steps, chunk_length))}
        self.chunk_states = ChunkStates.create(len(self.chunk_starts), env.rows, policy.lstm_hidden_dim, self.device)
        self.start_state = policy.initial_state(env.rows, self.device)
        self.state = policy.initial_state(env.rows, self.device)
        self.next_done = torch.ones(env.rows, device=self.device)
        self.episodes: list[Any] = []
        """Episodes that ended since the loop last took them."""
        self.met: list[str] = []
        """The opponent of each of them."""
        self._carried = False
        self._scratch = torch.zeros(env.rows, dtype=torch.bool, device=self.device)
        assert buffer.obs_rows.shape[1:] == (env.rows, env.obs_dim), "rollout and environment differ in rows or columns"
        assert buffer.actions.shape[1:] == (env.rows, env.action_dim), "rollout and environment differ in actions"
        env.attach(buffer.obs_rows)
        buffer.roles.copy_(env.roles)

    def reset(self) -> None:
        """Start every environment afresh, observation in row 0."""
        if self.opponents is not None:
            self.opponents.begin()
        self.env.reset(0)
        self.next_done.fill_(1.0)
        for part in self.state:
            part.zero_()
        self.buffer.start_age.zero_()
        self._carried = False

    @torch.inference_mode()
    def collect(self, should_abandon: Callable[[], bool] = lambda: False) -> CollectTimes:
        """Fill the rollout, its bootstrap value excepted; ``CollectionAborted`` when asked to give up."""
        env, buffer, times = self.env, self.buffer, CollectTimes()
        if self._carried:
            buffer.begin()
        buffer.clear()
        self._carried = True
        _keep(self.start_state, self.state)
        flat_actions = env.actions.view(-1, env.action_dim)
        for t in range(buffer.num_steps):
            if should_abandon():
                raise CollectionAborted(f"collection given up at step {t}")
            began = time.perf_counter()
            if t in self.chunk_starts:
                self.chunk_states.store(self.chunk_starts[t], self.state)
            buffer.dones[t].copy_(self.next_done)
            torch.index_select(env.present.view(-1), 0, env.agent_of_row, out=self._scratch)
            buffer.present[t].copy_(self._scratch)
            self._noise.normal_()
            self._pool.map(lambda part, t=t: self._decide(t, part), self._parts)
            flat_actions.index_copy_(0, env.agent_of_row, buffer.actions[t])
            if self.opponents is not None:
                self.opponents.act()
            acted = time.perf_counter()
            env.step(t + 1)
            self._store_result(t)
            times.forward_s += acted - began
            times.env_s += time.perf_counter() - acted
        return times

    @torch.inference_mode()
    def _decide(self, t: int, rows: slice) -> None:
        """Draw the actions of a range of rows at step t and write everything about them into the rollout."""
        buffer, state = self.buffer, LSTMState(self.state.h[:, rows], self.state.c[:, rows])
        with mixed_precision(self.device, self.amp, self.amp_dtype):
            action, logprob, value, after = self.policy.sample(
                buffer.obs_rows[t, rows], state, self.next_done[rows], self._noise[rows]
            )
        _keep(state, after)
        buffer.actions[t, rows].copy_(action)
        buffer.logprobs[t, rows].copy_(logprob)
        buffer.values[t, rows].copy_(value)

    @torch.no_grad()
    def bootstrap(self, gae_lambda: float) -> None:
        """Finish the rollout: value of the next observation under the detached state, then advantages."""
        with mixed_precision(self.device, self.amp, self.amp_dtype):
            value, _ = self.policy.get_value(self.buffer.obs_rows[-1], self.state, self.next_done)
        self.buffer.compute_gae(value.float(), self.next_done, self.gamma, gae_lambda)

    def carry(self) -> dict[str, Tensor]:
        """Return what the next rollout starts from, as tensors."""
        return {
            "obs": self.buffer.obs_rows[-1].clone(),
            "start_age": self.buffer.ages()[-1] + 1,
            "next_done": self.next_done.clone(),
            "h": self.state.h.clone(),
            "c": self.state.c.clone(),
        }

    def load_carry(self, carry: dict[str, Tensor]) -> None:
        """Continue from ``carry``; the environment must have been restored to the same moment."""
        for name, mine in self._carry_targets().items():
            if carry[name].shape != mine.shape:
                raise ValueError(
                    f"checkpoint has {name} of shape {tuple(carry[name].shape)}, this run wants {tuple(mine.shape)}"
                )
            mine.copy_(carry[name])
        self._carried = False

    def _carry_targets(self) -> dict[str, Tensor]:
        return {
            "obs": self.buffer.obs_rows[0],
            "start_age": self.buffer.start_age,
            "next_done": self.next_done,
            "h": self.state.h,
            "c": self.state.c,
        }

    def _store_result(self, t: int) -> None:
        env, buffer = self.env, self.buffer
        torch.index_select(env.rewards.view(-1), 0, env.agent_of_row, out=buffer.rewards[t])
        torch.index_select(env.acting.view(-1), 0, env.agent_of_row, out=self._scratch)
        buffer.alive[t].copy_(self._scratch)
        if self.truncation_bootstraps and bool(env.final_mask.any()):
            self._add_truncation_bonus(t)
        over = env.episode_over
        torch.index_select(over, 0, env.env_of_row, out=self._scratch)
        self.next_done.copy_(self._scratch)
        some = bool(over.any())
        if some:
            ended = env.pop_episodes()
            self.episodes += ended
            self.met += [self.opponents.names[record.env] if self.opponents else "" for record in ended]
        if self.opponents is not None:
            self.opponents.after_step(over, some)

    def take_episodes(self) -> tuple[list[Any], list[str]]:
        """Return the episodes that ended since the last call, and the opponent of each."""
        taken = self.episodes, self.met
        self.episodes, self.met = [], []
        return taken

    def _add_truncation_bonus(self, t: int) -> None:
        """Add the discounted value of final observations, under the recurrent state before its reset."""
        env = self.env
        over = env.truncated.view(-1)[env.agent_of_row] & env.final_mask[env.env_of_row]
        rows = over.nonzero().flatten()
        if rows.numel() == 0:
            return
        cut = Truncation(t, rows, env.final_obs[rows])
        state = LSTMState(self.state.h[:, rows], self.state.c[:, rows])
        with mixed_precision(self.device, self.amp, self.amp_dtype):
            value, _ = self.policy.get_value(cut.obs, state, torch.zeros(rows.numel(), device=self.device))
        self.buffer.truncation_bonus[t, rows] = self.gamma * value.float()
        self.buffer.cuts.append(cut)


def row_parts(rows: int, device: torch.device) -> list[slice]:
    """Return the ranges of learner rows that are decided at the same time."""
    count = min(MAX_MICRO_BATCHES, max(1, rows // FORWARD_ROWS)) if device.type == "cpu" else 1
    edges = [rows * p // count for p in range(count + 1)]
    return [slice(left, right) for left, right in zip(edges, edges[1:], strict=False)]


def _keep(mine: LSTMState, new: LSTMState) -> None:
    """Copy a state into tensors of our own, which outlive the inference mode it was made in."""
    mine.h.copy_(new.h)
    mine.c.copy_(new.c)
