"""Opens replay files: whole ones by their index, cut or live ones by a scan, and decodes what is asked for.

Nothing is inflated before its size was checked, and what this version does not know is passed over. A file that is
still being written is followed by ``refresh``. Knows nothing of the simulator.
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
"""Frame columns without which nothing can be shown."""
NO_OUTCOME = {"winner": UNDECIDED, "reason": ""}


class ChunkRef(NamedTuple):
    """Where a chunk lies and which ticks it covers, both included."""

    offset: int
    length: int
    tick0: int
    tick1: int


@dataclass(frozen=True)
class Chunk:
    """A decoded chunk: integers, to be multiplied by the scale of their column."""

    ref: ChunkRef
    frames: Mapping[str, Ints]
    """Frame columns ``[F, W]``."""
    tables: Mapping[str, Mapping[str, Ints]]
    """Columns ``[rows]`` of each table."""
    hash: bytes

    @property
    def ticks(self) -> Ints:
        """Tick of each frame ``[F]``; in ``frames`` and ``tables`` ticks count from the chunk's first."""
        return self.frames["tick"][:, 0] + self.ref.tick0


class Replay:
    """A replay file, open for reading; a context manager. ``ReplayError`` says in one line what is wrong with it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = open(self.path, "rb")  # noqa: SIM115 - it lives as long as the reader
        try:
            self._size = codec.check_magic(self._file, self.path.name)
            self.chunks: list[ChunkRef] = []
            self.index: dict[str, Any] | None = None
            """Chunks, series, markers and outcome; None in a file that was not closed."""
            self._world_at: RecordHead | None = None
            self._end = len(MAGIC)
            self.header = self._open()
            self._layout = Layout(self.header["columns"], self.header["mechs"])
            self._line, self._folded = Timeline(self.header), 0
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
        """Last tick that can be shown."""
        return self.chunks[-1].tick1 if self.chunks else 0

    def _open(self) -> dict[str, Any]:
        first = codec.read_head(self._file, len(MAGIC))
        if first.kind != RecordType.HEADER:
            raise ReplayError(f"replay {self.path.name!r} does not begin with its header")
        header = codec.unpack_map(self._payload(first))
        _check_header(header, self.path.name)
        self._end = first.offset + first.length
        if not self._take_index():
            self.refresh()
        return header

    def _take_index(self) -> bool:
        at = codec.index_offset(self._file, self._size)
        if at is None:
            return False
        try:
            head = codec.read_head(self._file, at)
            index = _read_index(codec.unpack_map(self._payload(head)))
            if head.kind != RecordType.INDEX or len(index["chunks"]) > MAX_CHUNKS:
                return False
            chunks = [ChunkRef(*row) for row in index["chunks"]]
            world = index["world"]
            self._world_at = codec.read_head(self._file, int(world[0])) if world else None
        except (ReplayError, KeyError, TypeError, ValueError):
            return False
        self.chunks, self.index = chunks, index
        return True

    def refresh(self) -> int:
        """Look for chunks written since the last look, and for the end; return how many there are now."""
        if self.index is not None:
            return len(self.chunks)
        self._size = self.path.stat().st_size
        for head in codec.scan(self._file, self._size, self._end):
            if head.kind == RecordType.CHUNK and len(self.chunks) < MAX_CHUNKS:
                self.chunks.append(ChunkRef(head.offset, head.length, head.tick0, head.tick1))
            elif head.kind == RecordType.WORLD:
                self._world_at = head
            self._end = head.offset + head.length
        if self.index is None:
            self._take_index()
        return len(self.chunks)

    def _payload(self, head: RecordHead) -> bytes:
        return codec.unpack_payload(head, codec.read_stored(self._file, head))

    def chunk_bytes(self, n: int) -> bytes:
        """Return the record of chunk ``n`` as it lies in the file, checked; ``IndexError`` if there is none."""
        if not 0 <= n < len(self.chunks):
            raise IndexError(n)
        ref = self.chunks[n]
        head = codec.read_head(self._file, ref.offset)
        if head.kind != RecordType.CHUNK or head.length != ref.length:
            raise ReplayError(f"replay {self.path.name!r} has no chunk where its index says")
        codec.read_stored(self._file, head)
        self._file.seek(ref.offset)
        return self._file.read(ref.length)

    def chunk(self, n: int) -> Chunk:
        """Decode chunk ``n``; ``ReplayError`` if it is damaged, ``IndexError`` if there is none."""
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
        """Return series, markers and outcome: as written, or folded from the chunks of a file that was not closed."""
        if self.index is not None:
            return {name: self.index[name] for name in ("series", "markers", "outcome")}
        for n in range(self._folded, len(self.chunks)):
            chunk = self.chunk(n)
            self._line.add(chunk.frames, chunk.tables["events"], chunk.ref.tick0)
            self._folded = n + 1
        outcome = {**NO_OUTCOME, "ticks": self.ticks, **self._line.last} if self.chunks else None
        return {**self._line.index(), "outcome": outcome}

    @cached_property
    def world(self) -> bytes:
        """The world's payload; it is kept."""
        return self.load_world()

    def load_world(self) -> bytes:
        """Return the world's payload, from this file or from the store beside it; its address is compared."""
        sha = self.header["world"]["sha256"]
        if self._world_at is not None:
            payload = self._payload(self._world_at)
        else:
            payload = read_world(self.path.parent / WORLDS_FOLDER / f"{sha}{WORLD_SUFFIX}")
        if codec.world_hash(payload) != sha:
            raise ReplayError(f"the world of replay {self.path.name!r} is not the one it was recorded in")
        return payload

    def materials(self) -> NDArray[np.uint8]:
        """Return the voxels at the start of the match, ``uint8 [y, x, z]``."""
        x, y, z, _ = WORLD_HEAD.unpack_from(self.world)
        if len(self.world) != WORLD_HEAD.size + x * y * z:
            raise ReplayError(f"the world of replay {self.path.name!r} has another size than it says")
        return np.frombuffer(self.world, np.uint8, offset=WORLD_HEAD.size).reshape(y, x, z)


def read_world(path: Path) -> bytes:
    """Return the payload of a stored world; ``ReplayError`` if it is missing or too large."""
    try:
        stored = path.read_bytes()
    except OSError:
        raise ReplayError(f"world {path.stem!r} is not beside its replay, wanted {WORLDS_FOLDER}/{path.name}") from None
    stream = zlib.decompressobj()
    try:
        payload = stream.decompress(stored, MAX_RAW_BYTES)
    except zlib.error:
        raise ReplayError(f"world {path.stem!r} is damaged") from None
    if not stream.eof:
        raise ReplayError(f"world {path.stem!r} is damaged or holds more than {MAX_RAW_BYTES} bytes")
    return payload


def _read_index(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return chunks, series, markers, world and outcome of an INDEX; its further tables are passed over."""
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
    """Raise ``ReplayError`` unless a header is one that this version can follow."""
    try:
        major = int(header["schema"][0])
        if not OLDEST_MAJOR <= major <= SCHEMA_MAJOR:
            hint = "a newer Echelon can" if major > SCHEMA_MAJOR else "an older Echelon can"
            wanted = f"{OLDEST_MAJOR} to {SCHEMA_MAJOR}"
            raise ReplayError(f"replay {name!r} has schema {major}, this version plays {wanted}; {hint}")
        check_columns(header["columns"], frames=True)
        for table in header["tables"]:
            check_columns(table["columns"], frames=False)
        known = {column["name"] for column in header["columns"]}
        missing = [column for column in REQUIRED if column not in known]
        fine = 1 <= int(header["mechs"]) <= MAX_MECHS and len(header["roster"]) == int(header["mechs"])
        fine = fine and 0 < float(header["tick_hz"]) <= TICK_HZ_LIMIT and bool(header["world"]["sha256"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, ReplayError):
            raise
        raise ReplayError(f"the header of replay {name!r} cannot be read: {error}") from None
    if missing or not fine:
        raise ReplayError(f"the header of replay {name!r} is not complete" + (f": no {missing[0]}" if missing else ""))
