"""Replays with an embedded world, which can be shared as one file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from echelon.replay.codec import pack_map, pack_record
from echelon.replay.columns import Layout
from echelon.replay.reader import Replay
from echelon.replay.schema import (
    CHUNK_INDEX,
    END_MAGIC,
    INDEX_TABLES,
    MAGIC,
    MARKER_TABLE,
    SERIES,
    TRAILER_PAYLOAD,
    Codec,
    RecordType,
)
from echelon.replay.timeline import pack_series


def embed_world(replay: Replay) -> bytes:
    """Return the bytes of a replay with its world embedded; a file without INDEX stays without INDEX."""
    out = io.BytesIO()
    out.write(MAGIC)
    out.write(pack_record(RecordType.HEADER, pack_map(replay.header)))
    world_offset = out.tell()
    out.write(pack_record(RecordType.WORLD, replay.load_world()))
    world = [world_offset, out.tell() - world_offset]
    chunks = []
    for number, ref in enumerate(replay.chunks):
        chunks.append([out.tell(), ref.length, ref.tick0, ref.tick1])
        out.write(replay.chunk_bytes(number))
    if replay.index is not None:
        offset = out.tell()
        out.write(pack_record(RecordType.INDEX, pack_map(_index(replay.index, chunks, world))))
        out.write(pack_record(RecordType.TRAILER, TRAILER_PAYLOAD.pack(offset, END_MAGIC), codec=Codec.NONE))
    return out.getvalue()


def _index(index: dict[str, Any], chunks: list[list[int]], world: list[int]) -> dict[str, Any]:
    rows = {
        CHUNK_INDEX.name: np.array(chunks, np.int64).reshape(-1, len(CHUNK_INDEX.columns)),
        SERIES.name: pack_series(index["series"]),
        MARKER_TABLE.name: np.array(index["markers"], np.int64).reshape(-1, len(MARKER_TABLE.columns)),
    }
    tables = []
    for table in INDEX_TABLES:
        layout, values = Layout([column.to_header() for column in table.columns]), rows[table.name]
        tables.append([len(values), layout.encode(values) if len(values) else b""])
    return {"t": tables, "world": world, "outcome": index["outcome"]}
