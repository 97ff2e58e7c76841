"""Records of a replay file: framing, checksums, compression, writing one after the other and finding them again.

A writer only appends, and hands each record to the disk whole, so that a crash costs at most the chunk that was being
collected. A reader trusts nothing: lengths are capped before anything is inflated, every record has a checksum, and a
file without an INDEX is scanned up to its first fault. Standard library and msgpack only.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

from echelon.replay.schema import (
    ALIGNMENT,
    END_MAGIC,
    HEAD,
    MAGIC,
    MAX_CHUNKS,
    MAX_FILE_BYTES,
    MAX_RAW_BYTES,
    MAX_STORED_BYTES,
    TRAILER_PAYLOAD,
    Codec,
    RecordType,
)

CRC_AT = HEAD.size - 4
"""Where a head's checksum stands; it covers what is before it."""
ZLIB_LEVEL = 9
"""For what is written once."""
CHUNK_LEVEL = 6
"""For what is written while the simulator waits: 2 % larger, four times as fast."""
CHUNK_MEMORY, CHUNK_STRATEGY = 5, zlib.Z_FILTERED
"""Short blocks with a code of their own each, and few short matches: chunks are small numbers, 2 to 3 % smaller so."""
TRAILER_BYTES = HEAD.size + TRAILER_PAYLOAD.size
MAX_DEPTH_ITEMS = 2**20
"""Most entries of one map or list in a payload."""


class ReplayError(ValueError):
    """A file is no replay, or not one that this version can play."""


@dataclass(frozen=True)
class RecordHead:
    """Where a record lies and what its head says."""

    offset: int
    """Of the head in the file."""
    kind: int
    codec: int
    stored: int
    """Bytes of the payload in the file."""
    raw: int
    """Bytes of the payload after inflating."""
    tick0: int
    tick1: int
    crc: int

    @property
    def length(self) -> int:
        """Bytes from the head to the next record."""
        return HEAD.size + self.stored + padding(self.stored)


def padding(length: int) -> int:
    """Return the zero bytes after a payload."""
    return -length % ALIGNMENT


def pack_map(value: Any) -> bytes:
    """Return plain values as msgpack."""
    data = msgpack.packb(value, use_bin_type=True)
    assert data is not None
    return data


def unpack_map(data: bytes) -> dict[str, Any]:
    """Return the map in a payload; ``ReplayError`` if it is none."""
    try:
        limits = dict.fromkeys(("max_array_len", "max_map_len"), MAX_DEPTH_ITEMS)
        value = msgpack.unpackb(data, raw=False, strict_map_key=False, **limits)
    except (ValueError, msgpack.UnpackException) as error:
        raise ReplayError(f"replay record cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ReplayError(f"replay record holds a {type(value).__name__}, wanted a map")
    return value


def pack_record(kind: int, payload: bytes, *, codec: int = Codec.ZLIB, ticks: tuple[int, int] = (0, 0)) -> bytes:
    """Return a whole record: head, payload and padding."""
    level = CHUNK_LEVEL if kind == RecordType.CHUNK else ZLIB_LEVEL
    stored = payload
    if codec == Codec.ZLIB:
        how = (
            (CHUNK_MEMORY, CHUNK_STRATEGY)
            if kind == RecordType.CHUNK
            else (zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY)
        )
        stream = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS, *how)
        stored = stream.compress(payload) + stream.flush()
    if len(payload) > MAX_RAW_BYTES or len(stored) > MAX_STORED_BYTES:
        raise ReplayError(f"replay record has {len(payload)} bytes, wanted at most {MAX_RAW_BYTES}")
    head = HEAD.pack(kind, codec, 0, len(stored), len(payload), *ticks, 0)[:CRC_AT]
    crc = zlib.crc32(stored, zlib.crc32(head))
    return head + crc.to_bytes(4, "little") + stored + bytes(padding(len(stored)))


def parse_head(data: bytes, offset: int = 0) -> RecordHead:
    """Return the head at the start of ``data``; ``ReplayError`` if it is cut short or breaks a limit."""
    if len(data) < HEAD.size:
        raise ReplayError(f"replay record at byte {offset} is cut short")
    kind, codec, _, stored, raw, tick0, tick1, crc = HEAD.unpack_from(data)
    if stored > MAX_STORED_BYTES or raw > MAX_RAW_BYTES:
        raise ReplayError(f"replay record at byte {offset} claims {max(stored, raw)} bytes, more than is allowed")
    return RecordHead(offset, kind, codec, stored, raw, tick0, tick1, crc)


def unpack_payload(head: RecordHead, stored: bytes) -> bytes:
    """Return the payload of a record, inflated no further than its head says."""
    if head.codec == Codec.NONE:
        payload = stored
    elif head.codec == Codec.ZLIB:
        payload = inflate(stored, head.raw)
    else:
        raise ReplayError(f"replay record at byte {head.offset} has codec {head.codec}, wanted 0 or 1")
    if len(payload) != head.raw:
        raise ReplayError(f"replay record at byte {head.offset} has {len(payload)} bytes, its head says {head.raw}")
    return payload


def inflate(stored: bytes, limit: int) -> bytes:
    """Return what a zlib stream holds; ``ReplayError`` if it is damaged or longer than ``limit``."""
    stream = zlib.decompressobj()
    try:
        payload = stream.decompress(stored, limit + 1) if limit >= 0 else b""
    except zlib.error as error:
        raise ReplayError(f"replay record cannot be inflated: {error}") from None
    if len(payload) > limit or not stream.eof:
        raise ReplayError(f"replay record inflates to more than {limit} bytes, or ends too early")
    return payload


def read_stored(file: BinaryIO, head: RecordHead) -> bytes:
    """Return the stored payload behind a head, its checksum compared."""
    file.seek(head.offset)
    whole = file.read(HEAD.size + head.stored)
    stored = whole[HEAD.size :]
    if len(stored) != head.stored:
        raise ReplayError(f"replay record at byte {head.offset} is cut short")
    if zlib.crc32(stored, zlib.crc32(whole[:CRC_AT])) != head.crc:
        raise ReplayError(f"replay record at byte {head.offset} is damaged")
    return stored


def read_head(file: BinaryIO, offset: int) -> RecordHead:
    """Return the head at ``offset``."""
    file.seek(offset)
    return parse_head(file.read(HEAD.size), offset)


def check_magic(file: BinaryIO, name: str) -> int:
    """Return the file's size; ``ReplayError`` names it if it is no replay."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise ReplayError(f"{name!r} is no Echelon replay (.ecr)")
    if size > MAX_FILE_BYTES:
        raise ReplayError(f"replay {name!r} has {size} bytes, wanted at most {MAX_FILE_BYTES}")
    return size


def scan(file: BinaryIO, size: int, start: int = len(MAGIC)) -> Iterator[RecordHead]:
    """Yield the heads of whole, undamaged records from ``start`` on, up to the first that is not."""
    offset, found = start, 0
    while offset + HEAD.size <= size and found <= MAX_CHUNKS:
        try:
            head = read_head(file, offset)
            read_stored(file, head)
        except ReplayError:
            return
        yield head
        offset, found = offset + head.length, found + 1


def index_offset(file: BinaryIO, size: int) -> int | None:
    """Return where a properly closed file has its INDEX, None for one that was not closed."""
    if size < len(MAGIC) + TRAILER_BYTES:
        return None
    try:
        head = read_head(file, size - TRAILER_BYTES)
        if head.kind != RecordType.TRAILER or head.stored != TRAILER_PAYLOAD.size:
            return None
        offset, magic = TRAILER_PAYLOAD.unpack(read_stored(file, head))
    except ReplayError:
        return None
    return int(offset) if magic == END_MAGIC and offset < size else None


def world_hash(payload: bytes) -> str:
    """Return the address of a world: the full sha256 of its payload."""
    return hashlib.sha256(payload).hexdigest()


class RecordWriter:
    """Appends records to a new file, each given to the operating system as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - it lives as long as the writer
        self.offset = 0
        self._write(MAGIC)

    def append(self, kind: int, payload: bytes, *, codec: int = Codec.ZLIB, ticks: tuple[int, int] = (0, 0)) -> int:
        """Append a record and return the offset of its head."""
        at = self.offset
        self._write(pack_record(kind, payload, codec=codec, ticks=ticks))
        return at

    def close(self, index: dict[str, Any] | None = None) -> None:
        """Close the file; with an ``index`` it is finished by INDEX and TRAILER and made durable."""
        if self._file.closed:
            return
        if index is not None:
            at = self.append(RecordType.INDEX, pack_map(index))
            self.append(RecordType.TRAILER, TRAILER_PAYLOAD.pack(at, END_MAGIC), codec=Codec.NONE)
            os.fsync(self._file.fileno())
        self._file.close()

    def _write(self, data: bytes) -> None:
        written = self._file.write(data)
        if written != len(data):
            raise OSError(f"replay {str(self.path)!r}: only {written} of {len(data)} bytes were written")
        self.offset += len(data)
