"""Records of a replay file: framing, checksums, compression, sequential writing and lookup.

A writer only appends and passes each record to the operating system in one write, so a crash loses at most the chunk
that was being collected. A reader checks everything: lengths are limited before anything is inflated, every record has
a checksum, and a file without an INDEX is scanned up to its first invalid record.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

from echelon.files import fsync, reason_of
from echelon.replay import schema

CRC_AT = schema.HEAD.size - 4
"""Offset of the checksum in a head; it covers the preceding bytes and the payload."""
ZLIB_LEVEL = 9
CHUNK_LEVEL = 6
"""Compression level of chunks, which the simulator waits for: 2 % larger than level 9 and four times as fast."""
WORLD_LEVEL = 6
"""Compression level of worlds: level 9 needs three seconds for a megabyte of some contents, thirty times as long."""
CHUNK_MEMORY, CHUNK_STRATEGY = 5, zlib.Z_FILTERED
"""zlib parameters of chunks: short blocks and few short matches make small integers 2 to 3 % smaller."""
STATE_LEVEL = 4
"""Compression level of states: level 9 takes twice as long for 2 % less."""
LEVELS: dict[int, int] = {
    schema.RecordType.CHUNK: CHUNK_LEVEL,
    schema.RecordType.WORLD: WORLD_LEVEL,
    schema.RecordType.STATE: STATE_LEVEL,
}
TRAILER_BYTES = schema.HEAD.size + schema.TRAILER_PAYLOAD.size


class ReplayError(ValueError):
    """A file is not a replay, is damaged, or has an unsupported schema."""


@dataclass(frozen=True)
class RecordHead:
    """Position of a record and the fields of its head."""

    offset: int
    kind: int
    codec: int
    stored: int
    raw: int
    tick0: int
    tick1: int
    crc: int

    @property
    def length(self) -> int:
        """Bytes from the head to the next record."""
        return schema.HEAD.size + self.stored + padding(self.stored)


def budget_of(kind: int) -> schema.Budget:
    return schema.BUDGETS.get(kind, schema.ANY_BUDGET)


def padding(length: int) -> int:
    return -length % schema.ALIGNMENT


def pack_map(value: Any) -> bytes:
    data = msgpack.packb(value, use_bin_type=True)
    assert data is not None
    return data


class _ObjectCounter:
    """Counts the objects of a payload while it is unpacked; raises ``ReplayError`` above the budget."""

    def __init__(self, budget: schema.Budget) -> None:
        self.budget, self.objects = budget, 0

    def count(self, container: Any) -> Any:
        self.objects += 1 + len(container)
        if self.objects > self.budget.objects:
            raise ReplayError(f"replay record has more than {self.budget.objects} objects")
        return container


def _reject_extension(code: int, data: bytes) -> Any:
    raise ReplayError(f"replay record has an extension of type {code}, expected none")


def unpack_map(data: bytes, kind: int = schema.RecordType.HEADER) -> dict[str, Any]:
    """Return the msgpack map of a payload of a record of type ``kind``.

    Raises ``ReplayError`` if it is not a map, exceeds the budget of its record type, is nested deeper than
    ``MAX_DEPTH``, or has keys other than strings.
    """
    budget = schema.BUDGETS[kind]
    count = _ObjectCounter(budget).count
    limits = dict.fromkeys(("max_array_len", "max_map_len"), budget.entries)
    try:
        value = msgpack.unpackb(
            data, raw=False, strict_map_key=True, max_ext_len=0, ext_hook=_reject_extension, list_hook=count,
            object_hook=count, **limits,
        )  # fmt: skip
    except ReplayError:
        raise
    except (ValueError, msgpack.UnpackException) as error:
        raise ReplayError(f"replay record cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ReplayError(f"replay record is a {type(value).__name__}, expected a map")
    _check_nesting(value)
    return value


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(schema.MAX_DEPTH):
        inner = []
        for container in level:
            if isinstance(container, dict):
                if not all(isinstance(key, str) for key in container):
                    raise ReplayError("replay record has a key that is not a string")
                container = container.values()
            inner += [part for part in container if isinstance(part, (dict, list))]
        if not inner:
            return
        level = inner
    raise ReplayError(f"replay record is nested deeper than {schema.MAX_DEPTH} levels")


def pack_record(kind: int, payload: bytes, *, codec: int = schema.Codec.ZLIB, ticks: tuple[int, int] = (0, 0)) -> bytes:
    """Return a record: head, payload and padding; ``ticks`` are the first and last tick of a chunk."""
    level = LEVELS.get(kind, ZLIB_LEVEL)
    stored = payload
    if codec == schema.Codec.ZLIB:
        options = (
            (CHUNK_MEMORY, CHUNK_STRATEGY)
            if kind == schema.RecordType.CHUNK
            else (zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY)
        )
        stream = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS, *options)
        stored = stream.compress(payload) + stream.flush()
    limit = budget_of(kind).raw_bytes
    if len(payload) > limit or len(stored) > schema.MAX_STORED_BYTES:
        raise ReplayError(f"replay record has {len(payload)} bytes, expected at most {limit}")
    head = schema.HEAD.pack(kind, codec, 0, len(stored), len(payload), *ticks, 0)[:CRC_AT]
    crc = zlib.crc32(stored, zlib.crc32(head))
    return head + crc.to_bytes(4, "little") + stored + bytes(padding(len(stored)))


def parse_head(data: bytes, offset: int = 0) -> RecordHead:
    """Return the head at the start of ``data``; raise ``ReplayError`` if it is truncated or exceeds a limit."""
    if len(data) < schema.HEAD.size:
        raise ReplayError(f"replay record at byte {offset} is truncated")
    kind, codec, _, stored, raw, tick0, tick1, crc = schema.HEAD.unpack_from(data)
    if stored > schema.MAX_STORED_BYTES or raw > budget_of(kind).raw_bytes:
        raise ReplayError(f"replay record at byte {offset} has length {max(stored, raw)}, which exceeds the limit")
    return RecordHead(offset, kind, codec, stored, raw, tick0, tick1, crc)


def unpack_payload(head: RecordHead, stored: bytes) -> bytes:
    """Return the payload of a record, inflated at most to the length in its head."""
    if head.codec == schema.Codec.NONE:
        payload = stored
    elif head.codec == schema.Codec.ZLIB:
        payload = inflate(stored, head.raw)
    else:
        raise ReplayError(f"replay record at byte {head.offset} has codec {head.codec}, expected 0 or 1")
    if len(payload) != head.raw:
        raise ReplayError(f"replay record at byte {head.offset} has {len(payload)} bytes, expected {head.raw}")
    return payload


def inflate(stored: bytes, limit: int) -> bytes:
    """Return the content of a zlib stream; raise ``ReplayError`` if it is damaged or longer than ``limit`` bytes."""
    stream = zlib.decompressobj()
    try:
        payload = stream.decompress(stored, limit + 1) if limit >= 0 else b""
    except zlib.error as error:
        raise ReplayError(f"replay record cannot be inflated: {error}") from None
    if len(payload) > limit or not stream.eof:
        raise ReplayError(f"replay record inflates to more than {limit} bytes or is truncated")
    return payload


def read_stored(file: BinaryIO, head: RecordHead) -> bytes:
    """Return the stored payload of a record after checking its checksum."""
    file.seek(head.offset)
    whole = file.read(schema.HEAD.size + head.stored)
    stored = whole[schema.HEAD.size :]
    if len(stored) != head.stored:
        raise ReplayError(f"replay record at byte {head.offset} is truncated")
    if zlib.crc32(stored, zlib.crc32(whole[:CRC_AT])) != head.crc:
        raise ReplayError(f"replay record at byte {head.offset} is damaged")
    return stored


def read_head(file: BinaryIO, offset: int) -> RecordHead:
    file.seek(offset)
    return parse_head(file.read(schema.HEAD.size), offset)


def check_magic(file: BinaryIO, name: str) -> int:
    """Return the size of a file; raise ``ReplayError`` if it is not a replay or too large."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    if file.read(len(schema.MAGIC)) != schema.MAGIC:
        raise ReplayError(f"{name!r} is not an Echelon replay (.ecr)")
    if size > schema.MAX_FILE_BYTES:
        raise ReplayError(f"replay {name!r} has {size} bytes, expected at most {schema.MAX_FILE_BYTES}")
    return size


def scan(file: BinaryIO, size: int, start: int = len(schema.MAGIC)) -> Iterator[RecordHead]:
    """Yield the heads of complete, undamaged records from byte ``start`` on, up to the first invalid one."""
    offset, found = start, 0
    while offset + schema.HEAD.size <= size and found <= schema.MAX_CHUNKS:
        try:
            head = read_head(file, offset)
            read_stored(file, head)
        except ReplayError:
            return
        yield head
        offset, found = offset + head.length, found + 1


def index_offset(file: BinaryIO, size: int) -> int | None:
    """Return the offset of the INDEX of a closed file, None for a file that was not closed."""
    if size < len(schema.MAGIC) + TRAILER_BYTES:
        return None
    try:
        head = read_head(file, size - TRAILER_BYTES)
        if head.kind != schema.RecordType.TRAILER or head.stored != schema.TRAILER_PAYLOAD.size:
            return None
        offset, magic = schema.TRAILER_PAYLOAD.unpack(read_stored(file, head))
    except ReplayError:
        return None
    return int(offset) if magic == schema.END_MAGIC and offset < size else None


def world_hash(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


class RecordWriter:
    """Appends records to a new file, each in one write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - it lives as long as the writer
        self.offset = 0
        self._write(schema.MAGIC)

    def append(
        self, kind: int, payload: bytes, *, codec: int = schema.Codec.ZLIB, ticks: tuple[int, int] = (0, 0)
    ) -> int:
        offset = self.offset
        self._write(pack_record(kind, payload, codec=codec, ticks=ticks))
        return offset

    def close(self, index: dict[str, Any] | None = None) -> None:
        """Close the file; with an ``index``, append INDEX and TRAILER first and flush to the disk."""
        if self._file.closed:
            return
        if index is not None:
            offset = self.append(schema.RecordType.INDEX, pack_map(index))
            self.append(
                schema.RecordType.TRAILER,
                schema.TRAILER_PAYLOAD.pack(offset, schema.END_MAGIC),
                codec=schema.Codec.NONE,
            )
            os.fsync(self._file.fileno())
            fsync(self.path.parent)
        self._file.close()

    def _write(self, data: bytes) -> None:
        written = self._file.write(data)
        if written != len(data):
            raise OSError(f"replay {str(self.path)!r}: wrote {written} of {len(data)} bytes")
        self.offset += len(data)


class LossyRecordWriter(RecordWriter):
    """A ``RecordWriter`` that drops what cannot be written; the records before the first failure stay readable."""

    problem = ""
    """Why records are dropped, in one line; "" while none is."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        try:
            super().__init__(path)
        except OSError as error:
            self._drop(error)

    def close(self, index: dict[str, Any] | None = None) -> None:
        try:
            super().close(None if self.problem else index)
        except OSError as error:
            self._drop(error)
        self._file.close()

    def _write(self, data: bytes) -> None:
        try:
            super()._write(data)
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        self.problem = reason_of(error)
        if (file := getattr(self, "_file", None)) is not None:
            file.close()
        self._file = open(os.devnull, "wb", buffering=0)  # noqa: SIM115 - in place of the file
