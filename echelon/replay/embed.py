"""Replays with an embedded world, which can be shared as one file; and what is added to a file after its match."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from echelon.files import atomic_write
from echelon.replay import schema
from echelon.replay.codec import pack_map, pack_record
from echelon.replay.columns import Layout
from echelon.replay.reader import Replay
from echelon.replay.validate import Index

EXTRA = (schema.RecordType.STATE, schema.RecordType.SEAT)


def embed_world(replay: Replay) -> bytes:
    """Return the bytes of a replay with its world embedded; a file without INDEX stays without INDEX.

    States and seats that are damaged are left out.
    """
    header = schema.MAGIC + pack_record(schema.RecordType.HEADER, pack_map(replay.header))
    parts = [header, pack_record(schema.RecordType.WORLD, replay.load_world())]
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
        parts.append(_end(_index(replay.index, rows, world), at))
    return b"".join(parts)


def store_coaching(path: Path, found: Mapping[str, Any]) -> None:
    """Add a ``Coaching`` to a closed file, in place of an earlier one of the same side or mech.

    It is stored in a further INDEX behind the recording, whose bytes stay: branches name them by their hash.
    """
    with Replay(path) as replay:
        index, size = replay.index, replay.recorded_bytes
        if index is None:
            raise ValueError(f"replay {path.name!r} was not closed, expected a whole match")
        others = [one for one in index.coached if one["of"] != found["of"]]
        coached = [*others[1 - schema.MAX_COACHINGS :], dict(found)]
        body = _index(index, [list(ref) for ref in replay.chunks], index.world)
        atomic_write(path, replay.raw_bytes(0, size) + _end({**body, "coached": coached, "recorded": size}, size))


def _end(index: Mapping[str, Any], at: int) -> bytes:
    """Return INDEX and TRAILER for byte ``at`` of a file."""
    trailer = pack_record(
        schema.RecordType.TRAILER, schema.TRAILER_PAYLOAD.pack(at, schema.END_MAGIC), codec=schema.Codec.NONE
    )
    return pack_record(schema.RecordType.INDEX, pack_map(index)) + trailer


def _index(index: Index, chunks: list[list[int]], world: list[int] | None) -> dict[str, Any]:
    layout = Layout([column.to_header() for column in schema.CHUNK_INDEX.columns])
    blocks = {schema.CHUNK_INDEX.name: (len(chunks), layout.encode(np.array(chunks, np.int64)) if chunks else b"")}
    blocks |= index.blocks
    tables = [list(blocks[table.name]) for table in schema.INDEX_TABLES]
    coached = {"coached": index.coached} if index.coached else {}
    return {"t": tables, "world": world, "outcome": index.outcome, "moments": index.moments, **coached}
