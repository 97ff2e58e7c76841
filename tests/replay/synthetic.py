"""Synthetic matches: header and chunks without a simulator; and copies of replays with other records."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.replay import codec
from echelon.replay.codec import ReplayError
from echelon.replay.header import TeamInfo, header_tables
from echelon.replay.reader import Replay
from echelon.replay.schema import EventKind
from echelon.replay.writer import MatchWriter, world_payload
from echelon.version import SIM_VERSION

MECHS = 4
STRIDE, FRAME_TICKS, HZ = 8, 5, 20
SIZE = (12, 10, 6)
"""x, y, z of the world [vox]."""
SENSING = {"radar": [30.0] * 4, "ewar": 20.0, "ecm": 1.0, "eccm": 1.0, "own_eccm": True, "quality": [0.2, 2.0]}


def message(call, *arguments) -> str:
    """Return the whole message of the ``ReplayError`` that a call raises."""
    with pytest.raises(ReplayError) as caught:
        call(*arguments)
    return str(caught.value)


def header(**changes: Any) -> dict[str, Any]:
    """Return the header of a 2v2 match."""
    roster = [
        {"team": m // 2, "pack": 0, "chassis": m, "name": f"{'BR'[m // 2]}{m % 2 + 1}", "present": True}
        for m in range(MECHS)
    ]
    return {
        "schema": [3, 0], "created": 0.0, "echelon": "0", "sim_version": SIM_VERSION, "tick_hz": HZ,
        "frame_ticks": FRAME_TICKS, "chunk_ticks": STRIDE * FRAME_TICKS, "mechs": MECHS,
        "teams": [TeamInfo(name=name).to_header() for name in ("blue", "red")], "seed": 1, "map_seed": 1, "env": 0,
        "run": "", "update": 0, "global_step": 0, "duration_s": 60.0, "score_to_win": 30.0, "zone": [6.0, 5.0, 2.0],
        "roster": roster, "cloud": {"radius": 3.0, "life_s": 8.0}, "sensing": SENSING, "without": [], "changes": {},
        **header_tables(), "config": {}, **changes,
    }  # fmt: skip


def material(seed: int = 0) -> np.ndarray:
    """Return a world ``[z, y, x]`` of random materials."""
    x, y, z = SIZE
    return np.random.default_rng(seed).integers(0, 10, (z, y, x)).astype(np.uint8)


def frames(start: int, count: int, rng: np.random.Generator, width: int) -> np.ndarray:
    """Return rows of frames ``[F, W]`` from frame number ``start`` on."""
    rows = rng.integers(0, 100, (count, width))
    rows[:, 0] = (start + np.arange(count)) * FRAME_TICKS
    return rows


def write_match(
    path: Path, chunks: int = 5, *, worlds: Path | None = None, closed: bool = True, **changes: Any
) -> Path:
    """Write a match of ``chunks`` chunks, each with a hit, a kill and two changed voxels."""
    rng = np.random.default_rng(7)
    writer = MatchWriter(path, header(**changes), world_payload(material()), worlds=worlds)
    rows = frames(0, 1, rng, writer.layout.width)
    for n in range(chunks):
        rows = np.concatenate([rows[-1:], frames(n * STRIDE + 1, STRIDE, rng, writer.layout.width)])
        tick = int(rows[1, 0])
        events = np.array([[tick, EventKind.HIT, 0, 2, 0, 60, 0, 0, 0, 0], [tick, EventKind.KILL, 0, 2, -1] + [0] * 5])
        edits = np.array([[tick, 7 * n, 5], [tick, 7 * n + 1, 5]])
        writer.chunk(rows, {"events": events, "edits": edits})
    if closed:
        writer.close(winner=0, reason="elimination")
    else:
        writer.abandon()
    return path


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
