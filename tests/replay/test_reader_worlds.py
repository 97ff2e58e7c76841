"""Worlds of replays: read from the file or the folder beside it, bounded, and checked against the header."""

import errno
import os
import zlib

import numpy as np
import pytest

from echelon.replay import schema
from echelon.replay.codec import pack_map, pack_record, world_hash
from echelon.replay.reader import Replay, read_world
from echelon.replay.schema import MAGIC, WORLD_HEAD, WORLDS_FOLDER, RecordType
from echelon.state_files import open_regular
from tests.replay.synthetic import SIZE, header, message, write_match


def beside(tmp_path):
    path = write_match(tmp_path / "b.ecr", 1, worlds=tmp_path / WORLDS_FOLDER)
    (world,) = (tmp_path / WORLDS_FOLDER).iterdir()
    return path, world


X, Y, Z = SIZE
WORLD_BYTES = WORLD_HEAD.size + X * Y * Z


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"no zlib",
        zlib.compress(bytes(WORLD_BYTES - 1)),
        zlib.compress(bytes(WORLD_BYTES + 1)),
        zlib.compress(bytes(WORLD_BYTES))[:-1],
    ],
)
def test_damaged_world_beside_the_replay_is_rejected(tmp_path, stored):
    path, world = beside(tmp_path)
    world.write_bytes(stored)
    expected = f"the world of replay {path.name!r} is damaged, expected a zlib stream of {WORLD_BYTES} bytes"
    with Replay(path) as replay:
        assert message(replay.load_world) == expected == message(read_world, world, WORLD_BYTES, path.name)


@pytest.mark.parametrize("kind", ["missing", "pipe", "folder"])
def test_world_that_is_no_file_is_missing(tmp_path, kind):
    path, world = beside(tmp_path)
    with Replay(path) as replay:
        world.unlink()
        if kind == "pipe":
            os.mkfifo(world)
        elif kind == "folder":
            world.mkdir()
        expected = f"the world of replay {path.name!r} is missing, expected in the folder {WORLDS_FOLDER!r} beside it"
        assert message(replay.load_world).startswith(expected)


def test_world_is_not_missing_when_descriptors_are(tmp_path):
    path, world = beside(tmp_path)

    def exhausted(file):
        if file == world:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_regular(file)

    with Replay(path, exhausted) as replay, pytest.raises(OSError, match="Too many open files"):
        replay.load_world()


def test_read_world_reads_no_more_than_the_limit(tmp_path, monkeypatch):
    _, world = beside(tmp_path)
    payload = read_world(world, WORLD_BYTES, "x")
    size = world.stat().st_size
    world.write_bytes(world.read_bytes() + bytes(99))
    assert read_world(world, WORLD_BYTES, "x") == payload, "what follows the stream is ignored"
    monkeypatch.setattr(schema, "MAX_RAW_BYTES", size)
    assert read_world(world, WORLD_BYTES, "x") == payload
    monkeypatch.setattr(schema, "MAX_RAW_BYTES", size - 1)
    assert "is damaged" in message(read_world, world, WORLD_BYTES, "x")


def test_world_is_loaded_once(tmp_path):
    path, world = beside(tmp_path)
    with Replay(path) as replay:
        first = replay.world
        world.unlink()
        assert replay.world is first and replay.materials().dtype == np.uint8


def with_world(tmp_path, payload: bytes, **entries):
    """Return a replay that embeds this payload and claims these entries of its world."""
    path = tmp_path / "m.ecr"
    world = {"sha256": world_hash(payload), "size": list(SIZE), **entries}
    path.write_bytes(
        MAGIC
        + pack_record(RecordType.HEADER, pack_map({**header(), "world": world}))
        + pack_record(RecordType.WORLD, payload)
    )
    return path


def test_embedded_world_is_checked(tmp_path):
    right = WORLD_HEAD.pack(X, Y, Z, 0) + bytes(X * Y * Z)
    with Replay(with_world(tmp_path, right)) as replay:
        assert replay.load_world() == right
    with Replay(with_world(tmp_path, right + b"?")) as replay:
        expected = f"the world of replay 'm.ecr' has {WORLD_BYTES + 1} bytes, expected {WORLD_BYTES}"
        assert message(replay.load_world) == expected
    with Replay(with_world(tmp_path, right, sha256="0" * 64)) as replay:
        assert message(replay.load_world) == "the world of replay 'm.ecr' does not match the hash in its header"
    for size in ((Y, X, Z), (X, Z, Y), (Z, Y, X)):
        turned = WORLD_HEAD.pack(*size, 0) + bytes(X * Y * Z)
        with Replay(with_world(tmp_path, turned)) as replay:
            assert message(replay.load_world) == "the world of replay 'm.ecr' has another size than its header"


def test_world_of_a_closed_file_is_found_by_its_index(tmp_path):
    with Replay(write_match(tmp_path / "m.ecr", 1)) as replay:
        assert replay.index is not None and replay.index.world is not None
        assert world_hash(replay.load_world()) == replay.header["world"]["sha256"]


@pytest.mark.parametrize("folder", [None, WORLDS_FOLDER])
def test_unclosed_replay_has_its_world(tmp_path, folder):
    worlds = tmp_path / folder if folder else None
    with Replay(write_match(tmp_path / "open.ecr", 1, worlds=worlds, closed=False)) as replay:
        assert replay.index is None and world_hash(replay.load_world()) == replay.header["world"]["sha256"]
