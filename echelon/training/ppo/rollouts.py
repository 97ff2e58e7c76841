"""Rollouts on their way from the collector to the learner: one after the other, or with ``ppo.overlap`` side by side.

With overlap the collector has weights and a rollout of its own, so it plays while the learner trains on the rollout
before. A rollout that is played beside an update has weights that are one update older than those that its own update
begins with. ``echelon.training.loop`` leaves no rollout waiting where it saves or ends, so none is lost.
"""

import copy
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch

from echelon.rl.build import FlatPolicy
from echelon.training.ppo.actor import copy_state
from echelon.training.ppo.collect import Collector, CollectTimes
from echelon.training.ppo.teacher import Teaching
from echelon.training.ppo.trainer import PPOTrainer
from echelon.training.runtime.process import UpdateProfiler, fault_point


class Rollouts:
    """Plays rollouts and trains on them."""

    def __init__(self, collector: Collector, trainer: PPOTrainer, policy: FlatPolicy, profiler: UpdateProfiler) -> None:
        """``policy`` is the one that is trained; with ``ppo.overlap`` the collector's is another."""
        self._collector, self._trainer, self._policy, self._profiler = collector, trainer, policy, profiler
        self._copies, device = collector.actor.policy is not policy, collector.actor.device
        own = (collector.buffer, collector.start_state, collector.chunk_states)
        self.buffer, self.start_state, self.chunk_states = copy.deepcopy(own) if self._copies else own
        """The learner's rollout, and the recurrent states that it and its chunks begin with."""
        self.waits = False
        """Whether a rollout is played that is not trained on."""
        self.teaching = Teaching()
        """The teacher's part in the newest rollout."""
        self._stream = torch.cuda.Stream(device) if self._copies and policy.regime.captures else None
        """Stream of an update beside a rollout."""

    def advance(
        self, ahead: bool, should_abort: Callable[[], bool] = lambda: False
    ) -> tuple[dict[str, Any], CollectTimes]:
        """Train on the rollout that waits, or on a new one; with ``ahead`` play the next at the same time.

        Return the metrics of the update and the times of all collections.
        """
        self._copy_weights()
        times = CollectTimes()
        if not self.waits:
            self._play(times, should_abort)
        self._take()
        fault_point("train.update")
        rollout = self.buffer, self.start_state, self.chunk_states
        if not ahead:
            with self._profiler.region("update"):
                return self._trainer.update(*rollout), times
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        begun: list[dict[str, Any]] = []

        def begin() -> None:
            began = time.perf_counter()
            with self._profiler.region("update"), torch.inference_mode(False), torch.cuda.stream(self._stream):
                begun.append(self._trainer.begin(*rollout))
            times.all_s -= time.perf_counter() - began

        self._play(times, should_abort, begin)
        self._collector.buffer.updates_behind = 1
        with torch.cuda.stream(self._stream):
            return self._trainer.finish(begun[0]), times

    @torch.no_grad()
    def _copy_weights(self) -> None:
        if self._copies:
            played, trained = (chain(p.parameters(), p.buffers()) for p in (self._collector.actor.policy, self._policy))
            for own, new in zip(played, trained, strict=True):
                own.copy_(new)

    def _play(
        self, times: CollectTimes, should_abort: Callable[[], bool], queued: Callable[[], None] = lambda: None
    ) -> None:
        collector, began = self._collector, time.perf_counter()
        fault_point("train.rollout")
        with self._profiler.region("collect"):
            collector.collect(should_abort, times, queued)
        with self._profiler.region("bootstrap"):
            collector.bootstrap(collector.actor.config.gae_lambda)
        collector.buffer.updates_behind = 0
        self.teaching, self.waits = collector.teaching, True
        times.all_s += time.perf_counter() - began

    def _take(self) -> None:
        """Give the newest rollout to the learner."""
        self.waits = False
        if self._copies:
            played = self._collector
            self.buffer.copy_from(played.buffer)
            copy_state(self.start_state, played.start_state)
            self.chunk_states.h.copy_(played.chunk_states.h)
            self.chunk_states.c.copy_(played.chunk_states.c)
