"""Steps of a rollout whose results the host reads at once: ends of episodes, truncations, the next opponents."""

import time

import torch

from echelon.rl.lstm_state import LSTMState
from echelon.training.ppo.collect import CollectTimes, RolloutParts
from echelon.training.rollout import Truncation


class HostSteps:
    """Plays steps in rows of the rollout; nothing waits for the end of the rollout."""

    def __init__(self, parts: RolloutParts) -> None:
        self._parts, self._actor, self._buffer = parts, parts.actor, parts.buffer

    def begin(self) -> None:
        """Do nothing: every step decides by itself."""

    end = clear = begin

    def play(self, t: int, times: CollectTimes) -> None:
        actor, buffer = self._actor, self._buffer
        began = time.perf_counter()
        row = buffer.row(t)
        actor.choose(row)
        acted = time.perf_counter()
        actor.env.step(t + 1)
        self._parts.store_central(t + 1)
        actor.store(row)
        self.note_ends(t)
        times.forward_s += acted - began
        times.env_s += time.perf_counter() - acted

    def note_ends(self, t: int) -> None:
        """Value truncations of step t, and take the episodes that ended with it."""
        env, opponents = self._actor.env, self._parts.opponents
        if self._parts.truncation_bootstraps and bool(env.results.final_mask.any()):
            self._add_truncation_bonus(t)
        over = self._actor.note_boundaries()
        any_over = bool(over.any())
        if any_over:
            ended = env.episodes.pop()
            self._parts.episodes.add(ended, [opponents.names[r.env] if opponents else "" for r in ended])
        if opponents is not None:
            opponents.after_step(over, any_over)

    def _add_truncation_bonus(self, t: int) -> None:
        """Store the discounted value of final observations, under the recurrent state before its reset."""
        actor, env = self._actor, self._actor.env
        truncated = env.rows.of_mechs(env.results.truncated) & env.rows.of_envs(env.results.final_mask)
        rows = truncated.nonzero().flatten()
        if rows.numel() == 0:
            return
        truncation = Truncation(t, rows, env.rows.final_obs[rows])
        state = LSTMState(actor.state.h[:, rows], actor.state.c[:, rows])
        value = actor.value(truncation.obs, state, torch.zeros(rows.numel(), device=rows.device))
        self._buffer.truncation_bonus[t, rows] = actor.config.gamma * value
        self._buffer.truncations.append(truncation)
