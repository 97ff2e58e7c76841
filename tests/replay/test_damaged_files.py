"""Damaged, truncated, foreign and newer replays: complete chunks are read, the rest raises a one-line error."""

from __future__ import annotations

import random
import struct

import pytest

from echelon.replay import codec
from echelon.replay.reader import Replay, ReplayError
from echelon.replay.schema import MAGIC, MAX_RAW_BYTES, RecordType
from tests.replay.golden import SMALL

DATA = SMALL.read_bytes()
CUTS = 1000
FLIPS = 300


@pytest.fixture(scope="module")
def ends():
    """End of each chunk's record, without padding."""
    with Replay(SMALL) as replay, open(SMALL, "rb") as file:
        heads = [codec.read_head(file, c.offset) for c in replay.chunks]
    return [head.offset + codec.HEAD.size + head.stored for head in heads]


def test_truncated_replay_keeps_chunks_before_the_cut(tmp_path, ends):
    path = tmp_path / "cut.ecr"
    draws = random.Random(0)
    for cut in [draws.randrange(len(DATA)) for _ in range(CUTS)]:
        path.write_bytes(DATA[:cut])
        expected = sum(end <= cut for end in ends)
        try:
            with Replay(path) as replay:
                assert len(replay.chunks) == expected, f"cut at {cut}"
                for n in range(len(replay.chunks)):
                    replay.chunk(n)
                assert not replay.complete
        except ReplayError as error:
            assert expected == 0, f"cut at {cut}: {error}"
            assert "\n" not in str(error)


def test_flipped_byte_damages_only_its_record(tmp_path):
    path = tmp_path / "flipped.ecr"
    draws = random.Random(1)
    for _ in range(FLIPS):
        at = draws.randrange(len(DATA))
        data = bytearray(DATA)
        data[at] ^= 1 << draws.randrange(8)
        path.write_bytes(data)
        try:
            with Replay(path) as replay:
                for n, ref in enumerate(replay.chunks):
                    hit = ref.offset <= at < ref.offset + ref.length
                    try:
                        replay.chunk(n)
                    except ReplayError:
                        assert hit or not replay.complete
        except ReplayError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("data", [b"", b"\x89ECR", b"PK\x03\x04" + b"x" * 100, b"{}", MAGIC, MAGIC + b"\0" * 64])
def test_foreign_file_is_rejected_by_name(tmp_path, data):
    path = tmp_path / "holiday.ecr"
    path.write_bytes(data)
    with pytest.raises(ReplayError, match="holiday.ecr"):
        Replay(path)


def test_newer_minor_schema_with_unknown_keys_opens(tmp_path):
    header = codec.unpack_map(first_payload())
    header["schema"] = [header["schema"][0], header["schema"][1] + 5]
    header["weather"] = "rain"
    first = codec.read_head(open(SMALL, "rb"), len(MAGIC))  # noqa: SIM115
    path = tmp_path / "minor.ecr"
    unknown = codec.pack_record(200, b"from the future")
    rest = DATA[first.offset + first.length :]
    path.write_bytes(MAGIC + codec.pack_record(RecordType.HEADER, codec.pack_map(header)) + unknown + rest)
    with Replay(path) as replay:
        assert len(replay.chunks) > 1
        replay.chunk(0)


def test_decompression_bomb_is_rejected(tmp_path):
    bomb = bytearray(codec.pack_record(RecordType.HEADER, b"\0" * 1000))
    struct.pack_into("<I", bomb, 8, MAX_RAW_BYTES + 1)
    path = tmp_path / "bomb.ecr"
    path.write_bytes(MAGIC + bytes(bomb))
    with pytest.raises(ReplayError):
        Replay(path)
    assert codec.inflate(__import__("zlib").compress(b"abc"), 3) == b"abc"
    with pytest.raises(ReplayError):
        codec.inflate(__import__("zlib").compress(b"\0" * 10_000), 100)


def first_payload() -> bytes:
    with open(SMALL, "rb") as file:
        head = codec.read_head(file, len(MAGIC))
        return codec.unpack_payload(head, codec.read_stored(file, head))
