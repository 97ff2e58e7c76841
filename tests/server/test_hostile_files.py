"""Hostile replays in a run folder and exhausted descriptors: other matches, lists and live notices go on."""

import asyncio
import errno
import os
import random
import shutil
import socket
from dataclasses import replace

import aiohttp
import pytest

from echelon.replay.reader import Replay
from echelon.server import catalogue, live
from echelon.server.catalogue import ReplayCatalogue
from echelon.server.connections import LIMITS, resource, within_descriptors
from echelon.server.responses import CATALOGUE
from tests.replay.hostile import hostile_replay
from tests.server.conftest import GOLDEN, MATCH, RUN, get_json
from tests.server.support import WAIT_S, served, until

FILES = 20


@pytest.fixture
def hostile_home(home):
    folder = home / RUN / "replays"
    for seed in range(FILES):
        (folder / f"hostile-{seed}.ecr").write_bytes(hostile_replay(random.Random(seed)))
    shutil.copy(GOLDEN, os.path.join(os.fsencode(folder), b"\xff\xfe.ecr"))
    (folder / "folder.ecr").mkdir()
    os.mkfifo(folder / "pipe.ecr")
    return home


async def test_hostile_replays_cost_only_themselves(hostile_home, client):
    listed = await (await client.get("/api/v1/matches?limit=200")).json()
    assert listed["total"] == len(listed["matches"]) > 2
    for match in listed["matches"]:
        for path in ("", "/index", "/chunks/0", "/file?world=1"):
            status = (await client.get(f"/api/v1/matches/{match['id']}{path}")).status
            assert status in ([200] if match["id"] == MATCH else [200, 404, 422])
    assert (await client.get("/api/v1/runs")).status == 200


async def test_live_notices_survive_a_failing_poll(home, monkeypatch, caplog):
    monkeypatch.setattr(live, "POLL_S", 0.01)
    async with aiohttp.ClientSession() as session, served(home) as (port, app):
        catalogue, polls = app[CATALOGUE], []
        original = catalogue.matches

        def failing():
            polls.append(len(polls))
            if len(polls) == 2:
                raise KeyError("a value nobody thought of")
            return original()

        channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live")
        monkeypatch.setattr(catalogue, "matches", failing)
        await until(lambda: len(polls) >= 4)
        shutil.copy(GOLDEN, home / RUN / "replays" / "new.ecr")
        assert (await channel.receive(timeout=WAIT_S)).json()["type"] == "match"
    assert "a poll of the matches failed" in caplog.text


async def test_client_is_notified_of_a_change_before_the_first_poll(home, monkeypatch, client):
    (whole,) = ReplayCatalogue(home).matches()
    live_match = replace(whole, summary={**whole.summary, "live": True})
    answers = iter([[live_match]])
    monkeypatch.setattr(ReplayCatalogue, "matches", lambda catalogue: next(answers, [whole]))
    async with client.ws_connect("/api/v1/live") as channel:
        assert [(await channel.receive_json(timeout=5))["type"] for _ in range(2)] == ["match", "ended"]


def test_catalogue_reports_an_unexpected_error_once_and_lists_the_rest(home, monkeypatch, caplog):
    shutil.copy(GOLDEN, home / RUN / "replays" / "odd.ecr")
    original = Replay._open

    def broken(replay):
        if replay.path.name == "odd.ecr":
            raise AttributeError("a value nobody thought of")
        return original(replay)

    monkeypatch.setattr(Replay, "_open", broken)
    monkeypatch.setattr("echelon.server.catalogue.SCAN_INTERVAL_S", 0.0)
    catalogue = ReplayCatalogue(home)
    for _ in range(3):
        assert [match.id for match in catalogue.matches()] == [MATCH]
    assert caplog.text.count("replay 'odd.ecr' is skipped") == 1


def test_catalogue_keeps_its_matches_while_descriptors_are_exhausted(home, monkeypatch, caplog):
    monkeypatch.setattr("echelon.server.catalogue.SCAN_INTERVAL_S", 0.0)
    catalogue = ReplayCatalogue(home)
    assert len(catalogue.matches()) == 1
    shutil.copy(GOLDEN, home / RUN / "replays" / "later.ecr")
    original = Replay.__init__

    def exhausted(replay, path, open_file):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Replay, "__init__", exhausted)
    assert len(catalogue.matches()) == 1
    monkeypatch.setattr(Replay, "__init__", original)
    assert len(catalogue.matches()) == 2, "the file was not at fault"
    assert "replays cannot be listed" in caplog.text


def test_catalogue_reads_a_file_again_after_an_error_of_the_disk(home, monkeypatch):
    monkeypatch.setattr("echelon.server.catalogue.SCAN_INTERVAL_S", 0.0)
    growing = home / RUN / "replays" / "growing.ecr"
    growing.write_bytes(GOLDEN.read_bytes()[:-100])
    catalogue = ReplayCatalogue(home)
    assert len(catalogue.matches()) == 2
    shutil.copy(GOLDEN, growing)
    shutil.copy(GOLDEN, home / RUN / "replays" / "new.ecr")
    original = Replay.__init__

    def unreadable(replay, path, open_file):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Replay, "__init__", unreadable)
    assert len(catalogue.matches()) == 2
    monkeypatch.setattr(Replay, "__init__", original)
    assert len(catalogue.matches()) == 3 and all(match.summary["complete"] for match in catalogue.matches())


async def test_exhausted_descriptors_answer_503_without_a_traceback(monkeypatch, caplog, client):
    def exhausted(*arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    assert (await client.get("/api/v1/matches")).status == 200
    monkeypatch.setattr(ReplayCatalogue, "read", exhausted)
    monkeypatch.setattr(catalogue, "open_beneath", exhausted)
    for part in ("", "/file"):
        status, problem = await get_json(client, f"/api/v1/matches/{MATCH}{part}")
        assert status == 503 and "too many open files" in problem["detail"]
    assert not caplog.records


async def test_server_accepts_again_after_descriptors_are_free(home, caplog):
    async with served(home) as (port, _):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        early, held = socket.create_connection(("127.0.0.1", port)), []
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    held.append(os.dup(early.fileno()))
            await asyncio.sleep(0.1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for descriptor in [*held, early.detach()]:
                os.close(descriptor)
        reader, asking = await asyncio.open_connection("127.0.0.1", port)
        asking.write(b"GET /api/v1/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), WAIT_S)
    assert b" 200 " in line and all(record.exc_info is None for record in caplog.records)
    warnings = [text for record in caplog.records if "connections wait" in (text := record.getMessage())]
    assert 1 <= len(warnings) <= 2 and all("raise the limit with `ulimit -n`" in text for text in warnings)


def test_connections_fit_into_the_descriptors_of_the_process(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 4096))
    assert within_descriptors(LIMITS).connections == 160
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (65536, 65536))
    assert within_descriptors(LIMITS) == LIMITS
