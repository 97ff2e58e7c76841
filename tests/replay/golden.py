"""Golden replays: how they were recorded, and their expected content.

``small.ecr`` has scripted pilots on a small map, ``smoke.ecr`` smoke clouds and point defence, its ``.json`` also
figures of mechs at some ticks, ``insight.ecr`` policy columns, ``rates.ecr`` pilots that move constantly, ``edits.ecr``
changes of the map, ``reach.ecr`` ECM and ECCM, and ``states.ecr`` actions and a state. The ``.json`` beside each has
its expected content for the tests here and of the viewer. ``update()`` records them again, which a new major version
needs.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from echelon.replay.extra_records import read_state, state_heads
from echelon.replay.figures import figures_at
from echelon.replay.reader import Replay
from echelon.replay.record import PolicyColumnMode

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "replays"
SMALL = FOLDER / "small.ecr"
EXPECTED = SMALL.with_suffix(".json")
SMOKE, INSIGHT, RATES, EDITS, REACH, STATES = (
    FOLDER / f"{name}.ecr" for name in ("smoke", "insight", "rates", "edits", "reach", "states")
)
MOTION_COLUMNS = ("tick", "x", "y", "z", "vx", "vy", "vz", "yaw", "stability")
POLICY_COLUMNS = ("flags", "action", "value", "reward", "contact", "sees")


@dataclass(frozen=True, kw_only=True)
class Golden:
    """How a replay was recorded, and how its expected content is read."""

    path: Path
    read: Callable[[Path], dict[str, Any]]
    seed: int = 7
    edge: int = 36
    height: int = 12
    seconds: float = 10.0
    packs: int = 1
    levels: tuple[str, str] = ("hard", "expert")
    policy: PolicyColumnMode = "none"

    @property
    def expected(self) -> Path:
        return self.path.with_suffix(".json")

    def record(self) -> None:
        from echelon.agents.heuristic import script_of
        from echelon.replay.header import TeamInfo
        from echelon.replay.record import MatchInfo, Recorder
        from tests.replay.battles import battle, config

        limits = {"max_episode_seconds": self.seconds, "num_packs": self.packs}
        cfg = config(edge=self.edge, height=self.height, **limits)
        blue, red = (TeamInfo(name=name, level=level) for name, level in zip(("Blue", "Red"), self.levels, strict=True))
        about = {"created": 0.0, "run": "golden", "update": 0, "global_step": 0}
        match = MatchInfo(name=self.path.stem, teams=(blue, red), about=about)
        with battle(cfg, seed=self.seed) as env:
            scripts = [[script_of(level)] * cfg.team_size for level in self.levels]
            env.engine.batch.set("script", np.array([sum(scripts, [])], np.int32))
            env.reset()
            self.path.unlink(missing_ok=True)
            recorder = Recorder(env.engine, [0], self.path.parent, [match], embed_world=True, policy=self.policy)
            recorder.begin()
            while not recorder.outcomes:
                env.engine.batch["value"].fill_(float(env.engine.batch.numpy("score")[0, 0]) - 0.5)
                env.step()
                recorder.after_step()
            recorder.finish()


def contents(path: Path) -> dict[str, Any]:
    """Return the complete content of a replay; columns as stored integers."""
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


def _tables(path: Path, tables: Sequence[str]) -> dict[str, Any]:
    with Replay(path) as replay:
        parts = [_chunk(replay, n) for n in range(len(replay.chunks))]
    ticks = ("tick0", "tick1")
    return {"chunks": [{k: p[k] for k in ticks} | {"tables": {t: p["tables"][t] for t in tables}} for p in parts]}


def smoke_contents(path: Path) -> dict[str, Any]:
    with Replay(path) as replay:
        figures = {
            str(tick): {name: values.tolist() for name, values in figures_at(replay, tick).items()}
            for tick in (0, 37, 300, 413, replay.ticks)
        }
    return {**_tables(path, ("clouds", "events")), "figures": figures}


def reach_contents(path: Path) -> dict[str, Any]:
    with Replay(path) as replay:
        return {"sensing": replay.header["sensing"], **_columns(path, 2, ("flags",))}


def states_contents(path: Path) -> dict[str, Any]:
    with Replay(path) as replay:
        header = {key: replay.header[key] for key in ("actions", "pilots")}
        records = [read_state(replay, head) for head in state_heads(replay)]
    states = {str(record.tick): {name: _described(v) for name, v in record.arrays.items()} for record in records}
    return {**header, "states": states, **_columns(path, 5, ("action",))}


def _described(values: np.ndarray) -> list[Any]:
    return [values.dtype.str, list(values.shape), hashlib.sha256(values.tobytes()).hexdigest()[:16]]


def _columns(path: Path, chunk: int, names: Sequence[str]) -> dict[str, Any]:
    with Replay(path) as replay:
        part = _chunk(replay, chunk)
    columns = {name: part["columns"][name] for name in names}
    return {"chunk": chunk, "tick0": part["tick0"], "tick1": part["tick1"], "columns": columns}


GOLDEN = (
    Golden(path=SMALL, read=contents, seed=2**30, seconds=14.0, levels=("medium", "medium")),
    Golden(path=SMOKE, read=smoke_contents, edge=48, height=14, seconds=30.0),
    Golden(path=INSIGHT, read=lambda p: _columns(p, 2, POLICY_COLUMNS), policy="values"),
    Golden(
        path=RATES, read=lambda p: _columns(p, 3, MOTION_COLUMNS), seed=2**30, seconds=14.0, levels=("hard", "medium")
    ),
    Golden(path=EDITS, read=lambda p: _tables(p, ("edits", "base")), seconds=14.0),
    Golden(path=REACH, read=reach_contents),
    Golden(path=STATES, read=states_contents, seconds=12.0, levels=("trivial", "trivial"), policy="actions"),
)


def update(*paths: Path) -> None:
    for golden in GOLDEN:
        if golden.path in (paths or [golden.path]):
            golden.record()
            text = json.dumps(golden.read(golden.path), separators=(",", ":")) + "\n"
            golden.expected.write_text(text, encoding="utf-8")
