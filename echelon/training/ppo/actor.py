"""The learner's part in a step: its actions before the environment steps, and what the rollout stores after it.

Shapes: ``E environment, N learner row, K rows, D observation, A action, H recurrent state``.
"""

import torch
from torch import Tensor

from echelon.config import PPOConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.host_program import ACTING_ROWS, has_program
from echelon.rl.lstm_state import LSTMState
from echelon.rl.regime import Regime
from echelon.rl.traced_policy import trace_sample
from echelon.training.batched_env import BatchedEnv
from echelon.training.ppo.teacher import Teacher
from echelon.training.rollout import MAX_MICRO_BATCHES, RolloutRow
from echelon.training.runtime.devices import low_precision, mixed_precision, upload
from echelon.training.runtime.threads import ThreadPool

FORWARD_ROWS = 512
"""Smallest number of learner rows for a separate forward pass."""


class Actor:
    """Chooses the actions of all learner rows; carries recurrent state and episode starts from step to step."""

    def __init__(
        self,
        env: BatchedEnv,
        policy: FlatPolicy,
        config: PPOConfig,
        device: torch.device,
        *,
        pool: ThreadPool | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        self.env, self.policy, self.config, self.device, self.teacher = env, policy, config, device, teacher
        rows = env.rows.count
        self._has_labels = False
        self._learner_acts = torch.ones(rows, 1, dtype=torch.bool, device=device)
        """Whether the learner acts in each row [N, 1]; the teacher acts in the others."""
        self._sample = trace_sample(policy, low_precision(device, config.amp_dtype) if config.amp else None)
        self._pool = pool or ThreadPool(1)
        self._row_slices = forward_slices(rows, policy.regime, ACTING_ROWS if has_program(policy) else FORWARD_ROWS)
        self._noise = torch.zeros(rows, policy.noise_dim, device=device)
        self.state = policy.initial_state(rows, device)
        """Recurrent state now, [1, N, H]."""
        self.next_done = torch.ones(rows, device=device)
        """1 where the next step starts an episode [N]."""

    def set_teacher(self, has_labels: bool, learner_acts: Tensor) -> None:
        """Set whether the teacher labels the coming steps, and the rows ``[N]`` bool in which the learner acts."""
        if self.teacher is not None:
            self.teacher.set_active(has_labels)
        self._has_labels = has_labels
        self._learner_acts.copy_(upload(learner_acts, self.device).unsqueeze(-1))

    def reset(self) -> None:
        self.next_done.fill_(1.0)
        for part in self.state:
            part.zero_()

    def draw_noise(self) -> None:
        self._noise.normal_()

    def choose(self, row: RolloutRow) -> None:
        """Write the learners' actions into the environment, and into ``row`` what the rollout stores before a step."""
        env = self.env
        row.dones.copy_(self.next_done)
        row.present.copy_(env.rows.of_mechs(env.results.present))
        self._pool.map(lambda rows: self._act(row, rows), self._row_slices)
        env.rows.act(self._actions_to_play(row))

    @torch.inference_mode()
    def _act(self, row: RolloutRow, rows: slice) -> None:
        state = LSTMState(self.state.h[:, rows], self.state.c[:, rows])
        sampled = self._sample(row.obs[rows], state, self.next_done[rows], self._noise[rows])
        action, logprob, value, next_state = sampled
        copy_state(state, next_state)
        row.actions[rows].copy_(action)
        row.logprobs[rows].copy_(logprob)
        row.values[rows].copy_(value)

    def _actions_to_play(self, row: RolloutRow) -> Tensor:
        if not self._has_labels:
            return row.actions
        assert row.labels is not None and self.teacher is not None, "a rollout with labels has a teacher"
        self.teacher.label(row.obs, self.next_done, row.labels)
        return torch.where(self._learner_acts, row.actions, row.labels)

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


def forward_slices(rows: int, regime: Regime, least: int = FORWARD_ROWS) -> list[slice]:
    """Return the ranges of learner rows whose forward passes run in parallel; a device takes all rows at once."""
    count = min(MAX_MICRO_BATCHES, max(1, rows // least)) if regime.packs else 1
    edges = [rows * i // count for i in range(count + 1)]
    return [slice(left, right) for left, right in zip(edges, edges[1:], strict=False)]


def copy_state(target: LSTMState, source: LSTMState) -> None:
    """Copy a state into existing tensors, which outlive the inference mode that ``source`` was made in."""
    target.h.copy_(source.h)
    target.c.copy_(source.c)
