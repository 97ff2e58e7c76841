"""The list of matches for all requests: one thread scans at a time, and no request waits long for it."""

from __future__ import annotations

import asyncio

from aiohttp import web

from echelon.server.catalogue import Match, ReplayCatalogue

LIST_WAIT_S = 1.0
"""Most time that a list waits for a scan [s]."""


class Listing:
    """Matches of a catalogue; belongs to one event loop."""

    def __init__(self, catalogue: ReplayCatalogue) -> None:
        self.catalogue = catalogue
        self._scan: asyncio.Task[list[Match]] | None = None

    async def get(self) -> tuple[list[Match], bool]:
        """Return the matches, and whether they are all; those found so far if the first scan takes long.

        A scan goes on when the request that began it was answered.
        """
        if self._scan is None or self._scan.done():
            self._scan = asyncio.create_task(asyncio.to_thread(self.catalogue.matches))
        elif self.catalogue.listed:
            return self.catalogue.known(), True
        scan = self._scan
        done, _ = await asyncio.wait({scan}, timeout=LIST_WAIT_S)
        return (scan.result(), True) if done else (self.catalogue.known(), self.catalogue.listed)


LISTING: web.AppKey[Listing] = web.AppKey("listing", Listing)
