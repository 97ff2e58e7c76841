"""Who may ask, and what a browser may do with the answer.

Loopback needs no token; any other address does. Host and Origin are checked against a list, so that a page elsewhere
cannot reach the server through a name that points here. Errors are JSON problems that say no more than they must.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from echelon.arena.database import StoreError
from echelon.replay.codec import ReplayError

LOG = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "echelon_token"
TOKEN_BYTES = 24
METHODS = ("GET", "HEAD")
DETAILS = {
    404: "what was asked for is not there",
    416: "the range asked for is not one of this file",
    503: "too many live viewers; ask for the index from time to time instead",
}
"""What errors say, by status."""
PASSED_ON = ("Content-Range",)
"""Headers of an error that its answer keeps."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    "worker-src 'self' blob:; connect-src 'self' {sockets}; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors {ancestors}"
)


@dataclass(frozen=True)
class Access:
    """Where the server listens and whom it answers."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    """Asked of everybody; empty asks nobody."""
    embed_origin: str = ""
    """Origin whose pages may frame the viewer."""
    extra_hosts: tuple[str, ...] = field(default=())
    """Further host names that lead here."""

    @classmethod
    def create(cls, host: str, port: int, *, embed_origin: str = "", extra_hosts: tuple[str, ...] = ()) -> Access:
        """Return the access rules of an address; beyond loopback they come with a fresh token."""
        token = "" if host in LOOPBACK else secrets.token_urlsafe(TOKEN_BYTES)
        return cls(host, port, token, embed_origin, extra_hosts)

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server."""
        name, port = split_host(header)
        names = {*LOOPBACK, *(name.lower() for name in (self.host, *self.extra_hosts))}
        if self.host in ("0.0.0.0", "::"):
            return bool(self.token) and port in (self.port, None)
        return name in names and port in (self.port, None)

    def knows_origin(self, header: str) -> bool:
        """Whether an Origin header is this server itself."""
        scheme, _, rest = header.partition("://")
        return scheme in ("http", "https") and self.knows_host(rest)

    def admits(self, offered: str) -> bool:
        """Whether an offered token is the right one, compared in constant time."""
        return not self.token or hmac.compare_digest(offered.encode(errors="surrogateescape"), self.token.encode())


def split_host(header: str) -> tuple[str, int | None]:
    """Return name and port of a Host header; an unreadable port is -1."""
    name, port = header, ""
    if header.startswith("["):
        name, _, port = header[1:].partition("]")
        port = port.removeprefix(":")
    elif header.count(":") == 1:
        name, _, port = header.partition(":")
    if not port:
        return name.lower(), None
    return name.lower(), int(port) if port.isascii() and port.isdigit() else -1


def problem(status: int, title: str, detail: str) -> web.Response:
    """Return a JSON problem."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return web.json_response(body, status=status, content_type="application/problem+json")


def guard(access: Access) -> Any:
    """Return the middleware that checks every request and dresses every answer."""

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        response: web.StreamResponse
        try:
            response = refuse(access, request) or enter(access, request) or await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            response = problem(error.status, error.reason, DETAILS.get(error.status, "the request was refused"))
            response.headers.update({k: v for k, v in error.headers.items() if k in PASSED_ON})
        except ReplayError as error:
            response = problem(422, "Unreadable replay", str(error))
        except StoreError as error:
            LOG.warning("%s", error)
            response = problem(422, "Unreadable league", "the league cannot be read now; the server's log says why")
        except ConnectionError:
            raise
        except Exception:
            LOG.exception("a request failed")
            response = problem(500, "Internal error", "the server failed at this; its log says how")
        if not response.prepared:
            response.headers.update(HEADERS)
            # "self" does not cover WebSockets in every browser
            sockets = f"ws://{request.host} wss://{request.host}" if access.knows_host(request.host) else ""
            ancestors = access.embed_origin or "'none'"
            response.headers["Content-Security-Policy"] = POLICY.format(sockets=sockets, ancestors=ancestors)
        return response

    return middleware


def refuse(access: Access, request: web.Request) -> web.Response | None:
    """Return the answer to a request that must not be served, else None."""
    if request.method not in METHODS:
        answer = problem(405, "Method not allowed", f"{request.method} is not allowed, wanted GET or HEAD")
        answer.headers["Allow"] = ", ".join(METHODS)
        return answer
    if request.can_read_body:
        return problem(413, "No bodies", "requests must not carry a body")
    if not access.knows_host(request.host):
        return problem(421, "Misdirected", "the Host header does not name this server")
    origin = request.headers.get("Origin")
    if origin is not None and not access.knows_origin(origin):
        return problem(403, "Foreign origin", "the Origin header does not name this server")
    return None


def enter(access: Access, request: web.Request) -> web.Response | None:
    """Ask for the token where there is one; a right one in the address becomes a cookie."""
    if not access.token:
        return None
    offered = request.query.get("token", "")
    if offered and access.admits(offered):
        left = {key: value for key, value in request.query.items() if key != "token"}
        answer = web.Response(status=303, headers={"Location": str(request.rel_url.with_query(left))})
        answer.set_cookie(COOKIE, access.token, httponly=True, samesite="Strict", path="/")
        return answer
    if access.admits(request.cookies.get(COOKIE, "")):
        return None
    return problem(401, "Token wanted", "open the address that the server printed when it started")
