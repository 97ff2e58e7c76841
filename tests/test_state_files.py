"""Bounded reading of files that anybody may have written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from echelon.files import MAX_HOLES
from echelon.state_files import (
    MAX_DEPTH,
    MAX_STATE_BYTES,
    IrregularFileError,
    LineSplitter,
    open_regular,
    parse_json,
    read_bounded,
    require_utf8,
)


def test_open_regular_rejects_pipe_and_folder_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(IrregularFileError, match="no regular file"):
            open_regular(path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")


def test_open_regular_rejects_large_holes(tmp_path):
    """A terabyte of zeros that takes no disk space was read for hours."""
    path, far = tmp_path / "sparse", 1 << 40
    for at in (0, far):
        with open(path, "wb") as file:
            file.write(b"x" * 10)
            file.truncate(far)
            file.seek(at)
            file.write(b"y")
        with pytest.raises(IrregularFileError, match="has more than 256 MiB of holes"):
            open_regular(path)
    os.truncate(path, MAX_HOLES)
    with open_regular(path) as file:
        assert file.read(2) == b"x" * 2, "read from its start"


def test_open_regular_accepts_large_files_without_holes(tmp_path, monkeypatch):
    path = tmp_path / "stored"
    path.write_bytes(bytes(1 << 16))
    monkeypatch.setattr("echelon.files.MAX_HOLES", 1 << 12)
    with open_regular(path) as file:
        assert file.read() == bytes(1 << 16)

    def unsupported(*_: int) -> int:
        raise OSError(22, "Invalid argument")

    with open(path, "ab") as file:
        file.truncate(1 << 18)
    monkeypatch.setattr(os, "lseek", lambda handle, at, how: unsupported() if how != os.SEEK_SET else 0)
    with open_regular(path) as file:
        assert file.read(1) == b"\0", "where the system cannot tell"


def test_read_bounded_returns_at_most_the_limit(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(b"x" * MAX_STATE_BYTES)
    assert len(read_bounded(path)) == MAX_STATE_BYTES
    path.write_bytes(b"x" * (MAX_STATE_BYTES + 1))
    with pytest.raises(ValueError, match="more than"):
        read_bounded(path)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 70 + b"1" + b"}" * 70, "[" * 65 + "]" * 65, b"\xff", b""])
def test_parse_json_rejects_nesting_and_noise(data):
    with pytest.raises(ValueError):
        parse_json(data)


def test_parse_json_accepts_the_greatest_depth():
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert parse_json(b"[" + b"[]," * 1000 + b"[]]")


def test_line_splitter_joins_pieces_and_cuts_long_lines():
    splitter = LineSplitter(4)
    assert splitter.feed(b"ab") == [] and splitter.unfinished() == b"ab"
    assert splitter.feed(b"c\n\nlonger\nx") == [b"abc", b"", b"long"]
    assert splitter.feed(b"yzzzz" * 1000) == [] and splitter.unfinished() == b"xyzz"
    assert splitter.feed(b"\n") == [b"xyzz"]


def test_line_splitter_holds_no_more_than_a_line():
    splitter = LineSplitter(100)
    for _ in range(1000):
        splitter.feed(b"x" * 1000)
    assert len(splitter.unfinished()) == 100 and len(splitter._parts) == 1


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (rb'"\ud800"', r"\ud800"),
        (rb'{"a\udce9b": ["\uDCFF\ud800"]}', {r"a\udce9b": [r"\uDCFF\ud800"]}),
        (rb'"\\\ud800\\ud800"', "\\" + r"\ud800" + "\\" + "ud800"),
        (rb'"\ud83d\ude00\ud83d"', "\U0001f600" + r"\ud83d"),
    ],
)
def test_parse_json_reads_lone_surrogates_as_escapes(data, value):
    assert parse_json(data) == value


def test_require_utf8_refuses_lone_surrogates_only():
    require_utf8({"name": ["é\U0001f600", r"\ud800", 1, None]}, "label")
    with pytest.raises(ValueError, match=r"^label contains .*udcff.*, expected UTF-8; rename it$"):
        require_utf8({"name": ["a\udcff"]}, "label")


def test_parse_json_reads_names_back():
    names = ["caf\udce9", r"\udce9", "\U0001f600"]
    assert parse_json(json.dumps(names), names=True) == names
    with pytest.raises(ValueError):
        parse_json(rb'["\udce9"' + b",[" * 100_000 + b"]" * 100_001, names=True)


def test_state_files_are_read_without_pydantic():
    """Its parser alone is loaded: a supervisor that waits in the queue reads state files too."""
    code = (
        "from echelon.state_files import parse_json; import sys; assert parse_json('[1, {}]') == [1, {}]; "
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[1])
