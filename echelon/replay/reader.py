"""Reader of replay files: closed files by their index, truncated or growing files by a scan.

Sizes are checked before anything is inflated. Unknown records, columns and tables are skipped. ``refresh`` follows a
file that is still being written. This module does not import the simulator.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.replay import codec
from echelon.replay.codec import RecordHead, ReplayError
from echelon.replay.columns import Ints, Layout, check_columns
from echelon.replay.schema import (
    INDEX_TABLES,
    MAGIC,
    MAX_CHUNKS,
    MAX_FRAMES,
    MAX_MECHS,
    MAX_RAW_BYTES,
    OLDEST_MAJOR,
    SCHEMA_MAJOR,
    TICK_HZ_LIMIT,
    UNDECIDED,
    WORLD_HEAD,
    WORLD_SUFFIX,
    WORLDS_FOLDER,
    RecordType,
)
from echelon.replay.timeline import Timeline, unpack_series

REQUIRED = ("tick", "score", "flags", "hp")
"""Frame columns that every replay must have."""
NO_OUTCOME = {"winner": UNDECIDED, "reason": ""}


class ChunkRef(NamedTuple):
    """Position of a chunk in the file, and its first and last tick."""

    offset: int
    length: int
    tick0: int
    tick1: int


@dataclass(frozen=True)
class Chunk:
    """A decoded chunk; physical values are the integers times the scale of their column."""

    ref: ChunkRef
    frames: Mapping[str, Ints]
    """Frame columns ``[F, W]``."""
    tables: Mapping[str, Mapping[str, Ints]]
    """Columns ``[rows]`` of each table."""
    hash: bytes

    @property
    def ticks(self) -> Ints:
        """Tick of each frame ``[F]`` in the match; ticks in ``frames`` and ``tables`` count from the chunk's first."""
        return self.frames["tick"][:, 0] + self.ref.tick0


class Replay:
    """A replay file open for reading; a context manager. Invalid files raise ``ReplayError``."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = open(self.path, "rb")  # noqa: SIM115 - it lives as long as the reader
        try:
            self._size = codec.check_magic(self._file, self.path.name)
            self.chunks: list[ChunkRef] = []
            self.index: dict[str, Any] | None = None
            """Chunks, series, markers, world and outcome; None in a file that was not closed."""
            self._world_head: RecordHead | None = None
            self._end = len(MAGIC)
            self.header = self._open()
            self._layout = Layout(self.header["columns"], self.header["mechs"])
            self._timeline, self._timeline_chunks = Timeline(self.header), 0
            self._tables = {str(table["name"]): Layout(table["columns"]) for table in self.header["tables"]}
        except BaseException as error:
            self._file.close()
            if isinstance(error, ReplayError) and self.path.name not in str(error):
                raise ReplayError(f"replay {self.path.name!r} cannot be opened: {error}") from None
            raise

    def __enter__(self) -> Replay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._file.closed

    @property
    def complete(self) -> bool:
        """Whether the match was recorded to its end."""
        return self.index is not None

    @property
    def ticks(self) -> int:
        """Last tick of the last complete chunk."""
        return self.chunks[-1].tick1 if self.chunks else 0

    def _open(self) -> dict[str, Any]:
        first = codec.read_head(self._file, len(MAGIC))
        if first.kind != RecordType.HEADER:
            raise ReplayError(f"replay {self.path.name!r} has no header record at its start")
        header = codec.unpack_map(self._payload(first))
        _check_header(header, self.path.name)
        self._end = first.offset + first.length
        if not self._read_index():
            self.refresh()
        return header

    def _read_index(self) -> bool:
        """Read the index of a closed file; return whether there is a valid one."""
        offset = codec.index_offset(self._file, self._size)
        if offset is None:
            return False
        try:
            head = codec.read_head(self._file, offset)
            index = _decode_index(codec.unpack_map(self._payload(head)))
            if head.kind != RecordType.INDEX or len(index["chunks"]) > MAX_CHUNKS:
                return False
            chunks = [ChunkRef(*row) for row in index["chunks"]]
            world = index["world"]
            self._world_head = codec.read_head(self._file, int(world[0])) if world else None
        except (ReplayError, KeyError, TypeError, ValueError):
            return False
        self.chunks, self.index = chunks, index
        return True

    def refresh(self) -> int:
        """Read chunks that were appended since the last call, and the index if any; return the number of chunks."""
        if self.index is not None:
            return len(self.chunks)
        self._size = self.path.stat().st_size
        for head in codec.scan(self._file, self._size, self._end):
            if head.kind == RecordType.CHUNK and len(self.chunks) < MAX_CHUNKS:
                self.chunks.append(ChunkRef(head.offset, head.length, head.tick0, head.tick1))
            elif head.kind == RecordType.WORLD:
                self._world_head = head
            self._end = head.offset + head.length
        if self.index is None:
            self._read_index()
        return len(self.chunks)

    def _payload(self, head: RecordHead) -> bytes:
        return codec.unpack_payload(head, codec.read_stored(self._file, head))

    def chunk_bytes(self, n: int) -> bytes:
        """Return the stored record of chunk ``n``, checksum verified; raise ``IndexError`` if there is none."""
        if not 0 <= n < len(self.chunks):
            raise IndexError(n)
        ref = self.chunks[n]
        head = codec.read_head(self._file, ref.offset)
        if head.kind != RecordType.CHUNK or head.length != ref.length:
            raise ReplayError(f"replay {self.path.name!r} has no chunk at byte {ref.offset}, where its index has one")
        codec.read_stored(self._file, head)
        self._file.seek(ref.offset)
        return self._file.read(ref.length)

    def chunk(self, n: int) -> Chunk:
        """Return chunk ``n`` decoded; raise ``ReplayError`` if it is damaged, ``IndexError`` if there is none."""
        data = self.chunk_bytes(n)
        head = codec.parse_head(data, self.chunks[n].offset)
        body = codec.unpack_map(codec.unpack_payload(head, data[codec.HEAD.size :][: head.stored]))
        try:
            if not 1 <= int(body["f"]) <= MAX_FRAMES:
                raise ValueError(f"it has {body['f']} frames")
            frames = self._layout.split(self._layout.decode(body["c"], int(body["f"])))
            tables = {}
            for (name, layout), (rows, block) in zip(self._tables.items(), body["t"], strict=True):
                tables[name] = layout.decode_rows(block, int(rows))
        except (KeyError, TypeError, ValueError) as error:
            raise ReplayError(f"chunk {n} of replay {self.path.name!r} cannot be read: {error}") from None
        return Chunk(self.chunks[n], frames, tables, bytes(body.get("h", b"")))

    def timeline(self) -> dict[str, Any]:
        """Return series, markers and outcome: from the index, or computed from the chunks of an unclosed file."""
        if self.index is not None:
            return {name: self.index[name] for name in ("series", "markers", "outcome")}
        for n in range(self._timeline_chunks, len(self.chunks)):
            chunk = self.chunk(n)
            self._timeline.add(chunk.frames, chunk.tables["events"], chunk.ref.tick0)
            self._timeline_chunks = n + 1
        outcome = {**NO_OUTCOME, "ticks": self.ticks, **self._timeline.last} if self.chunks else None
        return {**self._timeline.index(), "outcome": outcome}

    @cached_property
    def world(self) -> bytes:
        """Payload of the world, loaded once."""
        return self.load_world()

    def load_world(self) -> bytes:
        """Return the payload of the world, from this file or the folder ``worlds`` beside it; its hash is checked."""
        sha = self.header["world"]["sha256"]
        if self._world_head is not None:
            payload = self._payload(self._world_head)
        else:
            payload = read_world(self.path.parent / WORLDS_FOLDER / f"{sha}{WORLD_SUFFIX}")
        if codec.world_hash(payload) != sha:
            raise ReplayError(f"the world of replay {self.path.name!r} does not match the hash in its header")
        return payload

    def materials(self) -> NDArray[np.uint8]:
        """Return the materials at the start of the match, ``uint8 [y, x, z]``."""
        x, y, z, _ = WORLD_HEAD.unpack_from(self.world)
        if len(self.world) != WORLD_HEAD.size + x * y * z:
            raise ReplayError(f"the world of replay {self.path.name!r} has a size that differs from its head")
        return np.frombuffer(self.world, np.uint8, offset=WORLD_HEAD.size).reshape(y, x, z)


def read_world(path: Path) -> bytes:
    """Return the payload of a stored world; raise ``ReplayError`` if it is missing, damaged or too large."""
    try:
        stored = path.read_bytes()
    except OSError:
        expected = f"{WORLDS_FOLDER}/{path.name} beside the replay"
        raise ReplayError(f"world {path.stem!r} is missing, expected {expected}") from None
    stream = zlib.decompressobj()
    try:
        payload = stream.decompress(stored, MAX_RAW_BYTES)
    except zlib.error:
        raise ReplayError(f"world {path.stem!r} is damaged") from None
    if not stream.eof:
        raise ReplayError(f"world {path.stem!r} is damaged or larger than {MAX_RAW_BYTES} bytes")
    return payload


def _decode_index(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return chunks, series, markers, world and outcome of an INDEX; further tables are skipped."""
    tables = {}
    for table, (rows, block) in zip(INDEX_TABLES, body["t"], strict=False):
        tables[table.name] = Layout([column.to_header() for column in table.columns]).decode_rows(block, int(rows))
    return {
        "chunks": np.stack(list(tables["chunks"].values()), axis=1).tolist(),
        "series": unpack_series(tables["series"]),
        "markers": np.stack(list(tables["markers"].values()), axis=1).tolist(),
        "world": body.get("world"),
        "outcome": body["outcome"],
    }


def _check_header(header: Mapping[str, Any], name: str) -> None:
    """Raise ``ReplayError`` for a header that is incomplete or has an unsupported schema."""
    try:
        major = int(header["schema"][0])
        if not OLDEST_MAJOR <= major <= SCHEMA_MAJOR:
            version = "newer" if major > SCHEMA_MAJOR else "older"
            expected = f"{OLDEST_MAJOR} to {SCHEMA_MAJOR}"
            raise ReplayError(f"replay {name!r} has schema {major}, expected {expected}; try a {version} Echelon")
        check_columns(header["columns"], frames=True)
        for table in header["tables"]:
            check_columns(table["columns"], frames=False)
        known = {column["name"] for column in header["columns"]}
        missing = [column for column in REQUIRED if column not in known]
        valid = 1 <= int(header["mechs"]) <= MAX_MECHS and len(header["roster"]) == int(header["mechs"])
        valid = valid and 0 < float(header["tick_hz"]) <= TICK_HZ_LIMIT and bool(header["world"]["sha256"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, ReplayError):
            raise
        raise ReplayError(f"the header of replay {name!r} cannot be read: {error}") from None
    if missing or not valid:
        column = f": no column {missing[0]!r}" if missing else ""
        raise ReplayError(f"the header of replay {name!r} is incomplete{column}")
