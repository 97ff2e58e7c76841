"""Steps of a rollout whose results the host reads at once: ends of episodes, truncations, the next opponents."""

from __future__ import annotations

import time

import torch

from echelon.rl.lstm_state import LSTMState
from echelon.training.ppo.collect import Collector, CollectTimes
from echelon.training.rollout import Truncation


class HostSteps:
    """Plays steps in rows of the rollout; nothing waits for the end of the rollout."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def begin(self) -> None:
        """Do nothing: every step decides by itself."""

    end = clear = begin

    def play(self, t: int, times: CollectTimes) -> None:
        collector, buffer, env = self._collector, self._collector.buffer, self._collector.env
        began = time.perf_counter()
        row = buffer.row(t)
        collector.choose(row)
        acted = time.perf_counter()
        env.step(t + 1)
        collector.write_central(buffer.obs_rows[t + 1])
        collector.store(row)
        self.note_ends(t)
        times.forward_s += acted - began
        times.env_s += time.perf_counter() - acted

    def note_ends(self, t: int) -> None:
        """Value truncations of step t, and take the episodes that ended with it."""
        collector, env = self._collector, self._collector.env
        if collector.truncation_bootstraps and bool(env.results.final_mask.any()):
            self._add_truncation_bonus(t)
        over = collector.note_boundaries()
        any_over = bool(over.any())
        opponents = collector.opponents
        if any_over:
            ended = env.episodes.pop()
            collector.add_episodes(ended, [opponents.names[r.env] if opponents else "" for r in ended])
        if opponents is not None:
            opponents.after_step(over, any_over)

    def _add_truncation_bonus(self, t: int) -> None:
        """Store the discounted value of final observations, under the recurrent state before its reset."""
        collector, env = self._collector, self._collector.env
        truncated = env.rows.of_mechs(env.results.truncated) & env.rows.of_envs(env.results.final_mask)
        rows = truncated.nonzero().flatten()
        if rows.numel() == 0:
            return
        truncation = Truncation(t, rows, env.rows.final_obs[rows])
        state = LSTMState(collector.state.h[:, rows], collector.state.c[:, rows])
        value = collector.value(truncation.obs, state, torch.zeros(rows.numel(), device=rows.device))
        collector.buffer.truncation_bonus[t, rows] = collector.gamma * value
        collector.buffer.truncations.append(truncation)
