"""A minibatch's evaluation and gradients recorded once as a CUDA graph and replayed ever after.

An unrolled recurrence is thousands of small kernels, whose launches cost more than their work; a graph launches them
all at once. What is recorded reads tensors at fixed places, so each minibatch is copied there first, and nothing in it
may branch on data or be a Python number that changes. There is one recording per shape of minibatch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

import torch
from torch import Tensor

from echelon.rl.lstm_state import LSTMState
from echelon.training.ppo.batch import Batch, Gradient
from echelon.training.ppo.losses import LossTerms

WARM_UP = 3
"""Evaluations before recording, in which libraries choose their kernels and allocate."""

Result = TypeVar("Result")
Evaluated = tuple[LossTerms, Gradient]


def cuda_graph(work: Callable[[], Result]) -> Callable[[], Result]:
    """Record ``work`` and return what replays it; the result lies at the same place every time."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()

    def play() -> Result:
        graph.replay()
        return result

    return play


class CudaGraphCache:
    """Replays ``evaluate`` for every minibatch of a shape it has seen, and records it for every new one."""

    def __init__(
        self,
        evaluate: Callable[[Batch], Evaluated],
        record: Callable[[Callable[[], Evaluated]], Callable[[], Evaluated]] = cuda_graph,
    ) -> None:
        self._evaluate, self._record = evaluate, record
        self._recorded: dict[tuple[int, ...], tuple[Batch, Callable[[], Evaluated]]] = {}

    def __call__(self, batch: Batch) -> Evaluated:
        """Return terms and gradients of a minibatch ``[L, B, ...]``, in tensors of their own."""
        shape = tuple(batch.obs.shape)
        if shape not in self._recorded:
            place = _copy(batch)
            self._recorded[shape] = (place, self._record(lambda: self._evaluate(place)))
        place, play = self._recorded[shape]
        for mine, given in zip(_tensors(place), _tensors(batch), strict=True):
            mine.copy_(given)
        terms, gradients = play()
        return LossTerms(*(t.clone() for t in terms)), [None if g is None else g.clone() for g in gradients]


def _tensors(batch: Batch) -> list[Tensor]:
    found: list[Tensor] = []
    for item in fields(batch):
        value = getattr(batch, item.name)
        found += value if isinstance(value, LSTMState) else [value]
    return found


def _copy(batch: Batch) -> Batch:
    copies = {f.name: getattr(batch, f.name) for f in fields(batch)}
    for name, value in copies.items():
        copies[name] = LSTMState(*(t.clone() for t in value)) if isinstance(value, LSTMState) else value.clone()
    return replace(batch, **copies)
