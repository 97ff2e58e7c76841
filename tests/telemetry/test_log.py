"""Writing, reading and following ``metrics.jsonl``, damaged files included."""

import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.telemetry import log as log_module
from echelon.telemetry.events import EventAlert, EventCheckpoint, EventResume, EventRound, EventStart, EventUpdate
from echelon.telemetry.latest import read_latest
from echelon.telemetry.lines import MAX_RECORD_BYTES, to_json
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


def test_follower_returns_each_record_once_and_waits_for_a_complete_line(path):
    follower = EventFollower(path)
    assert follower.poll() == []
    write(path, 1, 2)
    assert numbers(follower.poll()) == [1, 2]
    assert follower.poll() == []
    line = to_json(update(3)).encode() + b"\n"
    with open(path, "ab", buffering=0) as file:
        file.write(line[:20])
        assert follower.poll() == []
        file.write(line[20:])
    assert numbers(follower.poll()) == [3] and follower.skipped == 0


def test_torn_line_loses_only_itself(path):
    write(path, 1)
    with open(path, "ab") as file:
        file.write(to_json(update(2)).encode()[:20])
    write(path, 3)
    events, skipped = read_events(path)
    assert numbers(events) == [1, 3] and skipped == 1


GARBAGE = (
    b"\0" * 40, b"\xff\xfe", b"{}", b"[" * 100_000, b'{"kind":"update"}', b"NaN", b'{"kind":["a"]}', b'{"kind":null}',
    b'{"kind":"update","update":' + b"9" * 40 + b',"global_step":1}',
)  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE)
def test_invalid_lines_are_skipped_and_counted_and_blank_ones_are_none(path, garbage):
    write(path, 1)
    with open(path, "ab") as file:
        file.write(garbage + b"\n\n  \n\t\n")
    write(path, 2)
    events, skipped = read_events(path)
    assert numbers(events) == [1, 2] and skipped == 1
    latest = read_latest(path).update
    assert latest is not None and latest.update == 2


@given(cut=st.integers(0, 2000), flip=st.integers(0, 2000))
def test_reader_survives_arbitrary_damage(tmp_path_factory, cut, flip):
    path = tmp_path_factory.mktemp("damage") / "metrics.jsonl"
    write(path, 1, 2)
    raw = bytearray(path.read_bytes())
    raw[flip % len(raw)] ^= 0x55
    path.write_bytes(bytes(raw[: max(0, len(raw) - cut)]))
    events, _ = read_events(path)
    assert len(events) <= 3


def test_concurrent_writers_do_not_interleave_lines(path):
    with EventLog(path) as one, EventLog(path) as other:
        for number in range(50):
            (one if number % 2 else other).append(update(number))
    events, skipped = read_events(path)
    assert numbers(events) == list(range(50)) and skipped == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to write to")
def test_append_on_full_disk_raises_os_error(tmp_path):
    with EventLog(tmp_path / "metrics.jsonl") as log, open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), log._fd)
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


def test_event_log_is_readable_for_others_and_not_inherited(path):
    before = os.umask(0o022)
    try:
        with EventLog(path) as log:
            assert log.path == path and not os.get_inheritable(log._fd)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


def test_partial_write_raises_and_loses_only_its_record(path, monkeypatch):
    event = update(1)
    line = to_json(event).encode() + b"\n"
    write_all = os.write
    with EventLog(path) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda handle, data: write_all(handle, data[:9]))
            with pytest.raises(OSError) as caught:
                log.append(event)
        assert str(caught.value) == f"only 9 of {len(line)} bytes of a record fit on the disk"
        log.append(update(2))
        log.append(update(3))
    events, skipped = read_events(path)
    assert numbers(events) == [2, 3] and skipped == 1
    assert path.read_bytes().count(b"\n") == 3, "only the torn line is terminated"


def test_reopened_log_continues_whole_lines_without_a_gap(path):
    write(path, 1)
    write(path, 2)
    assert [line[:1] for line in path.read_text().split("\n")] == ["{", "{", ""]
    path.write_bytes(b"{")
    write(path, 3)
    assert [line[:2] for line in path.read_text().split("\n")] == ["{", '{"', ""]


def test_sync_flushes_records_and_once_the_name(path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    with EventLog(path) as log:
        log.append(update(1))
        log.sync()
        log.sync()
    assert synced == [str(path), str(path.parent), str(path)]


def test_close_releases_the_file_once(path, monkeypatch):
    closed, close = [], os.close
    monkeypatch.setattr(os, "close", lambda handle: (closed.append(handle), close(handle)))
    log = EventLog(path)
    handle = log._fd
    log.close()
    log.close()
    assert closed == [handle]


def test_follower_reads_a_long_file_in_parts(path, monkeypatch):
    monkeypatch.setattr(log_module, "CHUNK_BYTES", 64)
    write(path, *range(200))
    data = path.read_bytes()
    follower, found, calls = EventFollower(path), [], 0
    assert follower.behind is False
    while not calls or follower.behind:
        found += numbers(follower.poll(limit_bytes=128))
        calls += 1
        assert found == list(range(data[: 128 * calls].count(b"\n"))), "each call reads the limit"
    assert found == list(range(200)) and calls == len(data) // 128 + 1
    whole = EventFollower(path)
    assert len(whole.poll()) == 200 and not whole.behind
    assert follower.poll() == [] and follower.behind is False


def test_follower_limit_counts_from_the_last_call(path, monkeypatch):
    monkeypatch.setattr(log_module, "CHUNK_BYTES", 64)
    write(path, 1)
    start = path.stat().st_size
    write(path, *range(2, 40))
    follower = EventFollower(path, offset=start)
    assert len(follower.poll(limit_bytes=65)) == path.read_bytes()[start : start + 128].count(b"\n")
    assert follower.behind


def test_follower_restarts_on_a_longer_replacement(path):
    write(path, 1)
    with open(path, "ab") as file:
        file.write(b"no record\n{torn")
    follower = EventFollower(path)
    assert numbers(follower.poll()) == [1] and follower.skipped == 1 and follower.generation == 0
    for generation in (1, 2):
        other = path.with_suffix(".new")
        write(other, *range(3, 30))
        os.replace(other, path)
        assert numbers(follower.poll()) == list(range(3, 30)), "the rest of the torn line is forgotten"
        assert follower.generation == generation and follower.skipped == 0
    assert follower.poll() == [] and follower.generation == 2


def test_follower_restarts_once_on_a_truncated_file(path):
    write(path, 1, 2)
    follower = EventFollower(path)
    follower.poll()
    os.truncate(path, 0)
    assert follower.poll() == [] and follower.generation == 1
    write(path, 5, 6)
    assert numbers(follower.poll()) == [5, 6] and follower.generation == 1
    assert follower.poll() == [] and follower.generation == 1, "a file that did not change is not read again"


def test_follower_accepts_the_longest_record(path):
    line = to_json(EventAlert(message="long")).encode()
    padded = line + b" " * (MAX_RECORD_BYTES - len(line))
    path.write_bytes(padded + b"\n" + padded + b" \n" + padded + b"x\n")
    events, skipped = read_events(path)
    assert [event.message for event in events] == ["long"] and skipped == 2


def resume(number: int) -> EventResume:
    return EventResume(update=number, global_step=number * 10)


SAVED = EventCheckpoint(update=3, global_step=30, path="checkpoints/step-30")
ALERT, START = EventAlert(message="loss is not finite", update=3), EventStart(device="cpu")
ROUND = EventRound(round=1, state="playing")
SESSIONS = {
    "alerts stay": ([START, update(1), update(2), SAVED, ALERT, resume(1), START, update(2)], [0, 1, 4, 5, 6, 7]),
    "records without an update stay": ([ROUND, update(0), update(1), resume(0)], [0, 1, 3]),
    "every resume": ([*map(update, (1, 2)), resume(1), *map(update, (2, 3)), resume(2), update(3)], [0, 2, 3, 5, 6]),
}


@pytest.mark.parametrize(("events", "kept"), SESSIONS.values(), ids=SESSIONS)
def test_resume_supersedes_what_later_sessions_repeat(events, kept):
    assert drop_superseded(iter(events)) == [events[index] for index in kept]
