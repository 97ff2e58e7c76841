"""Collection: play a rollout with the current policy, straight from environment tensors into the rollout buffer.

The environment writes observations into their row of the buffer, actions go into the environment's own tensor, so a
step costs one forward pass and a few copies of ``[N]`` vectors. No Python runs per environment. ``host.steps`` and
``graph.steps`` play a step; both call ``choose``, ``store`` and ``note_boundaries`` of the collector.

Shapes: ``E environment, M mech, N learner row, K opponent row, D observation, A action, H recurrent state``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from echelon.config import PPOConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.regime import Regime
from echelon.rl.traced_policy import trace_sample
from echelon.training.batched_env import BatchedEnv
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.ppo.teacher import Teacher, Teaching, flown_by_learner
from echelon.training.rollout import (
    MAX_MICRO_BATCHES,
    ChunkStates,
    RolloutBuffer,
    RolloutRow,
    chunk_length,
    chunk_spans,
)
from echelon.training.runtime.devices import low_precision, mixed_precision, upload
from echelon.training.runtime.threads import ThreadPool

FORWARD_ROWS = 512
"""Smallest number of learner rows for a separate forward pass."""
LEARNER_BEGAN = "learner_began"
"""Key of the environments in a checkpoint whose running episode is the learner's from its first step."""


@dataclass
class EndedEpisodes:
    """Episodes that ended; results of those in which a teacher acted say nothing about the learner."""

    count: int = 0
    """All of them."""
    records: list[Any] = field(default_factory=list)
    """Those in which the learner acted from the first step."""
    opponents: list[str] = field(default_factory=list)
    """The opponent of each record."""


@dataclass
class CollectTimes:
    """Duration of the parts of one collection [s]; on a device ``env_s`` has the learner's forward pass too."""

    env_s: float = 0.0
    forward_s: float = 0.0


class Steps(Protocol):
    """How the steps of a rollout are played."""

    def begin(self) -> None: ...

    def play(self, t: int, times: CollectTimes) -> None:
        """Play step t and add to ``times``."""

    def end(self) -> None: ...

    def clear(self) -> None:
        """Drop captured graphs."""


class CollectionAborted(RuntimeError):
    """The collection was aborted half way; the rollout is unusable."""


class Collector:
    """Fills the rollout buffer; carries recurrent state and episode boundaries from one rollout to the next."""

    def __init__(
        self,
        env: BatchedEnv,
        policy: FlatPolicy,
        buffer: RolloutBuffer,
        config: PPOConfig,
        make_steps: Callable[[Collector], Steps],
        *,
        truncation_bootstraps: bool,
        pool: ThreadPool | None = None,
        opponents: OpponentRunner | None = None,
        teacher: Teacher | None = None,
        first_env: int = 0,
    ) -> None:
        """``first_env`` is the index of the first environment among those of all ranks."""
        self.env, self.policy, self.buffer = env, policy, buffer
        rows, envs = env.rows.count, env.sizes.num_envs
        self.teacher, self.first_env = teacher, first_env
        self.teaching = Teaching()
        self._flies = torch.ones(rows, 1, dtype=torch.bool, device=buffer.actions.device)
        self.opponents = opponents
        self.config, self.gamma = config, config.gamma
        self.truncation_bootstraps = truncation_bootstraps
        self.device = buffer.actions.device
        self._sample = trace_sample(policy, low_precision(self.device, config.amp_dtype) if config.amp else None)
        self._pool = pool or ThreadPool(1)
        self._row_slices = forward_slices(rows, policy.regime)
        self._noise = torch.zeros(rows, policy.noise_dim, device=self.device)
        length = chunk_length(buffer.num_steps, config.tbptt_chunk_length, config.num_minibatches)
        self.chunk_starts = {first: c for c, (first, _) in enumerate(chunk_spans(buffer.num_steps, length))}
        self.chunk_states = ChunkStates.create(len(self.chunk_starts), rows, policy.lstm_hidden_dim, self.device)
        self.start_state = policy.initial_state(rows, self.device)
        """Recurrent state before step 0 of the rollout, [1, N, H]."""
        self.state = policy.initial_state(rows, self.device)
        """Recurrent state now, [1, N, H]."""
        self.next_done = torch.ones(rows, device=self.device)
        """1 where the next step starts an episode [N]."""
        self._flown, self._env_of_row = [True] * envs, env.rows.env.cpu()
        self._learner_began = [True] * envs
        """Whether the learner has acted in the running episode of each environment from its first step."""
        self.flown_share = 1.0
        """Share of learner rows that the learner controls; the teacher controls the others."""
        self._ended = EndedEpisodes()
        self._continues = False
        width = env.sizes.obs_dim + policy.central_dim
        assert buffer.obs_rows.shape[1:] == (rows, width), "rollout and environment differ in rows or columns"
        assert buffer.actions.shape[1:] == (rows, env.sizes.action_dim), "rollout and environment differ in actions"
        env.rows.attach(buffer.obs_rows[..., : env.sizes.obs_dim] if policy.central_dim else buffer.obs_rows)
        buffer.set_roles(env.rows.roles)
        self.steps = make_steps(self)

    def set_teaching(self, teaching: Teaching) -> None:
        """Set the teacher's part in the coming rollout: whether it labels, and where the learner acts."""
        if self.teacher is not None:
            self.teacher.set_active(teaching.has_labels)
        if teaching.has_labels != self.teaching.has_labels:
            self.steps.clear()
        self.teaching = teaching
        flown = flown_by_learner(self.env.sizes.num_envs, self.first_env, teaching.flown)
        self._flown = flown.tolist()
        self._learner_began = [began and flies for began, flies in zip(self._learner_began, self._flown, strict=True)]
        rows = flown[self._env_of_row]
        self.flown_share = float(rows.float().mean())
        self._flies.copy_(upload(rows, self.device).unsqueeze(-1))

    def reset(self) -> None:
        """Start an episode in every environment; observations go to row 0."""
        if self.opponents is not None:
            self.opponents.reset()
        self.env.reset(0)
        self.write_central(self.buffer.obs_rows[0])
        self.next_done.fill_(1.0)
        for part in self.state:
            part.zero_()
        self.buffer.start_age.zero_()
        self._learner_began = list(self._flown)
        self._continues = False

    @torch.inference_mode()
    def collect(self, should_abort: Callable[[], bool] = lambda: False) -> CollectTimes:
        """Fill the rollout except for its advantages; raise ``CollectionAborted`` if ``should_abort`` says so."""
        buffer, times = self.buffer, CollectTimes()
        if self._continues:
            buffer.begin()
        buffer.clear()
        self._continues = True
        _copy_state(self.start_state, self.state)
        self.steps.begin()
        for t in range(buffer.num_steps):
            if should_abort():
                raise CollectionAborted(f"collection aborted at step {t}")
            began = time.perf_counter()
            if t in self.chunk_starts:
                self.chunk_states.store(self.chunk_starts[t], self.state)
            self._noise.normal_()
            if self.opponents is not None:
                self.opponents.act()
            times.forward_s += time.perf_counter() - began
            self.steps.play(t, times)
        began = time.perf_counter()
        self.steps.end()
        times.env_s += time.perf_counter() - began
        return times

    def choose(self, row: RolloutRow) -> None:
        """Write the learners' actions into the environment, and into ``row`` what the rollout stores before a step."""
        env = self.env
        row.dones.copy_(self.next_done)
        row.present.copy_(env.rows.of_mechs(env.results.present))
        self._pool.map(lambda rows: self._act(row, rows), self._row_slices)
        env.rows.act(self._flown_actions(row))

    @torch.inference_mode()
    def _act(self, row: RolloutRow, rows: slice) -> None:
        state = LSTMState(self.state.h[:, rows], self.state.c[:, rows])
        sampled = self._sample(row.obs[rows], state, self.next_done[rows], self._noise[rows])
        action, logprob, value, next_state = sampled
        _copy_state(state, next_state)
        row.actions[rows].copy_(action)
        row.logprobs[rows].copy_(logprob)
        row.values[rows].copy_(value)

    def _flown_actions(self, row: RolloutRow) -> Tensor:
        if not self.teaching.has_labels:
            return row.actions
        assert row.labels is not None and self.teacher is not None, "a rollout with labels has a teacher"
        self.teacher.label(row.obs, self.next_done, row.labels)
        return torch.where(self._flies, row.actions, row.labels)

    def write_central(self, obs: Tensor) -> None:
        """Write the central state behind the observations ``obs [N, D]``, where the critic reads it."""
        if self.policy.central_dim:
            self.env.rows.write_central(obs[:, self.env.sizes.obs_dim :])

    def store(self, row: RolloutRow) -> None:
        """Write rewards and alive flags of the step that was played into ``row``."""
        env = self.env
        row.rewards.copy_(env.rows.of_mechs(env.results.rewards))
        row.alive.copy_(env.rows.of_mechs(env.results.acting))

    def note_boundaries(self) -> Tensor:
        """Note where the next step starts an episode, and return whether one is over in each environment ``[E]``."""
        over = self.env.results.over
        self.next_done.copy_(self.env.rows.of_envs(over))
        return over

    def value(self, obs: Tensor, state: LSTMState, dones: Tensor) -> Tensor:
        """Return the values ``[K]`` of ``obs [K, D]`` under ``state [1, K, H]``, without gradient."""
        with mixed_precision(self.device, self.config.amp, self.config.amp_dtype):
            return self.policy.get_value(obs, state, dones)[0].float()

    @torch.no_grad()
    def bootstrap(self, gae_lambda: float) -> None:
        """Complete the rollout: the value of the next observation under the detached state, then advantages."""
        value = self.value(self.buffer.obs_rows[-1], self.state, self.next_done)
        self.buffer.compute_gae(value, self.next_done, self.gamma, gae_lambda)

    def carry(self) -> dict[str, Tensor]:
        return {
            "obs": self.buffer.obs_rows[-1].clone(),
            "start_age": self.buffer.ages()[-1] + 1,
            "next_done": self.next_done.clone(),
            "h": self.state.h.clone(),
            "c": self.state.c.clone(),
            LEARNER_BEGAN: torch.tensor(self._learner_began),
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
        self._learner_began = carry[LEARNER_BEGAN].tolist()
        self._continues = False

    def add_episodes(self, ended: Sequence[Any], opponents: Sequence[str], unrecorded: int = 0) -> None:
        """Add records of ended episodes, in order of time, where the learner acted throughout, and their opponents.

        ``unrecorded`` more have ended.
        """
        own: list[int] = []
        for i, record in enumerate(ended):
            if self._learner_began[record.env]:
                own.append(i)
            self._learner_began[record.env] = self._flown[record.env]
        self._ended.count += len(ended) + unrecorded
        self._ended.records += [ended[i] for i in own]
        self._ended.opponents += [opponents[i] for i in own]

    def take_episodes(self) -> EndedEpisodes:
        taken, self._ended = self._ended, EndedEpisodes()
        return taken


def forward_slices(rows: int, regime: Regime) -> list[slice]:
    """Return the ranges of learner rows whose forward passes run in parallel; a device takes all rows at once."""
    count = min(MAX_MICRO_BATCHES, max(1, rows // FORWARD_ROWS)) if regime.packs else 1
    edges = [rows * i // count for i in range(count + 1)]
    return [slice(left, right) for left, right in zip(edges, edges[1:], strict=False)]


def _copy_state(target: LSTMState, source: LSTMState) -> None:
    """Copy a state into existing tensors, which outlive the inference mode that ``source`` was made in."""
    target.h.copy_(source.h)
    target.c.copy_(source.c)
