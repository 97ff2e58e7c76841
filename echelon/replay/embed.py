"""Replays with an embedded world, which can be shared as one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from echelon.replay.codec import pack_map, pack_record
from echelon.replay.columns import Layout
from echelon.replay.reader import Replay
from echelon.replay.schema import CHUNK_INDEX, END_MAGIC, INDEX_TABLES, MAGIC, TRAILER_PAYLOAD, Codec, RecordType
from echelon.replay.validate import Index

EXTRA = (RecordType.STATE, RecordType.SEAT)


@dataclass(frozen=True)
class Embedding:
    """A replay with its world embedded, apart from chunks, states and seats, which are copied from the file."""

    head: bytes
    parts: list[tuple[int, int]]
    """Offset and length in the file of those records, those beside each other as one."""
    tail: bytes


def embed_world(replay: Replay) -> bytes:
    """Return the bytes of a replay with its world embedded; a file without INDEX stays without INDEX."""
    made = plan_embedding(replay)
    return b"".join((made.head, *(replay.raw_bytes(*part) for part in made.parts), made.tail))


def plan_embedding(replay: Replay) -> Embedding:
    """Return a replay with its world embedded, its chunks checked but left in the file.

    States and seats are left there too, without those that are damaged.
    """
    header = MAGIC + pack_record(RecordType.HEADER, pack_map(replay.header))
    world = pack_record(RecordType.WORLD, replay.load_world())
    at = len(header) + len(world)
    chunks: list[list[int]] = []
    parts: list[tuple[int, int]] = []
    number_at = {ref.offset: number for number, ref in enumerate(replay.chunks)}
    extra = [head for kind in EXTRA for head in replay.extra_heads(kind)]
    lengths = {head.offset: head.length for head in extra if replay.is_whole(head)}
    for offset in sorted([*number_at, *lengths]):
        if offset in number_at:
            number = number_at[offset]
            ref = replay.chunks[number]
            length = len(replay.chunk_bytes(number))  # a cut may have removed the padding of the last one
            chunks.append([at, ref.length, ref.tick0, ref.tick1])
        else:
            length = lengths[offset]
        at += length
        if parts and sum(parts[-1]) == offset:
            parts[-1] = parts[-1][0], parts[-1][1] + length
        else:
            parts.append((offset, length))
    tail = b""
    if replay.index is not None:
        tail = pack_record(RecordType.INDEX, pack_map(_index(replay.index, chunks, [len(header), len(world)])))
        tail += pack_record(RecordType.TRAILER, TRAILER_PAYLOAD.pack(at, END_MAGIC), codec=Codec.NONE)
    return Embedding(header + world, parts, tail)


def _index(index: Index, chunks: list[list[int]], world: list[int]) -> dict[str, Any]:
    layout = Layout([column.to_header() for column in CHUNK_INDEX.columns])
    blocks = {CHUNK_INDEX.name: (len(chunks), layout.encode(np.array(chunks, np.int64)) if chunks else b"")}
    blocks |= index.blocks
    tables = [list(blocks[table.name]) for table in INDEX_TABLES]
    return {"t": tables, "world": world, "outcome": index.outcome, "moments": index.moments}
