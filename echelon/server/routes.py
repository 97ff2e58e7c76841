"""The read-only API: matches with index, chunks and file, worlds, runs, health and the league.

Handlers look ids up in the catalogue and read files on a thread, so that a slow disk does not block the event loop.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from echelon.replay.embed import embed_world
from echelon.replay.reader import Replay
from echelon.server import league
from echelon.server.catalogue import SCAN_INTERVAL_S, Match, unreadable
from echelon.server.live import NoticeHub
from echelon.server.responses import (
    BINARY,
    CATALOGUE,
    IMMUTABLE,
    JSON,
    MAX_PAGE,
    PAGE,
    RESPONSE_CACHE,
    REVALIDATE,
    NotFoundError,
    bytes_response,
    json_response,
    parse_count,
    strict_json,
)

HUB: web.AppKey[NoticeHub] = web.AppKey("hub", NoticeHub)
API = "/api/v1"
ID = r"{id:[0-9a-f]{16}}"
SHA = r"{sha:[0-9a-f]{64}}"
NUMBER = r"{n:[0-9]{1,6}}"
LEVEL = 6
"""zlib level of worlds."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def matches(request: web.Request) -> web.Response:
    """Return a page of matches, live ones first, then newest; filtered by ``run`` and ``live``."""
    query = request.query
    limit = min(MAX_PAGE, parse_count(query.get("limit", ""), PAGE))
    offset = parse_count(query.get("offset", ""), 0)
    found = await asyncio.to_thread(request.app[CATALOGUE].matches)
    if "run" in query:
        found = [m for m in found if m.run == query["run"]]
    if query.get("live") == "1":
        found = [m for m in found if m.live]
    page = [m.summary for m in found[offset : offset + limit]]
    return json_response(request, {"total": len(found), "matches": page})


async def _find(request: web.Request) -> Match:
    """Return the match a request names, or 404; waits for the next scan before it reports one as missing."""
    catalogue, ident = request.app[CATALOGUE], request.match_info["id"]
    match = await asyncio.to_thread(catalogue.find, ident)
    if match is None:
        await asyncio.sleep(SCAN_INTERVAL_S)
        match = await asyncio.to_thread(catalogue.find, ident)
    if match is None:
        raise NotFoundError("match not found")
    return match


async def match(request: web.Request) -> web.Response:
    """Return the summary of one match and the header of its file."""
    found = await _find(request)
    header = await asyncio.to_thread(request.app[CATALOGUE].read, found, lambda replay: replay.header)
    return json_response(request, {"summary": found.summary, "header": header})


async def index(request: web.Request) -> web.Response:
    """Return chunks, series, markers and outcome as far as recorded."""
    found, catalogue = await _find(request), request.app[CATALOGUE]

    def query(replay: Replay) -> bytes:
        chunks = [[c.tick0, c.tick1, c.length] for c in replay.chunks]
        return strict_json({"live": found.live and not replay.complete, "chunks": chunks, **replay.timeline()}).encode()

    key = ("index", found.id, found.stamp, found.live)
    body = await request.app[RESPONSE_CACHE].get(key, lambda: catalogue.read(found, query))
    return bytes_response(request, body, JSON, REVALIDATE)


async def chunk(request: web.Request) -> web.Response:
    """Return the bytes of a chunk record.

    With the match's version as ``v`` it is immutable; without, the file may be replaced by another of the same name.
    """
    found, catalogue = await _find(request), request.app[CATALOGUE]
    number = int(request.match_info["n"])
    key = ("chunk", *found.file, number)
    try:
        body = await request.app[RESPONSE_CACHE].get(
            key, lambda: catalogue.read(found, lambda r: r.chunk_bytes(number))
        )
    except IndexError:
        raise NotFoundError("chunk not found") from None
    caching = IMMUTABLE if request.query.get("v") == found.summary["version"] else REVALIDATE
    return bytes_response(request, body, BINARY, caching)


async def file(request: web.Request) -> web.StreamResponse:
    """Return the replay file or a range of it; with ``world=1`` with its world embedded, for sharing."""
    found = await _find(request)
    attachment = {"Content-Disposition": f'attachment; filename="{found.id}.ecr"'}
    if request.query.get("world") == "1":
        key = ("whole", found.file, found.stamp)
        whole = await request.app[RESPONSE_CACHE].get(key, lambda: request.app[CATALOGUE].read(found, embed_world))
        return web.Response(body=whole, headers={"Cache-Control": REVALIDATE, **attachment}, content_type=BINARY)
    await asyncio.to_thread(check_readable, found)
    size = found.summary["bytes"]
    try:
        start = request.http_range.start or 0
    except ValueError:
        start = size
    if start >= size:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size}"})
    response = web.FileResponse(found.path, headers={"Cache-Control": REVALIDATE, **attachment})
    response.content_type = BINARY
    return response


def check_readable(match: Match) -> None:
    """Open and close the file of a match: where that fails, aiohttp would answer 404 without a body."""
    try:
        with open(match.path, "rb"):
            return
    except FileNotFoundError:
        raise NotFoundError("file not found") from None
    except OSError as error:
        raise unreadable(match, error) from None


async def world(request: web.Request) -> web.Response:
    """Return a world's payload, zlib-compressed; immutable, since its address is the hash of its content."""
    sha = request.match_info["sha"]
    catalogue = request.app[CATALOGUE]
    found = await asyncio.to_thread(catalogue.find_by_world, sha)
    if found is None:
        raise NotFoundError("world not found")

    def pack() -> bytes:
        return zlib.compress(catalogue.read(found, lambda replay: replay.load_world()), LEVEL)

    return bytes_response(request, await request.app[RESPONSE_CACHE].get(("world", sha), pack), BINARY, IMMUTABLE)


async def runs(request: web.Request) -> web.Response:
    """Return the runs that have matches."""
    return json_response(request, {"runs": await asyncio.to_thread(request.app[CATALOGUE].runs)})


async def health(request: web.Request) -> web.Response:
    """Return version and home of the server; a response means that it is healthy."""
    import echelon

    return json_response(
        request, {"ok": True, "version": echelon.__version__, "home": request.app[CATALOGUE].home_hash}
    )


async def live(request: web.Request) -> web.StreamResponse:
    """Open the WebSocket of live notices."""
    return await request.app[HUB].join(request)


ROUTES: tuple[tuple[str, Handler], ...] = (
    (f"{API}/matches", matches),
    (f"{API}/matches/{ID}", match),
    (f"{API}/matches/{ID}/index", index),
    (f"{API}/matches/{ID}/chunks/{NUMBER}", chunk),
    (f"{API}/matches/{ID}/file", file),
    (f"{API}/worlds/{SHA}", world),
    (f"{API}/runs", runs),
    (f"{API}/league", league.overview),
    (f"{API}/league/matches", league.matches),
    (f"{API}/league/pairs", league.pairs),
    (f"{API}/healthz", health),
    (f"{API}/live", live),
)

STATIC = Path(__file__).parent / "static"
NOT_BUILT = (
    "<!doctype html><meta charset=utf-8><title>Echelon</title><p>The viewer is not built in this installation. "
    "Install Echelon with <code>pip install .</code>, which builds it, and restart the server."
)


async def page(request: web.Request) -> web.StreamResponse:
    """Return the viewer's page."""
    path = STATIC / "index.html"
    if not path.is_file():
        return web.Response(status=503, text=NOT_BUILT, content_type="text/html")
    return web.FileResponse(path, headers={"Cache-Control": REVALIDATE})


async def asset(request: web.Request) -> web.StreamResponse:
    """Return a file of the built viewer, looked up by its listed path."""
    known = await asyncio.to_thread(static_files)
    path = known.get(request.match_info["path"])
    if path is None:
        raise NotFoundError("file not found")
    caching = IMMUTABLE if request.match_info["path"].startswith("assets/") else REVALIDATE
    return web.FileResponse(path, headers={"Cache-Control": caching})


def static_files() -> dict[str, Path]:
    """Return the files of the built viewer by URL path."""
    if not STATIC.is_dir():
        return {}
    return {str(p.relative_to(STATIC).as_posix()): p for p in STATIC.rglob("*") if p.is_file() and not p.is_symlink()}
