"""Files that change between a scan and a request: links and other files are never served in place of the listed one."""

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
from tests.server.conftest import GOLDEN, MATCH, NAME, RUN, serving

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
async def test_file_that_was_replaced_since_the_scan_is_not_served(home, monkeypatch, change, client):
    monkeypatch.setattr(routes, "SCAN_INTERVAL_S", 0.0)
    assert (await client.get("/api/v1/matches")).status == 200
    monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 1e9)
    change(home / RUN / "replays")
    for path in ("", "/index", "/chunks/0", "/chunks/9", "/file", "/file?world=1"):
        reply = await client.get(f"/api/v1/matches/{MATCH}{path}")
        text = await reply.text()
        assert reply.status == 422 and ("cannot be read" in text or "try again" in text), path


async def test_replaced_file_is_served_after_the_next_scan(home, client):
    assert (await client.get(f"/api/v1/matches/{MATCH}/file")).status == 200
    replace_by_file(home / RUN / "replays")
    replaced = await client.get(f"/api/v1/matches/{MATCH}/file")
    remove(home / RUN / "replays")
    assert await replaced.read() == SECRET.read_bytes()
    assert (await client.get(f"/api/v1/matches/{MATCH}/file")).status == 404


async def test_match_that_grew_since_the_scan_is_served(home, monkeypatch, client):
    data, path = GOLDEN.read_bytes(), home / RUN / "replays" / NAME
    path.write_bytes(data[:-100])
    await client.get("/api/v1/matches")
    monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 1e9)
    with open(path, "ab") as file:
        file.write(data[-100:])
    assert (await (await client.get(f"/api/v1/matches/{MATCH}/file")).read()) == data


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
async def test_linked_worlds_are_not_served(home, tmp_path_factory, level):
    replays, elsewhere = home / RUN / "replays", tmp_path_factory.mktemp("elsewhere")
    (replays / NAME).unlink()
    with Replay(write_match(replays / NAME, worlds=replays / WORLDS_FOLDER)) as replay:
        sha = replay.header["world"]["sha256"]
    moved = replays / WORLDS_FOLDER
    if level == "file":
        (moved,) = moved.iterdir()

    async def status():
        async with serving(home) as client:
            return (await client.get(f"/api/v1/worlds/{sha}")).status

    moved.rename(elsewhere / moved.name)
    assert await status() == 422
    os.symlink(elsewhere / moved.name, moved)
    assert await status() == 422, "through a link"
    moved.unlink()
    (elsewhere / moved.name).rename(moved)
    assert await status() == 200


def test_scan_does_not_follow_a_link_that_replaced_a_listed_file(home, monkeypatch):
    original = catalogue.replay_files

    def listed(run: RunPaths):
        files = original(run)
        replace_by_link(run.replays)
        return files

    monkeypatch.setattr(catalogue, "replay_files", listed)
    assert ReplayCatalogue(home).matches() == []


async def test_compressed_twin_is_not_served(home, client):
    for suffix in (".gz", ".br"):
        (home / RUN / "replays" / (NAME + suffix)).write_bytes(b"anything")
    reply = await client.get(f"/api/v1/matches/{MATCH}/file", headers={"Accept-Encoding": "gzip, br"})
    assert await reply.read() == GOLDEN.read_bytes() and "Content-Encoding" not in reply.headers


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
