"""An update whose minibatches the host checks one by one: micro-batches on a few threads, or captured gradients."""

import math
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from echelon.rl.build import FlatPolicy
from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.packed_obs import PackedRollout, PackedRows
from echelon.training.normalization import ReturnNormalizer, update_obs_normalizer
from echelon.training.ppo.graph.capture import CudaGraphCache
from echelon.training.ppo.host.program import ProgramGradients, trains_by_program
from echelon.training.ppo.losses import Gradient, Gradients, LossTerms, Report, UpdateStats, summed
from echelon.training.ppo.optimizer import LearningRate
from echelon.training.rollout import Minibatch, RolloutBuffer, Unit, micro_batch_slices
from echelon.training.runtime.devices import read_scalars
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.threads import ThreadPool

CLIP_EPS = 1e-6
"""Added to the norm of a gradient that is clipped, as torch does."""


class HostUpdate:
    """Trains on minibatches; one whose loss is not finite on any rank is left out and reported."""

    def __init__(
        self,
        gradients: Gradients,
        optimizer: torch.optim.Optimizer,
        learning_rate: LearningRate,
        pool: ThreadPool,
        group: ProcessGroup,
        report: Report,
        graphs: CudaGraphCache[tuple[LossTerms, Gradient]] | None = None,
    ) -> None:
        """With ``graphs`` the gradient of a minibatch is computed whole, by a captured graph."""
        self.gradients, self.optimizer, self.graphs = gradients, optimizer, graphs
        self._pool, self._group, self._report = pool, group, report
        self._learning_rate = learning_rate
        parameters = gradients.parameters
        self._gradient = torch.zeros(sum(p.numel() for p in parameters), device=gradients.device)
        """The accumulated gradient of all parameters; each ``grad`` is a part of it."""
        parts = self._gradient.split([p.numel() for p in parameters])
        self._parts = [part.view_as(p) for part, p in zip(parts, parameters, strict=True)]
        self._rows = 0.0
        """Rows of the accumulated minibatches, in the mean over ranks."""
        self.stats = UpdateStats()
        self.packed: PackedRollout | None = None
        model = gradients.model
        programs = gradients.regime.packs and trains_by_program(model, gradients.config)
        self._programs = ProgramGradients(model, pool, gradients.coefficients) if programs else None
        # a compiled or captured gradient is made for one shape
        config = gradients.config
        self._may_vary = gradients.regime.packs and not (config.compile or config.capture)
        self.skips_idle = self._may_vary

    @torch.no_grad()
    def begin(self, buffer: RolloutBuffer, length: int) -> None:
        """Pack the observations of a rollout, where the model has entities and nothing reads the whole rows."""
        self.stats, model = UpdateStats(), self.gradients.model
        packs = self._may_vary and not self.gradients.config.aux_coef and isinstance(model, FlatPolicy)
        self.packed = model.packed(buffer.obs, self._pool.map) if packs else None
        if self._programs is not None and self.packed is not None:
            self._programs.begin(self.packed, buffer)

    def make_room(self, plan: Sequence[Sequence[Unit]]) -> None:
        """Do nothing: packed minibatches have as many rows as entities."""

    def train(self, batches: Iterable[Minibatch], count: int, where: str) -> None:
        """Train on minibatches; only finite ones count towards ``grad_accum_steps``."""
        accumulated = 0
        self._clear()
        with closing(self._pool.ahead(batches)) as ahead:
            for index, batch in enumerate(ahead):
                location = f"{where}, minibatch {index}"
                if not self._accumulate(batch, location):
                    continue
                accumulated += 1
                if accumulated == self.gradients.config.grad_accum_steps:
                    self._step(location)
                    accumulated = 0
        if accumulated:
            self._step(f"the end of {where}")

    def finish(self, metrics: dict[str, Any]) -> tuple[UpdateStats, dict[str, Any]]:
        self.packed = None
        return self.stats, read_scalars(metrics)[1]

    def clear(self) -> None:
        if self.graphs is not None:
            self.graphs.clear()

    def update_returns(self, normalizer: ReturnNormalizer, returns: Tensor, present: Tensor) -> None:
        if self._group.any(not bool(returns.isfinite().all())):
            return
        has_absent = bool((present == 0).any())
        normalizer.update(returns[present > 0] if has_absent else returns)

    def update_observations(self, normalizer: ObsNormalizer, obs: Tensor, alive: Tensor) -> None:
        update_obs_normalizer(normalizer, obs, alive, self._group)

    def gradients_of(self, batch: Minibatch) -> tuple[LossTerms, list[Gradient] | None]:
        """Return terms of a minibatch and the gradient of each micro-batch; None if the loss is not finite."""
        if self.graphs is not None:
            captured, gradients = self.graphs(batch)
            terms = LossTerms(*(term.clone() for term in captured))
            gradient = [None if g is None else g.clone() for g in gradients]
            return terms, [gradient] if bool(terms.loss.isfinite()) else None
        if self._programs is not None and isinstance(batch.obs, PackedRows):
            terms, gradient = self._programs.minibatch(batch, self.gradients.parameters)
            return terms, None if gradient is None else [gradient]
        slices = (
            micro_batch_slices(*batch.dones.shape) if self.gradients.regime.packs else [slice(0, batch.dones.shape[1])]
        )
        parts = self._pool.map(lambda part: self.gradients.micro_batch_gradient(batch, part), slices)
        terms = summed(p[0] for p in parts)
        gradients = [p[1] for p in parts if p[1] is not None]
        return terms, gradients if len(gradients) == len(parts) else None

    def add(self, gradients: list[Gradient], rows: float) -> None:
        """Add micro-batch gradients to ``p.grad``, times the ``rows`` of their minibatch.

        The gradients are not modified: compiled functions may return one tensor for two parameters.
        """
        for micro_batch in gradients:
            used = [i for i, gradient in enumerate(micro_batch) if gradient is not None]
            for i in used:
                self.gradients.parameters[i].grad = self._parts[i]
            own = [micro_batch[i] for i in used]
            torch._foreach_add_([self._parts[i] for i in used], own, alpha=rows)  # pyright: ignore

    def _accumulate(self, batch: Minibatch, location: str) -> bool:
        terms, gradients = self.gradients_of(batch)
        if self._group.any(gradients is None):
            self._report(f"loss at {location}", terms)
            return False
        own = batch.rows.float()
        kl, rows = torch.stack([own * terms.approx_kl, own]).unbind()
        self._group.average([kl, rows])
        self._learning_rate.follow(kl / rows.clamp_min(1.0))
        self.add(gradients or [], float(own))
        self._rows += float(rows)
        self.stats.terms.append(terms)
        return True

    def _step(self, location: str) -> None:
        """Average, clip and apply the accumulated gradient, then clear it.

        A gradient that overflows float16 skips the step and lowers the loss scale; that is no fault.
        """
        scaler, gradient, most = self.gradients.scaler, self._gradient, self.gradients.config.max_grad_norm
        self._group.average([gradient])
        gradient.mul_(1.0 / max(self._rows, 1.0))
        self._rows = 0.0
        scaler.unscale_(self.optimizer)
        norm = float(gradient.norm())
        gradient.mul_(min(1.0, most / (norm + CLIP_EPS)))
        if math.isfinite(norm):
            self.stats.grad_norms.append(norm)
        elif scaler.is_enabled():
            self.stats.overflows += 1
        else:
            self._report(f"gradient norm at {location}", None)
        if math.isfinite(norm) or scaler.is_enabled():
            scaler.step(self.optimizer)
            scaler.update()
            increment_version(self.gradients.parameters)  # which a fused optimizer does not
        self._clear()

    def _clear(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self._gradient.zero_()
