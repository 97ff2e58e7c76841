"""The small golden replay: how it was made, and what a reader must find in it.

``small.ecr`` is committed and stays as it is: a later version must still play it. ``small.json`` says what is in it,
for this package's tests and for the viewer's.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from echelon.replay.reader import Replay

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "replays"
SMALL = FOLDER / "small.ecr"
EXPECTED = FOLDER / "small.json"

EDGE, HEIGHT, SECONDS = 36, 12, 14.0


def record_small(path: Path) -> None:
    """Play a short match on a small map between scripted pilots and record it, its world embedded."""
    from echelon.config import EnvConfig
    from echelon.replay.header import Team
    from echelon.replay.record import Match, Recorder
    from echelon.training.vec_env import VectorEnv

    base = EnvConfig()
    world = replace(base.world, size_x=EDGE, size_y=EDGE, size_z=HEIGHT)
    cfg = replace(base, world=world, max_episode_seconds=SECONDS)
    teams = Team(name="Blue", level="scripted"), Team(name="Red", level="scripted")
    match = Match(name=path.stem, teams=teams, about={"created": 0.0, "run": "golden", "update": 0, "global_step": 0})
    with VectorEnv(1, cfg, learners="none", seeds=[2**30], autoreset=False, initial_weapon_prob=1.0) as env:
        env.reset()
        path.unlink(missing_ok=True)
        recorder = Recorder(env.engine, [0], path.parent, [match], embed_world=True)
        recorder.begin()
        while not recorder.outcomes:
            env.step()
            recorder.after_step()
        recorder.finish()


def contents(path: Path) -> dict[str, Any]:
    """Return everything in a replay as plain values: integers as they are stored."""
    with Replay(path) as replay:
        index = replay.timeline()
        kinds, cells = np.unique(replay.materials(), return_counts=True)
        return {
            "header": replay.header,
            "index": {"chunks": [list(chunk) for chunk in replay.chunks], **index},
            "world": {
                "sha256": replay.header["world"]["sha256"],
                "size": replay.header["world"]["size"],
                "counts": {str(int(kind)): int(count) for kind, count in zip(kinds, cells, strict=True)},
            },
            "chunks": [_chunk(replay, n) for n in range(len(replay.chunks))],
        }


def _chunk(replay: Replay, n: int) -> dict[str, Any]:
    chunk = replay.chunk(n)
    return {
        "tick0": chunk.ref.tick0,
        "tick1": chunk.ref.tick1,
        "frames": len(chunk.ticks),
        "columns": {name: values.reshape(-1).tolist() for name, values in chunk.frames.items()},
        "tables": {
            table: {name: values.tolist() for name, values in columns.items()}
            for table, columns in chunk.tables.items()
        },
        "hash": chunk.hash.hex(),
    }


def update() -> None:
    """Make both files anew, which is due only when the major version changes."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    record_small(SMALL)
    EXPECTED.write_text(json.dumps(contents(SMALL), separators=(",", ":")) + "\n", encoding="utf-8")
