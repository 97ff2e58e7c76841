"""Writing, reading and following ``metrics.jsonl``, damaged files included."""

from __future__ import annotations

import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.telemetry.events import EventAlert, EventCheckpoint, EventResume, EventStart, EventUpdate
from echelon.telemetry.latest import read_latest
from echelon.telemetry.lines import to_json
from echelon.telemetry.log import CHUNK_BYTES, EventFollower, EventLog, drop_superseded, read_events


def update(number: int) -> EventUpdate:
    return EventUpdate(update=number, global_step=number * 10)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def write(path, *numbers):
    with EventLog(path) as log:
        for number in numbers:
            log.append(update(number))


def numbers(events):
    return [event.update for event in events]


def test_follower_returns_each_record_once_in_order(path):
    follower = EventFollower(path)
    assert follower.poll() == []
    write(path, 1, 2)
    assert numbers(follower.poll()) == [1, 2]
    assert follower.poll() == []
    write(path, 3)
    assert numbers(follower.poll()) == [3]


def test_follower_waits_for_complete_line(path):
    write(path, 1)
    line = to_json(update(2)).encode() + b"\n"
    follower = EventFollower(path)
    with open(path, "ab", buffering=0) as file:
        file.write(line[:20])
        assert numbers(follower.poll()) == [1]
        file.write(line[20:])
    assert numbers(follower.poll()) == [2]
    assert follower.skipped == 0


def test_torn_line_loses_only_itself(path):
    write(path, 1)
    with open(path, "ab") as file:
        file.write(to_json(update(2)).encode()[:20])
    write(path, 3)
    events, skipped = read_events(path)
    assert numbers(events) == [1, 3] and skipped == 1


@pytest.mark.parametrize("garbage", [b"\0" * 40, b"\xff\xfe", b"{}", b"[" * 100_000, b'{"kind":"update"}', b"NaN"])
def test_invalid_lines_are_skipped_and_counted(path, garbage):
    write(path, 1)
    with open(path, "ab") as file:
        file.write(garbage + b"\n\n")
    write(path, 2)
    events, skipped = read_events(path)
    assert numbers(events) == [1, 2] and skipped == 1


@given(cut=st.integers(0, 2000), flip=st.integers(0, 2000))
def test_reader_survives_arbitrary_damage(tmp_path_factory, cut, flip):
    path = tmp_path_factory.mktemp("damage") / "metrics.jsonl"
    write(path, 1, 2)
    raw = bytearray(path.read_bytes())
    raw[flip % len(raw)] ^= 0x55
    path.write_bytes(bytes(raw[: max(0, len(raw) - cut)]))
    events, _ = read_events(path)
    assert len(events) <= 3


def test_replaced_file_is_read_from_start(path):
    write(path, 1, 2)
    follower = EventFollower(path)
    follower.poll()
    other = path.with_suffix(".new")
    write(other, 7)
    os.replace(other, path)
    assert numbers(follower.poll()) == [7]
    assert follower.generation == 1


def test_truncated_file_is_read_from_start(path):
    write(path, 1, 2)
    follower = EventFollower(path)
    follower.poll()
    os.truncate(path, 0)
    write(path, 5)
    assert numbers(follower.poll()) == [5]


def test_follower_with_offset_skips_earlier_records(path):
    write(path, 1)
    follower = EventFollower(path, offset=path.stat().st_size)
    write(path, 2)
    assert numbers(follower.poll()) == [2]


def test_resume_supersedes_later_updates_but_not_alerts(path):
    alert = EventAlert(message="loss is not finite", update=3)
    start, resume = EventStart(device="cpu"), EventResume(update=1, global_step=10)
    saved = EventCheckpoint(update=3, global_step=30, path="checkpoints/step-30")
    events = [start, update(1), update(2), update(3), saved, alert, resume, start, update(2)]
    assert drop_superseded(events) == [start, update_of(events, 1), alert, resume, start, events[-1]]


def update_of(events, number):
    return next(e for e in events if isinstance(e, EventUpdate) and e.update == number)


def test_concurrent_writers_do_not_interleave_lines(path):
    with EventLog(path) as one, EventLog(path) as other:
        for number in range(50):
            (one if number % 2 else other).append(update(number))
    events, skipped = read_events(path)
    assert numbers(events) == list(range(50)) and skipped == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to write to")
def test_append_on_full_disk_raises_os_error():
    with EventLog(os.devnull if not os.path.exists("/dev/full") else "/dev/full") as log:  # type: ignore[arg-type]
        with pytest.raises(OSError, match="No space left"):
            log.append(update(1))


def test_follower_skips_a_line_of_any_length_in_bounded_memory(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with open(path, "wb") as file:
        for _ in range(24):
            file.write(b"x" * CHUNK_BYTES)
    with EventLog(path) as log:
        log.append(EventAlert(message="after"))
    follower = EventFollower(path)
    tracemalloc.start()
    events = follower.poll()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [event.message for event in events] == ["after"] and follower.skipped == 1
    assert peak < 8 * CHUNK_BYTES


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":["a"]}',
        '{"kind":{}}',
        "[" * 100_000,
        '{"kind":null}',
        '{"kind":"update","update":' + "9" * 40 + ',"global_step":1}',
    ],
)
def test_follower_skips_one_damaged_line(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{line}\n{to_json(EventAlert(message='after'))}\n")
    events, skipped = read_events(path)
    assert (len(events), skipped) == (1, 1) and read_latest(path).alert is not None
