"""Records: round trip, and rejection of damaged, foreign and oversized records."""

from __future__ import annotations

import io
import zlib

import pytest

from echelon.replay import codec
from echelon.replay.codec import RecordWriter, ReplayError, inflate, pack_map, pack_record, parse_head, unpack_map
from echelon.replay.schema import ALIGNMENT, HEAD, MAGIC, MAX_RAW_BYTES, MAX_STORED_BYTES, Codec, RecordType


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


def test_parse_head_rejects_oversized_lengths():
    for stored, raw in ((MAX_STORED_BYTES + 1, 1), (1, MAX_RAW_BYTES + 1)):
        with pytest.raises(ReplayError, match="exceeds the limit"):
            parse_head(HEAD.pack(RecordType.CHUNK, Codec.ZLIB, 0, stored, raw, 0, 0, 0))


def test_inflate_stops_at_limit():
    bomb = zlib.compress(bytes(50_000_000))
    with pytest.raises(ReplayError, match="more than 1000 bytes"):
        inflate(bomb, 1000)


def test_unpack_payload_rejects_wrong_length():
    for raw in (5, 7):
        stored = zlib.compress(b"sixsix")
        head = codec.RecordHead(0, RecordType.CHUNK, Codec.ZLIB, len(stored), raw, 0, 0, 0)
        with pytest.raises(ReplayError):
            codec.unpack_payload(head, stored)


def test_unpack_payload_names_unknown_codec():
    with pytest.raises(ReplayError, match="codec 9"):
        codec.unpack_payload(codec.RecordHead(0, RecordType.CHUNK, 9, 0, 0, 0, 0, 0), b"")


@pytest.mark.parametrize("payload", [b"", b"\xc1", pack_map([1, 2]), b"\x81" * 5000, pack_map({"a": 1})[:-1]])
def test_unpack_map_rejects_other_payloads(payload):
    with pytest.raises(ReplayError, match="record"):
        unpack_map(payload)


def test_record_writer_returns_offsets(tmp_path):
    writer = RecordWriter(tmp_path / "a.ecr")
    offsets = [writer.append(RecordType.CHUNK, bytes([n]) * n, ticks=(n, n + 1)) for n in range(5)]
    writer.close({"chunks": []})
    data = (tmp_path / "a.ecr").read_bytes()
    assert data.startswith(MAGIC)
    assert [parse_head(data[at:]).tick0 for at in offsets] == list(range(5))


def test_record_writer_refuses_existing_file(tmp_path):
    (tmp_path / "a.ecr").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        RecordWriter(tmp_path / "a.ecr")
