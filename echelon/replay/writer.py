"""Writer of a replay file: chunks, voxel changes and the closing index.

``MatchWriter`` receives integers from ``record`` and does not import the simulator. A chunk is passed to the operating
system completely before ``chunk`` returns.
"""

import contextlib
import hashlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from echelon.files import atomic_write, make_folder, remove_stale
from echelon.replay import schema
from echelon.replay.codec import ZLIB_LEVEL, LossyRecordWriter, RecordWriter, pack_map, world_hash
from echelon.replay.columns import Ints, Layout
from echelon.replay.timeline import Timeline
from echelon.state_files import IrregularFileError, read_bounded

MAX_RUN = 255
"""Maximum number of cells in a row of runs."""
LAYOUTS = {
    table.name: Layout([column.to_header() for column in table.columns])
    for table in (*schema.TABLES, *schema.INDEX_TABLES)
}
NO_ROWS = {table.name: np.zeros((0, len(table.columns)), np.int64) for table in schema.TABLES}
TICK, KIND = 0, 1
OWNER, SLOT = 1, 2
"""Column indices in rows of events and rounds."""


def world_payload(material: Any) -> bytes:
    """Return the payload of a WORLD record with these materials ``uint8 [z, y, x]``."""
    z, y, x = material.shape
    return schema.WORLD_HEAD.pack(x, y, z, 0) + np.ascontiguousarray(material.transpose(1, 2, 0), np.uint8).tobytes()


def store_world(folder: Path, payload: bytes) -> Path:
    """Store a world durably in ``folder`` under its SHA-256 unless it is there undamaged, and return its path.

    The modification time of an existing file is updated, so that cleaning up unused worlds keeps it; temporary files
    that killed processes left there are deleted.
    """
    path = folder / f"{world_hash(payload)}{schema.WORLD_SUFFIX}"
    if _contains_world(path, payload):
        os.utime(path)
    else:
        make_folder(folder)
        remove_stale(folder)
        atomic_write(path, zlib.compress(payload, ZLIB_LEVEL))
    return path


def _contains_world(path: Path, payload: bytes) -> bool:
    try:
        stored = read_bounded(path, schema.MAX_RAW_BYTES)
        return zlib.decompressobj().decompress(stored, len(payload) + 1) == payload
    except (FileNotFoundError, IrregularFileError, ValueError, zlib.error):
        return False


def chain_hash(previous: bytes, state: bytes) -> bytes:
    """Return the next hash of the chain: of the previous hash and ``state``."""
    return hashlib.sha256(previous + state).digest()[: schema.HASH_BYTES]


class MatchWriter:
    """A replay file being written.

    ``header`` has all entries except the world, which is embedded, or stored in the folder ``worlds`` if given. A
    ``lossy`` writer drops what the disk does not take, with the reason in ``problem``.
    """

    def __init__(
        self, path: Path, header: Mapping[str, Any], world: bytes, *, worlds: Path | None = None, lossy: bool = False
    ) -> None:
        x, y, z, _ = schema.WORLD_HEAD.unpack_from(world)
        self.header = {**header, "world": {"sha256": world_hash(world), "size": [x, y, z]}}
        self.layout = Layout(header["columns"], int(header["mechs"]))
        if worlds is not None:
            store_world(worlds, world)
        make_folder(path.parent)
        self.path = path
        self._records = LossyRecordWriter(path) if lossy else RecordWriter(path)
        self._timeline = Timeline(header)
        self._chunks: list[list[int]] = []
        self._hash = bytes(schema.HASH_BYTES)
        self._edited: dict[int, int] = {}
        self._base = NO_ROWS[schema.BASE.name]
        self._records.append(schema.RecordType.HEADER, pack_map(self.header))
        self._world = None
        if worlds is None:
            at = self._records.append(schema.RecordType.WORLD, world)
            self._world = [at, self._records.offset - at]

    @property
    def problem(self) -> str:
        """Why a lossy writer drops records, in one line; "" while it drops none."""
        return self._records.problem if isinstance(self._records, LossyRecordWriter) else ""

    def start_edited(self, cells: Ints) -> None:
        """Begin with voxels that differ from the world: rows of cell and material, sorted by cell."""
        self._edited = dict(cells.tolist())
        self._base = encode_runs(cells) if len(cells) else NO_ROWS[schema.BASE.name]

    def chunk(self, frames: Ints, tables: Mapping[str, Ints], digest: bytes = b"") -> None:
        """Write a chunk with frames ``[F, W]``, of which the first repeats the last frame of the previous chunk.

        ``tables`` has ``events``, ``rounds``, ``clouds`` and ``edits`` (rows of tick, cell and material), each sorted
        by time; ticks count from the match's start, and all values are within their bounds. ``digest`` is added to the
        hash chain.
        """
        ticks = int(frames[0, 0]), int(frames[-1, 0])
        events, rounds = tables.get("events", NO_ROWS["events"]), tables.get("rounds", NO_ROWS["rounds"])
        if len(events):
            events = events[np.argsort(events[:, KIND], kind="stable")]
        if len(rounds):
            rounds = rounds[np.argsort(rounds[:, OWNER] * schema.MAX_MECHS + rounds[:, SLOT], kind="stable")]
        edits = tables.get("edits", NO_ROWS["base"])
        rows = {
            schema.EVENTS.name: events,
            schema.ROUNDS.name: rounds,
            schema.BASE.name: self._base,
            schema.EDITS.name: NO_ROWS[schema.EDITS.name],
        }
        if len(edits):
            rows[schema.EDITS.name] = relative_ticks(encode_runs(edits), ticks[0])
            self._edited.update(zip(edits[:, 1].tolist(), edits[:, 2].tolist(), strict=True))
        rows[schema.EVENTS.name] = events = relative_ticks(events, ticks[0])
        rows[schema.CLOUDS.name] = relative_ticks(tables.get("clouds", NO_ROWS["clouds"]), ticks[0])
        self._hash = chain_hash(self._hash, digest or frames[-1].tobytes())
        frames = relative_ticks(frames, ticks[0])
        payload = {
            "f": len(frames),
            "c": self.layout.encode(frames),
            "t": [_block(table, rows[table.name]) for table in schema.TABLES],
            "h": self._hash,
        }
        at = self._records.append(schema.RecordType.CHUNK, pack_map(payload), ticks=ticks)
        self._chunks.append([at, self._records.offset - at, *ticks])
        self._timeline.add(
            self.layout.split(frames), dict(zip(LAYOUTS["events"].names, events.T, strict=True)), ticks[0]
        )
        if len(edits):
            self._base = encode_runs(np.array(sorted(self._edited.items()), np.int64))

    def state(self, tick: int, payload: bytes) -> None:
        """Write a STATE record of the state after ``tick`` ticks."""
        self._records.append(schema.RecordType.STATE, payload, ticks=(tick, tick))

    def seat(self, ticks: tuple[int, int], payload: bytes) -> None:
        self._records.append(schema.RecordType.SEAT, payload, ticks=ticks)

    def orders(self, ticks: tuple[int, int], payload: bytes) -> None:
        self._records.append(schema.RecordType.ORDERS, payload, ticks=ticks)

    def close(self, *, winner: int = schema.UNDECIDED, reason: str = "") -> None:
        """Append index and outcome and close the file."""
        ticks = self._chunks[-1][3] if self._chunks else 0
        outcome = {"winner": winner, "reason": reason, "ticks": ticks}
        outcome |= {name: self._timeline.last.get(name, [0.0, 0.0]) for name in ("score", "hp", "alive")}
        rows, moments = self._timeline.tables(winner)
        rows[schema.CHUNK_INDEX.name] = np.array(self._chunks, np.int64).reshape(-1, len(schema.CHUNK_INDEX.columns))
        tables = [_block(table, rows[table.name]) for table in schema.INDEX_TABLES]
        self._records.close({"t": tables, "world": self._world, "outcome": outcome, "moments": moments})

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._records.close()


def relative_ticks(rows: Ints, tick0: int) -> Ints:
    """Return a copy of the rows with ticks, the first column, relative to ``tick0``."""
    counted = rows.copy()
    counted[:, TICK] -= tick0
    return counted


def encode_runs(rows: Ints) -> Ints:
    """Join adjacent cells of equal material: rows (..., cell, material) become rows (..., cell, run, material)."""
    *lead, cell, kind = rows.T
    same = np.diff(cell) == 1
    for column in (*lead, kind):
        same &= np.diff(column) == 0
    at = np.flatnonzero(np.concatenate([[True], ~same]))
    lengths = np.diff(np.append(at, len(rows)))
    if lengths.max() > MAX_RUN:
        pieces = -(-lengths // MAX_RUN)
        piece = np.concatenate([np.arange(n) for n in pieces]) * MAX_RUN
        at = np.repeat(at, pieces) + piece
        lengths = np.minimum(np.repeat(lengths, pieces) - piece, MAX_RUN)
    return np.column_stack([*(column[at] for column in lead), cell[at], lengths, kind[at]])


def _block(table: schema.Table, rows: Ints) -> list[Any]:
    return [len(rows), LAYOUTS[table.name].encode(rows) if len(rows) else b""]
