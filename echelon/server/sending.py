"""Responses of large bodies and of files: sent in slices, with ranges and preconditions of RFC 9110.

aiohttp's ``FileResponse`` opens by path, prefers a compressed twin beside the file, and its ``Response`` copies a whole
body to the buffer of every connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from itertools import accumulate
from typing import BinaryIO, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from echelon.server.bodies import BODIES, TAG_DIGITS
from echelon.server.catalogue import stamp_of
from echelon.server.pools import READS, run_on

SLICE_BYTES = 2**16
"""Bytes of a body that are read and passed to a connection at a time."""
RANGE = re.compile(r"bytes=\s*(\d*)-(\d*)\s*", re.ASCII | re.IGNORECASE)
"""A single range; anything else is ignored, as RFC 9110 permits."""
OFFSET_DIGITS = 18
"""Digits of an offset that are read; longer ones lie outside every file in any case."""


class Body(Protocol):
    """Bytes to send."""

    async def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return up to ``size`` bytes, fewer only at the end."""
        ...

    def close(self) -> None:
        """Release what the body holds."""
        ...


class MemoryBody:
    """A body in memory, which all its requests share."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    async def read(self, offset: int, size: int) -> memoryview:
        """Return a slice of the body, not copied."""
        return self._data[offset : offset + size]

    def close(self) -> None:
        """Release the body."""
        self._data = memoryview(b"")


class FileBody:
    """An open file, read on a thread."""

    def __init__(self, app: web.Application, file: BinaryIO) -> None:
        self._app, self._file = app, file

    async def read(self, offset: int, size: int) -> bytes:
        """Return a slice of the file."""
        return await run_on(self._app, READS, os.pread, self._file.fileno(), size, offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class JoinedBody:
    """Parts of bodies, one after the other."""

    def __init__(self, parts: Sequence[tuple[Body, int, int]]) -> None:
        """Each part is a body, its first byte and its length."""
        self._parts = parts
        self._ends = list(accumulate(length for _, _, length in parts))

    def __len__(self) -> int:
        """Return the bytes of all parts."""
        return self._ends[-1]

    async def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return up to ``size`` bytes, those of one part."""
        number = bisect_right(self._ends, offset)
        body, first, length = self._parts[number]
        within = offset - self._ends[number] + length
        return await body.read(first + within, min(size, length - within))

    def close(self) -> None:
        """Close all bodies."""
        for body, _, _ in self._parts:
            body.close()


class SlicedResponse(web.StreamResponse):
    """A response of ``length`` bytes of a body from ``start`` on, sent no faster than the client reads.

    A body that has become shorter closes the connection, since the rest of the length that was announced cannot follow.
    """

    def __init__(
        self, body: Body, start: int, length: int, *, kind: str, headers: Mapping[str, str], status: int = 200
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.content_type, self.content_length = kind, length
        self._source, self._first, self._length = body, start, length

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send headers and body."""
        if self.prepared:
            return await super().prepare(request)
        bodies = request.config_dict.get(BODIES) if isinstance(request, web.Request) else None
        self.progressed, self._protocol = asyncio.get_running_loop().time(), request.protocol
        try:
            if bodies is not None:
                bodies.sending.add(self)
            writer = await super().prepare(request)
            if writer is not None and request.method != "HEAD":
                await self._send(writer)
            return writer
        finally:
            if bodies is not None:
                bodies.sending.discard(self)
            self._source.close()

    def cut(self) -> None:
        """Drop the connection of a client that reads too slowly."""
        if self._protocol.transport is not None:
            self._protocol.transport.abort()

    async def _send(self, writer: AbstractStreamWriter) -> None:
        at, end, clock = self._first, self._first + self._length, asyncio.get_running_loop().time
        while at < end:
            part = await self._source.read(at, min(SLICE_BYTES, end - at))
            if not part:
                raise ConnectionResetError("the body is shorter than announced")
            await writer.write(part)
            await writer.drain()
            at += len(part)
            self.progressed = clock()


def file_response(request: web.Request, file: BinaryIO, kind: str, headers: Mapping[str, str]) -> web.StreamResponse:
    """Return the response to a request for an open file or a range of it, which closes the file.

    Raises ``HTTPPreconditionFailed`` and ``HTTPRequestRangeNotSatisfiable``, with the file closed.
    """
    try:
        status = os.fstat(file.fileno())
        tag, size = tag_of(status), status.st_size
        headers = {
            "ETag": f'"{tag}"', "Last-Modified": http_date(status), "Accept-Ranges": "bytes", **headers
        }  # fmt: skip
        if is_unmodified(request, tag, int(status.st_mtime)):
            file.close()
            return web.Response(status=304, headers=headers)
        found = requested_range(request, headers, size)
    except BaseException:
        file.close()
        raise
    body = FileBody(request.app, file)
    if found is None:
        return SlicedResponse(body, 0, size, kind=kind, headers=headers)
    start, end = found
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return SlicedResponse(body, start, end - start, kind=kind, headers=headers, status=206)


def tag_of(status: os.stat_result) -> str:
    """Return the entity tag of a file, which changes with its inode, size and modification time."""
    return hashlib.sha256(repr(stamp_of(status)).encode()).hexdigest()[:TAG_DIGITS]


def http_date(status: os.stat_result) -> str:
    """Return the modification time of a file as an HTTP date."""
    return formatdate(int(status.st_mtime), usegmt=True)


def is_unmodified(request: web.Request, tag: str, modified: int) -> bool:
    """Return whether the client has the file with this tag and modification time [s]; entity tags precede dates.

    Raises ``HTTPPreconditionFailed`` if it requests only another one.
    """
    if request.headers.get("If-Match") is not None:
        if not any(etag.value in (tag, "*") and not etag.is_weak for etag in request.if_match or ()):
            raise web.HTTPPreconditionFailed()
    elif (limit := header_date(request, "If-Unmodified-Since")) is not None and modified > limit:
        raise web.HTTPPreconditionFailed()
    if request.headers.get("If-None-Match") is not None:
        return any(etag.value in (tag, "*") for etag in request.if_none_match or ())
    return (since := header_date(request, "If-Modified-Since")) is not None and modified <= since


def header_date(request: web.Request, name: str) -> float | None:
    """Return the date of a header [s since 1970]; None for an invalid one, which RFC 9110 lets a server ignore."""
    try:
        date = parsedate_to_datetime(request.headers[name])
        return date.replace(tzinfo=date.tzinfo or UTC).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def requested_range(request: web.Request, headers: Mapping[str, str], size: int) -> tuple[int, int] | None:
    """Return start and end of the bytes requested of a file, or None for all.

    All are sent for several or invalid ranges, and where If-Range names another tag or date than ``headers``. Raises
    ``HTTPRequestRangeNotSatisfiable`` for a range outside the file.
    """
    found = RANGE.fullmatch(request.headers.get("Range", ""))
    if found is None or request.method != "GET":
        return None
    if request.headers.get("If-Range", headers["ETag"]) not in (headers["ETag"], headers["Last-Modified"]):
        return None
    first, last = (int(text[:OFFSET_DIGITS]) if (text := part.lstrip("0")) else 0 for part in found.groups())
    if not found[1]:
        if not found[2]:
            return None
        start, end = max(0, size - last), size
    elif found[2] and last < first:
        return None
    else:
        start, end = first, min(size, last + 1) if found[2] else size
    if start >= size:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size}"})
    return start, end
