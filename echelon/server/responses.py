"""Helpers of all handlers: application keys, and JSON and binary responses with an ETag of their content."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from echelon.server.bodies import SLICE_BYTES, Body, BodyPayload, ResponseCache
from echelon.server.catalogue import ReplayCatalogue

CATALOGUE: web.AppKey[ReplayCatalogue] = web.AppKey("catalogue", ReplayCatalogue)
LEAGUE: web.AppKey[Path] = web.AppKey("league", Path)
RESPONSE_CACHE: web.AppKey[ResponseCache] = web.AppKey("response_cache", ResponseCache)
IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"
FEW, PART_ROWS = 64, 4096
"""Entries of a list that is encoded entry by entry, and of a part of a longer one."""
PAGE = 50
MAX_PAGE = 200
"""Rows of a list page: default and maximum."""
BINARY = "application/octet-stream"
JSON = "application/json"


def strict_json(value: Any) -> bytes:
    """Return compact JSON with null for numbers that are not finite.

    Long lists and arrays are encoded in parts, since other threads wait meanwhile.
    """
    parts: list[bytes] = []
    _encode(value, parts)
    return b"".join(parts)


def _encode(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, dict):
        for number, (key, item) in enumerate(value.items()):
            parts.append(b"%s%s:" % (b"," if number else b"{", json.dumps(str(key)).encode()))
            _encode(item, parts)
        parts.append(b"}" if value else b"{}")
    elif isinstance(value, (list, tuple, np.ndarray)) and len(value) > FEW:
        for at in range(0, len(value), PART_ROWS):
            parts.append((b"," if at else b"[") + _dump(value[at : at + PART_ROWS])[1:-1])
        parts.append(b"]")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            parts.append(b"," if number else b"[")
            _encode(item, parts)
        parts.append(b"]" if value else b"[]")
    else:
        parts.append(_dump(value))


def _dump(value: Any) -> bytes:
    value = value.tolist() if isinstance(value, np.ndarray) else value

    def clean(part: Any) -> Any:
        if isinstance(part, float) and not math.isfinite(part):
            return None
        if isinstance(part, dict):
            return {key: clean(item) for key, item in part.items()}
        return [clean(item) for item in part] if isinstance(part, (list, tuple)) else part

    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain)
    except ValueError:
        text = json.dumps(clean(value), separators=(",", ":"), allow_nan=False, default=_plain)
    return text.encode()


def _plain(value: Any) -> Any:
    """Return a value that JSON does not have as one that it has; bytes only by their number."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value.tolist() if hasattr(value, "tolist") else str(value)


class NotFoundError(web.HTTPNotFound):
    """A 404 whose problem names what is missing."""

    def __init__(self, detail: str) -> None:
        super().__init__()
        self.detail = detail


def json_response(request: web.Request, value: Any) -> web.StreamResponse:
    return body_response(request, Body(strict_json(value)), JSON, REVALIDATE)


async def long_json_response(request: web.Request, value: Any) -> web.StreamResponse:
    """As ``json_response``, with JSON of any length made beside the event loop, if there is room for it."""
    body = await request.app[RESPONSE_CACHE].admit(lambda: asyncio.to_thread(Body.of, lambda: strict_json(value)))
    return body_response(request, body, JSON, REVALIDATE)


def body_response(request: web.Request, body: Body, kind: str, caching: str) -> web.Response:
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
