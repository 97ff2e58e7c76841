"""Helpers of all handlers: application keys, and JSON and binary responses with an ETag of their content."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from aiohttp import web

from echelon.server.catalogue import ReplayCatalogue
from echelon.server.response_cache import ResponseCache, entity_tag
from echelon.server.sending import SLICE_BYTES, MemoryBody, SlicedResponse

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


def strict_json(value: Any) -> str:
    """Return compact JSON with null for numbers that are not finite."""

    def clean(part: Any) -> Any:
        if isinstance(part, float) and not math.isfinite(part):
            return None
        if isinstance(part, dict):
            return {key: clean(item) for key, item in part.items()}
        return [clean(item) for item in part] if isinstance(part, (list, tuple)) else part

    return json.dumps(clean(value), separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


class NotFoundError(web.HTTPNotFound):
    """A 404 whose problem names what is missing."""

    def __init__(self, detail: str) -> None:
        super().__init__()
        self.detail = detail


def json_response(request: web.Request, value: Any) -> web.StreamResponse:
    """Return a JSON response with an ETag of its content, or 304 if the client has it."""
    return bytes_response(request, strict_json(value).encode(), JSON, REVALIDATE)


def bytes_response(request: web.Request, body: bytes, kind: str, caching: str) -> web.StreamResponse:
    """Return a response with an ETag of its content, or 304 if the client has it; a large body is sent in slices."""
    tag = entity_tag(body)
    headers = {"ETag": f'"{tag}"', "Cache-Control": caching}
    if request.if_none_match and any(etag.value in (tag, "*") for etag in request.if_none_match):
        return web.Response(status=304, headers=headers)
    response: web.StreamResponse
    if len(body) > SLICE_BYTES:
        response = SlicedResponse(MemoryBody(body), 0, len(body), kind=kind, headers=headers)
    else:
        response = web.Response(body=body, headers=headers, content_type=kind)
    if kind == JSON:
        response.enable_compression()
    return response


def parse_count(text: str, default: int) -> int:
    """Return the non-negative integer in a query parameter, or ``default`` if it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
