"""Times on CUDA come from events; their order is tested with stand-ins for the device."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import warp as wp

from echelon.bench.stopwatch import Stopwatch
from echelon.sim.backend import BLOCK, NARROW_BLOCK
from tests.parity.scenes import phase
from tests.sim.flat_field import Field5v5


class Event:
    """A stand-in for an event: it counts the work that was queued before it."""

    queued = 0.0

    def __init__(self, *_: object, enable_timing: bool = False) -> None:
        assert enable_timing
        self.at = -1.0

    def record(self) -> None:
        self.at = Event.queued

    def synchronize(self) -> None:
        assert self.at >= 0

    def elapsed_time(self, other: Event) -> float:
        return other.at - self.at


def test_stopwatch_waits_for_the_device_and_reads_events(monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(wp, "synchronize_device", lambda device: waited.append(Event.queued))
    stopwatch = Stopwatch("cuda:0")
    stopwatch.start()
    Event.queued += 250.0
    assert stopwatch.stop() == pytest.approx(0.25)
    assert waited == [Event.queued - 250.0, Event.queued]


def test_launches_on_cuda_are_timed_between_events_of_one_graph(monkeypatch):
    """Each launch takes as many milliseconds as its block has threads."""

    def launch(*_: object, block_dim: int, **__: object) -> None:
        Event.queued += block_dim

    stand_ins = {
        "Event": Event, "Stream": lambda device: None, "ScopedStream": lambda stream: nullcontext(),
        "ScopedCapture": lambda device: nullcontext(SimpleNamespace(graph="graph")), "launch": launch,
        "record_event": Event.record, "capture_launch": lambda graph: None, "synchronize_device": lambda device: None,
        "get_event_elapsed_time": Event.elapsed_time,
    }  # fmt: skip
    field = Field5v5()
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(wp, name, stand_in)
    monkeypatch.setattr(field.batch.backend, "device", "cuda:0")
    seconds: dict[str, float] = {}
    field.batch.backend.timed(phase("movement", spread=True), seconds)
    assert seconds == {
        "tick.movement.accelerate": pytest.approx(BLOCK / 1e3),
        "tick.movement.find_near": pytest.approx(BLOCK / 1e3),
        "tick.movement.move_apart": pytest.approx(BLOCK / 1e3),
        "tick.movement.move_near": pytest.approx(NARROW_BLOCK / 1e3),
    }
