"""Generator of hostile files: real replays and world files with wrong values, types, lengths and nesting, and right
checksums.

``hostile_replay`` and ``hostile_world`` build the same bytes for the same draws. A file is taken apart into its parts
(header, chunk bodies, rows of the index tables, world), some parts are changed, and the file is assembled again.
"""

import random
import zlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgpack
import numpy as np

from echelon.replay import codec
from echelon.replay.columns import Layout
from echelon.replay.schema import (
    ALIGNMENT,
    DTYPE_BYTES,
    END_MAGIC,
    HEAD,
    INDEX_TABLES,
    MAGIC,
    TRAILER_PAYLOAD,
    WORLD_HEAD,
    Codec,
    RecordType,
)
from tests.replay.golden import INSIGHT
from tests.replay.synthetic import write_match

NUMBERS = (
    -1, 0, 1, 2, 3, 255, 256, 2**15, 2**16, 2**20 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**64 - 1,
    -(2**31), -(2**63), 0.5, -0.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS = ("", "x", "tick", "events", "constructor", "__proto__", "../../../etc/passwd", "\x1b[31m", "é" * 3000, "0" * 64)
NESTED = 400
"""Depth of nested lists in a value, above that of every valid payload."""
MANY = 20_000
"""Entries of a long list of empty maps."""
MAX_BLOCK = 2**20
"""Most bytes that a block of a changed header is fitted to."""
INDEX_LAYOUTS = {table.name: Layout([column.to_header() for column in table.columns]) for table in INDEX_TABLES}


@dataclass
class Record:
    """A record before it is packed; ``None`` takes the right value."""

    kind: int
    payload: bytes
    codec: int = Codec.ZLIB
    ticks: tuple[int, int] = (0, 0)
    raw: int | None = None
    stored: int | None = None

    def pack(self) -> bytes:
        stored = zlib.compress(self.payload, 1) if self.codec == Codec.ZLIB else self.payload
        raw = len(self.payload) if self.raw is None else self.raw
        length = len(stored) if self.stored is None else self.stored
        head = HEAD.pack(self.kind, self.codec, 0, length, raw, *self.ticks, 0)[: codec.CRC_AT]
        crc = zlib.crc32(stored, zlib.crc32(head))
        return head + crc.to_bytes(4, "little") + stored + bytes(-len(stored) % ALIGNMENT)


@dataclass
class Parts:
    """Content of a replay."""

    header: Any
    world: bytes
    chunks: list[tuple[tuple[int, int], Any]]
    series: list[list[int]]
    markers: list[list[int]]
    win: list[list[int]]
    outcome: Any
    moments: Any
    closed: bool = True
    extra: dict[str, Any] = field(default_factory=dict)
    """Further entries of the index."""
    rows: dict[int, list[int]] = field(default_factory=dict)
    """Rows of the chunk index that replace the right ones."""
    records: list[Callable[[list[Record]], None]] = field(default_factory=list)
    """Changes of the records before they are packed."""


def pack(value: Any) -> bytes:
    try:
        return bytes(msgpack.packb(value, use_bin_type=True) or b"")
    except (ValueError, TypeError, OverflowError):
        return b"\xc0"


def disassemble(path: Path, chunks: int) -> Parts:
    records: dict[int, list[tuple[codec.RecordHead, bytes]]] = {}
    with open(path, "rb") as file:
        for head in codec.scan(file, path.stat().st_size):
            payload = codec.unpack_payload(head, codec.read_stored(file, head))
            records.setdefault(head.kind, []).append((head, payload))
    unpack = msgpack.unpackb
    index = unpack(records[RecordType.INDEX][0][1])
    tables = {
        table.name: INDEX_LAYOUTS[table.name].decode(block, rows).tolist()
        for table, (rows, block) in zip(INDEX_TABLES, index["t"], strict=True)
    }
    return Parts(
        header=unpack(records[RecordType.HEADER][0][1]),
        world=records[RecordType.WORLD][0][1],
        chunks=[((head.tick0, head.tick1), unpack(body)) for head, body in records[RecordType.CHUNK][:chunks]],
        series=tables["series"],
        markers=tables["markers"],
        win=tables["win"],
        outcome=index["outcome"],
        moments=index["moments"],
    )


@cache
def bases() -> tuple[Parts, ...]:
    with TemporaryDirectory() as folder:
        return disassemble(write_match(Path(folder) / "m.ecr", 2), 2), disassemble(INSIGHT, 1)


def assemble(parts: Parts) -> bytes:
    records = [Record(RecordType.HEADER, pack(parts.header)), Record(RecordType.WORLD, parts.world)]
    records += [Record(RecordType.CHUNK, pack(body), ticks=ticks) for ticks, body in parts.chunks]
    for change in parts.records:
        change(records)
    data, rows, world = MAGIC, [], None
    for record in records:
        packed = record.pack()
        if record.kind == RecordType.CHUNK:
            rows.append([len(data), len(packed), *record.ticks])
        elif record.kind == RecordType.WORLD:
            world = [len(data), len(packed)]
        data += packed
    if not parts.closed:
        return data
    for at, row in parts.rows.items():
        if at < len(rows):
            rows[at] = row
    tables = {"chunks": rows, "series": parts.series, "markers": parts.markers, "win": parts.win}
    blocks = [[len(values), encoded(name, values)] for name, values in tables.items()]
    index = {"t": blocks, "world": world, "outcome": parts.outcome, "moments": parts.moments, **parts.extra}
    end = len(data)
    data += Record(RecordType.INDEX, pack(index)).pack()
    return data + Record(RecordType.TRAILER, TRAILER_PAYLOAD.pack(end, END_MAGIC), codec=Codec.NONE).pack()


def encoded(name: str, rows: list[list[int]]) -> bytes:
    """Return rows of an index table as bytes."""
    layout = INDEX_LAYOUTS[name]
    return layout.encode(np.array(rows, np.int64).reshape(-1, layout.width)) if rows else b""


def hostile_value(draws: random.Random) -> Any:
    """Return a value that has no place in a replay, or is out of every range."""
    kind = draws.randrange(12)
    if kind < 5:
        return draws.choice(NUMBERS)
    if kind < 7:
        return draws.choice(TEXTS)
    if kind == 7:
        nested: Any = []
        for _ in range(draws.choice((1, 20, NESTED))):
            nested = [nested] if draws.random() < 0.5 else {"a": nested}
        return nested
    if kind == 8 and draws.random() < 0.1:
        return [{}] * MANY
    plain: tuple[Any, ...] = (None, True, False, b"", b"\0" * 9, [], {}, {1: 2}, {b"k": 1}, msgpack.ExtType(5, b"x"))
    return draws.choice(plain)


def mutate(value: Any, draws: random.Random) -> None:
    """Change one entry of a nested value in place: another value or type, deleted, repeated or added."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            break
        key = draws.choice(keys)
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and draws.random() < 0.8:
            value = inner
            continue
        kind = draws.randrange(8)
        if kind == 0:
            del value[key]
        elif kind == 1 and isinstance(value, list):
            value.extend([deepcopy(inner)] * draws.choice((1, 2, 70, 5000)))
        elif kind == 2 and isinstance(inner, (int, float)) and not isinstance(inner, bool):
            value[key] = draws.choice((str(inner), inner + 1, inner - 1, -inner, inner * 1000, [inner], bool(inner)))
        elif kind == 3 and isinstance(inner, bytes):
            value[key] = draws.choice((inner[:-1], inner + b"\0", bytes(len(inner)), inner[: len(inner) // 2], b""))
        elif kind == 4 and isinstance(inner, bytes) and inner:
            at = draws.randrange(len(inner))
            value[key] = inner[:at] + bytes([draws.randrange(256)]) + inner[at + 1 :]
        else:
            value[key] = hostile_value(draws)
        return
    if isinstance(value, dict):
        value["unknown"] = hostile_value(draws)


def fit_blocks(parts: Parts) -> None:
    """Give every chunk blocks of the size that the header's columns and the numbers of rows ask for, where possible."""
    try:
        mechs = parts.header["mechs"]
        entities = {"frame": 1, "team": 2, "mech": mechs}
        row = sum(entities[c["per"]] * c["k"] * DTYPE_BYTES[c["dtype"]] for c in parts.header["columns"])
        for _, body in parts.chunks:
            size = size_of(row, body["f"])
            if size is not None and len(body["c"]) != size:
                body["c"] = bytes(size)
            for block, table in zip(body["t"], parts.header["tables"], strict=False):
                size = size_of(sum(DTYPE_BYTES[c["dtype"]] for c in table["columns"]), block[0])
                if size is not None and len(block[1]) != size:
                    block[1] = bytes(size)
    except (KeyError, TypeError, IndexError, ValueError):
        return


def size_of(row: Any, rows: Any) -> int | None:
    """Return the bytes of rows of ``row`` bytes, None for numbers that have no block."""
    if not isinstance(row, int) or not isinstance(rows, int):
        return None
    return row * rows if 0 <= row * rows <= MAX_BLOCK else None


def _change_header(parts: Parts, draws: random.Random) -> None:
    mutate(parts.header, draws)


def _change_chunk(parts: Parts, draws: random.Random) -> None:
    mutate(draws.choice(parts.chunks)[1], draws)


def _change_ticks(parts: Parts, draws: random.Random) -> None:
    at = draws.randrange(len(parts.chunks))
    ticks = [draws.choice([t for t in NUMBERS if isinstance(t, int) and 0 <= t < 2**32]) for _ in range(2)]
    parts.chunks[at] = (
        draws.choice([(ticks[0], ticks[1]), (ticks[0], ticks[0] + 40 & 0xFFFFFFFF)]),
        parts.chunks[at][1],
    )


def _change_index_row(parts: Parts, draws: random.Random) -> None:
    numbers = [t for t in NUMBERS if isinstance(t, int) and 0 <= t < 2**32]
    row = [draws.choice(numbers) for _ in range(4)]
    parts.rows[draws.randrange(len(parts.chunks))] = row
    if draws.random() < 0.5 and parts.markers:
        parts.markers = parts.markers * draws.choice((1, 100, 1000))


def _change_index(parts: Parts, draws: random.Random) -> None:
    index = {"outcome": deepcopy(parts.outcome), "moments": deepcopy(parts.moments)}
    if draws.random() < 0.5:
        mutate(index, draws)
    else:
        index[draws.choice(("t", "world", "outcome", "moments"))] = hostile_value(draws)
    if draws.random() < 0.3:
        index["t"] = [
            [draws.choice(NUMBERS), draws.choice((b"", bytes(99), 5, None))] for _ in range(draws.randrange(5))
        ]
    parts.extra = index


def _change_records(parts: Parts, draws: random.Random) -> None:
    kind, at = draws.randrange(6), draws.random()
    claim = draws.choice((0, 1, 2**16, 2**24, 2**26, 2**26 + 1, 2**32 - 1))

    def change(records: list[Record]) -> None:
        record = records[int(at * len(records))]
        if kind == 0:
            record.raw = claim
        elif kind == 1:
            record.stored = claim
        elif kind == 2:
            record.kind = claim % 256
        elif kind == 3:
            record.codec = claim % 3
        elif kind == 4:
            records.append(record)
        else:
            records.remove(record)

    parts.records.append(change)


def _change_world(parts: Parts, draws: random.Random) -> None:
    size = [draws.choice((0, 1, 6, 10, 12, 400, 1024, 2**16, 2**32 - 1)) for _ in range(3)]
    world = WORLD_HEAD.pack(*size, 0) + parts.world[WORLD_HEAD.size :]
    world = draws.choice((world, parts.world[:7], b"", bytes([255]) * len(parts.world)))
    parts.world = world
    if draws.random() < 0.7 and isinstance(parts.header.get("world"), dict):
        parts.header["world"]["sha256"] = codec.world_hash(world)
        if draws.random() < 0.5:
            parts.header["world"]["size"] = size


def _add_extra(parts: Parts, draws: random.Random) -> None:
    state = {"v": 1, "a": {"hp": ["f4", [2, 3], bytes(24)], "seen": ["i4", [4], bytes(16)]}}
    seat = {"s": [0, 3], "a": [[2, 2, 5], bytes(20)]}
    kind, value = draws.choice(((RecordType.STATE, state), (RecordType.SEAT, seat)))
    mutate(value, draws)
    record = Record(kind, pack(value), ticks=draws.choice(((0, 0), (40, 40), (2**32 - 1, 0))))
    at = draws.randrange(2, 5)
    parts.records.append(lambda records: records.insert(at, record))


def _add_bomb(parts: Parts, draws: random.Random) -> None:
    filler = draws.choice((b"\x80", b"\x90", b"\xc0", b"\x81\xa1a", b"\x91", b"\xdd\x00\x0f\xff\xff", b"\xa0"))
    payload = (b"\x81\xa1a\xdd\x00\x0f\xff\xff" + filler * (draws.choice((2**12, 2**18, 2**20)) // len(filler)))[
        : 2**20
    ]
    kind = draws.choice((RecordType.HEADER, RecordType.CHUNK, RecordType.INDEX, RecordType.STATE))
    parts.records.append(lambda records: records.insert(0 if kind == RecordType.HEADER else 2, Record(kind, payload)))


CHANGES: tuple[tuple[Callable[[Parts, random.Random], None], int], ...] = (
    (_change_header, 40),
    (_change_chunk, 20),
    (_change_ticks, 6),
    (_change_index_row, 8),
    (_change_index, 12),
    (_change_records, 8),
    (_change_world, 5),
    (_add_extra, 8),
    (_add_bomb, 1),
)
"""Changes of a replay and their weights."""


def hostile_replay(draws: random.Random) -> bytes:
    parts = deepcopy(draws.choices(bases(), (3, 1))[0])
    parts.closed = draws.random() < 0.7
    changes, weights = zip(*CHANGES, strict=True)
    for change in draws.choices(changes, weights, k=draws.choice((1, 1, 2, 3))):
        if isinstance(parts.header, dict) and parts.chunks:
            change(parts, draws)
    if draws.random() < 0.6:
        fit_blocks(parts)
    return assemble(parts)
