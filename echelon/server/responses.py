"""What all handlers share: where they look, and answers of JSON and bytes under an ETag of their content."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from aiohttp import web

from echelon.server.catalogue import Catalogue
from echelon.server.response_cache import Kept

CATALOGUE: web.AppKey[Catalogue] = web.AppKey("catalogue", Catalogue)
LEAGUE: web.AppKey[Path] = web.AppKey("league", Path)
KEPT: web.AppKey[Kept] = web.AppKey("kept", Kept)
FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
PAGE = 50
MAX_PAGE = 200
"""Rows of a list that are given at once: unasked, and at most."""
BINARY = "application/octet-stream"
JSON = "application/json"


def strict_json(value: Any) -> str:
    """Return JSON in which numbers that are not finite are null."""

    def clean(part: Any) -> Any:
        if isinstance(part, float) and not math.isfinite(part):
            return None
        if isinstance(part, dict):
            return {key: clean(item) for key, item in part.items()}
        return [clean(item) for item in part] if isinstance(part, (list, tuple)) else part

    return json.dumps(clean(value), separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def answer_json(request: web.Request, value: Any) -> web.Response:
    """Answer with JSON under an ETag of its content; nothing new is a 304."""
    return answer_bytes(request, strict_json(value).encode(), JSON, ASK_AGAIN)


def answer_bytes(request: web.Request, body: bytes, kind: str, caching: str) -> web.Response:
    """Answer with bytes under an ETag of their content; nothing new is a 304."""
    tag = hashlib.sha256(body).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": caching}
    if request.if_none_match and any(etag.value in (tag, "*") for etag in request.if_none_match):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=body, headers=headers, content_type=kind)
    if kind == JSON:
        response.enable_compression()
    return response


def number_in(text: str, otherwise: int) -> int:
    """Return the count that ``text`` of a request says, or ``otherwise`` where it says none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise
