"""Verification of replays: reproduction from actions, and reports of changed content."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.arena.contest import Contest, MatchSession
from echelon.arena.match_runner import play
from echelon.arena.reconstruct import config_from_header
from echelon.arena.verify import compare, replay_actions, verify
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.gen.bank import build_bank_for
from echelon.replay import codec, schema
from echelon.replay.columns import Layout, bounds
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import TABLES, RecordType
from echelon.replay.writer import MatchWriter
from echelon.sim.arsenal import Mechanic
from echelon.version import SIM_VERSION
from tests.replay.battles import config
from tests.replay.golden import SMALL
from tests.replay.synthetic import with_records

SEED = 9
"""Seed of the first match; shots, smoke and map edits fall into the chunk that the tests change."""


def matches(folder: Path, nav_mode: str = "off", **session) -> list[Path]:
    cfg = config(max_episode_seconds=10.0, nav_mode=nav_mode)
    contest = Contest(env=cfg, pilots=("hard", "expert"), matches=3, first_seed=SEED)
    played = MatchSession(folder=folder, record=frozenset(range(3)), **session)
    list(play(contest.plan, contest.pairings(), played))
    return [played.replays[number] for number in sorted(played.replays)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return matches(tmp_path_factory.mktemp("verify"), envs=3, threads=2, policy_columns=True)


@pytest.fixture(scope="module")
def played(recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    with Replay(recorded[0]) as replay:
        path = replay_actions(replay, tmp_path_factory.mktemp("again"), "cpu")
    with Replay(path) as again:
        yield again


def divergence(path: Path, played: Replay):
    with Replay(path) as replay:
        return compare(replay, played).first


@pytest.mark.parametrize("number", range(3))
def test_verify_accepts_match_recorded_in_batch(recorded, number):
    verdict = verify(recorded[number])
    assert verdict.ok and verdict.first is None and verdict.largest == 0.0
    with Replay(recorded[number]) as replay:
        assert verdict.chunks == len(replay.chunks) >= 3


def test_verify_refuses_match_of_another_simulation_version(recorded, monkeypatch):
    monkeypatch.setattr("echelon.arena.reconstruct.SIM_VERSION", SIM_VERSION + 1)
    with pytest.raises(ValueError, match=rf"version {SIM_VERSION}, expected {SIM_VERSION + 1}: .* the Echelon of 20"):
        verify(recorded[0])


def test_verify_accepts_match_with_navigation_assist(tmp_path):
    (path, *_) = matches(tmp_path, "assist", envs=3, threads=1, policy_columns=True)
    verdict = verify(path)
    assert verdict.ok and verdict.largest == 0.0
    with Replay(path) as replay:
        assert config_from_header(replay.header).nav_mode == "assist"


def test_recordings_are_independent_of_batch_and_threads(recorded, tmp_path):
    clouds = edits = 0
    for path, other in zip(recorded, matches(tmp_path, envs=1, threads=1, policy_columns=True), strict=True):
        with Replay(path) as one, Replay(other) as two:
            assert compare(one, two).ok and len(one.chunks) == len(two.chunks)
            tables = [one.chunk(n).tables for n in range(len(one.chunks))]
        clouds += sum(len(chunk["clouds"]["tick"]) for chunk in tables)
        edits += sum(len(chunk["edits"]["tick"]) for chunk in tables)
    assert clouds and edits


def tampered(path: Path, folder: Path, change, **about) -> Path:
    """Return a copy of a replay with frames changed by ``change(number, columns)`` and header entries ``about``."""
    target = folder / path.name
    shutil.copytree(path.parent / "worlds", folder / "worlds", dirs_exist_ok=True)
    with Replay(path) as replay:
        header = {key: value for key, value in replay.header.items() if key != "world"} | about
        writer = MatchWriter(target, header, replay.world)
        for number in range(len(replay.chunks)):
            chunk = replay.chunk(number)
            frames = np.concatenate([chunk.frames[c["name"]] for c in header["columns"]], axis=1)
            frames[:, 0] += chunk.ref.tick0
            parts = {name: frames[:, part] for name, part in writer.layout.parts.items()}
            change(number, parts)
            tables = {t.name: np.stack(list(chunk.tables[t.name].values()), axis=1) for t in TABLES}
            for name in ("events", "clouds"):
                tables[name][:, 0] += chunk.ref.tick0
            tables["edits"] = unrolled(tables["edits"], chunk.ref.tick0)
            writer.chunk(frames, tables)
        writer.close()
    return target


def unrolled(rows, tick0):
    cells = [[t + tick0, c + i, kind] for t, c, run, kind in rows.tolist() for i in range(run)]
    return np.array(cells, np.int64).reshape(-1, 3)


CHANGED, FRAME, MECH = 2, 4, 3
"""Chunk, frame and mech that the tests change."""
PLAYED = ("tick", "score", "x", "flags", "cooldown", "action", "sees")
"""A simulated frame column of each form."""


def forged(path: Path, folder: Path, change=lambda columns, tables, header: None, **entries: bytes) -> Path:
    """Return a copy with a chunk changed by ``change(columns, tables, header)`` and other ``entries``, by default with
    an unchanged hash."""
    with Replay(path) as replay:
        ref, chunk, header = replay.chunks[CHANGED], replay.chunk(CHANGED), replay.header
        record = replay.chunk_bytes(CHANGED)
    head = codec.parse_head(record)
    body = codec.unpack_map(codec.unpack_payload(head, record[schema.HEAD.size :][: head.stored]))
    layout = Layout(header["columns"], header["mechs"])
    rows = np.concatenate([chunk.frames[c["name"]] for c in header["columns"]], axis=1)
    tables = {name: np.stack(list(columns.values()), axis=1) for name, columns in chunk.tables.items()}
    change(layout.split(rows), tables, header)
    layouts = [Layout(table["columns"]) for table in header["tables"]]
    body["c"] = layout.encode(rows)
    body["t"] = [[len(r), part.encode(r) if len(r) else b""] for r, part in zip(tables.values(), layouts, strict=True)]
    packed = codec.pack_map({**body, **entries})
    record = codec.pack_record(RecordType.CHUNK, packed, ticks=(head.tick0, head.tick1))
    return with_records(path, folder, {ref.offset: record})


@pytest.mark.parametrize("name", PLAYED)
def test_compare_reports_changed_frame_column(recorded, played, tmp_path, name):
    def change(columns, tables, header):
        spec = next(c for c in header["columns"] if c["name"] == name)
        at = MECH * spec["k"] if spec["per"] == "mech" else 0
        low, high = bounds(spec["dtype"])
        old = int(columns[name][FRAME, at])
        columns[name][FRAME, at] = old - 1 if old >= high or (name == "tick") else old + 1
        assert low <= columns[name][FRAME, at] <= high

    path = forged(recorded[0], tmp_path, change)
    first = divergence(path, played)
    with Replay(path) as replay:
        spec = next(c for c in replay.header["columns"] if c["name"] == name)
        mech = replay.header["roster"][MECH]["name"] if spec["per"] == "mech" else ""
        tick = int(replay.chunk(CHANGED).ticks[FRAME])
    assert first is not None
    assert (first.chunk, first.tick, first.field, first.mech) == (CHANGED, tick, name, mech)
    assert abs(abs(first.recorded - first.played) - spec["scale"]) < 1e-9


TABLE_COLUMNS = [("events", "tick"), ("events", "value"), ("rounds", "frame"), ("rounds", "yaw"), ("edits", "cell")]


@pytest.mark.parametrize(("table", "column"), TABLE_COLUMNS)
def test_compare_reports_changed_table_row(recorded, played, tmp_path, table, column):
    seen = {}

    def change(columns, tables, header):
        rows = tables[table]
        specs = next(t for t in header["tables"] if t["name"] == table)["columns"]
        i = [c["name"] for c in specs].index(column)
        at = len(rows) // 2
        rows[at, i] += 1 if rows[at, i] < bounds(specs[i]["dtype"])[1] else -1
        seen["row"] = dict(zip([c["name"] for c in specs], rows[at].tolist(), strict=True))

    path = forged(recorded[0], tmp_path, change)
    first = divergence(path, played)
    with Replay(path) as replay:
        chunk = replay.chunk(CHANGED)
    when = seen["row"]
    tick = chunk.ref.tick0 + when["tick"] if "tick" in when else int(chunk.ticks[when["frame"]])
    assert first is not None
    assert (first.chunk, first.tick, first.field) == (CHANGED, tick, f"{table}.{column}")
    assert abs(first.recorded - first.played) == 1


def test_compare_reports_missing_table_row(recorded, played, tmp_path):
    def change(columns, tables, header):
        tables["events"] = tables["events"][:-1]

    first = divergence(forged(recorded[0], tmp_path, change), played)
    assert first is not None and (first.chunk, first.field) == (CHANGED, "events")
    assert first.played - first.recorded == 1


def test_compare_reports_forged_hash(recorded, played, tmp_path):
    first = divergence(forged(recorded[0], tmp_path, h=bytes(8)), played)
    with Replay(recorded[0]) as replay:
        tick = replay.chunks[CHANGED].tick1
    assert first is not None and (first.chunk, first.tick, first.field) == (CHANGED, tick, "hash")


def test_verify_reports_divergence_after_changed_action(recorded, tmp_path):
    def change(number, parts):
        if number == 1:
            parts["action"][3, 0] = -parts["action"][3, 0] + 60

    path = tampered(recorded[0], tmp_path, change)
    verdict = verify(path, tolerant=True)
    assert verdict.largest > 0


def test_tolerant_mode_accepts_small_and_rejects_large_deviations(recorded, tmp_path):
    def near(number, parts):
        parts["x"][...] += 8  # half a voxel

    def far(number, parts):
        if number == 1:
            parts["y"][2:, 0] += 40

    assert verify(tampered(recorded[1], tmp_path / "near", near), tolerant=True).ok
    first = verify(tampered(recorded[1], tmp_path / "far", far), tolerant=True).first
    assert first is not None and (first.chunk, first.field) == (1, "y")
    assert abs(first.recorded - first.played) == 2.5


def test_verify_rejects_replay_without_actions_or_of_other_map(recorded, tmp_path):
    with pytest.raises(ValueError, match="has no actions"):
        verify(SMALL)

    with Replay(recorded[0]) as replay:
        header = {key: value for key, value in replay.header.items() if key != "world"}
        writer = MatchWriter(tmp_path / "m.ecr", {**header, "map_seed": 12345}, replay.world)
        writer.abandon()
    with pytest.raises(ValueError, match="generates it differently"):
        verify(tmp_path / "m.ecr")


def test_config_from_header_restores_env_config():
    cfg = config(max_episode_seconds=10.0)
    assert (
        config_from_header(
            {"config": {"max_episode_seconds": 10.0, "world.size_x": 36, "world.size_y": 36, "world.size_z": 12}}
        )
        == cfg
    )
    assert config_from_header({"config": {}}) == EnvConfig()
    with pytest.raises(ValueError, match="expected a field of this version"):
        config_from_header({"config": {"world.colour": 1}})


def test_verify_accepts_disabled_mechanics_and_overrides(tmp_path):
    cfg = config(max_episode_seconds=5.0)
    changes = ({}, {"laser.damage": 28.0, "medium.hp": 90.0, "physics.smoke_life_s": 4.0})
    engine = Engine(cfg, 2, build_bank_for(cfg, [7]), autoreset=False, changes=changes, pilots=heuristic.install)
    engine.batch.set("forced_seed", np.array([7, 7], np.int32))
    engine.batch["forced_slot"].zero_()
    engine.batch.set("script", np.full((2, engine.num_mechs), heuristic.script_of("hard"), np.int32))
    engine.batch.disable_mechanics([Mechanic.HEAT | Mechanic.EWAR, Mechanic.MISSILES])
    engine.reset()
    recorder = Recorder(engine, [0, 1], tmp_path, [MatchInfo(name=name, map_seed=7) for name in "ab"], policy="acts")
    recorder.begin()
    for _ in range(cfg.max_steps):
        engine.step()
        recorder.after_step()
    paths = recorder.finish()
    engine.close()
    for path, without, own in zip(paths, (["heat", "ewar"], ["missiles"]), changes, strict=True):
        assert verify(path).ok
        with Replay(path) as replay:
            assert replay.header["without"] == without and replay.header["changes"] == own
            hp = {row["name"]: row["hp"] for row in replay.header["chassis"]}
            assert hp["medium"] == own.get("medium.hp", 150.0)
            assert replay.header["cloud"]["life_s"] == own.get("physics.smoke_life_s", 10.0)
    with Replay(paths[0]) as replay:
        assert not any(replay.chunk(n).frames["heat"].any() for n in range(len(replay.chunks)))
    (tmp_path / "forged").mkdir()
    first = verify(tampered(paths[0], tmp_path / "forged", lambda number, parts: None, without=[])).first
    assert first and first.chunk == 0 and first.field != "hash", "what the match was played without is not read"
