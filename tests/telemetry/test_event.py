"""What all records have in common."""

from __future__ import annotations

import dataclasses
import math

import pytest

from echelon.telemetry.events import EVENTS, EventAlert, EventEval, EventUpdate


def test_records_of_a_kind_are_equal_by_their_values():
    one, other = (EventUpdate(update=1, global_step=2, time=3.0) for _ in range(2))
    assert one == other, "unknown values are equal"
    assert len({EventAlert(message="x", time=3.0) for _ in range(2)}) == 1
    assert one != dataclasses.replace(one, update=2) and one != EventAlert(message="x", time=3.0)
    assert one != dataclasses.replace(one, loss=math.inf)
    assert repr(EventAlert(message="x", time=3.0)).startswith("EventAlert(time=3.0, message='x'")


def test_records_are_frozen_dataclasses_without_methods_of_their_own():
    for kind in set(EVENTS.values() if isinstance(EVENTS, dict) else EVENTS):
        assert dataclasses.is_dataclass(kind) and not {"__eq__", "__repr__", "__hash__"} & set(vars(kind)), kind
    with pytest.raises(dataclasses.FrozenInstanceError):
        EventEval(update=1, global_step=1, opponent="a", episodes=1, win_rate=0.5).update = 3
