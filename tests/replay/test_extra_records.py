"""STATE and SEAT records: what is written is read, older readers skip them, hostile ones cost only themselves."""

import random
import tracemalloc

import msgpack
import numpy as np
import pytest

from echelon.replay import codec, schema
from echelon.replay.codec import ReplayError, pack_map
from echelon.replay.extra_records import DTYPES, pack_seat, pack_state, parse_seat, parse_state, read_seats, state_heads
from echelon.replay.reader import Replay
from echelon.replay.schema import BUDGETS, MAGIC, RecordType
from tests.replay.hostile import Record, mutate, pack
from tests.replay.synthetic import with_records, write_match

MUTATIONS = 150
MAX_MEMORY = 4 * BUDGETS[RecordType.STATE].raw_bytes
"""Peak memory limit for reading one payload [bytes]."""


def some_arrays(draws: np.random.Generator) -> dict[str, np.ndarray]:
    """Return arrays of every element type with random shapes and bits."""
    arrays = {}
    for i, dtype in enumerate(DTYPES.values()):
        shape = tuple(draws.integers(0, 5, draws.integers(0, 5)).tolist())
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        arrays[f"array {i}"] = np.frombuffer(draws.bytes(count), dtype).reshape(shape)
    return arrays


@pytest.mark.parametrize("seed", range(4))
def test_state_round_trips_bit_for_bit(seed):
    arrays = some_arrays(np.random.default_rng(seed))
    found = parse_state(pack_state(arrays, 3), 200)
    assert (found.tick, found.sim_version) == (200, 3)
    assert found.arrays.keys() == arrays.keys()
    for name, values in arrays.items():
        again = found.arrays[name]
        assert (again.dtype, again.shape, again.tobytes()) == (values.dtype, values.shape, values.tobytes())


def test_seat_round_trips_bit_for_bit():
    actions = np.random.default_rng(0).integers(-128, 128, (40, 2, 18), np.int8)
    found = parse_seat(pack_seat([1, 7], actions), 400)
    assert (found.tick, found.seats) == (400, [1, 7])
    np.testing.assert_array_equal(found.actions, actions)


BAD_STATES = {
    "no version": {"a": {}},
    "list of arrays": {"v": 1, "a": []},
    "unknown type": {"v": 1, "a": {"hp": ["f8", [1], bytes(8)]}},
    "huge count": {"v": 1, "a": {"hp": ["f4", [2**31], bytes(4)]}},
    "product of zeros": {"v": 1, "a": {"hp": ["f4", [0, 2**40], b""]}},
    "negative": {"v": 1, "a": {"hp": ["f4", [-1, -1], bytes(4)]}},
    "boolean": {"v": 1, "a": {"hp": ["f4", [True], bytes(4)]}},
    "too many axes": {"v": 1, "a": {"hp": ["f4", [1] * 7, bytes(4)]}},
    "odd bytes": {"v": 1, "a": {"hp": ["f4", [1], bytes(5)]}},
    "no bytes": {"v": 1, "a": {"hp": ["f4", [1], "text"]}},
    "nested type": {"v": 1, "a": {"hp": [["f4"], [1], bytes(4)]}},
}
BAD_SEATS = {
    "no seats": {"s": [], "a": [[1, 0, 18], b""]},
    "twice the same": {"s": [1, 1], "a": [[1, 2, 1], bytes(2)]},
    "no mech": {"s": [-1], "a": [[1, 1, 1], bytes(1)]},
    "huge mech": {"s": [2**40], "a": [[1, 1, 1], bytes(1)]},
    "more seats": {"s": [1], "a": [[1, 2, 1], bytes(2)]},
    "huge shape": {"s": [1], "a": [[2**40, 1, 1], bytes(1)]},
    "huge action": {"s": [1], "a": [[0, 1, 2**20], b""]},
    "no shape": {"s": [1], "a": [None, b""]},
}


@pytest.mark.parametrize("fault", BAD_STATES)
def test_state_of_another_form_is_rejected(fault):
    with pytest.raises(ReplayError, match="state at tick 200 "):
        parse_state(pack_map(BAD_STATES[fault]), 200)


@pytest.mark.parametrize("fault", BAD_SEATS)
def test_seat_of_another_form_is_rejected(fault):
    with pytest.raises(ReplayError, match="seat at tick 200 is damaged"):
        parse_seat(pack_map(BAD_SEATS[fault]), 200)


def test_random_changes_raise_one_line_and_take_no_memory():
    draws = random.Random(5)
    state = pack_state(some_arrays(np.random.default_rng(1)), 1)
    seat = pack_seat([3], np.zeros((4, 1, 18), np.int8))
    rejected = 0
    tracemalloc.start()
    for _ in range(MUTATIONS):
        payload, parse = draws.choice(((state, parse_state), (seat, parse_seat)))
        value = msgpack.unpackb(payload)
        for _ in range(draws.choice((1, 1, 3))):
            mutate(value, draws)
        try:
            parse(pack(value), 7)
        except ReplayError as error:
            rejected += 1
            assert "\n" not in str(error)
    assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
    tracemalloc.stop()
    assert rejected > MUTATIONS // 3


def with_inserted(path, folder, *records: bytes, at: int = 1):
    """Return a copy of a replay with records before chunk ``at``, without its index."""
    with Replay(path) as replay:
        offset, chunk = replay.chunks[at].offset, replay.chunk_bytes(at)
    return with_records(path, folder / "with", {offset: b"".join(records) + chunk})


def test_other_records_leave_chunks_as_they_are(tmp_path):
    path = write_match(tmp_path / "m.ecr", 3)
    state = codec.pack_record(RecordType.STATE, pack_state({}, 1), ticks=(40, 40))
    seats = [
        codec.pack_record(RecordType.SEAT, pack_seat([2], np.zeros((40, 1, 5), np.int8)), ticks=(tick, tick + 40))
        for tick in (40, 0)
    ]
    unknown = codec.pack_record(99, b"anything")
    with Replay(path) as replay, Replay(with_inserted(path, tmp_path, unknown, *seats, state)) as other:
        assert [c.hash for c in map(other.chunk, range(3))] == [c.hash for c in map(replay.chunk, range(3))]
        assert [head.tick0 for head in state_heads(other)] == [40] and not state_heads(replay)
        assert [seat.tick for seat in read_seats(other)] == [0, 40]


def test_overlapping_seats_are_rejected(tmp_path):
    seat = codec.pack_record(RecordType.SEAT, pack_seat([2], np.zeros((40, 1, 5), np.int8)), ticks=(40, 80))
    with (
        Replay(with_inserted(write_match(tmp_path / "m.ecr", 3), tmp_path, seat, seat)) as replay,
        pytest.raises(ReplayError, match="seat at tick 40 overlaps"),
    ):
        read_seats(replay)


def test_state_that_claims_too_much_is_not_read(tmp_path):
    claimed = Record(RecordType.STATE, bytes(64), ticks=(40, 40), raw=BUDGETS[RecordType.STATE].raw_bytes + 1).pack()
    bomb = Record(RecordType.STATE, bytes(2**20), ticks=(40, 40), raw=100).pack()
    path = write_match(tmp_path / "m.ecr", 3)
    with Replay(with_inserted(path, tmp_path, claimed)) as replay:
        assert len(replay.chunks) == 1, "a file without index is read up to its first invalid record"
    with Replay(with_inserted(path, tmp_path, bomb)) as replay:
        (head,) = state_heads(replay)
        with pytest.raises(ReplayError, match="inflates to more than 100 bytes"):
            replay.payload(head)


def test_count_of_records_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("echelon.replay.schema.MAX_STATES", 20)
    record = codec.pack_record(RecordType.STATE, b"\x80", ticks=(1, 1))
    with Replay(with_inserted(write_match(tmp_path / "m.ecr", 3), tmp_path, record * 25)) as replay:
        assert len(state_heads(replay)) == 20


def state_record(tick: int) -> bytes:
    return codec.pack_record(RecordType.STATE, b"\x80", ticks=(tick, tick))


def ticks_of(path) -> list[int]:
    with Replay(path) as replay:
        return [head.tick0 for head in replay.extra_heads(RecordType.STATE)]


def test_records_behind_the_last_chunk_are_found_with_and_without_index(tmp_path):
    path = write_match(tmp_path / "m.ecr", 3)
    with Replay(path) as replay:
        end = replay.chunks[-1].offset + replay.chunks[-1].length
    data, opened = path.read_bytes(), tmp_path / "open.ecr"
    tail = state_record(1) + state_record(2)
    opened.write_bytes(data[:end] + tail)
    assert ticks_of(opened) == [1, 2]
    opened.write_bytes(data[:end] + tail + state_record(3)[: schema.HEAD.size])  # is being written
    assert ticks_of(opened) == [1, 2]
    claimed = Record(RecordType.STATE, bytes(64), ticks=(3, 3), raw=BUDGETS[RecordType.STATE].raw_bytes + 1).pack()
    opened.write_bytes(data[:end] + tail + claimed + state_record(4))
    assert ticks_of(opened) == [1, 2]


def test_records_of_a_closed_file_are_found_up_to_its_end(tmp_path):
    with Replay(write_match(tmp_path / "m.ecr", 3)) as replay:
        (head,) = replay.extra_heads(RecordType.INDEX)
        assert head.offset == replay.chunks[-1].offset + replay.chunks[-1].length


def test_count_of_visited_records_is_bounded(tmp_path, monkeypatch):
    other = codec.pack_record(99, b"anything")
    path = with_inserted(write_match(tmp_path / "m.ecr", 3), tmp_path, other * 8, state_record(1), at=0)
    with path.open("rb") as file:
        offset, kinds = len(MAGIC), []
        while RecordType.STATE not in kinds:
            head = codec.read_head(file, offset)
            kinds.append(head.kind)
            offset += head.length
    assert len(kinds) > 9  # the header, and more
    for most, found in ((len(kinds) - 1, []), (len(kinds), [1])):
        monkeypatch.setattr("echelon.replay.schema.MAX_CHUNKS", most)
        assert ticks_of(path) == found


def test_record_with_a_wrong_checksum_is_not_whole(tmp_path):
    path = with_inserted(write_match(tmp_path / "m.ecr", 3), tmp_path, state_record(1))
    with Replay(path) as replay:
        (head,) = replay.extra_heads(RecordType.STATE)
        assert replay.is_whole(head) is True
    data = bytearray(path.read_bytes())
    data[head.offset + schema.HEAD.size] ^= 1
    path.write_bytes(data)
    with Replay(path) as replay:
        assert replay.is_whole(head) is False
