"""Records: round trip, and rejection of damaged, foreign and oversized records."""

import errno
import io
import os
import zlib

import msgpack
import pytest

from echelon.files import reason_of
from echelon.replay import codec, schema
from echelon.replay.codec import (
    TRAILER_BYTES,
    LossyRecordWriter,
    RecordWriter,
    ReplayError,
    check_magic,
    index_offset,
    inflate,
    pack_map,
    pack_record,
    parse_head,
    scan,
    unpack_map,
)
from echelon.replay.schema import (
    ALIGNMENT,
    BUDGETS,
    END_MAGIC,
    HEAD,
    MAGIC,
    MAX_DEPTH,
    MAX_RAW_BYTES,
    MAX_STORED_BYTES,
    TRAILER_PAYLOAD,
    Budget,
    Codec,
    RecordType,
)
from tests.replay.synthetic import message

LIMIT = BUDGETS[RecordType.TRAILER].raw_bytes
"""The smallest limit of a payload [bytes]."""


@pytest.mark.parametrize("kind", list(Codec))
@pytest.mark.parametrize("payload", [b"", b"a", b"voxels" * 1000])
def test_record_round_trip_with_every_codec(kind, payload):
    data = pack_record(RecordType.CHUNK, payload, codec=kind, ticks=(40, 80))
    head = parse_head(data)
    assert len(data) % ALIGNMENT == 0 and head.length == len(data)
    assert (head.kind, head.tick0, head.tick1) == (RecordType.CHUNK, 40, 80)
    assert codec.unpack_payload(head, data[HEAD.size :][: head.stored]) == payload


def test_flipped_bit_in_record_is_rejected():
    data = pack_record(RecordType.CHUNK, b"the state of four mechs" * 3)
    head = parse_head(data)
    for bit in range(8 * (HEAD.size + head.stored)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ReplayError):
            codec.read_stored(io.BytesIO(broken), parse_head(bytes(broken)))


@pytest.mark.parametrize("payload", [b"", b"\xc1", pack_map([1, 2]), b"\x81" * 5000, pack_map({"a": 1})[:-1]])
def test_unpack_map_rejects_other_payloads(payload):
    with pytest.raises(ReplayError, match="record"):
        unpack_map(payload)


def test_record_writer_refuses_existing_file(tmp_path):
    (tmp_path / "a.ecr").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        RecordWriter(tmp_path / "a.ecr")


def test_pack_record_rejects_payloads_above_their_limit(monkeypatch):
    assert parse_head(pack_record(RecordType.TRAILER, bytes(LIMIT))).raw == LIMIT
    expected = f"replay record has {LIMIT + 1} bytes, expected at most {LIMIT}"
    assert message(pack_record, RecordType.TRAILER, bytes(LIMIT + 1)) == expected
    monkeypatch.setattr(schema, "MAX_STORED_BYTES", 100)
    assert parse_head(pack_record(200, bytes(100), codec=Codec.NONE)).stored == 100
    with pytest.raises(ReplayError, match="^replay record has 101 bytes"):
        pack_record(200, bytes(101), codec=Codec.NONE)


def head_of(stored: int = 0, raw: int = 0, kind: int = RecordType.TRAILER) -> bytes:
    return HEAD.pack(kind, Codec.NONE, 0, stored, raw, 1, 2, 3)


def test_parse_head_accepts_lengths_up_to_the_limits():
    found = parse_head(head_of(MAX_STORED_BYTES, LIMIT), 16)
    assert found == codec.RecordHead(16, RecordType.TRAILER, Codec.NONE, MAX_STORED_BYTES, LIMIT, 1, 2, 3)
    assert parse_head(head_of(raw=MAX_RAW_BYTES, kind=200)).raw == MAX_RAW_BYTES, "also of unknown types"
    for stored, raw in ((0, LIMIT + 1), (MAX_STORED_BYTES + 1, 0)):
        expected = f"replay record at byte 16 has length {max(stored, raw)}, which exceeds the limit"
        assert message(parse_head, head_of(stored, raw), 16) == expected
    assert message(parse_head, head_of()[:-1], 16) == "replay record at byte 16 is truncated"
    assert message(parse_head, b"") == "replay record at byte 0 is truncated"


def test_payload_errors_name_the_record():
    def head(kind: int, raw: int) -> codec.RecordHead:
        return codec.RecordHead(24, RecordType.CHUNK, kind, 3, raw, 0, 0, 0)

    assert message(codec.unpack_payload, head(2, 3), b"abc") == "replay record at byte 24 has codec 2, expected 0 or 1"
    assert message(codec.unpack_payload, head(0, 4), b"abc") == "replay record at byte 24 has 3 bytes, expected 4"
    stored = zlib.compress(b"abc")
    assert message(codec.unpack_payload, head(1, 4), stored) == "replay record at byte 24 has 3 bytes, expected 4"
    assert "inflates to more than 2 bytes" in message(codec.unpack_payload, head(1, 2), stored)


def test_inflate_accepts_exactly_the_limit():
    stored = zlib.compress(b"sixsix")
    assert inflate(stored, 6) == inflate(stored, 7) == b"sixsix" and inflate(zlib.compress(b""), 0) == b""
    for data, limit in ((stored, 5), (stored, 0), (stored, -1), (stored[:-1], 6), (b"", 6)):
        assert message(inflate, data, limit) == f"replay record inflates to more than {limit} bytes or is truncated"
    assert message(inflate, b"not zlib", 6).startswith("replay record cannot be inflated: Error -3")


def test_read_stored_names_truncated_and_damaged_records():
    data = bytes(8) + pack_record(RecordType.WORLD, b"12345", codec=Codec.NONE)
    head = codec.read_head(io.BytesIO(data), 8)
    assert head.offset == 8 and codec.read_stored(io.BytesIO(data), head) == b"12345"
    cut = data[: 8 + HEAD.size + 4]
    assert message(codec.read_stored, io.BytesIO(cut), head) == "replay record at byte 8 is truncated"
    wrong = data[: 8 + HEAD.size] + b"12346"
    assert message(codec.read_stored, io.BytesIO(wrong), head) == "replay record at byte 8 is damaged"
    assert message(codec.read_head, io.BytesIO(data), 30) == "replay record at byte 30 is truncated"


def test_check_magic_returns_the_size_of_a_replay(tmp_path, monkeypatch):
    (tmp_path / "a.ecr").write_bytes(MAGIC + b"12")
    (tmp_path / "a.zip").write_bytes(b"PK" + MAGIC)
    with open(tmp_path / "a.ecr", "rb") as file, open(tmp_path / "a.zip", "rb") as other:
        file.seek(5)
        monkeypatch.setattr(schema, "MAX_FILE_BYTES", 10)
        assert check_magic(file, "a.ecr") == 10
        monkeypatch.setattr(schema, "MAX_FILE_BYTES", 9)
        assert message(check_magic, file, "a.ecr") == "replay 'a.ecr' has 10 bytes, expected at most 9"
        assert message(check_magic, other, "a.zip") == "'a.zip' is not an Echelon replay (.ecr)"


def records(*payloads: bytes) -> tuple[bytes, list[int]]:
    data, offsets = MAGIC, []
    for payload in payloads:
        offsets.append(len(data))
        data += pack_record(RecordType.CHUNK, payload, codec=Codec.NONE)
    return data, offsets


def test_scan_yields_complete_records_from_the_start(monkeypatch):
    data, offsets = records(b"", b"12345678", b"123")
    file, end = io.BytesIO(data), len(data) - 5

    def found(size: int, *start: int) -> list[int]:
        return [head.offset for head in scan(file, size, *start)]

    assert found(len(data)) == offsets == found(end), "the last padding may be missing"
    assert found(len(data), offsets[1]) == offsets[1:]
    assert found(offsets[1]) == offsets[:1] and found(offsets[1] + HEAD.size - 1) == offsets[:1]
    assert found(0) == []
    file = io.BytesIO(data[: end - 1])
    assert found(end - 1) == offsets[:2], "a payload is missing"
    monkeypatch.setattr(schema, "MAX_CHUNKS", 1)
    file = io.BytesIO(data)
    assert found(len(data)) == offsets[:2], "one more than there may be chunks, so that the reader notices"


def test_scan_finds_a_record_that_ends_with_the_file():
    data = MAGIC + pack_record(RecordType.CHUNK, b"", codec=Codec.NONE)[: HEAD.size]
    assert [head.offset for head in scan(io.BytesIO(data), len(data))] == [len(MAGIC)]


def trailer(offset: int, magic: bytes = END_MAGIC, kind: int = RecordType.TRAILER) -> bytes:
    return pack_record(kind, TRAILER_PAYLOAD.pack(offset, magic), codec=Codec.NONE)


def test_index_offset_is_that_of_a_whole_trailer():
    last = trailer(16)
    assert len(last) == TRAILER_BYTES, "so it is found from the end of the file"

    def found(data: bytes) -> int | None:
        return index_offset(io.BytesIO(data), len(data))

    file = MAGIC + bytes(8)
    assert found(file + last) == found(MAGIC + last) == 16
    assert found(MAGIC) is None and found(last) is None and found(MAGIC[:-1] + last) is None
    assert found(file + last[:-1] + b"?") is None
    for wrong in (trailer(16, b"ECREND\n\n"), trailer(16, kind=RecordType.INDEX)):
        assert found(file + wrong) is None
    size = len(file) + TRAILER_BYTES
    assert found(file + trailer(size - 1)) == size - 1
    assert found(file + trailer(size)) is None, "outside the file"


def test_index_offset_rejects_a_trailer_of_another_length():
    data = MAGIC + pack_record(RecordType.TRAILER, TRAILER_PAYLOAD.pack(16, END_MAGIC)[:-1], codec=Codec.NONE)
    assert index_offset(io.BytesIO(data), len(data)) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], "replay record is a list, expected a map"),
        (5, "replay record is a int, expected a map"),
        ({b"a": 1}, "replay record has a key that is not a string"),
        ({"a": [{b"a": 1}]}, "replay record has a key that is not a string"),
        ({"a": msgpack.ExtType(5, b"")}, "replay record has an extension of type 5, expected none"),
        ({"a": msgpack.ExtType(5, b"x")}, "replay record cannot be read: "),
        ({"a": msgpack.Timestamp(1)}, "replay record cannot be read: "),
        ({1: 1}, "replay record cannot be read: "),
        ({"a": {2.5: 1}}, "replay record cannot be read: "),
    ],
)
def test_unpack_map_names_what_is_no_plain_map(value, expected):
    found = message(unpack_map, pack_map(value))
    assert found.startswith(expected) and found > expected if expected.endswith(" ") else found == expected


def nested(depth: int, key: str) -> dict:
    value: dict = {}
    for _ in range(depth - 1):
        value = {key: [value]} if key == "list" else {key: value}
    return value


def test_unpack_map_accepts_the_greatest_depth():
    assert unpack_map(pack_map(nested(MAX_DEPTH, "map"))) == nested(MAX_DEPTH, "map")
    expected = f"replay record is nested deeper than {MAX_DEPTH} levels"
    assert message(unpack_map, pack_map(nested(MAX_DEPTH + 1, "map"))) == expected
    assert unpack_map(pack_map({"x": nested(8, "list")})), "16 levels of maps and lists"
    assert message(unpack_map, pack_map({"x": nested(9, "list")})) == expected


def test_unpack_map_counts_objects_of_its_record_type(monkeypatch):
    monkeypatch.setitem(BUDGETS, RecordType.CHUNK, Budget(objects=7, entries=3))
    assert unpack_map(pack_map({"a": [1, 2], "b": []}), RecordType.CHUNK), "two lists, a map, and four entries"
    assert message(unpack_map, pack_map({"a": [1, 2], "b": [1]}), RecordType.CHUNK) == (
        "replay record has more than 7 objects"
    )
    assert message(unpack_map, pack_map({"a": {"b": 1, "c": {}, "d": {}}}), RecordType.CHUNK) == (
        "replay record has more than 7 objects"
    )
    for value, form in (({"a": [1, 2, 3, 4]}, "array"), ({c: 1 for c in "abcd"}, "map")):
        assert message(unpack_map, pack_map(value), RecordType.CHUNK).startswith(
            f"replay record cannot be read: 4 exceeds max_{form}_len(3)"
        )
    assert unpack_map(pack_map({"a": [1, 2, 3, 4, 5, 6, 7, 8]})), "the budget of a header, by default"


def test_record_writer_reports_a_partial_write(tmp_path):
    writer = RecordWriter(tmp_path / "a.ecr")
    file, writer._file = writer._file, io.BytesIO()  # type: ignore[assignment]
    writer._file.write = lambda data: len(data) - 3  # type: ignore[method-assign]
    size = len(pack_record(RecordType.CHUNK, b"abc"))
    with pytest.raises(OSError) as caught:
        writer.append(RecordType.CHUNK, b"abc")
    assert str(caught.value) == f"replay {str(tmp_path / 'a.ecr')!r}: wrote {size - 3} of {size} bytes"
    assert writer.offset == len(MAGIC), "the record does not count"
    file.close()


@pytest.mark.parametrize("closed", [True, False])
def test_record_writer_close_syncs_file_and_name_only_with_an_index(tmp_path, monkeypatch, closed):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    path = tmp_path / "a.ecr"
    writer = RecordWriter(path)
    offset = writer.append(RecordType.CHUNK, b"abc")
    index = writer.offset
    writer.close({"chunks": [offset]} if closed else None)
    assert synced == ([str(path), str(tmp_path)] if closed else [])
    size = path.stat().st_size
    writer.close({"chunks": []})
    assert path.stat().st_size == size, "closed once"
    with open(path, "rb") as file:
        heads = list(scan(file, size))
        assert [head.kind for head in heads] == [
            RecordType.CHUNK,
            *(RecordType.INDEX, RecordType.TRAILER)[: 2 * closed],
        ]
        if closed:
            assert index_offset(file, size) == index
            assert unpack_map(codec.unpack_payload(heads[1], codec.read_stored(file, heads[1]))) == {"chunks": [offset]}
            assert heads[2].codec == Codec.NONE


def kinds(path) -> list[int]:
    with open(path, "rb") as file:
        return [head.kind for head in scan(file, path.stat().st_size)]


def test_lossy_writer_writes_what_a_writer_does(tmp_path):
    files = []
    for cls in (RecordWriter, LossyRecordWriter):
        writer = cls(tmp_path / f"{cls.__name__}.ecr")
        writer.append(RecordType.CHUNK, b"abc")
        writer.close({"chunks": []})
        assert not getattr(writer, "problem", "") and writer._file.closed
        files.append(writer.path.read_bytes())
    assert files[0] == files[1]


class FailingFile(io.BytesIO):
    """A file on which every write fails."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    def write(self, data: object) -> int:
        raise self.error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), OSError("wrote 3 of 5 bytes")])
def test_lossy_writer_keeps_the_records_before_a_failure(tmp_path, error):
    path = tmp_path / "a.ecr"
    writer = LossyRecordWriter(path)
    writer.append(RecordType.CHUNK, b"abc")
    file, failing = writer._file, FailingFile(error)
    writer._file = failing  # type: ignore[assignment]
    writer.append(RecordType.CHUNK, b"lost")
    assert writer.problem == reason_of(error) and failing.closed
    offset = writer.offset
    assert writer.append(RecordType.CHUNK, b"lost too") == offset < writer.offset
    writer.close({"chunks": []})
    assert kinds(path) == [RecordType.CHUNK] and writer._file.closed
    file.close()


def test_lossy_writer_drops_all_where_its_file_cannot_be_made(tmp_path):
    writer = LossyRecordWriter(tmp_path / "missing" / "a.ecr")
    assert writer.problem == "no such file or directory" and writer.path == tmp_path / "missing" / "a.ecr"
    assert writer.append(RecordType.CHUNK, b"abc") == 0
    writer.close({"chunks": []})
    assert writer._file.closed


def test_lossy_writer_reports_a_failure_of_its_close(tmp_path, monkeypatch):
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    writer = LossyRecordWriter(tmp_path / "a.ecr")
    writer.append(RecordType.CHUNK, b"abc")
    file = writer._file
    writer.close({"chunks": []})
    assert writer.problem == "input/output error" and file.closed and writer._file.closed
    assert kinds(writer.path)[0] == RecordType.CHUNK
