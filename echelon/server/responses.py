"""Helpers of all handlers: application keys, and JSON and binary responses with an ETag of their content."""

import asyncio
import hashlib
import io
import json
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from weakref import WeakSet

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesIOPayload
from pydantic_core import PydanticSerializationError, to_json

from echelon.server.catalogue import ReplayCatalogue
from echelon.state_files import parse_json

MAX_BYTES = 192 * 2**20
"""Most bytes of all bodies; a computation that has begun may exceed it by its own body."""
CACHE_BYTES = 64 * 2**20
"""Most bytes of the bodies that are kept for further requests."""
SEND_S = 120.0
"""Most time that a client may take for a body [s]."""
SLICE_BYTES = 2**16
"""Bytes that are passed to a connection at a time."""
RETRY_AFTER_S = 5
"""Advice to clients that found no room [s]."""
TAG_DIGITS = 32


class NoRoomError(Exception):
    """No more bodies fit into memory at present."""


class ResponseBody:
    """A response body with its ETag, without quotes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.tag = data, hashlib.sha256(data).hexdigest()[:TAG_DIGITS]

    @classmethod
    def of(cls, make: Callable[[], bytes]) -> "ResponseBody":
        return cls(make())

    def __len__(self) -> int:
        return len(self.data)


class BodyPayload(BytesIOPayload):
    """Sends a body in slices, in limited time."""

    def __init__(self, body: ResponseBody, kind: str) -> None:
        super().__init__(io.BytesIO(body.data), content_type=kind)
        self._body = body

    async def write(self, writer: AbstractStreamWriter) -> None:
        try:
            async with asyncio.timeout(SEND_S):
                await super().write(writer)
        except TimeoutError:
            raise ConnectionResetError("the client reads too slowly") from None


class ResponseCache:
    """Response bodies by key; a key must change whenever its content does.

    Concurrent requests for a missing body share one computation, which is cancelled once no request waits for it. The
    least recently used bodies are dropped first.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES, max_total: int = MAX_BYTES) -> None:
        self.max_bytes, self.max_total = max_bytes, max_total
        self.size = 0
        self._alive: WeakSet[ResponseBody] = WeakSet()
        self._bodies: OrderedDict[Hashable, ResponseBody] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[ResponseBody]] = {}
        self._waiting: Counter[asyncio.Task[ResponseBody]] = Counter()

    @property
    def total(self) -> int:
        return sum(len(body) for body in self._alive)

    async def admit(self, make: Callable[[], Awaitable[ResponseBody]]) -> ResponseBody:
        """Return the body of ``make``, counted; ``NoRoomError`` without calling it if there is no room."""
        if self.total >= self.max_total:
            raise NoRoomError
        body = await make()
        self._alive.add(body)
        return body

    async def get(self, key: Hashable, make: Callable[[], Awaitable[ResponseBody]]) -> ResponseBody:
        """Return the body of ``key``, computed if missing; exceptions reach every waiting request."""
        if key in self._bodies:
            self._bodies.move_to_end(key)
            return self._bodies[key]
        if key not in self._pending:
            task = self._pending[key] = asyncio.ensure_future(self._compute(key, make))
            task.add_done_callback(lambda t: t.cancelled() or t.exception())  # no request may be left to await it
        task = self._pending[key]
        self._waiting[task] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                self._forget(key, task)
                task.cancel()

    def _forget(self, key: Hashable, task: asyncio.Task[ResponseBody] | None) -> None:
        """Let the next request of ``key`` begin again, unless one has done so already."""
        if self._pending.get(key) is task:
            del self._pending[key]

    async def _compute(self, key: Hashable, make: Callable[[], Awaitable[ResponseBody]]) -> ResponseBody:
        try:
            body = await self.admit(make)
        finally:
            self._forget(key, asyncio.current_task())
        if old := self._bodies.pop(key, None):
            self.size -= len(old)
        self._bodies[key] = body
        self.size += len(body)
        while self.size > self.max_bytes:
            _, evicted = self._bodies.popitem(last=False)
            self.size -= len(evicted)
        return body


CATALOGUE: web.AppKey[ReplayCatalogue] = web.AppKey("catalogue", ReplayCatalogue)
LEAGUE: web.AppKey[Path] = web.AppKey("league", Path)
RESPONSE_CACHE: web.AppKey[ResponseCache] = web.AppKey("response_cache", ResponseCache)
IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"
PAGE = 50
MAX_PAGE = 200
"""Rows of a list page: default and maximum."""
BINARY = "application/octet-stream"
JSON = "application/json"


def strict_json(value: Any) -> bytes:
    """Return compact JSON, with null for numbers that are not finite and base64 for bytes."""
    try:
        return to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=_plain)
    except PydanticSerializationError:  # names of files that are no UTF-8
        return to_json(parse_json(json.dumps(value, default=_plain)), inf_nan_mode="null")


def _plain(value: Any) -> Any:
    """Return a value that JSON does not have, such as an array, as one that it has."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


class NotFoundError(web.HTTPNotFound):
    """A 404 whose problem names what is missing."""

    def __init__(self, detail: str) -> None:
        super().__init__()
        self.detail = detail


def json_response(request: web.Request, value: Any) -> web.StreamResponse:
    return body_response(request, ResponseBody(strict_json(value)), JSON, REVALIDATE)


async def long_json_response(request: web.Request, value: Any) -> web.StreamResponse:
    """As ``json_response``, with JSON of any length made beside the event loop, if there is room for it."""
    body = await request.app[RESPONSE_CACHE].admit(
        lambda: asyncio.to_thread(ResponseBody.of, lambda: strict_json(value))
    )
    return body_response(request, body, JSON, REVALIDATE)


def body_response(request: web.Request, body: ResponseBody, kind: str, caching: str) -> web.Response:
    """Return a response with the ETag of its content, or 304 if the client has it; a large body is sent in slices.

    JSON is compressed for clients that take gzip, under another tag, since its bytes are others.
    """
    tag, headers = body.tag, {"Cache-Control": caching}
    compressed = kind == JSON and accepts(request.headers.get("Accept-Encoding", ""), "gzip")
    if kind == JSON:
        tag += "-gzip" * compressed
        headers["Vary"] = "Accept-Encoding"
    headers["ETag"] = f'"{tag}"'
    if request.if_none_match and any(etag.value in (tag, "*") for etag in request.if_none_match):
        return web.Response(status=304, headers=headers)
    if len(body) > SLICE_BYTES:
        response = web.Response(body=BodyPayload(body, kind), headers=headers)
    else:
        response = web.Response(body=body.data, headers=headers, content_type=kind)
    if compressed:
        response.enable_compression(web.ContentCoding.gzip)
    return response


class OpenFileResponse(web.FileResponse):
    """Sends an open file or a range of it, and closes it.

    The path of its descriptor leads to no other file and to no compressed twin. The connection is closed after the
    file, so that a client notices a file that became shorter meanwhile.
    """

    def __init__(self, file: BinaryIO, kind: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"/dev/fd/{file.fileno()}", headers={"Content-Type": kind, **headers})
        self._open_file = file
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the file; all of it where the range depends on a tag, which aiohttp does not compare."""
        try:
            if "If-Range" in request.headers:
                request = request.clone(headers={k: v for k, v in request.headers.items() if k != "Range"})
            return await super().prepare(request)
        finally:
            self._open_file.close()


def accepts(header: str, coding: str) -> bool:
    """Return whether an Accept-Encoding header names a coding, not with a quality of 0."""
    for part in header.split(","):
        name, _, quality = part.replace(" ", "").lower().partition(";q=")
        if name == coding:
            return quality.rstrip("0") not in ("0.", "") or not quality
    return False


def parse_count(text: str, default: int) -> int:
    """Return the non-negative integer in a query parameter, or ``default`` if it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
