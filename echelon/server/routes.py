"""The read-only API: matches, their index, chunks and file, worlds, runs, the league and health.

Handlers look ids up in the catalogue and read files on a thread, so that a slow disk blocks nobody else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from echelon.arena import standings
from echelon.arena.store import Store
from echelon.replay.reader import Replay
from echelon.server.catalogue import FRESH_S, Catalogue, Match, match_id
from echelon.server.kept import Kept
from echelon.server.live import Hub

CATALOGUE: web.AppKey[Catalogue] = web.AppKey("catalogue", Catalogue)
LEAGUE: web.AppKey[Path] = web.AppKey("league", Path)
KEPT: web.AppKey[Kept] = web.AppKey("kept", Kept)
HUB: web.AppKey[Hub] = web.AppKey("hub", Hub)
API = "/api/v1"
ID = r"{id:[0-9a-f]{16}}"
SHA = r"{sha:[0-9a-f]{64}}"
NUMBER = r"{n:[0-9]{1,6}}"
FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
PRIVATE = ("path", "meta")
"""What of an entry is nobody's business but this machine's."""
PAGE = 50
MAX_PAGE = 200
LEVEL = 6
"""Compression of worlds."""
BINARY = "application/octet-stream"
JSON = "application/json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def strict_json(value: Any) -> str:
    """Return JSON in which numbers that are not finite are null."""

    def clean(part: Any) -> Any:
        if isinstance(part, float) and not math.isfinite(part):
            return None
        if isinstance(part, dict):
            return {key: clean(item) for key, item in part.items()}
        return [clean(item) for item in part] if isinstance(part, (list, tuple)) else part

    return json.dumps(clean(value), separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def answer_json(request: web.Request, value: Any) -> web.Response:
    """Answer with JSON under an ETag of its content; nothing new is a 304."""
    return answer_bytes(request, strict_json(value).encode(), JSON, ASK_AGAIN)


def answer_bytes(request: web.Request, body: bytes, kind: str, caching: str) -> web.Response:
    """Answer with bytes under an ETag of their content; nothing new is a 304."""
    tag = hashlib.sha256(body).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": caching}
    if request.if_none_match and any(etag.value in (tag, "*") for etag in request.if_none_match):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=body, headers=headers, content_type=kind)
    if kind == JSON:
        response.enable_compression()
    return response


async def matches(request: web.Request) -> web.Response:
    """List matches, live ones first, then the newest; ``run``, ``live``, ``limit`` and ``offset`` choose."""
    query = request.query
    limit = min(MAX_PAGE, _number(query.get("limit", ""), PAGE))
    offset = _number(query.get("offset", ""), 0)
    found = await asyncio.to_thread(request.app[CATALOGUE].matches)
    if "run" in query:
        found = [m for m in found if m.run == query["run"]]
    if query.get("live") == "1":
        found = [m for m in found if m.live]
    page = [m.summary for m in found[offset : offset + limit]]
    return answer_json(request, {"total": len(found), "matches": page})


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise


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
    """Give a chunk as it lies in the file; it never changes again."""
    found, catalogue = await _find(request), request.app[CATALOGUE]
    number = int(request.match_info["n"])
    key = ("chunk", *found.file, number)
    try:
        body = await request.app[KEPT].get(key, lambda: catalogue.read(found, lambda r: r.chunk_bytes(number)))
    except IndexError:
        raise web.HTTPNotFound() from None
    return answer_bytes(request, body, BINARY, FOREVER)


async def file(request: web.Request) -> web.StreamResponse:
    """Give the whole file, or the range asked for."""
    found = await _find(request)
    if not await asyncio.to_thread(found.path.is_file):
        raise web.HTTPNotFound()
    size = found.summary["bytes"]
    try:
        start = request.http_range.start or 0
    except ValueError:
        start = size
    if start >= size:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size}"})
    headers = {"Cache-Control": ASK_AGAIN, "Content-Disposition": f'attachment; filename="{found.id}.ecr"'}
    response = web.FileResponse(found.path, headers=headers)
    response.content_type = BINARY
    return response


async def world(request: web.Request) -> web.Response:
    """Give a world's payload, compressed; it is addressed by its content and never changes."""
    sha = request.match_info["sha"]
    catalogue = request.app[CATALOGUE]
    found = await asyncio.to_thread(catalogue.with_world, sha)
    if found is None:
        raise web.HTTPNotFound()

    def pack() -> bytes:
        return zlib.compress(catalogue.read(found, lambda replay: replay.load_world()), LEVEL)

    return answer_bytes(request, await request.app[KEPT].get(("world", sha), pack), BINARY, FOREVER)


async def runs(request: web.Request) -> web.Response:
    """List the runs that have matches."""
    return answer_json(request, {"runs": await asyncio.to_thread(request.app[CATALOGUE].runs)})


async def league(request: web.Request) -> web.Response:
    """Show the league: standings, rounds under way and its newest matches; ``entry``, ``limit``, ``offset`` choose."""
    query, path = request.query, request.app[LEAGUE]
    limit = min(MAX_PAGE, _number(query.get("limit", ""), PAGE))
    offset = _number(query.get("offset", ""), 0)

    def look() -> dict[str, Any]:
        with Store(path, read_only=True) as store:
            entry = query.get("entry", "")
            rows = standings.matches(store, entry=entry, limit=limit, offset=offset) if limit else []
            return {
                "standings": [{k: v for k, v in row.items() if k not in PRIVATE} for row in standings.standings(store)],
                "unfinished": standings.unfinished(store),
                "total": standings.played(store, entry=entry),
                "matches": rows,
            }

    if not await asyncio.to_thread(path.is_file):
        raise web.HTTPNotFound()
    found = await asyncio.to_thread(look)
    known = {match.id for match in await asyncio.to_thread(request.app[CATALOGUE].matches)}
    for row in found["matches"]:
        ident = match_id(row["job"], row.pop("replay").rpartition("/")[2])
        row["match"] = ident if ident in known else ""
    return answer_json(request, found)


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
    (f"{API}/league", league),
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
