"""Durable changes of files and folders."""

import errno
import os

import pytest

from echelon.files import atomic_write, error_text, exchange, make_folder, output_file, reason_of, write_output


def test_atomic_write_replaces_file_and_leaves_no_temporary(tmp_path):
    path = tmp_path / "exit.json"
    atomic_write(path, "a long first version")
    atomic_write(path, b"short", durable=False)
    assert path.read_bytes() == b"short"
    assert os.listdir(tmp_path) == ["exit.json"]


def test_atomic_write_failure_keeps_old_file(tmp_path, monkeypatch):
    path = tmp_path / "exit.json"
    atomic_write(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["exit.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_atomic_write_interrupted_leaves_no_temporary(tmp_path, monkeypatch, error):
    def interrupt(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(type(error)):
        atomic_write(tmp_path / "exit.json", "new")
    assert os.listdir(tmp_path) == []


def test_make_folder_creates_parents_and_accepts_existing(tmp_path):
    path = tmp_path / "a" / "b" / "c"
    make_folder(path)
    make_folder(path)
    assert path.is_dir()
    with pytest.raises(FileExistsError):
        make_folder(path, exist_ok=False)


def test_exchange_swaps_folders_or_changes_nothing(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    exchanged = exchange(tmp_path / "first", tmp_path / "second")
    assert (tmp_path / "first" / "name").read_text() == ("second" if exchanged else "first")
    assert not exchange(tmp_path / "first", tmp_path / "missing")
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


def test_write_output_keeps_links_and_devices(tmp_path):
    """A renamed temporary file would take the place of /dev/null."""
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    file.write_text("old")
    link.symlink_to(file)
    write_output(link, "new")
    assert link.is_symlink() and file.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, b"data")
    assert os.read(reader, 9) == b"data" and pipe.is_fifo()
    os.close(reader)


def test_output_file_keeps_the_old_content_where_the_block_fails(tmp_path):
    (tmp_path / "out").write_text("old")
    with pytest.raises(OSError, match="No space left"), output_file(tmp_path / "out") as file:
        file.write(b"new")
        raise OSError(28, "No space left on device")
    assert (tmp_path / "out").read_text() == "old" and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (ValueError("lr is 0"), "lr is 0", "lr is 0"),
        (OSError("no number"), "no number", "no number"),
        (OSError(errno.EIO, "I/O error", "x"), "i/o error", "'x': i/o error"),
        (OSError(errno.ENOSPC, "No space left"), "no space left", "no space left"),
        (OSError(errno.ENOENT, "Missing", "x"), "missing", "'x': missing; create it, or name another one"),
    ],
)
def test_system_error_names_file_reason_and_advice(error, reason, text):
    assert (reason_of(error), error_text(error)) == (reason, text)
