"""Replay reader: complete chunks are found, invalid files rejected, and unknown parts skipped."""

import json
import os

import numpy as np
import pytest

from echelon.replay import codec, reader, schema
from echelon.replay.codec import ReplayError, pack_map, pack_record, parse_head, unpack_map, unpack_payload, world_hash
from echelon.replay.columns import GrowingRows, Layout
from echelon.replay.reader import Replay, _plain
from echelon.replay.schema import (
    BUDGETS,
    END_MAGIC,
    HEAD,
    MAGIC,
    SCHEMA_MAJOR,
    TRAILER_PAYLOAD,
    Budget,
    Codec,
    EventKind,
    MechFlag,
    RecordType,
)
from echelon.replay.validate import ChunkRef
from tests.golden import assert_golden_json
from tests.replay.golden import EDITS, GOLDEN, INSIGHT, RATES, REACH, SMOKE, STATES
from tests.replay.synthetic import FRAME_TICKS, SIZE, STRIDE, header, message, write_match


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Bytes, chunk references and decoded chunks of a closed match of five chunks."""
    path = write_match(tmp_path_factory.mktemp("whole") / "m.ecr")
    with Replay(path) as replay:
        return path.read_bytes(), list(replay.chunks), [replay.chunk(n) for n in range(len(replay.chunks))]


def same(one, other) -> bool:
    frames = all(np.array_equal(one.frames[name], other.frames[name]) for name in other.frames)
    tables = all(
        np.array_equal(one.tables[table][name], values)
        for table, columns in other.tables.items()
        for name, values in columns.items()
    )
    return frames and tables and one.hash == other.hash


@pytest.mark.golden
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.path.stem)
def test_golden_replay_content(golden):
    assert_golden_json(golden.expected, golden.read(golden.path), compact=True)


def test_golden_replays_have_what_they_were_recorded_for():
    expected = {golden.path: json.loads(golden.expected.read_text()) for golden in GOLDEN}
    rates, reach = (expected[path]["columns"] for path in (RATES, REACH))
    assert len(set(rates["x"])) > 50 and any(rates["vx"])
    states = np.bitwise_or.reduce(reach["flags"])
    assert states & MechFlag.ECM and states & MechFlag.ECCM
    assert list(expected[STATES]["states"]) == ["200"] and np.any(expected[STATES]["columns"]["action"])
    assert any(expected[INSIGHT]["columns"]["action"]) and any(expected[INSIGHT]["columns"]["reward"])
    edits = [chunk["tables"]["edits"]["tick"] for chunk in expected[EDITS]["chunks"]]
    assert sum(tick % FRAME_TICKS != 0 for ticks in edits for tick in ticks) > 5, "between two frames"
    smoke = [chunk["tables"] for chunk in expected[SMOKE]["chunks"]]
    assert sum(len(tables["clouds"]["tick"]) for tables in smoke) > 5
    assert any(EventKind.AMS in tables["events"]["kind"] for tables in smoke)


def test_refresh_follows_growing_file(whole, tmp_path):
    data, refs, chunks = whole
    path = tmp_path / "live.ecr"
    path.write_bytes(data[: refs[0].offset])
    with Replay(path) as replay:
        assert replay.chunks == [] and replay.timeline()["outcome"] is None and replay.ticks == 0
        for n, ref in enumerate(refs):
            path.write_bytes(data[: ref.offset + ref.length])
            assert replay.refresh() == n + 1 and replay.ticks == (n + 1) * STRIDE * FRAME_TICKS
            assert same(replay.chunk(n), chunks[n])
            assert len(replay.timeline()["markers"]) == n + 1
        path.write_bytes(data)
        replay.refresh()
        assert replay.complete and len(replay.chunks) == len(refs)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", b"\x89PNG\r\n\x1a\n" + bytes(100), MAGIC[:5]])
def test_foreign_file_is_rejected_by_name(data, tmp_path):
    path = tmp_path / "holiday.zip"
    path.write_bytes(data)
    with pytest.raises(ReplayError, match=r"'holiday.zip' is not an Echelon replay"):
        Replay(path)


def test_other_major_schema_is_refused_in_one_line(tmp_path):
    for major in (SCHEMA_MAJOR - 1, SCHEMA_MAJOR + 1):
        path = write_match(tmp_path / f"{major}.ecr", schema=[major, 0])
        with pytest.raises(ReplayError) as refused:
            Replay(path)
        assert str(refused.value) == f"replay '{path.name}' has schema {major}, expected 3; try another Echelon"


def test_unknown_columns_tables_and_keys_are_skipped(tmp_path):
    extra = {"name": "mood", "dtype": "u8", "scale": 1.0, "predict": 0, "per": "mech", "k": 2}
    table = {"name": "birds", "columns": [{"name": "x", "dtype": "u16", "scale": 1.0, "predict": 1}]}
    base = header()
    newer = {
        **base, "schema": [SCHEMA_MAJOR, 9], "weather": "rain", "columns": [*base["columns"], extra],
        "tables": [*base["tables"], table], "world": {"sha256": "0" * 64, "size": list(SIZE)},
    }  # fmt: skip
    layout = Layout(newer["columns"], base["mechs"])
    rows = np.arange(2 * layout.width).reshape(2, -1) % 50
    rows[:, 0] = 0, 5
    body = {
        "f": 2,
        "c": layout.encode(rows),
        "t": [*([0, b""] for _ in base["tables"]), [1, b"\x02\x00"]],
        "h": b"",
        "sound": b"boom",
    }
    path = tmp_path / "new.ecr"
    path.write_bytes(
        MAGIC + pack_record(RecordType.HEADER, pack_map(newer)) + pack_record(200, b"?", codec=Codec.NONE)
        + pack_record(RecordType.CHUNK, pack_map(body), ticks=(0, 5))
    )  # fmt: skip
    with Replay(path) as replay:
        found = replay.chunk(0)
        assert found.frames["tick"][:, 0].tolist() == [0, 5]
        assert found.tables["birds"]["x"].tolist() == [1]
        assert replay.timeline()["markers"] == []


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_replay_closes_its_file(whole, tmp_path):
    data, _, _ = whole
    path = tmp_path / "m.ecr"
    path.write_bytes(data)
    before = open_descriptors()
    with Replay(str(path)) as replay:
        assert replay.path == path and not replay.closed
    assert replay.closed
    path.write_bytes(data[:50])
    for _ in range(3):
        message(Replay, path)
    assert open_descriptors() == before, "a file that cannot be opened is closed too"


def test_errors_of_opening_name_the_replay_once(whole, tmp_path):
    data, refs, _ = whole
    path = tmp_path / "odd.ecr"
    path.write_bytes(data[:40])
    expected = f"replay 'odd.ecr' cannot be opened: replay record at byte {len(MAGIC)} is truncated"
    assert message(Replay, path) == expected
    path.write_bytes(MAGIC + data[refs[0].offset : refs[1].offset])
    assert message(Replay, path) == "replay 'odd.ecr' has no header record at its start"
    path.write_bytes(MAGIC + pack_record(RecordType.HEADER, pack_map({})))
    assert message(Replay, path).startswith("the header of replay 'odd.ecr' ")
    with pytest.raises(FileNotFoundError):
        Replay(tmp_path / "missing.ecr")


def test_other_errors_of_opening_stay_as_they_are(whole, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "m.ecr"
    path.write_bytes(whole[0])
    before = open_descriptors()
    monkeypatch.setattr(codec, "read_stored", fail)
    with pytest.raises(OSError, match=r"^\[Errno 5\]"):
        Replay(path)
    assert open_descriptors() == before


def test_refresh_reads_only_what_was_appended(whole, tmp_path, monkeypatch):
    data, refs, _ = whole
    path = tmp_path / "m.ecr"
    path.write_bytes(data[: refs[2].offset])
    starts = []
    with Replay(path) as replay:
        read = codec.scan
        monkeypatch.setattr(codec, "scan", lambda file, size, start: (starts.append(start), read(file, size, start))[1])
        assert replay.refresh() == replay.refresh() == 2 and starts == [], "the file did not grow"
        path.write_bytes(data[: refs[3].offset])
        assert replay.refresh() == 3 and starts == [refs[2].offset]
        path.write_bytes(data)
        assert replay.refresh() == 5 and replay.complete and starts == [refs[2].offset], "the index is read instead"
        path.write_bytes(data[: refs[1].offset])
        assert replay.refresh() == 5, "a closed replay is not read again"


def test_scan_stops_at_the_first_invalid_chunk(whole, tmp_path):
    data, refs, chunks = whole
    path = tmp_path / "m.ecr"
    path.write_bytes(data[: refs[1].offset] + data[refs[0].offset : refs[2].offset])
    with Replay(path) as replay:
        assert len(replay.chunks) == 1 and same(replay.chunk(0), chunks[0])


def test_scan_stops_at_the_greatest_number_of_chunks(whole, tmp_path, monkeypatch):
    data, refs, _ = whole
    path = tmp_path / "m.ecr"
    path.write_bytes(data[: refs[4].offset])
    monkeypatch.setattr(schema, "MAX_CHUNKS", 3)
    with Replay(path) as replay:
        assert len(replay.chunks) == 3


def test_scan_accepts_a_last_chunk_without_its_padding(whole, tmp_path):
    data, refs, chunks = whole
    path = tmp_path / "m.ecr"
    for n, ref in enumerate(refs):
        end = ref.offset + HEAD.size + parse_head(data[ref.offset :]).stored
        path.write_bytes(data[:end])
        with Replay(path) as replay:
            assert len(replay.chunks) == n + 1 and same(replay.chunk(n), chunks[n])


def test_chunk_bytes_are_those_of_the_file(whole, tmp_path):
    data, refs, _ = whole
    path = tmp_path / "m.ecr"
    path.write_bytes(data)
    with Replay(path) as replay:
        for n, ref in enumerate(refs):
            assert replay.chunk_bytes(n) == data[ref.offset : ref.offset + ref.length]
        for n in (-1, len(refs)):
            with pytest.raises(IndexError, match=f"^{n}$"):
                replay.chunk_bytes(n)


def test_chunk_that_is_not_where_the_index_has_it_is_rejected(whole, tmp_path):
    data, refs, _ = whole
    path = tmp_path / "m.ecr"
    path.write_bytes(data)
    at = refs[-1].offset + refs[-1].length
    other = parse_head(data[at:], at)
    with Replay(path) as replay:
        for wrong in (
            refs[1]._replace(length=refs[1].length + 8),
            refs[1]._replace(tick0=refs[1].tick0 - 1),
            refs[1]._replace(tick1=refs[1].tick1 + 1),
            ChunkRef(other.offset, other.length, other.tick0, other.tick1),
        ):
            replay.chunks[1] = wrong
            expected = f"replay 'm.ecr' has no chunk at byte {wrong.offset}, where its index has one"
            assert message(replay.chunk_bytes, 1) == message(replay.chunk, 1) == expected


def test_chunk_bytes_have_the_right_checksum(whole, tmp_path):
    data, refs, _ = whole
    path, at = tmp_path / "m.ecr", refs[1].offset + HEAD.size
    path.write_bytes(data[:at] + b"?" + data[at + 1 :])
    with Replay(path) as replay:
        assert len(replay.chunks) == 5, "opening reads no chunk"
        assert message(replay.chunk_bytes, 1) == f"replay record at byte {refs[1].offset} is damaged"
        assert replay.chunk_bytes(2) == data[refs[2].offset : refs[3].offset]


@pytest.mark.parametrize(
    ("payload", "options", "reason"),
    [
        (pack_map({"f": 1}), {}, "chunk is damaged: c is missing"),
        (b"?", {"codec": 9}, "replay record at byte {at} has codec 9, expected 0 or 1"),
        (pack_map([1]), {}, "replay record is a list, expected a map"),
    ],
    ids=["no columns", "codec", "list"],
)
def test_chunk_that_cannot_be_decoded_is_named(whole, tmp_path, payload, options, reason):
    data, refs, _ = whole
    path, at = tmp_path / "m.ecr", refs[0].offset
    path.write_bytes(data[:at] + pack_record(RecordType.CHUNK, payload, ticks=(0, 5), **options))
    with Replay(path) as replay:
        expected = f"chunk 0 of replay 'm.ecr' cannot be read: {reason.format(at=at)}"
        assert message(replay.chunk, 0) == expected


def test_chunk_and_index_have_their_own_budgets(whole, tmp_path, monkeypatch):
    path = tmp_path / "m.ecr"
    path.write_bytes(whole[0])
    monkeypatch.setitem(BUDGETS, RecordType.CHUNK, Budget(objects=3, entries=100))
    with Replay(path) as replay:
        assert replay.complete and "more than 3 objects" in message(replay.chunk, 0)
    monkeypatch.setitem(BUDGETS, RecordType.INDEX, Budget(objects=3, entries=100))
    with Replay(path) as replay:
        assert not replay.complete and len(replay.chunks) == 5


def test_win_probability_and_moments_that_an_index_lacks_are_computed(whole, tmp_path):
    data, refs, _ = whole
    end = refs[-1].offset + refs[-1].length
    head = parse_head(data[end:], end)
    index = unpack_map(unpack_payload(head, data[end + HEAD.size :][: head.stored]), RecordType.INDEX)
    bare = {**index, "t": [*index["t"][:-1], [0, b""]], "moments": []}
    trailer = pack_record(RecordType.TRAILER, TRAILER_PAYLOAD.pack(end, END_MAGIC), codec=Codec.NONE)
    for name, body in (("whole", index), ("bare", bare)):
        (tmp_path / name).write_bytes(data[:end] + pack_record(RecordType.INDEX, pack_map(body)) + trailer)
    with Replay(tmp_path / "whole") as one, Replay(tmp_path / "bare") as other:
        assert other.complete and other.timeline() == one.timeline()
        assert len(one.timeline()["win"]["tick"]) > 5


def test_timeline_of_unclosed_file_counts_each_chunk_once(whole, tmp_path):
    data, refs, _ = whole
    path = tmp_path / "m.ecr"
    path.write_bytes(data[: refs[2].offset])
    with Replay(path) as replay:
        found = [replay.timeline() for _ in range(2)]
        assert found[0] == found[1] and len(found[0]["markers"]) == 2
        assert found[0]["outcome"].keys() == {"winner", "reason", "ticks", "score", "alive", "hp"}
        assert (found[0]["outcome"]["reason"], found[0]["outcome"]["ticks"]) == ("", 2 * STRIDE * FRAME_TICKS)
        path.write_bytes(data)
        replay.refresh()
        assert replay.timeline().keys() == {"series", "markers", "outcome", "win", "moments"}
        assert replay.timeline()["outcome"]["reason"] == "elimination" and len(replay.timeline()["markers"]) == 5


@pytest.mark.parametrize("damage", ["offset of index", "kind of index", "world of index", "body of index"])
def test_invalid_index_loses_only_the_index(whole, tmp_path, damage):
    data, refs, chunks = whole
    at = refs[-1].offset + refs[-1].length
    head = parse_head(data[at:])
    body = unpack_map(unpack_payload(head, data[at + HEAD.size :][: head.stored]))
    kind, index = RecordType.INDEX, at
    if damage == "offset of index":
        index = refs[1].offset
    elif damage == "kind of index":
        kind = 77
    elif damage == "world of index":
        body["world"] = [at - HEAD.size - 1, 5]  # no head there has a length within the limits
    else:
        body["t"] = []
    path = tmp_path / "m.ecr"
    trailer = pack_record(RecordType.TRAILER, TRAILER_PAYLOAD.pack(index, END_MAGIC), codec=Codec.NONE)
    path.write_bytes(data[:at] + pack_record(kind, pack_map(body)) + trailer)
    with Replay(path) as replay:
        assert not replay.complete and len(replay.chunks) == 5
        assert all(same(replay.chunk(n), chunks[n]) for n in range(5))
        assert world_hash(replay.load_world()) == replay.header["world"]["sha256"], "found by the scan"


CHUNKS = 6


@pytest.fixture
def unclosed(tmp_path):
    return write_match(tmp_path / "open.ecr", CHUNKS, closed=False)


def raw_sizes(path):
    with Replay(path) as replay, open(path, "rb") as file:
        return [codec.read_head(file, ref.offset).raw for ref in replay.chunks]


def test_step_adds_chunks_up_to_its_bytes(unclosed, monkeypatch):
    sizes = raw_sizes(unclosed)
    decoded = []
    original = Replay.chunk
    monkeypatch.setattr(Replay, "chunk", lambda replay, n: decoded.append(n) or original(replay, n))
    for limit, expected in ((0, [1, 1, 1, 1, 1, 1]), (max(sizes) + reader.CHUNK_COST, [2, 2, 2]), (2**40, [6])):
        monkeypatch.setattr(reader, "STEP_BYTES", limit)
        with Replay(unclosed) as replay:
            steps, done = [], False
            while not done:
                decoded.clear()
                done = replay.extend_timeline()
                steps.append(len(decoded))
            whole = replay.timeline()
        assert steps == expected
    with Replay(unclosed) as replay:
        assert replay.timeline() == whole and len(whole["markers"]) == CHUNKS


def test_timeline_is_bounded_in_bytes(unclosed, monkeypatch):
    with Replay(unclosed) as replay:
        whole = replay.timeline()
    monkeypatch.setattr(reader, "STEP_BYTES", 0)
    for chunks in (1, 2):
        monkeypatch.setattr(reader, "TIMELINE_BYTES", sum(raw_sizes(unclosed)[:chunks]))
        with Replay(unclosed) as replay:
            part = replay.timeline()
        count = len(part["series"]["second"])
        assert part["markers"] == whole["markers"][:chunks] and 0 < count < len(whole["series"]["second"])
        assert part["series"]["score"] == [row[:count] for row in whole["series"]["score"]]
        assert part["outcome"]["ticks"] == whole["outcome"]["ticks"]


def test_closed_file_needs_no_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(Replay, "chunk", None)
    with Replay(write_match(tmp_path / "m.ecr", CHUNKS)) as replay:
        assert replay.extend_timeline() and len(replay.timeline()["markers"]) == CHUNKS


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_not_opened(tmp_path, kind):
    path = tmp_path / "m.ecr"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "device": lambda: path.symlink_to("/dev/zero")}[kind]()
    expected = "'m.ecr' is a folder, pipe, device or mostly holes, expected an .ecr file"
    assert message(Replay, path) == expected


def test_rows_double_and_keep_their_values():
    rows, expected = GrowingRows(2, dtype=np.int64), np.arange(400).reshape(200, 2)
    sizes = set()
    for first, last in ((0, 1), (1, 1), (1, 4), (4, 5), (5, 120), *((n, n + 1) for n in range(120, 200))):
        rows.append(expected[first:last])
        sizes.add(len(rows._data))
        assert rows.count == last and (rows.rows == expected[:last]).all()
    assert len(sizes) < 8, "few copies"


def test_timeline_columns_are_the_timeline(tmp_path):
    path = write_match(tmp_path / "closed.ecr")
    with Replay(path) as closed:
        columns, timeline, last = closed.timeline_columns(), closed.timeline(), closed.chunks[-1]
    assert columns.keys() == timeline.keys() and columns["outcome"] == timeline["outcome"]
    assert isinstance(columns["markers"], np.ndarray) and isinstance(timeline["markers"], list)
    np.testing.assert_array_equal(columns["markers"], timeline["markers"])
    assert columns["series"].keys() == timeline["series"].keys()
    for name, series in columns["series"].items():
        np.testing.assert_array_equal(series, timeline["series"][name])
    (tmp_path / "cut.ecr").write_bytes(path.read_bytes()[: last.offset + last.length])
    with Replay(tmp_path / "cut.ecr") as cut:
        assert _plain(cut.timeline_columns()) == cut.timeline()
