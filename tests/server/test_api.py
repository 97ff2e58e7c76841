"""The API of matches: summaries, header, index, chunks, file, worlds, runs and live notices."""

import asyncio
import copy
import json
import os
import shutil
import threading
import zlib

import numpy as np
import pytest
from yarl import URL

from echelon.replay.codec import world_hash
from echelon.replay.reader import Replay
from echelon.replay.schema import WORLDS_FOLDER
from echelon.replay.validate import Index
from echelon.server import catalogue, listing, routes
from echelon.server.catalogue import ReplayCatalogue, match_id, version_of
from echelon.server.responses import RESPONSE_CACHE, accepts, strict_json
from tests.replay import hostile
from tests.replay.hostile import INDEX_LAYOUTS, assemble
from tests.replay.synthetic import write_match
from tests.server.conftest import GOLDEN, MATCH, NAME, RUN, get_json, serving
from tests.server.support import WAIT_S


async def test_matches_lists_summaries(client):
    status, found = await get_json(client, "/api/v1/matches")
    assert status == 200 and found["total"] == 1
    (summary,) = found["matches"]
    assert summary["id"] == MATCH and summary["run"] == RUN and summary["file"] == NAME
    assert summary["complete"] and not summary["live"] and summary["chunks"] > 1
    assert summary["winner"] in (0, 1, 2)
    assert summary["levels"] == ["scripted", "scripted"]


async def test_matches_filters_and_pages(client):
    assert (await get_json(client, "/api/v1/matches?run=another"))[1] == {"total": 0, "matches": []}
    assert (await get_json(client, "/api/v1/matches?live=1"))[1]["total"] == 0
    assert (await get_json(client, "/api/v1/matches?offset=1&limit=5"))[1] == {"total": 1, "matches": []}
    assert (await get_json(client, "/api/v1/matches?limit=-3&offset=zzz"))[0] == 200


async def test_match_returns_header_and_index(client):
    with Replay(GOLDEN) as replay:
        status, found = await get_json(client, f"/api/v1/matches/{MATCH}")
        assert status == 200 and found["header"] == json.loads(json.dumps(replay.header))
        _, index = await get_json(client, f"/api/v1/matches/{MATCH}/index")
        assert index["chunks"] == [[c.tick0, c.tick1, c.length] for c in replay.chunks]
        assert index["live"] is False and index["outcome"]["winner"] == replay.timeline()["outcome"]["winner"]
        assert len(index["series"]["second"]) == len(index["series"]["alive"][0])


async def test_chunk_returns_file_bytes_as_immutable(client):
    match = await (await client.get(f"/api/v1/matches/{MATCH}")).json()
    first = await client.get(f"/api/v1/matches/{MATCH}/chunks/0?v={match['summary']['version']}")
    again = await client.get(f"/api/v1/matches/{MATCH}/chunks/0", headers={"If-None-Match": first.headers["ETag"]})
    with Replay(GOLDEN) as replay:
        assert await first.read() == replay.chunk_bytes(0)
    assert "immutable" in first.headers["Cache-Control"] and again.status == 304
    assert (await client.get(f"/api/v1/matches/{MATCH}/chunks/999")).status == 404


async def test_chunk_without_version_is_not_cacheable(client):
    replies = [await client.get(f"/api/v1/matches/{MATCH}/chunks/0{query}") for query in ("", "?v=", "?v=0123")]
    assert [(reply.status, reply.headers["Cache-Control"]) for reply in replies] == [(200, "no-cache")] * 3
    headers = []
    for name in ("small.ecr", "smoke.ecr"):
        with Replay(GOLDEN.with_name(name)) as replay:
            headers.append(replay.header)
    assert version_of(headers[0]) != version_of(headers[1]) != version_of({**headers[1], "created": 1.0})


async def test_world_is_served_by_hash(client):
    with Replay(GOLDEN) as replay:
        sha = replay.header["world"]["sha256"]
    reply = await client.get(f"/api/v1/worlds/{sha}")
    assert world_hash(zlib.decompress(await reply.read())) == sha
    assert (await client.get(f"/api/v1/worlds/{'0' * 64}")).status == 404


async def test_file_export_embeds_world(home, tmp_path, client):
    replays = home / RUN / "replays"
    (replays / NAME).unlink()
    here = write_match(replays / NAME, worlds=replays / WORLDS_FOLDER)
    reply = await client.get(f"/api/v1/matches/{MATCH}/file?world=1")
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "moved.ecr"
    moved.write_bytes(await reply.read())
    assert f"{MATCH}.ecr" in reply.headers["Content-Disposition"]
    with Replay(moved) as replay, Replay(here) as original:
        assert replay.world == original.world and replay.complete
        assert len(replay.chunks) == len(original.chunks)


async def test_runs_and_health_return_json(client):
    assert (await get_json(client, "/api/v1/runs"))[1] == {"runs": [{"id": RUN, "matches": 1}]}
    assert (await get_json(client, "/api/v1/healthz"))[1]["ok"] is True


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
async def test_uncatalogued_paths_return_404(path, client):
    reply = await client.get(URL(path, encoded=True))
    text = await reply.text()
    assert reply.status == 404 and "root:" not in text and "Traceback" not in text


async def test_scan_skips_links_and_foreign_files(home, client):
    replays = home / RUN / "replays"
    os.symlink(GOLDEN, replays / "link.ecr")
    (replays / "foreign.ecr").write_bytes(b"not a replay at all")
    (replays / "cut.ecr").write_bytes(GOLDEN.read_bytes()[:40])
    os.mkfifo(replays / "pipe.ecr")
    assert (await get_json(client, "/api/v1/matches"))[1]["total"] == 1


async def test_damaged_chunk_returns_422(home, client):
    with Replay(GOLDEN) as replay:
        ref = replay.chunks[1]
    path = home / RUN / "replays" / NAME
    data = bytearray(path.read_bytes())
    data[ref.offset + ref.length // 2] ^= 0xFF
    path.write_bytes(data)
    status, body = await get_json(client, f"/api/v1/matches/{MATCH}/chunks/1")
    assert status == 422 and body["title"] == "Unreadable replay" and body["status"] == 422
    assert (await get_json(client, f"/api/v1/matches/{MATCH}"))[0] == 200


async def test_observations_of_a_match_without_actions_are_refused_in_one_line_before_a_process_starts(
    client, monkeypatch
):
    monkeypatch.delattr("echelon.server.routes.play_again")
    status, body = await get_json(client, f"/api/v1/matches/{MATCH}/observations/0")
    assert status == 422 and body["detail"].startswith(f"replay {NAME!r} has no actions")


async def test_growing_match_is_live_and_sends_notices(home, client):
    with Replay(GOLDEN) as replay:
        ends = [c.offset + c.length for c in replay.chunks]
    data, path = GOLDEN.read_bytes(), home / RUN / "replays" / "growing.ecr"
    path.write_bytes(data[: ends[0]])
    listed = await (await client.get("/api/v1/matches?live=1")).json()
    async with client.ws_connect("/api/v1/live") as socket:
        joined = await socket.receive_json(timeout=5)
        await asyncio.sleep(0.7)
        path.write_bytes(data[: ends[1]])
        grown = await socket.receive_json(timeout=5)
        path.write_bytes(data)
        ended = await socket.receive_json(timeout=5)
    assert listed["total"] == 1 and listed["matches"][0]["chunks"] == 1
    ident = listed["matches"][0]["id"]
    assert joined == {"type": "match", "id": ident, "chunks": 1, "tick1": joined["tick1"]}
    assert grown["type"] == "chunk" and grown["chunks"] == 2 and grown["tick1"] > joined["tick1"]
    assert ended["type"] == "ended" and ended["chunks"] == len(ends)


async def test_new_run_is_found_without_restart(home, client):
    assert (await get_json(client, "/api/v1/matches"))[1]["total"] == 1
    await asyncio.sleep(0.5)
    other = home / "20260102-000000-duel-brave-lynx"
    (other / "replays").mkdir(parents=True)
    (other / "spec.json").write_text("{}")
    shutil.copy(GOLDEN, other / "replays" / "one.ecr")
    assert (await get_json(client, "/api/v1/matches"))[1]["total"] == 2


async def test_match_newer_than_last_scan_is_found_by_id(home, client):
    await client.get("/api/v1/matches")  # scans
    shutil.copy(GOLDEN, home / RUN / "replays" / "new.ecr")
    assert (await client.get(f"/api/v1/matches/{match_id(RUN, 'new.ecr')}")).status == 200


async def test_index_has_the_moments_of_the_file_and_the_list_the_top_one(client):
    with Replay(GOLDEN) as replay:
        expected, top = replay.timeline(), replay.top_moment
    _, found = await get_json(client, f"/api/v1/matches/{MATCH}/index")
    assert {name: found[name] for name in ("win", "moments")} == {n: expected[n] for n in ("win", "moments")}
    assert found["moments"] and {"caption", "rank", "tick", "before", "after"} <= set(found["moments"][0])
    _, matches = await get_json(client, "/api/v1/matches")
    assert [row["moment"] for row in matches["matches"] if row["id"] == MATCH] == [top] and top


async def test_index_of_a_truncated_match_has_its_moments_so_far(home, client):
    path = home / RUN / "replays" / "cut.ecr"
    path.write_bytes(GOLDEN.read_bytes()[:-1400])
    os.utime(path, (4e9, 4e9))  # from a machine whose clock is ahead
    status, found = await get_json(client, f"/api/v1/matches/{match_id(RUN, 'cut.ecr')}/index")
    assert status == 200 and found["outcome"]["winner"] == -1 and not found["live"]
    assert found["win"]["tick"] and found["moments"] and all(0 < p < 1 for p in found["win"]["blue"])


SECONDS, MARKERS = 20_000, 40_000


def bomb(seed: int, seconds: int = SECONDS, markers: int = MARKERS) -> bytes:
    """Return a small match whose INDEX holds many seconds and markers."""
    parts = copy.deepcopy(hostile.bases()[0])
    parts.header["seed"] = seed
    parts.series = [[1] * INDEX_LAYOUTS["series"].width] * seconds
    parts.markers = [[40] + [1] * (INDEX_LAYOUTS["markers"].width - 1)] * markers
    return assemble(parts)


def test_list_decodes_no_series(home, monkeypatch):
    folder = home / RUN / "replays"
    (folder / "large.ecr").write_bytes(bomb(1))
    (folder / "small.ecr").write_bytes(bomb(2, 500, 500))
    monkeypatch.setattr(Index, "columns", lambda index: pytest.fail("decoded"))
    inflated = []
    original = Replay.payload
    monkeypatch.setattr(Replay, "payload", lambda replay, head: inflated.append(head.raw) or original(replay, head))
    found = {match.path.name: match.summary for match in ReplayCatalogue(home).matches()}
    assert found["small.ecr"]["complete"] and not found["large.ecr"]["complete"] and found["large.ecr"]["chunks"]
    assert max(inflated) < 2**16


async def test_list_answers_while_the_first_scan_goes_on(home, monkeypatch, client):
    monkeypatch.setattr(listing, "LIST_WAIT_S", 0.05)
    second = home / "20270101-000000-quickstart-later"
    shutil.copytree(home / RUN, second)
    entered, go = threading.Event(), threading.Event()
    original = ReplayCatalogue._load_run

    def slow(found, run):
        if run.id == RUN:
            entered.set()
            assert go.wait(WAIT_S)
        return original(found, run)

    monkeypatch.setattr(ReplayCatalogue, "_load_run", slow)
    try:
        first = await (await client.get("/api/v1/matches")).json()
        many = await asyncio.gather(*(client.get("/api/v1/matches") for _ in range(20)))
        assert first["scanning"] and first["total"] < 2 and {reply.status for reply in many} == {200}
        assert (await client.get("/api/v1/runs")).status == 200
        assert (await client.get(f"/api/v1/worlds/{'0' * 64}")).status == 404
    finally:
        go.set()
    while (whole := await (await client.get("/api/v1/matches")).json()).get("scanning"):
        await asyncio.sleep(0.01)
    assert entered.is_set() and whole["total"] == 2


async def test_request_without_room_gets_503_and_others_go_on(client):
    cache = client.app[RESPONSE_CACHE]
    cache.max_total, held = 0, cache.max_total
    full = await client.get(f"/api/v1/matches/{MATCH}/index")
    assert (full.status, full.headers["Retry-After"]) == (503, "5")
    assert (await client.get("/api/v1/healthz")).status == 200
    cache.max_total = held
    assert (await client.get(f"/api/v1/matches/{MATCH}/index")).status == 200


def test_json_has_null_for_numbers_that_are_not_finite_and_base64_for_bytes():
    value = {"a": float("nan"), "b": np.array([1.5, np.inf]), "c": b"\xff", 1: np.int32(2), "d": (1, [2.5])}
    assert strict_json(value) == b'{"a":null,"b":[1.5,null],"c":"_w==","1":2,"d":[1,[2.5]]}'


async def test_header_is_made_beside_the_event_loop(monkeypatch, client):
    made = []
    monkeypatch.setattr(
        routes, "strict_json", lambda value: made.append(threading.current_thread().name) or strict_json(value)
    )
    assert (await get_json(client, f"/api/v1/matches/{MATCH}"))[1]["summary"]["id"] == MATCH
    assert made and not any("Main" in name for name in made)


@pytest.mark.parametrize("replaced", [True, False], ids=["another inode", "same inode"])
async def test_overwritten_match_is_served_after_the_next_scan(home, monkeypatch, replaced, client):
    monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 0.0)
    monkeypatch.setattr(routes, "SCAN_INTERVAL_S", 0.0)
    path = home / RUN / "replays" / NAME
    whole = copy.deepcopy(hostile.bases()[0])
    part = copy.deepcopy(whole)
    part.chunks, part.outcome = part.chunks[:1], {**part.outcome, "winner": 1}
    new = path.with_suffix(".new") if replaced else path
    for match, expected in ((whole, (2, 0, 200)), (part, (1, 1, 404))):
        new.write_bytes(assemble(match))
        new.replace(path)
        await client.get("/api/v1/matches")
        _, index = await get_json(client, f"/api/v1/matches/{MATCH}/index")
        second = (await client.get(f"/api/v1/matches/{MATCH}/chunks/1")).status
        assert (len(index["chunks"]), index["outcome"]["winner"], second) == expected


async def test_caches_are_private_where_a_token_is_required(home):
    for access, expected in ({}, "public"), ({"token": "secret"}, "private"):
        async with serving(home, **access) as client:
            client.session.headers["Cookie"] = f"echelon_token_{client.port}=secret"
            _, found = await get_json(client, "/api/v1/matches")
            chunk = await client.get(f"/api/v1/matches/{MATCH}/chunks/0?v={found['matches'][0]['version']}")
            assert chunk.headers["Cache-Control"].split(",")[0] == expected


async def test_compressed_json_has_another_tag(client):
    replies = [await client.get("/api/v1/matches", headers={"Accept-Encoding": c}) for c in ("identity", "gzip")]
    tags = [reply.headers["ETag"] for reply in replies]
    assert {reply.headers["Vary"] for reply in replies} == {"Accept-Encoding"} and len(set(tags)) == 2
    again = {"Accept-Encoding": "gzip", "If-None-Match": tags[1]}
    assert (await client.get("/api/v1/matches", headers=again)).status == 304
    assert all(accepts(text, "gzip") for text in ("gzip, br", "gzip;q=0.5"))
    assert not any(accepts(text, "gzip") for text in ("gzip;q=0", "gzip; q=0.0", "br", ""))


async def test_servers_of_a_host_do_not_take_each_others_cookies(home, caplog):
    async with serving(home, token="secret") as client:
        name = f"echelon_token_{client.port}"
        for cookie, status in {
            "echelon_token=secret": 401, "echelon_token_1=secret": 401, f"{name}=other": 401, f"{name}=\udcff": 401,
            f"{name}=secret; {name}=other": 200, f"{name}=other; {name}=secret": 200, f"a=b; {name}=secret": 200,
        }.items():  # fmt: skip
            reply = await client.get("/api/v1/runs", headers={"Cookie": cookie})
            assert reply.status == status and "json" in reply.content_type, cookie
        given = await client.get("/?token=secret", allow_redirects=False)
        assert given.headers["Set-Cookie"].startswith(f"{name}=") and not caplog.records
