"""Moments of a match for the viewer: computed in steps that take turns with other readers, and cached."""

from __future__ import annotations

from aiohttp import web

from echelon.replay.moments import MomentScan
from echelon.replay.reader import Replay
from echelon.server.bodies import BODIES
from echelon.server.catalogue import Match
from echelon.server.pools import SLOW, TURNS, run_on, run_through
from echelon.server.responses import CATALOGUE, strict_json


async def moments_body(app: web.Application, match: Match) -> bytes:
    """Return the moments of a match as JSON.

    As a timeline, they are read in steps, one match at a time, that end if the file is gone or no request waits.
    """
    scan: MomentScan | None = None

    def step(replay: Replay) -> bool:
        nonlocal scan
        if scan is None:
            scan = MomentScan(replay.header, replay.ticks)
        return scan.advance(replay)

    def result(replay: Replay) -> bytes:
        assert scan is not None
        return strict_json(scan.result(replay.outcome))

    complete = False
    while not complete:
        async with app[TURNS]:
            complete = await run_through(app, SLOW, app[CATALOGUE].read, match, step)
    return await run_on(app, SLOW, app[BODIES].make, lambda: app[CATALOGUE].read(match, result))
