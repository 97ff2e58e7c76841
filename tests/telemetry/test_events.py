"""Conversion of records to JSON lines and back."""

import dataclasses
import json
import math
from dataclasses import MISSING, fields

import pytest

from echelon.telemetry.events import EVENTS, EventAlert, EventEval, EventUpdate, update_fields
from echelon.telemetry.lines import from_json, to_json

EXAMPLES = {str: "text", int: 3, float: 0.5}


def example(cls):
    """Return a record of this kind with example values in its required fields."""
    required = [f for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]
    return cls(**{f.name: EXAMPLES[f.type] for f in required})


@pytest.mark.parametrize("kind", EVENTS)
def test_every_event_kind_round_trips_through_json(kind):
    event = example(EVENTS[kind])
    line = to_json(event)
    assert "\n" not in line
    assert json.loads(line)["kind"] == kind
    assert to_json(from_json(line)) == line


def test_nonfinite_float_is_written_as_null_and_read_as_nan():
    line = to_json(EventUpdate(update=1, global_step=1, loss=math.inf, phases_s={"update": math.nan}))
    row = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert row["loss"] is None and row["phases_s"] == {"update": None}
    event = from_json(line)
    assert isinstance(event, EventUpdate) and math.isnan(event.loss) and math.isnan(event.phases_s["update"])


def test_unknown_field_is_dropped():
    line = to_json(EventUpdate(update=1, global_step=2)).replace("{", '{"invented_later":1,', 1)
    event = from_json(line)
    assert isinstance(event, EventUpdate) and event.global_step == 2


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("[]", "unknown kind"),
        ('{"kind":"gossip"}', "gossip"),
        ('{"kind":"update","update":1}', "global_step"),
        ('{"kind":"update","update":"one","global_step":1}', "update.update is 'one'"),
        ('{"kind":"update","update":true,"global_step":1}', "update.update is True"),
        ('{"kind":"update","update":1,"global_step":1,"loss":1%s}' % ("0" * 400), "update.loss is 1000"),
        (
            '{"kind":"update","update":1,"global_step":1,"phases_s":{"a":"b"}}',
            "update.phases_s.a is 'b', expected float",
        ),
        (
            '{"kind":"update","update":1,"global_step":1,"opponents":{"a":0.5}}',
            "update.opponents.a is 0.5, expected int",
        ),
        (
            '{"kind":"rating","update":1,"global_step":1,"name":"","elo":1,"opponents":{"a":2}}',
            "opponents.a is 2, expected dict",
        ),
        ('{"kind":"update","update":1,"glob', "EOF"),
    ],
)
def test_invalid_record_raises_error_naming_field(line, names):
    with pytest.raises(ValueError, match=names):
        from_json(line)


def test_update_fields_selects_fields_of_update_records():
    assert update_fields({"entropy": 0.5, "optimizer_steps": 4}) == {"entropy": 0.5}


def test_records_of_a_kind_are_equal_by_their_values():
    one, other = (EventUpdate(update=1, global_step=2, time=3.0) for _ in range(2))
    assert one == other, "unknown values are equal"
    assert len({EventAlert(message="x", time=3.0) for _ in range(2)}) == 1
    assert one != dataclasses.replace(one, update=2) and one != EventAlert(message="x", time=3.0)
    assert one != dataclasses.replace(one, loss=math.inf)
    assert repr(EventAlert(message="x", time=3.0)).startswith("EventAlert(time=3.0, message='x'")


def test_records_are_frozen_dataclasses_without_methods_of_their_own():
    for kind in EVENTS.values():
        assert dataclasses.is_dataclass(kind) and not {"__eq__", "__repr__", "__hash__"} & set(vars(kind)), kind
    with pytest.raises(dataclasses.FrozenInstanceError):
        EventEval(update=1, global_step=1, opponent="a", episodes=1, win_rate=0.5).update = 3
