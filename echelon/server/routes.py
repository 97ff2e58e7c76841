"""The read-only API: matches, their index, chunks and file, worlds, runs and health; beside them the league.

Handlers look ids up in the catalogue and read files on a thread, so that a slow disk blocks nobody else.
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
from echelon.server.catalogue import FRESH_S, Match
from echelon.server.live import Hub
from echelon.server.responses import (
    ASK_AGAIN,
    BINARY,
    CATALOGUE,
    FOREVER,
    JSON,
    KEPT,
    MAX_PAGE,
    PAGE,
    answer_bytes,
    answer_json,
    number_in,
    strict_json,
)

HUB: web.AppKey[Hub] = web.AppKey("hub", Hub)
API = "/api/v1"
ID = r"{id:[0-9a-f]{16}}"
SHA = r"{sha:[0-9a-f]{64}}"
NUMBER = r"{n:[0-9]{1,6}}"
LEVEL = 6
"""Compression of worlds."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def matches(request: web.Request) -> web.Response:
    """List matches, live ones first, then the newest; ``run``, ``live``, ``limit`` and ``offset`` choose."""
    query = request.query
    limit = min(MAX_PAGE, number_in(query.get("limit", ""), PAGE))
    offset = number_in(query.get("offset", ""), 0)
    found = await asyncio.to_thread(request.app[CATALOGUE].matches)
    if "run" in query:
        found = [m for m in found if m.run == query["run"]]
    if query.get("live") == "1":
        found = [m for m in found if m.live]
    page = [m.summary for m in found[offset : offset + limit]]
    return answer_json(request, {"total": len(found), "matches": page})


async def _find(request: web.Request) -> Match:
    """Return the match a request names; one that is not known yet is looked for again once the last scan is stale."""
    catalogue, wanted = request.app[CATALOGUE], request.match_info["id"]
    match = await asyncio.to_thread(catalogue.find, wanted)
    if match is None:
        await asyncio.sleep(FRESH_S)
        match = await asyncio.to_thread(catalogue.find, wanted)
    if match is None:
        raise web.HTTPNotFound()
    return match


async def match(request: web.Request) -> web.Response:
    """Show one match with the header of its file."""
    found = await _find(request)
    header = await asyncio.to_thread(request.app[CATALOGUE].read, found, lambda replay: replay.header)
    return answer_json(request, {"summary": found.summary, "header": header})


async def index(request: web.Request) -> web.Response:
    """Show chunks, series, markers and outcome, as far as they are written."""
    found, catalogue = await _find(request), request.app[CATALOGUE]

    def look(replay: Replay) -> bytes:
        chunks = [[c.tick0, c.tick1, c.length] for c in replay.chunks]
        return strict_json({"live": found.live and not replay.complete, "chunks": chunks, **replay.timeline()}).encode()

    key = ("index", found.id, found.stamp, found.live)
    body = await request.app[KEPT].get(key, lambda: catalogue.read(found, look))
    return answer_bytes(request, body, JSON, ASK_AGAIN)


async def chunk(request: web.Request) -> web.Response:
    """Give a chunk as it lies in the file.

    Under the version of its match, asked for as ``v``, it never changes again; by its number alone it may be another
    one once another file has taken the name of this.
    """
    found, catalogue = await _find(request), request.app[CATALOGUE]
    number = int(request.match_info["n"])
    key = ("chunk", *found.file, number)
    try:
        body = await request.app[KEPT].get(key, lambda: catalogue.read(found, lambda r: r.chunk_bytes(number)))
    except IndexError:
        raise web.HTTPNotFound() from None
    caching = FOREVER if request.query.get("v") == found.summary["version"] else ASK_AGAIN
    return answer_bytes(request, body, BINARY, caching)


async def file(request: web.Request) -> web.StreamResponse:
    """Give the whole file, or the range asked for; with ``world=1`` with its world inside, to be handed on."""
    found = await _find(request)
    attachment = {"Content-Disposition": f'attachment; filename="{found.id}.ecr"'}
    if request.query.get("world") == "1":
        key = ("whole", found.file, found.stamp)
        whole = await request.app[KEPT].get(key, lambda: request.app[CATALOGUE].read(found, embed_world))
        return web.Response(body=whole, headers={"Cache-Control": ASK_AGAIN, **attachment}, content_type=BINARY)
    if not await asyncio.to_thread(found.path.is_file):
        raise web.HTTPNotFound()
    size = found.summary["bytes"]
    try:
        start = request.http_range.start or 0
    except ValueError:
        start = size
    if start >= size:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size}"})
    response = web.FileResponse(found.path, headers={"Cache-Control": ASK_AGAIN, **attachment})
    response.content_type = BINARY
    return response


async def world(request: web.Request) -> web.Response:
    """Give a world's payload, compressed; it is addressed by its content and never changes."""
    sha = request.match_info["sha"]
    catalogue = request.app[CATALOGUE]
    found = await asyncio.to_thread(catalogue.embed_world, sha)
    if found is None:
        raise web.HTTPNotFound()

    def pack() -> bytes:
        return zlib.compress(catalogue.read(found, lambda replay: replay.load_world()), LEVEL)

    return answer_bytes(request, await request.app[KEPT].get(("world", sha), pack), BINARY, FOREVER)


async def runs(request: web.Request) -> web.Response:
    """List the runs that have matches."""
    return answer_json(request, {"runs": await asyncio.to_thread(request.app[CATALOGUE].runs)})


async def health(request: web.Request) -> web.Response:
    """Say that the server is well, and who it is."""
    import echelon

    return answer_json(request, {"ok": True, "version": echelon.__version__, "home": request.app[CATALOGUE].mark})


async def live(request: web.Request) -> web.StreamResponse:
    """Open the channel of live notices."""
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
    "<!doctype html><meta charset=utf-8><title>Echelon</title><p>The viewer is not part of this installation. "
    "Install Echelon with <code>pip install .</code>, which builds it, and start the server again."
)


async def page(request: web.Request) -> web.StreamResponse:
    """Give the viewer's page."""
    path = STATIC / "index.html"
    if not path.is_file():
        return web.Response(status=503, text=NOT_BUILT, content_type="text/html")
    return web.FileResponse(path, headers={"Cache-Control": ASK_AGAIN})


async def asset(request: web.Request) -> web.StreamResponse:
    """Give a file of the built viewer, looked up by name in its folder."""
    known = await asyncio.to_thread(built_files)
    path = known.get(request.match_info["path"])
    if path is None:
        raise web.HTTPNotFound()
    caching = FOREVER if request.match_info["path"].startswith("assets/") else ASK_AGAIN
    return web.FileResponse(path, headers={"Cache-Control": caching})


def built_files() -> dict[str, Path]:
    """Return the files of the built viewer by their path in the address."""
    if not STATIC.is_dir():
        return {}
    return {str(p.relative_to(STATIC).as_posix()): p for p in STATIC.rglob("*") if p.is_file() and not p.is_symlink()}
