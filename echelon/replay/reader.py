"""Reader of replay files: closed files by their index, truncated or growing files by a scan.

Sizes are checked before anything is inflated. Unknown records, columns and tables are skipped. ``refresh`` follows a
file that is still being written. This module does not import the simulator.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from echelon.closing import Closing
from echelon.replay import codec, schema, validate
from echelon.replay.codec import RecordHead, ReplayError
from echelon.replay.columns import Ints, Layout
from echelon.replay.timeline import Timeline, unpack_tables
from echelon.state_files import IrregularFileError, open_regular

NO_OUTCOME = {"winner": schema.UNDECIDED, "reason": ""}
TIMELINE_BYTES = 2**30
"""Decompressed bytes of chunks from which the timeline of an unclosed file is computed; later chunks are not in it."""
STEP_BYTES, CHUNK_COST = 2**22, 2**16
"""Decompressed bytes of one step of that computation, and the bytes that a chunk counts as besides its own."""
CHUNK_BYTES = 224
"""Bytes of memory that the reference to a chunk takes as Python objects."""
OBJECT_BYTES, MAX_HEADER_MEMORY = 64, 2**23
"""Bytes of memory that a value of one byte takes, and those of a header of the most objects."""
Opener = Callable[[Path], BinaryIO]


@dataclass(frozen=True)
class Chunk:
    """A decoded chunk; physical values are the integers times the scale of their column."""

    ref: validate.ChunkRef
    frames: Mapping[str, Ints]
    """Frame columns ``[F, W]``."""
    tables: Mapping[str, Mapping[str, Ints]]
    """Columns ``[rows]`` of each table."""
    hash: bytes

    @property
    def ticks(self) -> Ints:
        """Tick of each frame ``[F]`` in the match; ticks in ``frames`` and ``tables`` count from the chunk's first."""
        return self.frames["tick"][:, 0] + self.ref.tick0


class Replay(Closing):
    """A replay file open for reading; a context manager. Invalid files raise ``ReplayError``.

    A text that is no path of a file is a match id or a run (its newest match). ``open_file`` opens the file and its
    world.
    """

    def __init__(self, path: Path | str, open_file: Opener = open_regular) -> None:
        self.path = _found(path) if isinstance(path, str) else path
        self._open_file = open_file
        try:
            self._file = open_file(self.path)
        except IrregularFileError:
            raise ReplayError(
                f"{self.path.name!r} is a folder, pipe, device or mostly holes, expected an .ecr file"
            ) from None
        try:
            self._size = codec.check_magic(self._file, self.path.name)
            self.chunks: list[validate.ChunkRef] = []
            self.index: validate.Index | None = None
            """None in a file that was not closed."""
            self._world_head: RecordHead | None = None
            self._end, self._scanned = len(schema.MAGIC), -1
            self.header = self._open()
            self._layout = Layout(self.header["columns"], self.header["mechs"])
            self._timeline, self._timeline_chunks, self._timeline_bytes = Timeline(self.header), 0, 0
            self._tables = {str(table["name"]): Layout(table["columns"]) for table in self.header["tables"]}
        except BaseException as error:
            self._file.close()
            if isinstance(error, ReplayError) and self.path.name not in str(error):
                raise ReplayError(f"replay {self.path.name!r} cannot be opened: {error}") from None
            raise

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def status(self) -> os.stat_result:
        return os.fstat(self._file.fileno())

    @property
    def complete(self) -> bool:
        """Whether the match was recorded to its end."""
        return self.index is not None

    @property
    def outcome(self) -> dict[str, Any] | None:
        """Outcome in the index; None without one."""
        return self.index.outcome if self.index is not None else None

    @property
    def top_moment(self) -> str:
        moments = self.index.moments if self.index is not None else []
        return next((moment["caption"] for moment in moments if moment["rank"] == 1), "")

    @property
    def recorded_bytes(self) -> int:
        """Bytes of the file without what was added to it after the match."""
        return (self.index and self.index.recorded) or self.status().st_size

    @property
    def memory(self) -> int:
        """Estimated bytes that header, chunks, index and timeline take."""
        index = self.index.size if self.index is not None else 0
        header = min(OBJECT_BYTES * self._header_bytes, MAX_HEADER_MEMORY)
        return header + CHUNK_BYTES * len(self.chunks) + index + self._timeline.size

    @property
    def ticks(self) -> int:
        return self.chunks[-1].tick1 if self.chunks else 0

    def _open(self) -> dict[str, Any]:
        first = codec.read_head(self._file, len(schema.MAGIC))
        self._header_bytes = first.raw
        if first.kind != schema.RecordType.HEADER:
            raise ReplayError(f"replay {self.path.name!r} has no header record at its start")
        header = codec.unpack_map(self.payload(first))
        validate.parse_header(header, self.path.name)
        self._tick_hz = float(header["tick_hz"])
        self._end = first.offset + first.length
        self.refresh()
        return header

    def _read_index(self) -> bool:
        offset = codec.index_offset(self._file, self._size)
        if offset is None:
            return False
        try:
            head = codec.read_head(self._file, offset)
            if head.kind != schema.RecordType.INDEX or head.raw > max(
                schema.INDEX_BYTES, schema.INDEX_SHARE * self._size
            ):
                return False
            body = codec.unpack_map(self.payload(head), schema.RecordType.INDEX)
            index = validate.parse_index(body, offset, self._tick_hz)
            world_head = codec.read_head(self._file, index.world[0]) if index.world else None
        except ReplayError:
            return False
        self.chunks, self.index, self._world_head = index.chunks, index, world_head
        return True

    def refresh(self) -> int:
        """Read chunks that were appended since the last call, and the index if any; return the number of chunks.

        Chunks are read up to the first invalid one, as in a truncated file.
        """
        size = self.status().st_size
        if self.index is not None or size == self._scanned:
            return len(self.chunks)
        self._size = self._scanned = size
        if not self._read_index():
            self._scan()
        return len(self.chunks)

    def _scan(self) -> None:
        end = self._size + codec.padding(self._size)  # a cut may remove the padding of the last record
        for head in codec.scan(self._file, self._size, self._end):
            if head.kind == schema.RecordType.CHUNK:
                if len(self.chunks) == schema.MAX_CHUNKS:
                    return
                ref = validate.ChunkRef(head.offset, head.length, head.tick0, head.tick1)
                previous = self.chunks[-1] if self.chunks else validate.FIRST_CHUNK
                try:
                    self.chunks.append(validate.check_ref(ref, previous, end, self._tick_hz))
                except ReplayError:
                    return
            elif head.kind == schema.RecordType.WORLD:
                self._world_head = head
            self._end = head.offset + head.length

    def chunk_bytes(self, n: int) -> bytes:
        """Return the stored record of chunk ``n``, checksum verified; raise ``IndexError`` if there is none."""
        if not 0 <= n < len(self.chunks):
            raise IndexError(n)
        ref = self.chunks[n]
        head = codec.read_head(self._file, ref.offset)
        found = validate.ChunkRef(head.offset, head.length, head.tick0, head.tick1)
        if head.kind != schema.RecordType.CHUNK or found != ref:
            raise ReplayError(f"replay {self.path.name!r} has no chunk at byte {ref.offset}, where its index has one")
        codec.read_stored(self._file, head)
        self._file.seek(ref.offset)
        return self._file.read(ref.length)

    def chunk(self, n: int) -> Chunk:
        """Return chunk ``n`` decoded; raise ``ReplayError`` if it is damaged, ``IndexError`` if there is none."""
        data = self.chunk_bytes(n)
        head = codec.parse_head(data, self.chunks[n].offset)
        try:
            body = codec.unpack_map(codec.unpack_payload(head, data[schema.HEAD.size :][: head.stored]), head.kind)
            frames, tables, chain = validate.parse_chunk(body, self.chunks[n], self._layout, self._tables)
        except ReplayError as error:
            raise ReplayError(f"chunk {n} of replay {self.path.name!r} cannot be read: {error}") from None
        return Chunk(self.chunks[n], frames, tables, chain)

    def extra_heads(self, kind: int) -> list[RecordHead]:
        found: list[RecordHead] = []
        visited = 0
        starts = [len(schema.MAGIC), *(ref.offset + ref.length for ref in self.chunks)]
        ends = [*(ref.offset for ref in self.chunks), self._end if self.index is None else self._size]
        for offset, end in zip(starts, ends, strict=True):
            while offset + schema.HEAD.size <= end and len(found) < schema.MAX_STATES and visited < schema.MAX_CHUNKS:
                try:
                    head = codec.read_head(self._file, offset)
                except ReplayError:
                    break
                visited += 1
                if head.kind == kind and head.offset + head.length <= end:
                    found.append(head)
                offset += head.length
        return found

    def payload(self, head: RecordHead) -> bytes:
        """Return the payload of a record; raise ``ReplayError`` if it is damaged."""
        return codec.unpack_payload(head, codec.read_stored(self._file, head))

    def is_whole(self, head: RecordHead) -> bool:
        try:
            codec.read_stored(self._file, head)
        except ReplayError:
            return False
        return True

    def raw_bytes(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)

    def timeline(self) -> dict[str, Any]:
        """Return ``timeline_columns`` with lists in place of arrays."""
        return _plain(self.timeline_columns())

    def timeline_columns(self) -> dict[str, Any]:
        """Return series, markers, win probability, moments and outcome; series and tables as arrays.

        They are those of the index, or computed from the chunks of a file without index or without win probability.
        """
        while not self.extend_timeline():
            pass
        indexed = self.index.columns() if self.index is not None else {}
        if self.index is not None and self.index.has_win:
            return {**indexed, "outcome": self.index.outcome}
        last = {**NO_OUTCOME, "ticks": self.ticks, **self._timeline.last} if self.chunks else None
        outcome = self.outcome or last
        rows, moments = self._timeline.tables(outcome["winner"] if outcome else schema.UNDECIDED)
        tables = {
            name: dict(zip(validate.INDEX_LAYOUTS[name].names, part.T, strict=True)) for name, part in rows.items()
        }
        return {**indexed, **unpack_tables(tables), "moments": moments, "outcome": outcome}

    def extend_timeline(self) -> bool:
        """Add ``STEP_BYTES`` of chunks to the timeline, one at least; True if it has all, or the index does."""
        if self.index is not None and self.index.has_win:
            return True
        added = 0
        while self._timeline_chunks < len(self.chunks) and self._timeline_bytes < TIMELINE_BYTES:
            if added > STEP_BYTES:
                return False
            size = codec.read_head(self._file, self.chunks[self._timeline_chunks].offset).raw
            chunk = self.chunk(self._timeline_chunks)
            self._timeline.add(chunk.frames, chunk.tables["events"], chunk.ref.tick0)
            self._timeline_chunks, self._timeline_bytes = self._timeline_chunks + 1, self._timeline_bytes + size
            added += size + CHUNK_COST
        return True

    @cached_property
    def world(self) -> bytes:
        return self.load_world()

    def load_world(self) -> bytes:
        """Return the payload of the world, from this file or the folder ``worlds`` beside it; its hash is checked."""
        name, sha, size = self.path.name, self.header["world"]["sha256"], self.header["world"]["size"]
        expected = schema.WORLD_HEAD.size + prod(size)
        if self._world_head is None:
            stored = self.path.parent / schema.WORLDS_FOLDER / f"{sha}{schema.WORLD_SUFFIX}"
            payload = read_world(stored, expected, name, self._open_file)
        elif self._world_head.raw == expected:
            payload = self.payload(self._world_head)
        else:
            raise ReplayError(f"the world of replay {name!r} has {self._world_head.raw} bytes, expected {expected}")
        if codec.world_hash(payload) != sha:
            raise ReplayError(f"the world of replay {name!r} does not match the hash in its header")
        if list(schema.WORLD_HEAD.unpack_from(payload)[:3]) != size:
            raise ReplayError(f"the world of replay {name!r} has another size than its header")
        return payload

    def materials(self) -> NDArray[np.uint8]:
        """Return the materials at the start of the match, ``uint8 [y, x, z]``."""
        x, y, z = self.header["world"]["size"]
        return np.frombuffer(self.world, np.uint8, offset=schema.WORLD_HEAD.size).reshape(y, x, z)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def read_world(path: Path, size: int, replay: str, open_file: Opener = open_regular) -> bytes:
    """Return the payload of ``size`` bytes of a stored world; ``ReplayError`` if it is missing or damaged."""
    try:
        with open_file(path) as file:
            stored = file.read(min(os.fstat(file.fileno()).st_size, schema.MAX_RAW_BYTES))
    except (FileNotFoundError, NotADirectoryError, IrregularFileError):
        advice = f"expected in the folder {schema.WORLDS_FOLDER!r} beside it; copy that too, or export the replay"
        raise ReplayError(f"the world of replay {replay!r} is missing, {advice}") from None
    try:
        payload = codec.inflate(stored, size)
    except ReplayError:
        payload = b""
    if len(payload) != size:
        raise ReplayError(f"the world of replay {replay!r} is damaged, expected a zlib stream of {size} bytes")
    return payload


def action_entries(header: Mapping[str, Any]) -> list[str]:
    """Return the names of the entries of the recorded actions; empty without actions."""
    return list(header.get("insight", header).get("actions", ()))


def require_actions(recorded: Replay) -> list[str]:
    """Return ``action_entries`` of a replay; ``ReplayError`` without any."""
    if found := action_entries(recorded.header):
        return found
    raise ReplayError(
        f"replay {recorded.path.name!r} has no actions, expected a column of them, as arena, eval and sim record them"
    )


def _found(name: str) -> Path:
    """Return the file that a path, match id or run names; a name of a file that is missing stays as it is."""
    from echelon.replay.find import find_replay

    return Path(name) if name.endswith(schema.SUFFIX) or os.path.lexists(name) else find_replay(name)
