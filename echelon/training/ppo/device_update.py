"""An update on a device without a round trip to the host: finiteness decides there, figures are read once at the end.

A minibatch whose loss is not finite adds no gradient, and a gradient whose norm is not finite moves nothing: flags on
the device do both, through the optimizer's ``found_inf``. So evaluation, gradients, clipping and optimizer step of a
minibatch can be one captured graph per shape.

Shapes are fixed, but most slots for contacts are empty. So the entities of a rollout are counted before its update, and
every minibatch packs its own into as many rows as the fullest one needs, and some more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from echelon.config import PPOConfig
from echelon.rl.deepset import bucket, packing_into
from echelon.training.ppo.cuda_graph import WARM_UP, copy_inputs, copy_of
from echelon.training.ppo.gradients import Gradients
from echelon.training.ppo.losses import LossTerms
from echelon.training.ppo.optimizer import Optimizer
from echelon.training.rollout import Minibatch, Unit
from echelon.training.runtime.transfers import read

HEADROOM = 1.12
"""Rows for entities, by those that the fullest minibatch has when they are allotted."""
MOST_ROOM = 1.6
"""Rows by those needed above which fewer are allotted."""
REMEMBERED_NEEDS = 8
"""Epochs whose needs decide: the number of contacts swings while episodes that began at once are alike."""

Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Captures work without running it and returns a function that replays it."""


class MinibatchFigures(NamedTuple):
    """What minibatches return from the device, each ``[n]``."""

    terms: LossTerms
    """Each term [n]; of minibatches that are not finite too."""
    is_finite: NDArray[np.bool_]
    """Whether the loss is finite."""
    norms: NDArray[np.float32]
    """Gradient norms before clipping, where a minibatch ended an optimizer step."""
    steps: NDArray[np.float32]
    """1 where the optimizer moved the weights, -1 where the norm was not finite, 0 without a step."""

    @classmethod
    def of(cls, rows: NDArray[np.float32]) -> MinibatchFigures:
        """Return the figures of rows ``[n, W]`` as ``DeviceUpdate.train`` stores them."""
        *terms, finite, norms, steps = rows.T
        return cls(LossTerms(*terms), finite > 0, norms, steps)


class EntityCounts:
    """Entities of a rollout by kind, chunk and learner row, in host memory."""

    def __init__(self, counts: dict[str, Tensor], spans: Sequence[tuple[int, int]]) -> None:
        """``counts`` are those of each kind ``[T, N]``, ``spans`` first step and end of every chunk; reads once."""
        sums = [torch.stack([of[first:end].sum(0) for first, end in spans]) for of in counts.values()]
        self._counts = dict(zip(counts, read(torch.stack(sums)), strict=True)) if counts else {}

    def most(self, plan: Sequence[Sequence[Unit]]) -> dict[str, int]:
        """Return the entities of each kind in the minibatch of ``plan`` that has most of them."""
        return {
            name: max(sum(int(of[unit.chunk, unit.rows.numpy()].sum()) for unit in part) for part in plan)
            for name, of in self._counts.items()
        }


class DeviceUpdate:
    """Trains on minibatches and stores a row of figures of each on the device, in ``rows``."""

    def __init__(
        self, gradients: Gradients, optimizer: torch.optim.Optimizer, config: PPOConfig, record: Record | None = None
    ) -> None:
        """``record`` captures a minibatch, None trains without graphs."""
        self.gradients, self.optimizer, self.config = gradients, optimizer, config
        self.rows: list[Tensor] = []
        self._record = record
        self.room: dict[str, int] | None = None
        """Rows of a minibatch for each kind of entity; None where all slots are computed."""
        self._needs: deque[dict[str, int]] = deque(maxlen=REMEMBERED_NEEDS)
        self._captured: dict[tuple[tuple[int, ...], bool], tuple[Minibatch, Callable[[], Tensor]]] = {}
        device = gradients.device
        self._sums = [torch.zeros_like(p) for p in gradients.parameters]
        self._used = [False] * len(self._sums)
        """Whether a gradient reaches each parameter."""
        self._finite = torch.zeros((), device=device)
        """Finite minibatches since the last optimizer step."""
        self._found_inf = torch.zeros((), device=device)
        self._zero = torch.zeros((), device=device)

    def clear(self) -> None:
        """Capture again, where the loss itself has changed."""
        self._captured = {}

    def make_room(self, needed: dict[str, int]) -> None:
        """Allot rows for the entities of the coming minibatches, of which each has at most ``needed``."""
        self._needs.append(needed)
        most = {name: max(needs[name] for needs in self._needs) for name in needed}
        room, settled = self.room, len(self._needs) == REMEMBERED_NEEDS
        if room and all(n <= room[name] and not (settled and room[name] > MOST_ROOM * n) for name, n in most.items()):
            return
        self.room = {name: bucket(int(HEADROOM * count)) for name, count in most.items()}
        self.clear()

    def train(self, batch: Minibatch, *, steps: bool) -> None:
        """Add the gradient of a minibatch; with ``steps`` clip and apply the sum since the last step."""
        with packing_into(self.room):
            self._train_packed(batch, steps)

    def _train_packed(self, batch: Minibatch, steps: bool) -> None:
        if self._record is None:
            self.rows.append(self._train(batch, steps))
            return
        key = (tuple(batch.obs.shape), steps)
        if key not in self._captured:
            inputs = copy_of(batch)
            self._warm_up(inputs)
            self._captured[key] = (inputs, self._record(lambda: self._train(inputs, steps)))
        inputs, replay = self._captured[key]
        copy_inputs(inputs, batch)
        self.rows.append(replay().clone())

    def take_rows(self) -> Tensor:
        """Return the rows ``[n, W]`` since the last call; they are not read."""
        taken, self.rows = torch.stack(self.rows), []
        return taken

    def _train(self, batch: Minibatch, steps: bool) -> Tensor:
        """Return the figures ``[W]`` of a minibatch that is trained on, without reading a value of the device."""
        terms, gradients = self.gradients.evaluate_whole(batch)
        finite = terms.loss.isfinite()
        self._finite += finite
        self._used = [gradient is not None for gradient in gradients]
        for total, gradient in zip(self._sums, gradients, strict=True):
            if gradient is not None:
                total.add_(torch.where(finite, gradient, 0.0), alpha=1.0 / self.config.grad_accum_steps)
        norm, step = self._step() if steps else (self._zero, self._zero)
        return torch.stack([*(term.float() for term in terms), finite.float(), norm.float(), step])

    def _step(self) -> tuple[Tensor, Tensor]:
        """Clip and apply the sums, and clear them; return the norm, and what ``MinibatchFigures.steps`` has."""
        self._bind()
        norm = nn.utils.clip_grad_norm_(self.gradients.parameters, self.config.max_grad_norm)
        step = torch.where(self._finite > 0, torch.where(norm.isfinite(), 1.0, -1.0), 0.0)
        self._found_inf.copy_(step <= 0)
        self.optimizer.step()
        for total in self._sums:
            total.zero_()
        self._finite.zero_()
        return norm, step

    def _bind(self) -> None:
        """Let the optimizer read the sums, and the flag that stops it."""
        for parameter, total, used in zip(self.gradients.parameters, self._sums, self._used, strict=True):
            parameter.grad = total if used else None
        self.optimizer.grad_scale, self.optimizer.found_inf = None, self._found_inf  # pyright: ignore

    def _warm_up(self, inputs: Minibatch) -> None:
        """Let libraries choose kernels and the optimizer allocate its moments; no weight or moment changes."""
        for _ in range(WARM_UP):
            _, gradients = self.gradients.evaluate_whole(inputs)
        self._used = [gradient is not None for gradient in gradients]
        self._bind()
        self._found_inf.fill_(1.0)
        self.optimizer.step()


def read_figures(rows: Tensor | None, metrics: dict[str, Any]) -> tuple[MinibatchFigures | None, dict[str, Any]]:
    """Return the figures of ``rows [n, W]`` and ``metrics`` with numbers for their scalars, in one read.

    Metrics are scalars on the device or mappings of such; without rows there are no figures.
    """
    scalars = [v for value in metrics.values() for v in (value.values() if isinstance(value, dict) else [value])]
    tensors = [v.reshape(1).float() for v in scalars if isinstance(v, Tensor)]
    data = read(torch.cat([*([] if rows is None else [rows.flatten()]), *tensors]))
    count = 0 if rows is None else rows.numel()
    values = iter(data[count:].tolist())

    def number(value: Any) -> Any:
        return next(values) if isinstance(value, Tensor) else value

    found = {n: {k: number(x) for k, x in v.items()} if isinstance(v, dict) else number(v) for n, v in metrics.items()}
    return None if rows is None else MinibatchFigures.of(data[:count].reshape(rows.shape)), found


def trains_on_device(optimizer: Optimizer, gradients: Gradients) -> bool:
    """Return whether an update can keep its flags on the device: with Adam, and in a precision without a loss scale."""
    return isinstance(optimizer, torch.optim.Adam) and not gradients.scaler.is_enabled()
