"""How a rollout runs on a device without a round trip to the host: row index, truncations and steps as a CUDA graph.

A step is the same code on every device (``Collector``); here its row index lies on the device, so that one captured
graph plays every step. What a host would branch on is noted on the device and resolved at the end of the rollout.

Shapes: ``E environment, T step, N learner row, D observation, H recurrent state``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.training.ppo.cuda_graph import Replayed, capture_environment_step
from echelon.training.rollout import Truncation
from echelon.training.runtime.transfers import read, upload

SHORTEST_EPISODE = 32
"""Environment steps; a rollout has records and opponents for the episodes of this length that fit into it, and one."""

Row = int | Tensor
"""Row of a rollout: a number, or an index [1] on the device, which is never read."""
ALL = slice(None)


def episode_slots(steps: int) -> int:
    """Return the number of episodes per environment that a rollout of ``steps`` has records and opponents for."""
    return 1 + -(-steps // SHORTEST_EPISODE)


def take_row(source: Tensor, row: Row, columns: slice = ALL) -> Tensor:
    """Return row ``row`` of ``source [T, N, ...]``: a view for a number, a copy for an index on the device."""
    return source[row, columns] if isinstance(row, int) else source.index_select(0, row)[0, columns]


def put_row(target: Tensor, row: Row, values: Tensor, columns: slice = ALL) -> None:
    """Write ``values [N, ...]`` of any type into row ``row`` of ``target [T, N, ...]``."""
    if isinstance(row, int):
        target[row, columns].copy_(values)
    else:
        target[:, columns].index_copy_(0, row, values.to(target.dtype).unsqueeze(0))


class DeviceSteps:
    """Plays the steps of a rollout by their index on the device; with ``capture`` by one graph after a warm-up."""

    def __init__(
        self,
        play: Callable[[Tensor], None],
        device: torch.device,
        *,
        capture: bool,
        capture_work: Callable[[Callable[[], None]], Callable[[], None]] = capture_environment_step,
    ) -> None:
        self.index = torch.zeros(1, dtype=torch.int64, device=device)
        """Row of the coming step [1]."""
        self._play = play
        self._run = Replayed(self._step, capture_work if capture else None)

    def begin(self) -> None:
        """Start at row 0."""
        self.index.zero_()

    def clear(self) -> None:
        """Capture again, where the step itself has changed; the next steps warm it up."""
        self._run.clear()

    def __call__(self) -> None:
        """Play the step of the index, and advance it."""
        self._run()

    def _step(self) -> None:
        self._play(self.index)
        self.index += 1


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

    def resolve(self, policy: FlatPolicy, final_obs: Tensor, bonus: Tensor, gamma: float) -> None:
        """Write the discounted values of ``final_obs [N, D]`` into ``bonus [T, N]`` at their steps."""
        value, _ = policy.get_value(final_obs, self.state, self._starts)
        at = self.steps.clamp_min(0).unsqueeze(0)
        bonus.scatter_(0, at, torch.where(self.steps >= 0, gamma * value.float(), bonus.gather(0, at)))

    def read(self, final_obs: Tensor) -> list[Truncation]:
        """Return the truncations by step, with their rows of ``final_obs [N, D]``, in one read of the device."""
        steps = read(self.steps)
        rows = {int(step): np.flatnonzero(steps == step) for step in np.unique(steps[steps >= 0])}
        found = {step: upload(of, final_obs.device) for step, of in rows.items()}
        return [Truncation(step, of, final_obs[of]) for step, of in found.items()]

    def clear(self) -> None:
        """Forget all truncations."""
        self.steps.fill_(-1)
