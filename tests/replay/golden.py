"""Golden replays: how they were recorded, and their expected content.

``small.ecr`` has scripted pilots on a small map, ``smoke.ecr`` smoke clouds and point defence, ``insight.ecr`` policy
columns, ``rates.ecr`` pilots that move constantly, ``edits.ecr`` changes of the map, ``reach.ecr`` ECM and ECCM, and
``states.ecr`` actions and a state. The ``.json`` beside each has its expected content for the tests here and of the
viewer. ``update()`` records them again, which a new major version needs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from echelon.replay.extra_records import read_state, state_heads
from echelon.replay.reader import Replay
from echelon.replay.record import PolicyColumnMode
from echelon.training.batch_options import Episodes, Pilots, Sides

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "replays"
SMALL = FOLDER / "small.ecr"
EXPECTED = FOLDER / "small.json"
SMOKE = FOLDER / "smoke.ecr"
SMOKE_EXPECTED = FOLDER / "smoke.json"
INSIGHT = FOLDER / "insight.ecr"
INSIGHT_EXPECTED = FOLDER / "insight.json"
RATES = FOLDER / "rates.ecr"
RATES_EXPECTED = FOLDER / "rates.json"
RATES_CHUNK = 3
EDITS = FOLDER / "edits.ecr"
EDITS_EXPECTED = FOLDER / "edits.json"
REACH = FOLDER / "reach.ecr"
REACH_EXPECTED = FOLDER / "reach.json"
STATES = FOLDER / "states.ecr"
STATES_EXPECTED = FOLDER / "states.json"
MOTION_COLUMNS = ("tick", "x", "y", "z", "vx", "vy", "vz", "yaw", "stability")
INSIGHT_SECONDS, INSIGHT_CHUNK = 10.0, 2
REACH_SECONDS, REACH_CHUNK = 10.0, 2
STATES_SECONDS, STATES_CHUNK = 12.0, 5
POLICY_COLUMNS = ("flags", "action", "value", "reward", "contact", "sees")

EDGE, HEIGHT, SECONDS = 36, 12, 14.0
SMOKE_EDGE, SMOKE_HEIGHT, SMOKE_SECONDS, SMOKE_SEED = 48, 14, 30.0, 7


def record_small(path: Path) -> None:
    _record(path, (EDGE, HEIGHT, SECONDS), 2**30, ("medium", "medium"), ("medium", "medium"))


def record_smoke(path: Path) -> None:
    """Record a match with smoke clouds and missiles; check that both occur."""
    _record(path, (SMOKE_EDGE, SMOKE_HEIGHT, SMOKE_SECONDS), SMOKE_SEED, ("hard", "expert"), ("hard", "expert"))


def record_insight(path: Path) -> None:
    levels = ("hard", "expert")
    _record(path, (EDGE, HEIGHT, INSIGHT_SECONDS), SMOKE_SEED, levels, levels, policy="values")


def record_rates(path: Path) -> None:
    levels = ("hard", "medium")
    _record(path, (EDGE, HEIGHT, SECONDS), 2**30, levels, levels)


def record_edits(path: Path) -> None:
    """Record a short match in which missiles and wrecks change the map; check that there are edits."""
    levels = ("hard", "expert")
    _record(path, (EDGE, HEIGHT, SECONDS), SMOKE_SEED, levels, levels)


def record_reach(path: Path) -> None:
    """Record a short match with ECM and ECCM; check that both occur."""
    levels = ("hard", "expert")
    _record(path, (EDGE, HEIGHT, REACH_SECONDS), SMOKE_SEED, levels, levels)


def record_states(path: Path) -> None:
    levels = ("trivial", "trivial")
    _record(path, (EDGE, HEIGHT, STATES_SECONDS), SMOKE_SEED, levels, levels, policy="actions")


def _record(
    path: Path,
    size: tuple[int, int, float],
    seed: int,
    levels: tuple[str, str],
    pilots: tuple[str, str],
    policy: PolicyColumnMode = "none",
) -> None:
    from echelon.agents.heuristic import script_of
    from echelon.config import EnvConfig
    from echelon.replay.header import TeamInfo
    from echelon.replay.record import MatchInfo, Recorder
    from echelon.training.vec_env import VectorEnv

    edge, height, seconds = size
    base = EnvConfig()
    world = replace(base.world, size_x=edge, size_y=edge, size_z=height)
    cfg = replace(base, world=world, max_episode_seconds=seconds)
    teams = TeamInfo(name="Blue", level=levels[0]), TeamInfo(name="Red", level=levels[1])
    match = MatchInfo(
        name=path.stem, teams=teams, about={"created": 0.0, "run": "golden", "update": 0, "global_step": 0}
    )
    with VectorEnv(
        1, cfg, sides=Sides("none"), pilots=Pilots(weapon_prob=1.0), episodes=Episodes(seeds=[seed], autoreset=False)
    ) as env:
        scripts = [[script_of(pilot)] * cfg.team_size for pilot in pilots]
        env.engine.batch.set("script", np.array([sum(scripts, [])], np.int32))
        env.reset()
        path.unlink(missing_ok=True)
        recorder = Recorder(env.engine, [0], path.parent, [match], embed_world=True, policy=policy)
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


def smoke_contents(path: Path) -> dict[str, Any]:
    return _tables(path, ("clouds", "events"))


def edits_contents(path: Path) -> dict[str, Any]:
    return _tables(path, ("edits", "base"))


def _tables(path: Path, tables: Sequence[str]) -> dict[str, Any]:
    with Replay(path) as replay:
        parts = [_chunk(replay, n) for n in range(len(replay.chunks))]
    ticks = ("tick0", "tick1")
    return {"chunks": [{k: p[k] for k in ticks} | {"tables": {t: p["tables"][t] for t in tables}} for p in parts]}


def insight_contents(path: Path) -> dict[str, Any]:
    return _chunk_columns(path, INSIGHT_CHUNK, POLICY_COLUMNS)


def rates_contents(path: Path) -> dict[str, Any]:
    return _chunk_columns(path, RATES_CHUNK, MOTION_COLUMNS)


def reach_contents(path: Path) -> dict[str, Any]:
    with Replay(path) as replay:
        return {"sensing": replay.header["sensing"], **_chunk_columns(path, REACH_CHUNK, ("flags",))}


def states_contents(path: Path) -> dict[str, Any]:
    with Replay(path) as replay:
        header = {key: replay.header[key] for key in ("actions", "pilots")}
        records = [read_state(replay, head) for head in state_heads(replay)]
    states = {str(record.tick): {name: _described(v) for name, v in record.arrays.items()} for record in records}
    return {**header, "states": states, **_chunk_columns(path, STATES_CHUNK, ("action",))}


def _described(values: np.ndarray) -> list[Any]:
    return [values.dtype.str, list(values.shape), hashlib.sha256(values.tobytes()).hexdigest()[:16]]


def _chunk_columns(path: Path, chunk: int, names: Sequence[str]) -> dict[str, Any]:
    with Replay(path) as replay:
        part = _chunk(replay, chunk)
    columns = {name: part["columns"][name] for name in names}
    return {"chunk": chunk, "tick0": part["tick0"], "tick1": part["tick1"], "columns": columns}


GOLDEN = (
    (SMALL, record_small, EXPECTED, contents),
    (SMOKE, record_smoke, SMOKE_EXPECTED, smoke_contents),
    (INSIGHT, record_insight, INSIGHT_EXPECTED, insight_contents),
    (RATES, record_rates, RATES_EXPECTED, rates_contents),
    (EDITS, record_edits, EDITS_EXPECTED, edits_contents),
    (REACH, record_reach, REACH_EXPECTED, reach_contents),
    (STATES, record_states, STATES_EXPECTED, states_contents),
)
"""Replay file, recording function, file of its expected content, and function that reads the content."""


def update(*paths: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, record, expected, read in GOLDEN:
        if path in (paths or [path]):
            record(path)
            expected.write_text(json.dumps(read(path), separators=(",", ":")) + "\n", encoding="utf-8")
