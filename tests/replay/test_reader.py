"""Replay reader: complete chunks are found, invalid files rejected, and unknown parts skipped."""

from __future__ import annotations

import shutil
import zlib

import numpy as np
import pytest

from echelon.replay.codec import TRAILER_BYTES, ReplayError, pack_map, pack_record, world_hash
from echelon.replay.columns import Layout
from echelon.replay.reader import Replay
from echelon.replay.schema import (
    END_MAGIC,
    MAGIC,
    SCHEMA_MAJOR,
    TRAILER_PAYLOAD,
    WORLD_HEAD,
    WORLDS_FOLDER,
    Codec,
    MechFlag,
    RecordType,
)
from tests.golden import assert_golden_json
from tests.replay.golden import (
    EDITS,
    EDITS_EXPECTED,
    EXPECTED,
    RATES,
    RATES_EXPECTED,
    REACH,
    REACH_EXPECTED,
    SMALL,
    contents,
    edits_contents,
    rates_contents,
    reach_contents,
)
from tests.replay.synthetic import SIZE, header, material, write_match


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Bytes, chunk references and decoded chunks of a closed match of five chunks."""
    path = write_match(tmp_path_factory.mktemp("whole") / "m.ecr")
    with Replay(path) as replay:
        return path.read_bytes(), list(replay.chunks), [replay.chunk(n) for n in range(len(replay.chunks))]


def same(one, other) -> bool:
    frames = all(np.array_equal(one.frames[name], other.frames[name]) for name in other.frames)
    tables = all(
        np.array_equal(one.tables[table][name], values)
        for table, columns in other.tables.items()
        for name, values in columns.items()
    )
    return frames and tables and one.hash == other.hash


@pytest.mark.golden
def test_golden_small_replay_content():
    assert_golden_json(EXPECTED, contents(SMALL), compact=True)


def test_replay_truncated_in_header_is_rejected(whole, tmp_path):
    data, refs, _ = whole
    path = tmp_path / "cut.ecr"
    for length in range(len(MAGIC), 400, 7):
        path.write_bytes(data[:length])
        with pytest.raises(ReplayError, match=r"truncated|damaged"):
            Replay(path)


def test_timeline_without_index_equals_index(whole, tmp_path):
    data, refs, _ = whole
    (tmp_path / "closed.ecr").write_bytes(data)
    end = refs[-1].offset + refs[-1].length
    (tmp_path / "cut.ecr").write_bytes(data[:end])
    with Replay(tmp_path / "closed.ecr") as closed, Replay(tmp_path / "cut.ecr") as cut:
        assert closed.complete and not cut.complete
        expected, found = closed.timeline(), cut.timeline()
        assert found["markers"] == expected["markers"]
        assert found["series"] == expected["series"]
        assert found["outcome"]["winner"] == -1
        assert {k: found["outcome"][k] for k in ("ticks", "alive")} == {
            k: expected["outcome"][k] for k in ("ticks", "alive")
        }


def test_refresh_follows_growing_file(whole, tmp_path):
    data, refs, chunks = whole
    path = tmp_path / "live.ecr"
    path.write_bytes(data[: refs[0].offset])
    with Replay(path) as replay:
        assert replay.chunks == [] and replay.timeline()["outcome"] is None
        for n, ref in enumerate(refs):
            path.write_bytes(data[: ref.offset + ref.length])
            assert replay.refresh() == n + 1
            assert same(replay.chunk(n), chunks[n])
            assert len(replay.timeline()["markers"]) == n + 1
        path.write_bytes(data)
        replay.refresh()
        assert replay.complete and len(replay.chunks) == len(refs)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", b"\x89PNG\r\n\x1a\n" + bytes(100), MAGIC[:5]])
def test_foreign_file_is_rejected_by_name(data, tmp_path):
    path = tmp_path / "holiday.zip"
    path.write_bytes(data)
    with pytest.raises(ReplayError, match=r"'holiday.zip' is not an Echelon replay"):
        Replay(path)


def test_newer_major_schema_error_message(tmp_path):
    path = write_match(tmp_path / "new.ecr", schema=[SCHEMA_MAJOR + 1, 0])
    with pytest.raises(ReplayError) as refused:
        Replay(path)
    assert str(refused.value) == "replay 'new.ecr' has schema 3, expected 1 to 2; try a newer Echelon"


def test_unknown_record_types_are_skipped(whole, tmp_path):
    data, refs, chunks = whole
    path = tmp_path / "new.ecr"
    path.write_bytes(data[: refs[1].offset] + pack_record(77, b"?") + data[refs[1].offset : refs[2].offset])
    with Replay(path) as replay:
        assert [same(replay.chunk(n), chunks[n]) for n in range(len(replay.chunks))] == [True, True]


def test_unknown_columns_tables_and_keys_are_skipped(tmp_path):
    extra = {"name": "mood", "dtype": "u8", "scale": 1.0, "predict": 0, "per": "mech", "k": 2}
    table = {"name": "birds", "columns": [{"name": "x", "dtype": "u16", "scale": 1.0, "predict": 1}]}
    base = header()
    newer = {
        **base, "schema": [SCHEMA_MAJOR, 9], "weather": "rain", "columns": [*base["columns"], extra],
        "tables": [*base["tables"], table], "world": {"sha256": "0" * 64, "size": list(SIZE)},
    }  # fmt: skip
    layout = Layout(newer["columns"], base["mechs"])
    rows = np.arange(2 * layout.width).reshape(2, -1) % 50
    rows[:, 0] = 0, 5
    body = {
        "f": 2,
        "c": layout.encode(rows),
        "t": [*([0, b""] for _ in base["tables"]), [1, b"\x02\x00"]],
        "h": b"",
        "sound": b"boom",
    }
    path = tmp_path / "new.ecr"
    path.write_bytes(
        MAGIC + pack_record(RecordType.HEADER, pack_map(newer)) + pack_record(200, b"?", codec=Codec.NONE)
        + pack_record(RecordType.CHUNK, pack_map(body), ticks=(0, 5))
    )  # fmt: skip
    with Replay(path) as replay:
        found = replay.chunk(0)
        assert found.frames["tick"][:, 0].tolist() == [0, 5]
        assert found.tables["birds"]["x"].tolist() == [1]
        assert replay.timeline()["markers"] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechs": 0}, "mechs 0: it should be greater"),
        ({"mechs": 5}, "roster has 4 mechs, expected 5"),
        ({"columns": []}, "no column 'tick'"),
        (
            {"columns": [{"name": "x", "dtype": "f8", "scale": 1.0, "predict": 0, "per": "mech", "k": 1}]},
            "unknown type",
        ),
        ({"roster": None}, "roster None: it should be a valid list"),
        ({"schema": []}, "at least 2 items"),
        ({"tick_hz": 0}, "tick_hz 0: it should be greater than 0"),
    ],
    ids=str,
)
def test_invalid_header_is_rejected(change, message, tmp_path):
    broken = {**header(), "world": {"sha256": "0" * 64, "size": list(SIZE)}, **change}
    path = tmp_path / "odd.ecr"
    path.write_bytes(MAGIC + pack_record(RecordType.HEADER, pack_map(broken)))
    with pytest.raises(ReplayError, match=message):
        Replay(path)


def test_world_is_read_from_file_or_folder(tmp_path):
    embedded = write_match(tmp_path / "a.ecr", 1)
    beside = write_match(tmp_path / "b.ecr", 1, worlds=tmp_path / WORLDS_FOLDER)
    for path in (embedded, beside):
        with Replay(path) as replay:
            np.testing.assert_array_equal(replay.materials(), material().transpose(1, 2, 0))
            assert world_hash(replay.world) == replay.header["world"]["sha256"]
    assert embedded.stat().st_size > beside.stat().st_size
    shutil.rmtree(tmp_path / WORLDS_FOLDER)
    with Replay(beside) as replay, pytest.raises(ReplayError, match="beside the replay"):
        _ = replay.world


def test_world_with_wrong_hash_is_rejected(tmp_path):
    path = write_match(tmp_path / "b.ecr", 1, worlds=tmp_path / WORLDS_FOLDER)
    with Replay(path) as replay:
        stored = tmp_path / WORLDS_FOLDER / f"{replay.header['world']['sha256']}.zz"
        x, y, z = SIZE
        stored.write_bytes(zlib.compress(WORLD_HEAD.pack(x, y, z, 0) + bytes(x * y * z)))
        with pytest.raises(ReplayError, match="does not match the hash"):
            _ = replay.world


def test_wrong_trailer_offset_loses_only_the_index(whole, tmp_path):
    data, refs, chunks = whole
    path = tmp_path / "odd.ecr"
    wrong = TRAILER_PAYLOAD.pack(refs[1].offset, END_MAGIC)
    path.write_bytes(data[:-TRAILER_BYTES] + pack_record(RecordType.TRAILER, wrong, codec=Codec.NONE))
    with Replay(path) as replay:
        assert not replay.complete
        assert [same(replay.chunk(n), chunks[n]) for n in range(len(replay.chunks))] == [True] * len(refs)


@pytest.mark.golden
def test_golden_rates_replay_content():
    expected = rates_contents(RATES)
    assert_golden_json(RATES_EXPECTED, expected, compact=True)
    assert len(set(expected["columns"]["x"])) > 50 and any(expected["columns"]["vx"])
    with Replay(RATES) as replay:
        assert replay.header["schema"] == [2, 0]


@pytest.mark.golden
def test_golden_edits_replay_content():
    assert_golden_json(EDITS_EXPECTED, edits_contents(EDITS), compact=True)
    with Replay(EDITS) as replay:
        assert replay.header["schema"] == [2, 1]
        repeat = int(replay.chunk(0).ticks[1])
        edits = [int(tick) for n in range(len(replay.chunks)) for tick in replay.chunk(n).tables["edits"]["tick"]]
    assert sum(tick % repeat != 0 for tick in edits) > 5, "the match has too few edits between two frames"


@pytest.mark.golden
def test_golden_reach_replay_content():
    expected = reach_contents(REACH)
    assert_golden_json(REACH_EXPECTED, expected, compact=True)
    with Replay(REACH) as replay:
        assert replay.header["schema"] == [2, 2]
    states = np.bitwise_or.reduce(expected["columns"]["flags"])
    assert states & MechFlag.ECM and states & MechFlag.ECCM, "the match has no ECM or no ECCM"


@pytest.mark.parametrize("path", [SMALL, EDITS])
def test_older_minor_schema_opens_without_newer_fields(path):
    with Replay(path) as replay:
        assert "sensing" not in replay.header and len(replay.chunk(0).ticks) > 1
