"""The golden replays: how they were made, and what a reader must find in them.

``small.ecr`` (schema 1.0), ``smoke.ecr`` (1.1, with smoke clouds and point defence), ``insight.ecr`` (1.2, with policy
columns), ``rates.ecr`` (2.0, with positions predicted from speeds), ``edits.ecr`` (2.1, with every edit dated by its
tick) and ``reach.ecr`` (2.2, whose header says how far sensors reach) are committed and stay as they are: a later
version must still play them. The ``.json`` beside each says what is in it, for the tests here and for the viewer's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from echelon.replay.reader import Replay
from echelon.replay.record import PolicyColumnMode

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
DATED = FOLDER / "edits.ecr"
DATED_EXPECTED = FOLDER / "edits.json"
REACH = FOLDER / "reach.ecr"
REACH_EXPECTED = FOLDER / "reach.json"
MOTION_COLUMNS = ("tick", "x", "y", "z", "vx", "vy", "vz", "yaw", "stability")
INSIGHT_SECONDS, INSIGHT_CHUNK = 10.0, 2
REACH_SECONDS, REACH_CHUNK = 10.0, 2
POLICY_COLUMNS = ("flags", "action", "value", "reward", "contact", "sees")

EDGE, HEIGHT, SECONDS = 36, 12, 14.0
SMOKE_EDGE, SMOKE_HEIGHT, SMOKE_SECONDS, SMOKE_SEED = 48, 14, 30.0, 7


def record_small(path: Path) -> None:
    """Play a short match on a small map between scripted pilots and record it, its world embedded."""
    _record(path, (EDGE, HEIGHT, SECONDS), 2**30, ("scripted", "scripted"), ("legacy", "legacy"))


def record_smoke(path: Path) -> None:
    """The same between pilots who throw smoke and launch missiles; look that there is some of each."""
    _record(path, (SMOKE_EDGE, SMOKE_HEIGHT, SMOKE_SECONDS), SMOKE_SEED, ("hard", "expert"), ("hard", "expert"))


def record_insight(path: Path) -> None:
    """A short match with policy columns; a made-up estimate stands for a policy's."""
    levels = ("hard", "expert")
    _record(path, (EDGE, HEIGHT, INSIGHT_SECONDS), SMOKE_SEED, levels, levels, policy="values")


def record_rates(path: Path) -> None:
    """A short match of pilots who are always on the move."""
    levels = ("hard", "medium")
    _record(path, (EDGE, HEIGHT, SECONDS), 2**30, levels, levels)


def record_edits(path: Path) -> None:
    """A short match of pilots whose missiles and dead change the map; look that there are some edits."""
    levels = ("hard", "expert")
    _record(path, (EDGE, HEIGHT, SECONDS), SMOKE_SEED, levels, levels)


def record_reach(path: Path) -> None:
    """A short match of pilots who switch ECM and ECCM on; look that there is some of each."""
    levels = ("hard", "expert")
    _record(path, (EDGE, HEIGHT, REACH_SECONDS), SMOKE_SEED, levels, levels)


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
    with VectorEnv(1, cfg, learners="none", seeds=[seed], autoreset=False, initial_weapon_prob=1.0) as env:
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


def smoke_contents(path: Path) -> dict[str, Any]:
    """Return what a replay says of clouds and events: integers as they are stored."""
    return _tables(path, ("clouds", "events"))


def dated_contents(path: Path) -> dict[str, Any]:
    """Return what a replay says of the map's changes: integers as they are stored."""
    return _tables(path, ("edits", "base"))


def _tables(path: Path, tables: Sequence[str]) -> dict[str, Any]:
    with Replay(path) as replay:
        parts = [_chunk(replay, n) for n in range(len(replay.chunks))]
    kept = ("tick0", "tick1")
    return {"chunks": [{k: p[k] for k in kept} | {"tables": {t: p["tables"][t] for t in tables}} for p in parts]}


def insight_contents(path: Path) -> dict[str, Any]:
    """Return what one chunk says of its pilots: integers as they are stored."""
    return _some(path, INSIGHT_CHUNK, POLICY_COLUMNS)


def rates_contents(path: Path) -> dict[str, Any]:
    """Return what one chunk says of how mechs move: integers as they are stored."""
    return _some(path, RATES_CHUNK, MOTION_COLUMNS)


def reach_contents(path: Path) -> dict[str, Any]:
    """Return what a replay says of sensors, and what states its mechs are in."""
    with Replay(path) as replay:
        return {"sensing": replay.header["sensing"], **_some(path, REACH_CHUNK, ("flags",))}


def _some(path: Path, chunk: int, names: Sequence[str]) -> dict[str, Any]:
    with Replay(path) as replay:
        part = _chunk(replay, chunk)
    columns = {name: part["columns"][name] for name in names}
    return {"chunk": chunk, "tick0": part["tick0"], "tick1": part["tick1"], "columns": columns}


GOLDEN = (
    (SMALL, record_small, EXPECTED, contents),
    (SMOKE, record_smoke, SMOKE_EXPECTED, smoke_contents),
    (INSIGHT, record_insight, INSIGHT_EXPECTED, insight_contents),
    (RATES, record_rates, RATES_EXPECTED, rates_contents),
    (DATED, record_edits, DATED_EXPECTED, dated_contents),
    (REACH, record_reach, REACH_EXPECTED, reach_contents),
)
"""Each file, how it was made, where it is said what it holds, and how that is read from it."""


def update(*paths: Path) -> None:
    """Make these files anew, or all, which is due only when the major version changes."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, record, expected, read in GOLDEN:
        if path in (paths or [path]):
            record(path)
            expected.write_text(json.dumps(read(path), separators=(",", ":")) + "\n", encoding="utf-8")
