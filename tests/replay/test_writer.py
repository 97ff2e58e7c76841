"""Replay writer: voxel changes, hash chain, chunks on disk, timeline and world files."""

import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.files import STALE_S
from echelon.replay.reader import Replay
from echelon.replay.schema import MAX_RAW_BYTES, EventKind
from echelon.replay.writer import MAX_RUN, MatchWriter, chain_hash, encode_runs, store_world, world_payload
from tests.replay.synthetic import FRAME_TICKS, STRIDE, frames, header, material, write_match


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 2000))
def test_encode_runs_round_trip(seed, count):
    rng = np.random.default_rng(seed)
    cells = np.sort(rng.choice(4000, count, replace=False))
    kinds = rng.integers(0, 2, count)
    runs = encode_runs(np.column_stack([np.zeros(count, int), cells, kinds]))
    assert runs[:, 2].max() <= MAX_RUN
    spread = [(cell + i, kind) for _, cell, run, kind in runs for i in range(run)]
    assert spread == list(zip(cells.tolist(), kinds.tolist(), strict=True))


def test_chunk_base_holds_all_earlier_edits(tmp_path):
    with Replay(write_match(tmp_path / "m.ecr", 4)) as replay:
        changed: dict[int, int] = {}
        for n in range(4):
            chunk = replay.chunk(n)
            for table in ("base", "edits"):
                columns = chunk.tables[table]
                cells = {
                    int(cell) + i: int(kind)
                    for cell, run, kind in zip(columns["cell"], columns["run"], columns["material"], strict=True)
                    for i in range(run)
                }
                if table == "base":
                    assert cells == changed
                changed |= cells
        assert len(changed) == 8


def test_chunk_repeats_last_frame_of_previous_chunk(tmp_path):
    with Replay(write_match(tmp_path / "m.ecr", 3)) as replay:
        chunks = [replay.chunk(n) for n in range(3)]
        for one, two in zip(chunks, chunks[1:], strict=False):
            assert one.ref.tick1 == two.ref.tick0 == one.ticks[-1] == two.ticks[0]
            for name in one.frames.keys() - {"tick"}:
                np.testing.assert_array_equal(one.frames[name][-1], two.frames[name][0])
        assert chunks[0].ticks.tolist() == [FRAME_TICKS * i for i in range(STRIDE + 1)]


def test_chunk_hashes_are_chained(tmp_path):
    rng, link = np.random.default_rng(0), bytes(8)
    writer = MatchWriter(tmp_path / "m.ecr", header(), world_payload(material()))
    for n in range(3):
        writer.chunk(frames(n * STRIDE, STRIDE + 1, rng, writer.layout.width), {}, bytes([n]))
    writer.close()
    with Replay(writer.path) as replay:
        for n in range(3):
            link = chain_hash(link, bytes([n]))
            assert replay.chunk(n).hash == link


def test_chunk_is_readable_after_write(tmp_path):
    rng = np.random.default_rng(0)
    writer = MatchWriter(tmp_path / "m.ecr", header(), world_payload(material()))
    for n in range(3):
        writer.chunk(frames(n * STRIDE, STRIDE + 1, rng, writer.layout.width), {})
        with Replay(writer.path) as replay:
            assert len(replay.chunks) == n + 1 and not replay.complete
    writer.abandon()
    with Replay(writer.path) as replay:
        assert len(replay.chunks) == 3 and not replay.complete


def test_match_without_chunks_closes(tmp_path):
    with Replay(write_match(tmp_path / "m.ecr", 0)) as replay:
        assert replay.complete and replay.chunks == [] and replay.timeline()["series"]["second"] == []


def test_timeline_counts_damage_between_teams_per_second(tmp_path):
    writer = MatchWriter(tmp_path / "m.ecr", header(), world_payload(material()))
    rows = np.zeros((13, writer.layout.width), np.int64)
    rows[:, 0] = np.arange(13) * FRAME_TICKS
    hits = [(1, 0, 2, 100), (20, 3, 0, 50), (21, 0, 2, 30), (25, 0, 1, 990), (59, 1, 3, 70), (60, 2, 2, 10)]
    events = np.array([[t, EventKind.HIT, actor, target, 0, value, 0, 0, 0, 0] for t, actor, target, value in hits])
    writer.chunk(rows, {"events": events})
    writer.close()
    with Replay(writer.path) as replay:
        assert replay.timeline()["series"]["damage"] == [[0, 10, 3, 7], [0, 5, 0, 0]]


@pytest.mark.parametrize(
    "damage", [lambda raw: raw, lambda raw: b"", lambda raw: raw[:-9], lambda raw: raw[:-1] + b"?"]
)
def test_store_world_keeps_a_file_per_world_and_replaces_a_damaged_one(tmp_path, damage):
    path = store_world(tmp_path, world_payload(material()))
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert store_world(tmp_path, world_payload(material())) == path
    assert path.read_bytes() == whole and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_store_world_replaces_pipes_and_large_files(tmp_path):
    path = store_world(tmp_path, world_payload(material()))
    whole = path.read_bytes()
    for size in (MAX_RAW_BYTES + 1, 1 << 40):
        os.truncate(path, size)
        assert store_world(tmp_path, world_payload(material())) == path and path.read_bytes() == whole
    path.unlink()
    os.mkfifo(path)
    assert store_world(tmp_path, world_payload(material())) == path and path.read_bytes() == whole


def test_store_world_deletes_temporary_files_of_killed_processes(tmp_path):
    for name, age_s in ((".0.zz.1.tmp", STALE_S + 60.0), (".1.zz.2.tmp", 0.0)):
        (tmp_path / name).write_bytes(b"part")
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    path = store_world(tmp_path, world_payload(material()))
    assert {p.name for p in tmp_path.iterdir()} == {path.name, ".1.zz.2.tmp"}, "another process may be writing"
