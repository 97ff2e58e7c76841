"""Access control and security headers.

Loopback needs no token; any other address does. The Host header is checked against a list, and Origin must be the host,
scheme and port that the request is for, so that no foreign page reaches the server through DNS rebinding. Errors are
JSON problems without internal details.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
import secrets
import socket
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from yarl import URL

from echelon.arena.database import StoreError
from echelon.replay.codec import ReplayError
from echelon.server.catalogue import is_exhausted
from echelon.server.responses import RETRY_AFTER_S, NoRoomError

LOG = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
WILDCARDS = ("0.0.0.0", "::")
COOKIE = "echelon_token_{port}"
"""Cookie of the server at a port; cookies are sent to every port of a host."""
MAX_COOKIES = 16
"""Most cookies of the name that are compared."""
TOKEN_BYTES = 24
METHODS = ("GET", "HEAD")
HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::(?P<port>[0-9]{1,5}))?")
DEFAULT_PORTS = {"http": 80, "https": 443}
DETAILS = {
    404: "not found",
    412: "the file has changed; request it again without conditions",
    416: "the requested range lies outside the file",
    503: "too many live viewers; poll the index instead",
}
FORWARDED_HEADERS = ("Content-Range",)
"""Headers of an exception that its response keeps."""
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
    """Address of the server and its access rules."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    """Required from every client; empty for none."""
    embed_origin: str = ""
    """Origin that may embed the viewer in a frame."""
    extra_hosts: tuple[str, ...] = field(default=())
    """Additional accepted host names."""

    @classmethod
    def create(cls, host: str, port: int, *, embed_origin: str = "", extra_hosts: tuple[str, ...] = ()) -> Access:
        """Return the access rules of an address; beyond loopback with a new token."""
        token = "" if host in LOOPBACK else secrets.token_urlsafe(TOKEN_BYTES)
        names = machine_names() if host in WILDCARDS else ()
        return cls(host, port, token, embed_origin, (*names, *extra_hosts))

    def host_allowed(self, header: str) -> bool:
        if (found := split_host(header)) is None:
            return False
        name, port = found
        if port not in (self.port, None):
            return False
        # an address, unlike a name, cannot be rebound by a foreign page
        if self.host in WILDCARDS and is_address(name):
            return True
        return name in {host.lower() for host in (*LOOPBACK, self.host, *self.extra_hosts)}

    def origin_allowed(self, header: str, scheme: str, host: str) -> bool:
        """Return whether an Origin header is the one of a request by this scheme to the Host ``host``.

        Behind one of ``extra_hosts``, such as a proxy, a page may be served by https while the request arrives by http.
        """
        origin_scheme, separator, rest = header.partition("://")
        origin, target = split_host(rest), split_host(host)
        if not separator or origin is None or target is None or origin_scheme not in DEFAULT_PORTS:
            return False
        if target[0] in {name.lower() for name in self.extra_hosts}:
            scheme = origin_scheme
        port, target_port = (
            p if p is not None else DEFAULT_PORTS[s] for s, p in ((origin_scheme, origin[1]), (scheme, target[1]))
        )
        return (origin_scheme, origin[0], port) == (scheme, target[0], target_port)

    def token_matches(self, token: str) -> bool:
        return not self.token or hmac.compare_digest(token.encode(errors="surrogateescape"), self.token.encode())


def machine_names() -> tuple[str, ...]:
    """Return the host names under which other machines may know this one."""
    name = socket.gethostname()
    return name, socket.getfqdn(), f"{name.partition('.')[0]}.local"


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def split_host(header: str) -> tuple[str, int | None] | None:
    """Return name and port, None without one, of a Host header; None for one that is no host name or address.

    An address of IPv6 stands in brackets and has no scope, whose characters would reach the policy of the page.
    """
    found = HOST.fullmatch(header)
    if found is None or (found["address"] and not is_address(found["address"])):
        return None
    return (found["address"] or found["name"]).lower(), int(found["port"]) if found["port"] else None


def problem(status: int, title: str, detail: str) -> web.Response:
    """Return an ``application/problem+json`` response."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return web.json_response(body, status=status, content_type="application/problem+json")


def exhausted_problem() -> web.Response:
    return problem(503, "No descriptors", "the server has too many open files; try again in a moment")


def access_middleware(access: Access) -> Any:
    """Return the middleware that checks every request, maps exceptions to problems and sets security headers."""

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        response: web.StreamResponse
        try:
            response = reject(access, request) or authenticate(access, request) or await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            detail = getattr(error, "detail", DETAILS.get(error.status, "the request was rejected"))
            response = problem(error.status, error.reason, detail)
            response.headers.update({k: v for k, v in error.headers.items() if k in FORWARDED_HEADERS})
        except ReplayError as error:
            response = problem(422, "Unreadable replay", str(error))
        except StoreError as error:
            LOG.warning("%s", error)
            response = problem(422, "Unreadable league", "the league cannot be read; see the server's log")
        except NoRoomError:
            response = problem(503, "No memory", "the server sends many large responses; try again in a moment")
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
        except ConnectionError:
            raise
        except Exception as error:
            if is_exhausted(error):
                response = exhausted_problem()
            else:
                LOG.exception("a request failed")
                response = problem(500, "Internal error", "the request failed; see the server's log")
        if not response.prepared:
            response.headers.update(HEADERS)
            # "self" does not cover WebSockets in every browser
            sockets = f"ws://{request.host} wss://{request.host}" if access.host_allowed(request.host) else ""
            ancestors = access.embed_origin or "'none'"
            response.headers["Content-Security-Policy"] = POLICY.format(sockets=sockets, ancestors=ancestors)
            if access.token and "Cache-Control" in response.headers:  # no shared cache may keep what needs a token
                response.headers["Cache-Control"] = response.headers["Cache-Control"].replace("public", "private")
        return response

    return middleware


def reject(access: Access, request: web.Request) -> web.Response | None:
    """Return the error response to a request that must not be served, else None."""
    if request.method not in METHODS:
        response = problem(405, "Method not allowed", f"method is {request.method}, expected GET or HEAD")
        response.headers["Allow"] = ", ".join(METHODS)
        return response
    if request.can_read_body:
        return problem(413, "No bodies", "requests must not have a body")
    try:  # aiohttp's file responses fail on dates beyond any calendar
        _ = request.if_modified_since, request.if_unmodified_since, request.if_range
    except (OverflowError, ValueError):
        return problem(400, "Bad date", "a header has a date beyond any calendar")
    # without the header, aiohttp's ``request.host`` is the name of this machine
    if not access.host_allowed(request.headers.get("Host", "")):
        return problem(421, "Misdirected", "the Host header does not name this server")
    origin = request.headers.get("Origin")
    if origin is not None and not access.origin_allowed(origin, request.scheme, request.host):
        return problem(403, "Foreign origin", "the Origin header does not name the host that the request is for")
    return None


def authenticate(access: Access, request: web.Request) -> web.Response | None:
    """Return a redirect that sets the cookie for a correct token in the URL, 401 without one, else None."""
    if not access.token:
        return None
    token = request.query.get("token", "")
    if token and access.token_matches(token):
        query = {key: value for key, value in request.query.items() if key != "token"}
        # a path of two slashes, or of a slash and a backslash, would be another host
        here = URL("/" + request.rel_url.raw_path.lstrip("/\\"), encoded=True).with_query(query)
        response = web.Response(status=303, headers={"Location": str(here)})
        response.set_cookie(COOKIE.format(port=access.port), access.token, httponly=True, samesite="Strict", path="/")
        return response
    # of several cookies with the name, aiohttp keeps one
    pairs = (part.partition("=") for line in request.headers.getall("Cookie", ()) for part in line.split(";"))
    tokens = [value.strip().strip('"') for name, _, value in pairs if name.strip() == COOKIE.format(port=access.port)]
    if any([access.token_matches(token) for token in tokens[:MAX_COOKIES]]):
        return None
    return problem(401, "Token required", "open the URL that the server printed at start")
