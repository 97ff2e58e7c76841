"""The timeline of an unclosed file is computed in steps and within a budget of bytes; odd files are not opened."""

from __future__ import annotations

import os

import numpy as np
import pytest

from echelon.replay import codec, reader
from echelon.replay.codec import ReplayError
from echelon.replay.columns import GrowingRows
from echelon.replay.reader import Replay, _plain
from tests.replay.synthetic import write_match

CHUNKS = 6


@pytest.fixture
def path(tmp_path):
    return write_match(tmp_path / "open.ecr", CHUNKS, closed=False)


def raw_sizes(path):
    with Replay(path) as replay, open(path, "rb") as file:
        return [codec.read_head(file, ref.offset).raw for ref in replay.chunks]


def test_step_adds_chunks_up_to_its_bytes(path, monkeypatch):
    sizes = raw_sizes(path)
    decoded = []
    original = Replay.chunk
    monkeypatch.setattr(Replay, "chunk", lambda replay, n: decoded.append(n) or original(replay, n))
    for limit, expected in ((0, [1, 1, 1, 1, 1, 1]), (max(sizes) + reader.CHUNK_COST, [2, 2, 2]), (2**40, [6])):
        monkeypatch.setattr(reader, "STEP_BYTES", limit)
        with Replay(path) as replay:
            steps, done = [], False
            while not done:
                decoded.clear()
                done = replay.extend_timeline()
                steps.append(len(decoded))
            whole = replay.timeline()
        assert steps == expected
    with Replay(path) as replay:
        assert replay.timeline() == whole and len(whole["markers"]) == CHUNKS


def test_timeline_is_bounded_in_bytes(path, monkeypatch):
    with Replay(path) as replay:
        whole = replay.timeline()
    monkeypatch.setattr(reader, "STEP_BYTES", 0)
    for chunks in (1, 2):
        monkeypatch.setattr(reader, "TIMELINE_BYTES", sum(raw_sizes(path)[:chunks]))
        with Replay(path) as replay:
            part = replay.timeline()
        count = len(part["series"]["second"])
        assert part["markers"] == whole["markers"][:chunks] and 0 < count < len(whole["series"]["second"])
        assert part["series"]["score"] == [row[:count] for row in whole["series"]["score"]]
        assert part["outcome"]["ticks"] == whole["outcome"]["ticks"]


def test_closed_file_needs_no_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(Replay, "chunk", None)
    with Replay(write_match(tmp_path / "m.ecr", CHUNKS)) as replay:
        assert replay.extend_timeline() and len(replay.timeline()["markers"]) == CHUNKS


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_not_opened(tmp_path, kind):
    path = tmp_path / "m.ecr"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(
        ReplayError, match=r"^'m\.ecr' is a folder, pipe, device or mostly holes, expected an \.ecr file$"
    ):
        Replay(path)


def test_rows_double_and_keep_their_values():
    rows, expected = GrowingRows(2, dtype=np.int64), np.arange(400).reshape(200, 2)
    sizes = set()
    for first, last in ((0, 1), (1, 1), (1, 4), (4, 5), (5, 120), *((n, n + 1) for n in range(120, 200))):
        rows.append(expected[first:last])
        sizes.add(len(rows._data))
        assert rows.count == last and (rows.rows == expected[:last]).all()
    assert len(sizes) < 8, "few copies"


def test_timeline_columns_are_the_timeline(tmp_path):
    path = write_match(tmp_path / "closed.ecr")
    with Replay(path) as closed:
        columns, timeline, last = closed.timeline_columns(), closed.timeline(), closed.chunks[-1]
    assert columns.keys() == timeline.keys() and columns["outcome"] == timeline["outcome"]
    assert isinstance(columns["markers"], np.ndarray) and isinstance(timeline["markers"], list)
    np.testing.assert_array_equal(columns["markers"], timeline["markers"])
    assert columns["series"].keys() == timeline["series"].keys()
    for name, series in columns["series"].items():
        np.testing.assert_array_equal(series, timeline["series"][name])
    (tmp_path / "cut.ecr").write_bytes(path.read_bytes()[: last.offset + last.length])
    with Replay(tmp_path / "cut.ecr") as cut:
        assert _plain(cut.timeline_columns()) == cut.timeline()
