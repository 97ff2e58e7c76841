"""Replays with an embedded world, which can be shared as one file."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.replay.codec import pack_map, pack_record
from echelon.replay.columns import Layout
from echelon.replay.reader import Replay
from echelon.replay.schema import CHUNK_INDEX, END_MAGIC, INDEX_TABLES, MAGIC, TRAILER_PAYLOAD, Codec, RecordType
from echelon.replay.validate import Index

EXTRA = (RecordType.STATE, RecordType.SEAT)


def embed_world(replay: Replay) -> bytes:
    """Return the bytes of a replay with its world embedded; a file without INDEX stays without INDEX.

    States and seats that are damaged are left out.
    """
    header = MAGIC + pack_record(RecordType.HEADER, pack_map(replay.header))
    parts = [header, pack_record(RecordType.WORLD, replay.load_world())]
    at, world, rows = sum(map(len, parts)), [len(header), len(parts[1])], []
    number_at = {ref.offset: number for number, ref in enumerate(replay.chunks)}
    extra = [head for kind in EXTRA for head in replay.extra_heads(kind)]
    lengths = {head.offset: head.length for head in extra if replay.is_whole(head)}
    for offset in sorted([*number_at, *lengths]):
        if offset in number_at:
            ref = replay.chunks[number_at[offset]]
            rows.append([at, ref.length, ref.tick0, ref.tick1])
            parts.append(replay.chunk_bytes(number_at[offset]))
        else:
            parts.append(replay.raw_bytes(offset, lengths[offset]))
        at += len(parts[-1])  # a cut may have removed the padding of the last chunk
    if replay.index is not None:
        parts.append(pack_record(RecordType.INDEX, pack_map(_index(replay.index, rows, world))))
        parts.append(pack_record(RecordType.TRAILER, TRAILER_PAYLOAD.pack(at, END_MAGIC), codec=Codec.NONE))
    return b"".join(parts)


def _index(index: Index, chunks: list[list[int]], world: list[int]) -> dict[str, Any]:
    layout = Layout([column.to_header() for column in CHUNK_INDEX.columns])
    blocks = {CHUNK_INDEX.name: (len(chunks), layout.encode(np.array(chunks, np.int64)) if chunks else b"")}
    blocks |= index.blocks
    tables = [list(blocks[table.name]) for table in INDEX_TABLES]
    return {"t": tables, "world": world, "outcome": index.outcome, "moments": index.moments}
