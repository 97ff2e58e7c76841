"""Copies of replays with other records in place of some of theirs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from echelon.replay import codec
from echelon.replay.reader import Replay


def with_records(path: Path, folder: Path, records: Mapping[int, bytes], tail: bytes = b"") -> Path:
    """Return a copy of a replay without its index, with other bytes for the records at some offsets, and a tail."""
    if (path.parent / "worlds").is_dir():
        shutil.copytree(path.parent / "worlds", folder / "worlds", dirs_exist_ok=True)
    with Replay(path) as replay:
        end = replay.chunks[-1].offset + replay.chunks[-1].length
    data, parts, at = path.read_bytes(), [], 0
    for offset in sorted(records):
        parts += [data[at:offset], records[offset]]
        at = offset + codec.parse_head(data[offset:], offset).length
    folder.mkdir(exist_ok=True)
    target = folder / path.name
    target.write_bytes(b"".join([*parts, data[at:end], tail]))
    return target
