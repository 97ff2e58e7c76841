"""The league as the API gives it: standings and rounds under way, its matches page by page, and who beats whom.

What is private to this machine is left out; a match that can be watched has its id in the catalogue. ``before`` pages
by the id of the last match seen, so that a page costs the same however far down it lies and none is told twice while
new ones are played.
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
from echelon.server.responses import (
    ASK_AGAIN,
    CATALOGUE,
    JSON,
    KEPT,
    LEAGUE,
    MAX_PAGE,
    PAGE,
    answer_bytes,
    answer_json,
    number_in,
    strict_json,
)
from echelon.server.security import problem

PRIVATE = ("path", "meta")
"""What of an entry is nobody's business but this machine's."""
JOURNAL = "-wal"
"""Ends the name of the file in which SQLite keeps what is not yet in the main one."""
T = TypeVar("T")


async def overview(request: web.Request) -> web.Response:
    """Show standings, rounds under way and the newest matches, which are chosen as those of ``matches``."""

    def look(store: Store) -> dict[str, Any]:
        rows = standings.standings(store)
        return {
            "standings": [{k: v for k, v in row.items() if k not in PRIVATE} for row in rows],
            "unfinished": standings.unfinished(store),
            **_page(store, request),
        }

    return await _answer(request, look)


async def matches(request: web.Request) -> web.Response:
    """List matches, the newest first.

    ``entry`` and ``against`` choose those of one or of two, ``outcome`` how they ended: won, lost, draw or void for the
    entry, or blue, red, draw or void where none is given. ``limit`` many are given from the one below ``before`` on.
    """
    return await _answer(request, lambda store: _page(store, request))


async def pairs(request: web.Request) -> web.Response:
    """Show how everybody fared against everybody else, and rings in which each beats the next."""
    path = await _league(request)

    def look() -> bytes:
        with Store(path, read_only=True) as store:
            return strict_json(standings.head_to_head(store)).encode()

    body = await request.app[KEPT].get(("pairs", await asyncio.to_thread(_stamp, path)), look)
    return answer_bytes(request, body, JSON, ASK_AGAIN)


def _page(store: Store, request: web.Request) -> dict[str, Any]:
    """Return a page of matches and how many there are in all."""
    query = request.query
    limit = min(MAX_PAGE, number_in(query.get("limit", ""), PAGE))
    before = number_in(query.get("before", ""), standings.NEWEST)
    offset = number_in(query.get("offset", ""), 0)
    entry, against, outcome = (query.get(name, "") for name in ("entry", "against", "outcome"))
    total = standings.played(store, entry=entry, against=against, outcome=outcome)
    if limit == 0:
        return {"total": total, "matches": []}
    rows = standings.matches(
        store, entry=entry, against=against, outcome=outcome, before=before, limit=limit, offset=offset
    )
    return {"total": total, "matches": rows}


async def _league(request: web.Request) -> Path:
    path = request.app[LEAGUE]
    if not await asyncio.to_thread(path.is_file):
        raise web.HTTPNotFound()
    return path


async def _answer(request: web.Request, look: Callable[[Store], dict[str, Any]]) -> web.Response:
    """Answer with what ``look`` finds in the league, its matches with their ids in the catalogue."""
    query, path = request.query, await _league(request)
    wanted = standings.FARED if query.get("entry") or query.get("against") else standings.ENDED
    if (outcome := query.get("outcome", "")) and outcome not in wanted:
        return problem(400, "Unknown outcome", f"outcome is {outcome[:40]!r}, wanted one of: {', '.join(wanted)}")

    def read() -> dict[str, Any]:
        with Store(path, read_only=True) as store:
            return look(store)

    found = await asyncio.to_thread(read)
    known = {match.id for match in await asyncio.to_thread(request.app[CATALOGUE].matches)}
    for row in found["matches"]:
        ident = match_id(row["job"], row.pop("replay").rpartition("/")[2])
        row["match"] = ident if ident in known else ""
    return answer_json(request, found)


def _stamp(path: Path) -> tuple[tuple[int, int, int], ...]:
    """Return what changes whenever the league does."""
    found = []
    for name in (path, Path(f"{path}{JOURNAL}")):
        try:
            info = os.stat(name)
            found.append((info.st_ino, info.st_mtime_ns, info.st_size))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)
