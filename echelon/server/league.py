"""League routes: standings with unfinished rounds, pages of matches, and head-to-head results.

Private fields of entries are omitted; a match whose replay exists carries its catalogue id. ``before`` pages by the id
of the last match received, so that every page costs the same and none repeats a match while new ones are played.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from echelon.arena import standings
from echelon.arena.store import Store
from echelon.server.catalogue import match_id
from echelon.server.listing import LISTING, SLOW, run_on
from echelon.server.responses import (
    JSON,
    LEAGUE,
    MAX_PAGE,
    PAGE,
    RESPONSE_CACHE,
    REVALIDATE,
    Body,
    NotFoundError,
    body_response,
    parse_count,
    strict_json,
)
from echelon.server.security import problem

PRIVATE = ("path", "meta")
"""Fields of an entry that are not published."""
LISTED_ENTRIES = 1000
"""Most entries of an overview, the strongest."""
PAIR_ENTRIES = 200
"""Most entries whose head-to-head results are served, the strongest; they take up to 10 MB."""
WAL_SUFFIX = "-wal"
"""Suffix of SQLite's write-ahead log."""
T = TypeVar("T")


async def overview(request: web.Request) -> web.StreamResponse:
    """Return standings of the strongest, unfinished rounds and the newest matches, filtered as in ``matches``."""

    def query(store: Store) -> dict[str, Any]:
        rows = standings.standings(store)
        return {
            "standings": [{k: v for k, v in row.items() if k not in PRIVATE} for row in rows[:LISTED_ENTRIES]],
            "unfinished": standings.unfinished_rounds(store),
            **_page(store, request),
        }

    return await _respond(request, query)


async def matches(request: web.Request) -> web.StreamResponse:
    """Return a page of league matches, newest first.

    ``entry`` and ``against`` filter by one or both sides, ``outcome`` by result: won, lost, draw or void for the entry,
    or blue, red, draw or void without an entry. The page holds ``limit`` matches with ids below ``before``.
    """
    return await _respond(request, lambda store: _page(store, request))


async def pairs(request: web.Request) -> web.StreamResponse:
    path = await _league_path(request)

    def query() -> bytes:
        with Store(path, read_only=True) as store:
            return strict_json(standings.head_to_head(store, most=PAIR_ENTRIES))

    key = ("pairs", await asyncio.to_thread(_league_stamp, path))
    body = await request.app[RESPONSE_CACHE].get(key, lambda: run_on(request.app, SLOW, Body.of, query))
    return body_response(request, body, JSON, REVALIDATE)


def _page(store: Store, request: web.Request) -> dict[str, Any]:
    query = request.query
    limit = min(MAX_PAGE, parse_count(query.get("limit", ""), PAGE))
    before = parse_count(query.get("before", ""), standings.MAX_MATCH_ID)
    offset = parse_count(query.get("offset", ""), 0)
    entry, against, outcome = (query.get(name, "") for name in ("entry", "against", "outcome"))
    total = standings.count_matches(store, entry=entry, against=against, outcome=outcome)
    if limit == 0:
        return {"total": total, "matches": []}
    rows = standings.matches(
        store, entry=entry, against=against, outcome=outcome, before=before, limit=limit, offset=offset
    )
    return {"total": total, "matches": rows}


async def _league_path(request: web.Request) -> Path:
    path = request.app[LEAGUE]
    if not await asyncio.to_thread(path.is_file):
        raise NotFoundError("no league found")
    return path


async def _respond(request: web.Request, query: Callable[[Store], dict[str, Any]]) -> web.StreamResponse:
    """Return the result of ``query`` on the league as JSON, its matches with their catalogue ids."""
    parameters, path = request.query, await _league_path(request)
    allowed = (
        standings.ENTRY_OUTCOMES if parameters.get("entry") or parameters.get("against") else standings.MATCH_OUTCOMES
    )
    if (outcome := parameters.get("outcome", "")) and outcome not in allowed:
        return problem(400, "Unknown outcome", f"outcome is {outcome[:40]!r}, expected one of: {', '.join(allowed)}")

    listed, _ = await request.app[LISTING].get()
    known = {match.id for match in listed}

    def read() -> bytes:
        with Store(path, read_only=True) as store:
            found = query(store)
        for row in found["matches"]:
            ident = match_id(row["job"], row.pop("replay").rpartition("/")[2])
            row["match"] = ident if ident in known else ""
        return strict_json(found)

    body = await request.app[RESPONSE_CACHE].admit(lambda: run_on(request.app, SLOW, Body.of, read))
    return body_response(request, body, JSON, REVALIDATE)


def _league_stamp(path: Path) -> tuple[tuple[int, int, int], ...]:
    """Return inode, modification time and size of the league's files, which change with its content."""
    found = []
    for name in (path, Path(f"{path}{WAL_SUFFIX}")):
        try:
            info = os.stat(name)
            found.append((info.st_ino, info.st_mtime_ns, info.st_size))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)
