"""The API of matches: summaries, header, index, chunks, file, worlds, runs and live notices."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import zlib

import pytest

from echelon.replay.codec import world_hash
from echelon.replay.reader import Replay
from echelon.replay.schema import WORLDS_FOLDER
from echelon.server.catalogue import match_id, version_of
from tests.replay.synthetic import write_match
from tests.server.conftest import GOLDEN, MATCH, NAME, RUN


def get_json(ask, path, **options):
    async def work(client):
        reply = await client.get(path, **options)
        return reply.status, await reply.json(content_type=None)

    return ask(work)


def test_matches_lists_summaries(ask):
    status, found = get_json(ask, "/api/v1/matches")
    assert status == 200 and found["total"] == 1
    (summary,) = found["matches"]
    assert summary["id"] == MATCH and summary["run"] == RUN and summary["file"] == NAME
    assert summary["complete"] and not summary["live"] and summary["chunks"] > 1
    assert summary["winner"] in (0, 1, 2)
    assert summary["levels"] == ["scripted", "scripted"]


def test_matches_filters_and_pages(ask):
    assert get_json(ask, "/api/v1/matches?run=another")[1] == {"total": 0, "matches": []}
    assert get_json(ask, "/api/v1/matches?live=1")[1]["total"] == 0
    assert get_json(ask, "/api/v1/matches?offset=1&limit=5")[1] == {"total": 1, "matches": []}
    assert get_json(ask, "/api/v1/matches?limit=-3&offset=zzz")[0] == 200


def test_match_returns_header_and_index(ask):
    with Replay(GOLDEN) as replay:
        status, found = get_json(ask, f"/api/v1/matches/{MATCH}")
        assert status == 200 and found["header"] == json.loads(json.dumps(replay.header))
        _, index = get_json(ask, f"/api/v1/matches/{MATCH}/index")
        assert index["chunks"] == [[c.tick0, c.tick1, c.length] for c in replay.chunks]
        assert index["live"] is False and index["outcome"]["winner"] == replay.timeline()["outcome"]["winner"]
        assert len(index["series"]["second"]) == len(index["series"]["alive"][0])


def test_chunk_returns_file_bytes_as_immutable(ask):
    async def work(client):
        match = await (await client.get(f"/api/v1/matches/{MATCH}")).json()
        first = await client.get(f"/api/v1/matches/{MATCH}/chunks/0?v={match['summary']['version']}")
        again = await client.get(f"/api/v1/matches/{MATCH}/chunks/0", headers={"If-None-Match": first.headers["ETag"]})
        none = await client.get(f"/api/v1/matches/{MATCH}/chunks/999")
        return await first.read(), first.headers["Cache-Control"], again.status, none.status

    body, caching, again, none = ask(work)
    with Replay(GOLDEN) as replay:
        assert body == replay.chunk_bytes(0)
    assert "immutable" in caching and again == 304 and none == 404


def test_chunk_without_version_is_not_cacheable(ask):
    async def work(client):
        replies = [await client.get(f"/api/v1/matches/{MATCH}/chunks/0{query}") for query in ("", "?v=", "?v=0123")]
        return [(reply.status, reply.headers["Cache-Control"]) for reply in replies]

    assert ask(work) == [(200, "no-cache")] * 3
    headers = []
    for name in ("small.ecr", "smoke.ecr"):
        with Replay(GOLDEN.with_name(name)) as replay:
            headers.append(replay.header)
    assert version_of(headers[0]) != version_of(headers[1]) != version_of({**headers[1], "created": 1.0})


def test_world_is_served_by_hash(ask):
    with Replay(GOLDEN) as replay:
        sha = replay.header["world"]["sha256"]

    async def work(client):
        reply = await client.get(f"/api/v1/worlds/{sha}")
        other = await client.get(f"/api/v1/worlds/{'0' * 64}")
        return await reply.read(), other.status

    body, other = ask(work)
    assert world_hash(zlib.decompress(body)) == sha and other == 404


def test_file_serves_whole_and_ranges(ask):
    async def work(client):
        whole = await client.get(f"/api/v1/matches/{MATCH}/file")
        part = await client.get(f"/api/v1/matches/{MATCH}/file", headers={"Range": "bytes=8-31"})
        wrong = await client.get(f"/api/v1/matches/{MATCH}/file", headers={"Range": "bytes=99999999-"})
        return await whole.read(), part.status, await part.read(), wrong.status

    whole, status, part, wrong = ask(work)
    data = GOLDEN.read_bytes()
    assert whole == data and status == 206 and part == data[8:32] and wrong == 416


def test_file_export_embeds_world(ask, home, tmp_path):
    replays = home / RUN / "replays"
    (replays / NAME).unlink()
    here = write_match(replays / NAME, worlds=replays / WORLDS_FOLDER)

    async def work(client):
        reply = await client.get(f"/api/v1/matches/{MATCH}/file?world=1")
        return reply.headers["Content-Disposition"], await reply.read()

    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "moved.ecr"
    name, whole = ask(work)
    moved.write_bytes(whole)
    with Replay(moved) as replay, Replay(here) as original:
        assert replay.world == original.world and replay.complete and f"{MATCH}.ecr" in name
        assert len(replay.chunks) == len(original.chunks)


def test_runs_and_health_return_json(ask):
    assert get_json(ask, "/api/v1/runs")[1] == {"runs": [{"id": RUN, "matches": 1}]}
    assert get_json(ask, "/api/v1/healthz")[1]["ok"] is True


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/matches/0000000000000000",
        "/api/v1/matches/..%2f..%2fetc%2fpasswd",
        f"/api/v1/matches/{MATCH.upper()}x",
        f"/api/v1/matches/{MATCH}/chunks/-1",
        "/api/v1/worlds/../../../../etc/passwd",
        "/../../../etc/passwd",
        "/assets/..%2f..%2f..%2fapp.py",
        "/app.py",
    ],
)
def test_uncatalogued_paths_return_404(ask, path):
    async def work(client):
        from yarl import URL

        reply = await client.get(URL(path, encoded=True))
        return reply.status, await reply.text()

    status, text = ask(work)
    assert status == 404
    assert "root:" not in text and "Traceback" not in text


def test_scan_skips_links_and_foreign_files(ask, home):
    replays = home / RUN / "replays"
    os.symlink(GOLDEN, replays / "link.ecr")
    (replays / "foreign.ecr").write_bytes(b"not a replay at all")
    (replays / "cut.ecr").write_bytes(GOLDEN.read_bytes()[:40])
    os.mkfifo(replays / "pipe.ecr")
    assert get_json(ask, "/api/v1/matches")[1]["total"] == 1


def test_damaged_chunk_returns_422(ask, home):
    with Replay(GOLDEN) as replay:
        ref = replay.chunks[1]
    path = home / RUN / "replays" / NAME
    data = bytearray(path.read_bytes())
    data[ref.offset + ref.length // 2] ^= 0xFF
    path.write_bytes(data)
    status, body = get_json(ask, f"/api/v1/matches/{MATCH}/chunks/1")
    assert status == 422 and body["title"] == "Unreadable replay" and body["status"] == 422
    assert get_json(ask, f"/api/v1/matches/{MATCH}")[0] == 200


def test_growing_match_is_live_and_sends_notices(ask, home):
    with Replay(GOLDEN) as replay:
        ends = [c.offset + c.length for c in replay.chunks]
    data, path = GOLDEN.read_bytes(), home / RUN / "replays" / "growing.ecr"
    path.write_bytes(data[: ends[0]])

    async def work(client):
        listed = await (await client.get("/api/v1/matches?live=1")).json()
        notices = []
        async with client.ws_connect("/api/v1/live") as socket:
            notices.append(await socket.receive_json(timeout=5))
            await asyncio.sleep(0.7)
            path.write_bytes(data[: ends[1]])
            notices.append(await socket.receive_json(timeout=5))
            path.write_bytes(data)
            notices.append(await socket.receive_json(timeout=5))
        return listed, notices

    listed, (joined, grown, ended) = ask(work)
    assert listed["total"] == 1 and listed["matches"][0]["chunks"] == 1
    ident = listed["matches"][0]["id"]
    assert joined == {"type": "match", "id": ident, "chunks": 1, "tick1": joined["tick1"]}
    assert grown["type"] == "chunk" and grown["chunks"] == 2 and grown["tick1"] > joined["tick1"]
    assert ended["type"] == "ended" and ended["chunks"] == len(ends)


def test_new_run_is_found_without_restart(ask, home):
    async def work(client):
        before = await (await client.get("/api/v1/matches")).json()
        await asyncio.sleep(0.5)
        other = home / "20260102-000000-duel-brave-lynx"
        (other / "replays").mkdir(parents=True)
        (other / "spec.json").write_text("{}")
        shutil.copy(GOLDEN, other / "replays" / "one.ecr")
        after = await (await client.get("/api/v1/matches")).json()
        return before["total"], after["total"]

    assert ask(work) == (1, 2)


def test_match_newer_than_last_scan_is_found_by_id(ask, home):
    async def work(client):
        await client.get("/api/v1/matches")  # scans
        shutil.copy(GOLDEN, home / RUN / "replays" / "new.ecr")
        return (await client.get(f"/api/v1/matches/{match_id(RUN, 'new.ecr')}")).status

    assert ask(work) == 200


def test_index_has_the_moments_of_the_file_and_the_list_the_top_one(ask):
    with Replay(GOLDEN) as replay:
        expected, top = replay.timeline(), replay.top_moment
    _, found = get_json(ask, f"/api/v1/matches/{MATCH}/index")
    assert {name: found[name] for name in ("win", "moments")} == {n: expected[n] for n in ("win", "moments")}
    assert found["moments"] and {"caption", "rank", "tick", "before", "after"} <= set(found["moments"][0])
    _, matches = get_json(ask, "/api/v1/matches")
    assert [row["moment"] for row in matches["matches"] if row["id"] == MATCH] == [top] and top


def test_index_of_a_truncated_match_has_its_moments_so_far(ask, home):
    path = home / RUN / "replays" / "cut.ecr"
    path.write_bytes(GOLDEN.read_bytes()[:-1400])
    os.utime(path, (1, 1))
    status, found = get_json(ask, f"/api/v1/matches/{match_id(RUN, 'cut.ecr')}/index")
    assert status == 200 and found["outcome"]["winner"] == -1
    assert found["win"]["tick"] and found["moments"] and all(0 < p < 1 for p in found["win"]["blue"])
