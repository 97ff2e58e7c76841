"""Files that change between a scan and a request: links and other files are never served in place of the listed one."""

from __future__ import annotations

import os
import shutil

import pytest

from echelon.replay.reader import Replay
from echelon.replay.schema import WORLDS_FOLDER
from echelon.runs import RunPaths
from echelon.server import catalogue, routes
from echelon.server.catalogue import ReplacedError, ReplayCatalogue, open_beneath
from echelon.state_files import IrregularFileError
from tests.replay.synthetic import write_match
from tests.server.conftest import GOLDEN, MATCH, NAME, RUN

SECRET = GOLDEN.with_name("smoke.ecr")
"""A sound replay outside the home folder."""


def replace_by_link(replays):
    os.symlink(SECRET, replays / "new")
    os.replace(replays / "new", replays / NAME)


def replace_by_file(replays):
    shutil.copy(SECRET, replays / "new")
    os.replace(replays / "new", replays / NAME)


def replace_in_place(replays):
    shutil.copy(SECRET, replays / NAME)


def replace_folder(replays):
    replays.rename(replays.with_name("old"))
    (replays.parent.parent / "elsewhere").mkdir()
    shutil.copy(SECRET, replays.parent.parent / "elsewhere" / NAME)
    os.symlink(replays.parent.parent / "elsewhere", replays)


def remove(replays):
    (replays / NAME).unlink()


CHANGES = (replace_by_link, replace_by_file, replace_in_place, replace_folder, remove)


@pytest.mark.parametrize("change", CHANGES)
def test_file_that_was_replaced_since_the_scan_is_not_served(ask, home, monkeypatch, change):
    monkeypatch.setattr(routes, "SCAN_INTERVAL_S", 0.0)

    async def work(client):
        assert (await client.get("/api/v1/matches")).status == 200
        monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 1e9)
        change(home / RUN / "replays")
        replies = {}
        for path in ("", "/index", "/chunks/0", "/chunks/9", "/file", "/file?world=1"):
            reply = await client.get(f"/api/v1/matches/{MATCH}{path}")
            replies[path] = reply.status, "cannot be read" in (text := await reply.text()) or "try again" in text
        return replies

    assert set(ask(work).values()) == {(422, True)}


def test_replaced_file_is_served_after_the_next_scan(ask, home):
    async def work(client):
        assert (await client.get(f"/api/v1/matches/{MATCH}/file")).status == 200
        replace_by_file(home / RUN / "replays")
        replaced = await client.get(f"/api/v1/matches/{MATCH}/file")
        remove(home / RUN / "replays")
        return await replaced.read(), (await client.get(f"/api/v1/matches/{MATCH}/file")).status

    assert ask(work) == (SECRET.read_bytes(), 404)


def test_match_that_grew_since_the_scan_is_served(ask, home, monkeypatch):
    data, path = GOLDEN.read_bytes(), home / RUN / "replays" / NAME
    path.write_bytes(data[:-100])

    async def work(client):
        await client.get("/api/v1/matches")
        monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 1e9)
        with open(path, "ab") as file:
            file.write(data[-100:])
        return await (await client.get(f"/api/v1/matches/{MATCH}/file")).read()

    assert ask(work) == data


def test_open_replay_of_a_listed_match_survives_a_change_of_its_time(home, monkeypatch):
    monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 0.0)
    found = ReplayCatalogue(home)
    (match,) = found.matches()
    os.utime(match.path, ns=(0, 0))
    with pytest.raises(ReplacedError):
        found.read(match, lambda replay: replay.header)
    (match,) = found.matches()
    assert found.read(match, lambda replay: len(replay.chunks)) > 1


@pytest.mark.parametrize("level", ["file", "folder"])
def test_linked_worlds_are_not_served(ask, home, tmp_path_factory, level):
    replays, elsewhere = home / RUN / "replays", tmp_path_factory.mktemp("elsewhere")
    (replays / NAME).unlink()
    with Replay(write_match(replays / NAME, worlds=replays / WORLDS_FOLDER)) as replay:
        sha = replay.header["world"]["sha256"]
    moved = replays / WORLDS_FOLDER
    if level == "file":
        (moved,) = moved.iterdir()
    moved.rename(elsewhere / moved.name)

    async def work(client):
        return (await client.get(f"/api/v1/worlds/{sha}")).status

    assert ask(work) == 422
    os.symlink(elsewhere / moved.name, moved)
    assert ask(work) == 422, "through a link"
    moved.unlink()
    (elsewhere / moved.name).rename(moved)
    assert ask(work) == 200


def test_scan_does_not_follow_a_link_that_replaced_a_listed_file(home, monkeypatch):
    original = catalogue.replay_files

    def listed(run: RunPaths):
        files = original(run)
        replace_by_link(run.replays)
        return files

    monkeypatch.setattr(catalogue, "replay_files", listed)
    assert ReplayCatalogue(home).matches() == []


def test_compressed_twin_is_not_served(ask, home):
    for suffix in (".gz", ".br"):
        (home / RUN / "replays" / (NAME + suffix)).write_bytes(b"anything")

    async def work(client):
        reply = await client.get(f"/api/v1/matches/{MATCH}/file", headers={"Accept-Encoding": "gzip, br"})
        return await reply.read(), reply.headers.get("Content-Encoding")

    assert ask(work) == (GOLDEN.read_bytes(), None)


def test_open_beneath_follows_no_link_below_its_root(tmp_path):
    inner = tmp_path / "root" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "f").write_bytes(b"x")
    os.symlink("f", inner / "link")
    os.symlink("b", inner.parent / "linked")
    os.symlink("root", tmp_path / "also")
    os.mkfifo(inner / "pipe")
    root = tmp_path / "also"
    before = os.listdir("/proc/self/fd")
    with open_beneath(root, root / "a" / "b" / "f") as file:
        assert file.read() == b"x"
    for path, error in {"b/link": OSError, "linked/f": OSError, "b/pipe": IrregularFileError, "b": IrregularFileError,
                        "b/none": FileNotFoundError}.items():  # fmt: skip
        with pytest.raises(error):
            open_beneath(root, root / "a" / path)
    assert os.listdir("/proc/self/fd") == before


def test_error_names_the_file_once(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="^'[^']*folder' is no regular file$"):
        open_beneath(tmp_path, tmp_path / "folder")
