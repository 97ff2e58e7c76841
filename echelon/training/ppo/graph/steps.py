"""Steps of a rollout without a round trip to the host, one captured graph for all of them.

A step's row index lies on the device. What a host would branch on is noted on the device and resolved at the end of the
rollout.

Shapes: ``E environment, T step, N learner row, D observation, H recurrent state``.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.training.ppo.collect import CollectTimes, RolloutParts
from echelon.training.ppo.graph.capture import Replayed, capture_environment_step
from echelon.training.rollout import Truncation
from echelon.training.runtime.devices import read, upload

SHORTEST_EPISODE = 32
"""Environment steps; a rollout has records and opponents for the episodes of this length that fit into it, and one."""


ValueOf = Callable[[Tensor, LSTMState, Tensor], Tensor]
"""Values ``[N]`` of observations ``[N, D]`` under a recurrent state ``[1, N, H]`` and episode starts ``[N]``."""


def episode_slots(steps: int) -> int:
    """Return the number of episodes per environment that a rollout of ``steps`` has records and opponents for."""
    return 1 + -(-steps // SHORTEST_EPISODE)


class GraphSteps:
    """Plays the steps of a rollout by their index on the device; with ``capture`` by one graph after a warm-up.

    The learner chooses in a row at a fixed address (``row``), which is copied from and into the rollout.
    """

    def __init__(
        self,
        parts: RolloutParts,
        *,
        capture: bool,
        capture_work: Callable[[Callable[[], None]], Callable[[], None]] = capture_environment_step,
    ) -> None:
        self._parts = parts
        self._actor, self._buffer = actor, buffer = parts.actor, parts.buffer
        self.revalues = actor.config.recompute_advantages
        self.row = buffer.new_row()
        self.index = torch.zeros(1, dtype=torch.int64, device=actor.device)
        """Row of the coming step [1]."""
        self.late = LateTruncations(actor.env.rows.count, actor.policy, actor.device)
        self._env = actor.env
        self._env.episodes.begin(episode_slots(buffer.num_steps))
        self._run = Replayed(self._step, capture_work if capture else None)

    def begin(self) -> None:
        self.index.zero_()
        self.late.clear()
        self._env.maps.place_maps()
        if self._parts.opponents is not None:
            self._parts.opponents.begin_schedule(episode_slots(self._buffer.num_steps))

    def play(self, t: int, times: CollectTimes) -> None:
        """Play the step of the index, which is t, and add to ``times``."""
        began = time.perf_counter()
        self._run()
        if (t + 1) % self._env.sizes.min_steps == 0:
            self._resolve_truncations()
        times.env_s += time.perf_counter() - began

    def end(self) -> None:
        """Value the remaining truncations, and read the episodes of the rollout: the one read of the device."""
        opponents = self._parts.opponents
        self._resolve_truncations()
        records, slots, counts = self._env.episodes.drain()
        names = [""] * len(records)
        if opponents is not None:
            names = [opponents.scheduled(r.env, slot) for r, slot in zip(records, slots, strict=True)]
            opponents.end_schedule(counts.tolist())
        self._parts.episodes.add(records, names, unrecorded=int(counts.sum()) - len(records))

    def clear(self) -> None:
        self._run.clear()

    @torch.inference_mode()
    def _step(self) -> None:
        actor, buffer, index = self._actor, self._buffer, self.index
        torch.index_select(buffer.obs_rows, 0, index, out=self.row.obs.unsqueeze(0))
        actor.choose(self.row)
        self._env.step(index + 1)
        self._parts.store_central(index + 1)
        actor.store(self.row)
        buffer.put(index, self.row)
        self._note_ends(index)
        self.index += 1

    def _note_ends(self, index: Tensor) -> None:
        actor, env = self._actor, self._env
        if self._parts.truncation_bootstraps:
            truncated = env.rows.of_mechs(env.results.truncated)
            truncated = truncated & env.rows.of_envs(env.results.final_mask)
            self.late.note(index, truncated, actor.state)
        over = actor.note_boundaries()
        env.episodes.store(index)
        if self._parts.opponents is not None:
            self._parts.opponents.after_step(over, False)

    def _resolve_truncations(self) -> None:
        if not self._parts.truncation_bootstraps:
            return
        final_obs, gamma = self._env.rows.final_obs, self._actor.config.gamma
        self.late.resolve(self._actor.value, final_obs, self._buffer.truncation_bonus, gamma)
        if self.revalues:
            self._buffer.truncations += self.late.read(final_obs)
        self.late.clear()


class LateTruncations:
    """Truncated rows and their recurrent states, valued at the end of the rollout in one forward pass.

    A row is truncated at most once between two calls of ``resolve``, so its final observation is still that of the
    environment.
    """

    def __init__(self, rows: int, policy: FlatPolicy, device: torch.device) -> None:
        self.steps = torch.full((rows,), -1, dtype=torch.int64, device=device)
        """Step that truncated each row [N], -1 where none did."""
        self.state = policy.initial_state(rows, device)
        self._starts = torch.zeros(rows, device=device)

    def note(self, step: Tensor, truncated: Tensor, state: LSTMState) -> None:
        """Store step and ``state [1, N, H]`` where ``truncated [N]``."""
        self.steps.copy_(torch.where(truncated, step, self.steps))
        for target, source in zip(self.state, state, strict=True):
            target.copy_(torch.where(truncated.view(1, -1, 1), source, target))

    def resolve(self, value_of: ValueOf, final_obs: Tensor, bonus: Tensor, gamma: float) -> None:
        """Write the discounted values of ``final_obs [N, D]`` into ``bonus [T, N]`` at their steps."""
        value = value_of(final_obs, self.state, self._starts)
        at = self.steps.clamp_min(0).unsqueeze(0)
        bonus.scatter_(0, at, torch.where(self.steps >= 0, gamma * value, bonus.gather(0, at)))

    def read(self, final_obs: Tensor) -> list[Truncation]:
        """Return the truncations by step, with their rows of ``final_obs [N, D]``, in one read of the device."""
        steps = read(self.steps)
        rows = {int(step): np.flatnonzero(steps == step) for step in np.unique(steps[steps >= 0])}
        found = {step: upload(of, final_obs.device) for step, of in rows.items()}
        return [Truncation(step, of, final_obs[of]) for step, of in found.items()]

    def clear(self) -> None:
        self.steps.fill_(-1)
