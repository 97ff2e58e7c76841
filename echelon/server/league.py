"""The league route: standings of the strongest entries with unfinished rounds, without private fields."""

from __future__ import annotations

import asyncio

from aiohttp import web

from echelon.arena import standings
from echelon.arena.store import Store
from echelon.server.listing import SLOW, run_on
from echelon.server.responses import (
    JSON,
    LEAGUE,
    RESPONSE_CACHE,
    REVALIDATE,
    Body,
    NotFoundError,
    body_response,
    strict_json,
)  # fmt: skip

PRIVATE = ("path", "meta")
"""Fields of an entry that are not published."""
LISTED_ENTRIES = 1000
"""Most entries of an overview, the strongest."""


async def overview(request: web.Request) -> web.StreamResponse:
    path = request.app[LEAGUE]
    if not await asyncio.to_thread(path.is_file):
        raise NotFoundError("no league found")

    def read() -> bytes:
        with Store(path, read_only=True) as store:
            rows = standings.standings(store)[:LISTED_ENTRIES]
            listed = [{name: value for name, value in row.items() if name not in PRIVATE} for row in rows]
            return strict_json({"standings": listed, "unfinished": standings.unfinished_rounds(store)})

    body = await request.app[RESPONSE_CACHE].admit(lambda: run_on(request.app, SLOW, Body.of, read))
    return body_response(request, body, JSON, REVALIDATE)
