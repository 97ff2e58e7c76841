"""An update on a device without a round trip to the host: finiteness decides there, figures are read once at the end.

A minibatch whose loss is not finite adds no gradient, and a gradient whose norm is not finite moves nothing: flags on
the device do both, through the optimizer's ``found_inf``. So loss, gradients, clipping and optimizer step of a
minibatch can be one captured graph per shape.

Shapes are fixed, but most slots for contacts are empty. So the entities of a rollout are counted before its update, and
every minibatch packs its own into as many rows as the fullest one needs, and some more. So are its living steps: those
of the dead weigh nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from echelon.rl.build import FlatPolicy
from echelon.rl.deepset import bucket
from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.packed_obs import PackedRollout
from echelon.training.normalization import ReturnNormalizer, update_obs_normalizer_stepwise
from echelon.training.ppo.graph.capture import WARM_UP, CudaGraphCache
from echelon.training.ppo.losses import Gradient, Gradients, LossTerms, Report, UpdateStats
from echelon.training.ppo.optimizer import LearningRate
from echelon.training.rollout import Minibatch, RolloutBuffer, Unit, chunk_spans
from echelon.training.runtime.devices import read, read_scalars
from echelon.training.runtime.process_group import ProcessGroup

HEADROOM = 1.12
"""Allotted rows for each entity in the fullest minibatch."""
MOST_ROOM = 1.6
"""Allotted rows for each entity in the fullest minibatch above which fewer rows are allotted."""
REMEMBERED_NEEDS = 8
"""Epochs whose needs decide: the number of contacts swings while episodes that began at once are alike."""

LIVING = "living"
"""Key of the living steps among the rows for entities."""

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
    def of(cls, rows: NDArray[np.float32]) -> "MinibatchFigures":
        *terms, finite, norms, steps = rows.T
        return cls(LossTerms(*terms), finite > 0, norms, steps)


class EntityCounts:
    """Entities of a rollout by kind, and its living steps, by chunk and learner row, in host memory."""

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


def pack_living(batch: Minibatch, room: int) -> Minibatch:
    """Return the steps of a minibatch that enter its loss in ``room`` rows, padded with a step of weight 0."""
    counted = batch.value_weights.flatten() > 0
    steps = torch.arange(len(counted), device=counted.device)
    place = torch.where(counted, counted.cumsum(0) - 1, room)
    living = torch.full_like(steps[: room + 1], len(steps)).scatter(0, place, steps)[:room]
    source, real = living.clamp(max=len(steps) - 1), living < len(steps)

    def of(x: Any) -> Any:
        return None if x is None else x.flatten(0, 1).index_select(0, source)

    names = ("obs", "actions", "noise", "advantages", "returns", "old_logprobs", "labels")
    weights = {name: of(getattr(batch, name)) * real for name in ("policy_weights", "value_weights")}
    return replace(batch, living=living, **weights, **{name: of(getattr(batch, name)) for name in names})


class GraphUpdate:
    """Trains on minibatches and stores a row of figures of each on the device, in ``rows``."""

    packed: PackedRollout | None = None
    skips_idle = False

    def __init__(
        self,
        gradients: Gradients,
        optimizer: torch.optim.Optimizer,
        learning_rate: LearningRate,
        report: Report,
        record: Record | None = None,
    ) -> None:
        """``record`` captures a minibatch, None trains without graphs."""
        self.gradients, self.optimizer, self.config = gradients, optimizer, gradients.config
        self.rows: list[Tensor] = []
        self._report, self._learning_rate = report, learning_rate
        self._graphs = CudaGraphCache(self._train, record, self._warm_up) if record is not None else None
        self._places: list[str] = []
        """Where each of ``rows`` was trained, for messages."""
        self._counts: EntityCounts | None = None
        self._group = ProcessGroup()
        self.room: dict[str, int] | None = None
        """Rows of a minibatch for each kind of entity; None where all slots are computed."""
        self._needs: deque[dict[str, int]] = deque(maxlen=REMEMBERED_NEEDS)
        device = gradients.device
        self._sums = [torch.zeros_like(p) for p in gradients.parameters]
        self._used = [False] * len(self._sums)
        """Whether a gradient reaches each parameter."""
        self._finite = torch.zeros((), device=device)
        """Finite minibatches since the last optimizer step."""
        self._rows = torch.zeros((), device=device)
        """Rows of these minibatches."""
        self._found_inf = torch.zeros((), device=device)
        self._zero = torch.zeros((), device=device)

    def clear(self) -> None:
        if self._graphs is not None:
            self._graphs.clear()

    @torch.no_grad()
    def begin(self, buffer: RolloutBuffer, length: int) -> None:
        """Count the entities and living steps of a rollout, where minibatches of fixed shapes pack them."""
        self._counts, model = None, self.gradients.model
        if isinstance(model, FlatPolicy):
            counts = model.count_entities(buffer.obs[..., : model.obs_dim])
            cfg = self.config
            if counts and not (cfg.activation_checkpointing or cfg.aux_coef or cfg.burn_in_steps or cfg.compile):
                counts[LIVING] = (buffer.alive * buffer.present).long()
            self._counts = EntityCounts(counts, chunk_spans(buffer.num_steps, length)) if counts else None

    def make_room(self, plan: Sequence[Sequence[Unit]]) -> None:
        if self._counts is not None:
            self.allot(self._counts.most(plan))

    def allot(self, needed: dict[str, int]) -> None:
        """Allot rows for the entities of the coming minibatches, of which each has at most ``needed``."""
        self._needs.append(needed)
        most = {name: max(needs[name] for needs in self._needs) for name in needed}
        room, settled = self.room, len(self._needs) == REMEMBERED_NEEDS
        if room and all(n <= room[name] and not (settled and room[name] > MOST_ROOM * n) for name, n in most.items()):
            return
        allotted = {name: bucket(int(HEADROOM * count)) for name, count in most.items()}
        if allotted != room:
            self.room = allotted
            self.clear()

    def train(self, batches: Iterable[Minibatch], count: int, where: str) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        for index, batch in enumerate(batches):
            self._places.append(f"{where}, minibatch {index}")
            steps = (index + 1) % self.config.grad_accum_steps == 0 or index == count - 1
            self.train_minibatch(batch, steps=steps)

    def train_minibatch(self, batch: Minibatch, *, steps: bool) -> None:
        """Add the gradient of a minibatch; with ``steps`` clip and apply the sum since the last step."""
        with self.gradients.model.packing_into(self.room) if self.room else nullcontext():
            figures = self._train(batch, steps) if self._graphs is None else self._graphs(batch, steps).clone()
            self.rows.append(figures)

    def finish(self, metrics: dict[str, Any]) -> tuple[UpdateStats, dict[str, Any]]:
        rows, self.rows = torch.stack(self.rows), []
        places, self._places = self._places, []
        data, metrics = read_scalars(metrics, rows)
        figures = MinibatchFigures.of(data)
        terms = [LossTerms(*values) for values in zip(*figures.terms, strict=True)]
        for index in (~figures.is_finite).nonzero()[0]:
            self._report(f"loss at {places[index]}", terms[index])
        for index in (figures.steps < 0).nonzero()[0]:
            self._report(f"gradient norm at {places[index]}", None)
        finite = [term for term, is_finite in zip(terms, figures.is_finite, strict=True) if is_finite]
        return UpdateStats(finite, figures.norms[figures.steps > 0].tolist()), metrics

    def update_returns(self, normalizer: ReturnNormalizer, returns: Tensor, present: Tensor) -> None:
        normalizer.update_weighted(returns, present * returns.isfinite().all())

    def update_observations(self, normalizer: ObsNormalizer, obs: Tensor, alive: Tensor) -> None:
        update_obs_normalizer_stepwise(normalizer, obs, alive, self._group)

    def _train(self, batch: Minibatch, steps: bool) -> Tensor:
        """Return the figures ``[W]`` of a minibatch that is trained on, without reading a value of the device."""
        terms, gradients = self._gradient(batch)
        finite = terms.loss.isfinite()
        self._learning_rate.follow(terms.approx_kl)
        self._finite += finite
        self._rows += torch.where(finite, batch.rows, 0.0)
        self._used = [gradient is not None for gradient in gradients]
        for total, gradient in zip(self._sums, gradients, strict=True):
            if gradient is not None:
                total.add_(torch.where(finite, gradient * batch.rows, 0.0))
        norm, step = self._step() if steps else (self._zero, self._zero)
        return torch.stack([*(term.float() for term in terms), finite.float(), norm.float(), step])

    def _gradient(self, batch: Minibatch) -> tuple[LossTerms, Gradient]:
        room = (self.room or {}).get(LIVING, batch.dones.numel())
        return self.gradients.whole_gradient(pack_living(batch, room) if room < batch.dones.numel() else batch)

    def _step(self) -> tuple[Tensor, Tensor]:
        """Clip and apply the sums, and clear them; return the norm, and what ``MinibatchFigures.steps`` has."""
        self._bind()
        torch._foreach_div_(self._sums, self._rows.clamp_min(1.0))  # pyright: ignore[reportPrivateImportUsage]
        norm = nn.utils.clip_grad_norm_(self.gradients.parameters, self.config.max_grad_norm)
        step = torch.where(self._finite > 0, torch.where(norm.isfinite(), 1.0, -1.0), 0.0)
        self._found_inf.copy_(step <= 0)
        self.optimizer.step()
        for total in self._sums:
            total.zero_()
        self._finite.zero_()
        self._rows.zero_()
        return norm, step

    def _bind(self) -> None:
        for parameter, total, used in zip(self.gradients.parameters, self._sums, self._used, strict=True):
            parameter.grad = total if used else None
        self.optimizer.grad_scale, self.optimizer.found_inf = None, self._found_inf  # pyright: ignore

    def _warm_up(self, inputs: Minibatch) -> None:
        """Let libraries choose kernels and the optimizer allocate its moments; no weight or moment changes."""
        for _ in range(WARM_UP):
            _, gradients = self._gradient(inputs)
        self._used = [gradient is not None for gradient in gradients]
        self._bind()
        self._found_inf.fill_(1.0)
        self.optimizer.step()
