"""The read-only API: matches with index, chunks and file, worlds, runs, health and the league; play sessions.

Handlers look ids up in the catalogue and read files on a thread, so that a slow disk does not block the event loop.
"""

import asyncio
import html
import sys
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import wraps
from mimetypes import MimeTypes
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

from aiohttp import web

from echelon.arena import standings
from echelon.arena.store import Store
from echelon.replay.codec import WORLD_LEVEL, ReplayError
from echelon.replay.embed import embed_world
from echelon.replay.reader import Replay, require_actions
from echelon.runs import list_runs
from echelon.server.catalogue import SCAN_INTERVAL_S, Match, ReplacedError
from echelon.server.listing import LISTING, PLAYED_AGAIN, READS, SLOW, TURNS, run_on, run_through
from echelon.server.live import NoticeHub
from echelon.server.play import PlayGate
from echelon.server.responses import (
    BINARY,
    CATALOGUE,
    IMMUTABLE,
    JSON,
    LEAGUE,
    MAX_PAGE,
    PAGE,
    RESPONSE_CACHE,
    REVALIDATE,
    NotFoundError,
    OpenFileResponse,
    ResponseBody,
    body_response,
    json_response,
    long_json_response,
    parse_count,
    strict_json,
)
from echelon.server.security import ACCESS, CSP, PAGE_POLICY, refused_origin
from echelon.server.security import PAGE as WORDS
from echelon.state_files import read_bounded

HUB: web.AppKey[NoticeHub] = web.AppKey("hub", NoticeHub)
PLAY: web.AppKey[PlayGate] = web.AppKey("play", PlayGate)
API = "/api/v1"
ID = r"{id:[0-9a-f]{16}}"
SHA = r"{sha:[0-9a-f]{64}}"
NUMBER = r"{n:[0-9]{1,6}}"
SCAN_POLL_S = 0.1
"""Time between looks for a match during a scan [s]."""
MAX_SHARED_BYTES = 2**28
"""Size of a replay up to which it is sent with its world embedded, from memory."""
OBSERVATIONS, REFUSED, OBSERVE_S = "echelon.arena.observations", 3, 300.0
"""Module that plays a match again, its exit status where it cannot, and most time that it takes [s]."""
PRIVATE = ("path", "meta")
"""Fields of a league entry that are not published."""
LISTED_ENTRIES = 1000
"""Most entries of a league that are listed, the strongest."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def matches(request: web.Request) -> web.StreamResponse:
    """Return a page of matches, live ones first, then newest; filtered by ``run`` and ``live``.

    ``scanning`` is true while the first scan of the run folders goes on: further matches follow.
    """
    query = request.query
    limit = min(MAX_PAGE, parse_count(query.get("limit", ""), PAGE))
    offset = parse_count(query.get("offset", ""), 0)
    found, whole = await request.app[LISTING].get()
    if "run" in query:
        found = [m for m in found if m.run == query["run"]]
    if query.get("live") == "1":
        found = [m for m in found if m.live]
    more = {} if whole else {"scanning": True}
    page = [m.summary for m in found[offset : offset + limit]]
    return await long_json_response(request, {"total": len(found), "matches": page, **more})


async def _find(request: web.Request) -> Match:
    """Return the match a request names, or 404; waits for the next scan before it reports one as missing."""
    catalogue, ident = request.app[CATALOGUE], request.match_info["id"]
    match, _ = await asyncio.to_thread(catalogue.look_up, ident)
    if match is None:
        await asyncio.sleep(SCAN_INTERVAL_S)
        match, current = await asyncio.to_thread(catalogue.look_up, ident)
        while match is None and not current:  # a scan may take long, and no thread is held until it ends
            await asyncio.sleep(SCAN_POLL_S)
            match, current = await asyncio.to_thread(catalogue.look_up, ident)
    if match is None:
        raise NotFoundError("match not found")
    return match


def of_match(handler: Callable[[web.Request, Match], Awaitable[web.StreamResponse]]) -> Handler:
    """Return a handler of the match a request names, tried again after the next scan if its file was replaced."""

    @wraps(handler)
    async def handle_match(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request, await _find(request))
        except ReplacedError:
            await asyncio.sleep(SCAN_INTERVAL_S)
            return await handler(request, await _find(request))

    return handle_match


@of_match
async def match(request: web.Request, found: Match) -> web.StreamResponse:
    app = request.app

    def make() -> bytes:
        header = app[CATALOGUE].read(found, lambda replay: replay.header)
        return strict_json({"summary": found.summary, "header": header})

    key = ("match", found.id, found.stamp, found.live)
    body = await app[RESPONSE_CACHE].get(key, lambda: run_on(app, READS, ResponseBody.of, make))
    return body_response(request, body, JSON, REVALIDATE)


@of_match
async def index(request: web.Request, found: Match) -> web.StreamResponse:
    key = ("index", found.id, found.stamp, found.live)
    body = await request.app[RESPONSE_CACHE].get(key, lambda: index_body(request.app, found))
    return body_response(request, body, JSON, REVALIDATE)


async def index_body(app: web.Application, match: Match) -> ResponseBody:
    """Return the index of a match as JSON.

    That of an unclosed file is computed in steps that take turns with other timelines and readers, and ends early if
    the file is gone. Between its steps the catalogue keeps what was computed, as long as it keeps the file open.
    """

    def content(replay: Replay) -> dict[str, Any]:
        chunks = [[c.tick0, c.tick1, c.length] for c in replay.chunks]
        return {"live": match.live and not replay.complete, "chunks": chunks, **replay.timeline_columns()}

    def step(replay: Replay) -> dict[str, Any] | None:
        return content(replay) if replay.extend_timeline() else None

    catalogue, found = app[CATALOGUE], None
    if await run_on(app, READS, catalogue.read, match, lambda replay: replay.complete):
        return await run_on(app, SLOW, ResponseBody.of, lambda: strict_json(catalogue.read(match, content)))
    while found is None:
        async with app[TURNS]:
            found = await run_through(app, SLOW, catalogue.read, match, step)
    return await run_on(app, SLOW, ResponseBody.of, lambda: strict_json(found))


@of_match
async def chunk(request: web.Request, found: Match) -> web.StreamResponse:
    """Return the bytes of a chunk record.

    With the match's version as ``v`` it is immutable; without, the file may be replaced by another of the same name.
    """
    app, number = request.app, int(request.match_info["n"])
    key = ("chunk", *found.file, number)

    def read() -> bytes:
        return app[CATALOGUE].read(found, lambda replay: replay.chunk_bytes(number))

    try:
        body = await app[RESPONSE_CACHE].get(key, lambda: run_on(app, READS, ResponseBody.of, read))
    except IndexError:
        raise NotFoundError("chunk not found") from None
    caching = IMMUTABLE if request.query.get("v") == found.summary["version"] else REVALIDATE
    return body_response(request, body, BINARY, caching)


@of_match
async def observations(request: web.Request, found: Match) -> web.StreamResponse:
    """Return what the policy of a mech observed in a match, packed by ``echelon.arena.observations``."""
    mech = int(request.match_info["n"])
    if not found.summary["complete"]:
        raise ReplayError(f"replay {found.path.name!r} is not complete: it is still being recorded, or was cut off")
    await run_on(request.app, READS, request.app[CATALOGUE].read, found, require_actions)
    key = ("observations", *found.file, mech)
    body = await request.app[RESPONSE_CACHE].get(key, lambda: play_again(request.app, found, mech))
    return body_response(request, body, BINARY, REVALIDATE)


async def play_again(app: web.Application, match: Match, mech: int) -> ResponseBody:
    """Return the packed observations of a mech from a process that plays the match again; one runs at a time."""
    command = (sys.executable, "-m", OBSERVATIONS, str(match.path), str(mech))
    async with app[PLAYED_AGAIN]:
        process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
        try:
            async with asyncio.timeout(OBSERVE_S):
                data, errors = await process.communicate()
        except TimeoutError:
            raise ReplayError(
                f"replay {match.path.name!r} takes more than {OBSERVE_S:g} s to be played again"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    reason = errors.decode(errors="replace").strip().splitlines()[-1:]
    if process.returncode == REFUSED:
        raise ReplayError(*reason)
    if process.returncode:
        raise RuntimeError(f"observations of {match.path.name!r} failed: {reason}")
    return ResponseBody(data)


@of_match
async def file(request: web.Request, found: Match) -> web.StreamResponse:
    """Return the replay file or a range of it; with ``world=1`` with its world embedded, for sharing."""
    app, catalogue = request.app, request.app[CATALOGUE]
    attachment = {"Content-Disposition": f'attachment; filename="{found.id}.ecr"'}
    if request.query.get("world") != "1":
        opened = await run_on(app, READS, catalogue.open_file, found)
        return OpenFileResponse(opened, BINARY, {"Cache-Control": REVALIDATE, **attachment})
    if found.summary["bytes"] > MAX_SHARED_BYTES:
        raise ReplayError(f"replay {found.path.name!r} is too large to be shared here; try: echelon replay export")

    def embed() -> bytes:
        return catalogue.read_alone(found, embed_world)

    body = await app[RESPONSE_CACHE].admit(lambda: run_on(app, SLOW, ResponseBody.of, embed))
    response = body_response(request, body, BINARY, REVALIDATE)
    response.headers.update(attachment)
    return response


async def world(request: web.Request) -> web.StreamResponse:
    """Return a world's payload, zlib-compressed; immutable, since its address is the hash of its content."""
    app, sha = request.app, request.match_info["sha"]
    for wait in (SCAN_INTERVAL_S, 0.0):  # a match may be newer than the last scan
        listed, _ = await app[LISTING].get()
        if found := next((match for match in listed if match.world == sha), None):
            break
        await asyncio.sleep(wait)
    if found is None:
        raise NotFoundError("world not found")

    def pack() -> bytes:
        return zlib.compress(app[CATALOGUE].read_alone(found, Replay.load_world), WORLD_LEVEL)

    body = await app[RESPONSE_CACHE].get(("world", sha), lambda: run_on(app, SLOW, ResponseBody.of, pack))
    return body_response(request, body, BINARY, IMMUTABLE)


async def runs(request: web.Request) -> web.StreamResponse:
    listed, _ = await request.app[LISTING].get()
    counts = Counter(match.run for match in listed)
    found = [{"id": run, "matches": counts[run]} for run in sorted(counts, reverse=True)]
    return await long_json_response(request, {"runs": found})


async def league(request: web.Request) -> web.StreamResponse:
    """Return standings of the strongest entries with unfinished rounds, without private fields."""
    path = request.app[LEAGUE]
    if not await asyncio.to_thread(path.is_file):
        raise NotFoundError("no league found")

    def read() -> bytes:
        with Store(path, read_only=True) as store:
            rows = standings.standings(store)[:LISTED_ENTRIES]
            listed = [{name: value for name, value in row.items() if name not in PRIVATE} for row in rows]
            return strict_json({"standings": listed, "unfinished": standings.unfinished_rounds(store)})

    body = await request.app[RESPONSE_CACHE].admit(lambda: run_on(request.app, SLOW, ResponseBody.of, read))
    return body_response(request, body, JSON, REVALIDATE)


async def redteams(request: web.Request) -> web.StreamResponse:
    """Return the page of a red team, without an id a page of links to all; no script in it is executed."""
    pages = {run.id: run.page for run in await asyncio.to_thread(list_runs, request.app[CATALOGUE].home, "sweep")}
    try:
        if ident := request.match_info.get("id"):
            text = (await asyncio.to_thread(read_bounded, pages[ident], follow_links=False)).decode(errors="replace")
        else:
            found = [html.escape(name) for name, page in pages.items() if page.is_file()]
            links = "<br>".join(f'<a href="redteams/{name}">{name}</a>' for name in found)
            text = WORDS.format(title="Red teams", detail=links or "None yet; start one with echelon redteam RUN")
    except (KeyError, OSError, ValueError):
        raise NotFoundError("red team not found") from None
    return web.Response(text=text, content_type="text/html", headers={CSP: PAGE_POLICY, "Cache-Control": REVALIDATE})


async def health(request: web.Request) -> web.StreamResponse:
    """Return version and home of the server; a response means that it is healthy.

    ``refusal`` says why a page of the origin in the query cannot open a WebSocket, which a browser does not tell it.
    """
    import echelon

    refusal = refused_origin(request.app[ACCESS], request, request.query.get("origin", ""))
    home = request.app[CATALOGUE].home_hash
    return json_response(request, {"ok": True, "version": echelon.__version__, "home": home, "refusal": refusal})


async def live(request: web.Request) -> web.StreamResponse:
    return await request.app[HUB].join(request)


async def play(request: web.Request) -> web.StreamResponse:
    if PLAY not in request.app:
        raise NotFoundError("this server does not play; start one with: echelon serve --play")
    return await request.app[PLAY].join(request)


ROUTES: tuple[tuple[str, Handler], ...] = (
    (f"{API}/matches", matches),
    (f"{API}/matches/{ID}", match),
    (f"{API}/matches/{ID}/index", index),
    (f"{API}/matches/{ID}/chunks/{NUMBER}", chunk),
    (f"{API}/matches/{ID}/observations/{NUMBER}", observations),
    (f"{API}/matches/{ID}/file", file),
    (f"{API}/worlds/{SHA}", world),
    (f"{API}/runs", runs),
    (f"{API}/league", league),
    (f"{API}/healthz", health),
    (f"{API}/live", live),
    (f"{API}/play", play),
    ("/redteams", redteams),
    (r"/redteams/{id:[\w.-]{1,128}}", redteams),
)

STATIC = Path(__file__).parent / "static"
PAGE_NAME = "index.html"
TWINS = (".br", ".gz")
"""Suffixes of compressed twins of assets."""
MEDIA_TYPES = MimeTypes()
MEDIA_TYPES.add_type("text/javascript", ".js")
MEDIA_TYPES.add_type("font/woff2", ".woff2")
NOT_BUILT = (
    "<!doctype html><meta charset=utf-8><title>Echelon</title><p>The viewer is not built in this installation. "
    "Install Echelon with <code>pip install .</code>, which builds it, and restart the server."
)


async def page(request: web.Request) -> web.StreamResponse:
    if not await asyncio.to_thread((STATIC / PAGE_NAME).is_file):
        return web.Response(status=503, text=NOT_BUILT, content_type="text/html")
    return static_response(PAGE_NAME, STATIC / PAGE_NAME, REVALIDATE)


async def asset(request: web.Request) -> web.StreamResponse:
    name = request.match_info["path"]
    path = (await asyncio.to_thread(static_files)).get(name)
    if path is None:
        raise NotFoundError("file not found")
    return static_response(name, path, IMMUTABLE if name.startswith("assets/") else REVALIDATE)


def static_response(name: str, path: Path, caching: str) -> web.FileResponse:
    """Return a file of the built viewer; aiohttp prefers the compressed twin that the build wrote beside it."""
    headers = {"Content-Type": media_type(name), "Cache-Control": caching, "Vary": "Accept-Encoding"}
    return web.FileResponse(path, headers=headers)


def media_type(name: str) -> str:
    """Return the media type of a file by its name, whatever the system's own table says."""
    return MEDIA_TYPES.guess_type(name)[0] or BINARY


def static_files() -> dict[str, Path]:
    """Return the files of the built viewer by URL path, without compressed twins."""
    if not STATIC.is_dir():
        return {}
    files = (p for p in STATIC.rglob("*") if p.is_file() and not p.is_symlink())
    return {p.relative_to(STATIC).as_posix(): p for p in files if p.suffix not in TWINS}
