"""Work captured once as a CUDA graph and replayed afterwards: a minibatch, and a step of the environment.

An unrolled recurrence is thousands of small kernels whose launches cost more than their work; a graph launches them
at once. A captured graph reads tensors at fixed addresses, so each minibatch is first copied there, and the captured
work must not branch on data or depend on a changing Python number. There is one graph per minibatch shape.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar

import torch
import warp as wp
from torch import Tensor

from echelon.rl.lstm_state import LSTMState
from echelon.training.rollout import Minibatch

WARM_UP = 3
"""Runs before the capture, in which libraries choose their kernels and allocate."""

Result = TypeVar("Result")


def capture_cuda_graph(work: Callable[[], Result]) -> Callable[[], Result]:
    """Capture ``work`` and return a function that replays it; its result lies in the same tensors every time."""
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(side_stream)
    return record_cuda_graph(work)


def record_cuda_graph(work: Callable[[], Result], memory: Any = None, stream: Any = None) -> Callable[[], Result]:
    """Capture ``work`` without running it and return a function that replays it, as ``capture_cuda_graph`` does.

    ``memory`` is a pool that the graph may share with others of which it is the only one that is still replayed.
    Graphs that are replayed at the same time need ``stream``: the libraries' workspaces are those of a stream.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=memory, stream=stream):
        result = work()

    def replay() -> Result:
        graph.replay()
        return result

    return replay


def capture_environment_step(work: Callable[[], None]) -> Callable[[], None]:
    """Capture ``work`` of torch and Warp without running it, and return a function that replays it.

    Both work on the stream of the capture. ``work`` has run before, so that libraries are warm and kernels loaded.
    """
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    warp_stream = wp.stream_from_torch(stream)
    mode = "thread_local"
    with wp.ScopedStream(warp_stream), torch.cuda.graph(graph, stream=stream, capture_error_mode=mode):
        wp.capture_begin(stream=warp_stream, force_module_load=False, external=True)
        try:
            work()
        finally:
            wp.capture_end(stream=warp_stream)
    return graph.replay


class Replayed:
    """Work on fixed tensors: runs ``warm_up`` times, then as a captured graph; without ``record`` it just runs."""

    def __init__(
        self,
        work: Callable[[], None],
        record: Callable[[Callable[[], None]], Callable[[], None]] | None,
        warm_up: int = WARM_UP,
    ) -> None:
        self._work, self._record, self._warm_up = work, record, warm_up
        self._replay: Callable[[], None] | None = None
        self._runs, self._is_captured = 0, False

    def clear(self) -> None:
        """Warm up and capture again, where the work itself has changed; the old graph lends the new one its memory."""
        self._runs, self._is_captured = 0, False

    def __call__(self) -> None:
        if self._record is None or self._runs < self._warm_up:
            self._runs += 1
            self._work()
            return
        if self._replay is None or not self._is_captured:
            self._replay, self._is_captured = self._record(self._work), True
        self._replay()


class CudaGraphCache(Generic[Result]):
    """Computes results of minibatches by captured graphs, one per shape of minibatch and further arguments."""

    def __init__(
        self,
        compute: Callable[..., Result],
        capture: Callable[[Callable[[], Result]], Callable[[], Result]] = capture_cuda_graph,
        warm_up: Callable[[Minibatch], None] = lambda batch: None,
    ) -> None:
        self._compute, self._capture, self._warm_up = compute, capture, warm_up
        self._captured: dict[tuple[Any, ...], tuple[Minibatch, Callable[[], Result]]] = {}

    def clear(self) -> None:
        self._captured = {}

    def __call__(self, batch: Minibatch, *arguments: Any) -> Result:
        """Return the result of a minibatch, in the same tensors every time."""
        key = (tuple(batch.obs.shape), *arguments)
        if key not in self._captured:
            inputs = copy_of(batch)
            self._warm_up(inputs)
            self._captured[key] = (inputs, self._capture(lambda: self._compute(inputs, *arguments)))
        inputs, replay = self._captured[key]
        for own, new in zip(_tensors(inputs), _tensors(batch), strict=True):
            own.copy_(new)
        return replay()


def _tensors(batch: Minibatch) -> list[Tensor]:
    tensors: list[Tensor] = []
    for item in fields(batch):
        value = getattr(batch, item.name)
        if value is not None:
            tensors += value if isinstance(value, LSTMState) else [value]
    return tensors


def copy_of(batch: Minibatch) -> Minibatch:
    copies = {f.name: value for f in fields(batch) if (value := getattr(batch, f.name)) is not None}
    for name, value in copies.items():
        copies[name] = LSTMState(*(t.clone() for t in value)) if isinstance(value, LSTMState) else value.clone()
    return replace(batch, **copies)
