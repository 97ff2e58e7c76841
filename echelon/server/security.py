"""Access control and security headers.

Loopback needs no token; any other address does. Host and X-Forwarded-Host must be names of the server, so that no
foreign page reaches it through DNS rebinding, and Origin must be one of them (docs/decisions/0040).
Errors are JSON problems, for browsers pages, without internal details.
"""

import hmac
import html
import ipaddress
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import Iterable
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
TOKEN_VARIABLE = "ECHELON_TOKEN"
"""Environment variable with a token that stays the same between starts; required on loopback too, behind a proxy."""
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")
METHODS = ("GET", "HEAD")
HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::(?P<port>[0-9]{1,5}))?")
DEFAULT_PORTS = {"http": 80, "https": 443}
API = "/api/"
"""Start of the paths whose Origin is compared: what lies outside is the built viewer, the same for everyone."""
PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    "<title>Echelon: {title}</title><style>body{{background:#0b1017;color:#dfe7f1;font:1.1rem/1.6 system-ui;"
    "max-width:38rem;margin:18vh auto;padding:0 1.5rem;overflow-wrap:anywhere}}"
    "h1,a{{color:#6bb2ff}}b{{white-space:nowrap}}</style>"
    "<h1>{title}</h1><p>{detail}</p>"
)
CSP = "Content-Security-Policy"
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""The policy of a page without scripts."""
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
    """Further names of the server: NAME at any port, or NAME:PORT."""

    @classmethod
    def create(cls, host: str, port: int, *, embed_origin: str = "", extra_hosts: tuple[str, ...] = ()) -> "Access":
        """Return the access rules of an address, beyond loopback with a token: that of the environment, else a new one.

        ``ValueError`` in one line for a further host that is no name, or a token that is too short.
        """
        for given in extra_hosts:
            if split_host(given) is None:
                raise ValueError(f"host {given!r} is no name, expected NAME or NAME:PORT, such as echelon.example")
        token = os.environ.get(TOKEN_VARIABLE, "")
        if token and not TOKEN.fullmatch(token):
            raise ValueError(f"{TOKEN_VARIABLE} is unsuitable, expected 16 to 128 letters, digits, '-' or '_'")
        token = token or ("" if host in LOOPBACK else secrets.token_urlsafe(TOKEN_BYTES))
        names = machine_names() if host in WILDCARDS else ()
        return cls(host, port, token, embed_origin, (*names, *extra_hosts))

    def host_allowed(self, header: str) -> bool:
        """Return whether a Host header names this server, at any port: that of a tunnel or proxy is not its own."""
        if (found := split_host(header)) is None:
            return False
        name, port = found
        # an address and the name that browsers keep for loopback, unlike others, cannot be rebound by a foreign page
        if name in ("localhost", self.host.lower()):
            return True
        if is_address(name) and (self.host in WILDCARDS or ipaddress.ip_address(name).is_loopback):
            return True
        return self._is_further(name, DEFAULT_PORTS.values() if port is None else (port,))

    def origin_allowed(self, header: str, hosts: Iterable[str]) -> bool:
        """Return whether an Origin header is that of a page of this server: of one of ``hosts``, or of a further name.

        Behind a proxy a page may be served by https while the request arrives by http, so the scheme is not compared.
        """
        scheme, separator, rest = header.partition("://")
        if not separator or scheme not in DEFAULT_PORTS or (origin := split_host(rest)) is None:
            return False
        default = DEFAULT_PORTS[scheme]
        own = [(host[0], host[1] or default) for host in map(split_host, hosts) if host]
        name, port = origin[0], origin[1] or default
        return (name, port) in own or self._is_further(name, (port,))

    def _is_further(self, name: str, ports: Iterable[int]) -> bool:
        known = [host for host in map(split_host, self.extra_hosts) if host and host[0] == name]
        return any(port is None or port in ports for _, port in known)

    def token_matches(self, token: str) -> bool:
        return not self.token or hmac.compare_digest(token.encode(errors="surrogateescape"), self.token.encode())


ACCESS: web.AppKey[Access] = web.AppKey("access", Access)


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


class ProblemResponse(web.Response):
    """An ``application/problem+json`` response; ``page`` is the same for people."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        super().__init__(text=json.dumps(body), status=status, content_type="application/problem+json")
        words = re.sub(r"--[a-z-]+", r"<b>\g<0></b>", html.escape(detail))
        self.page = PAGE.format(title=html.escape(title), detail=words)


def exhausted_problem() -> ProblemResponse:
    return ProblemResponse(503, "No descriptors", "the server has too many open files; try again in a moment")


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
            response = ProblemResponse(error.status, error.reason, detail)
            response.headers.update({k: v for k, v in error.headers.items() if k in FORWARDED_HEADERS})
        except ReplayError as error:
            response = ProblemResponse(422, "Unreadable replay", str(error))
        except StoreError as error:
            LOG.warning("%s", error)
            response = ProblemResponse(422, "Unreadable league", "the league cannot be read; see the server's log")
        except NoRoomError:
            response = ProblemResponse(503, "No memory", "the server sends many large responses; try again in a moment")
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
        except ConnectionError:
            raise
        except Exception as error:
            if is_exhausted(error):
                response = exhausted_problem()
            else:
                LOG.exception("a request failed")
                response = ProblemResponse(500, "Internal error", "the request failed; see the server's log")
        if not response.prepared:
            finish(access, request, response)
        return response

    return middleware


def finish(access: Access, request: web.Request, response: web.StreamResponse) -> None:
    """Set the security headers of a response, and turn a problem into a page for a browser that opens an address."""
    # "self" does not cover WebSockets in every browser
    sockets = " ".join(f"ws://{host} wss://{host}" for host in hosts_of(request) if access.host_allowed(host))
    policy = POLICY.format(sockets=sockets, ancestors=access.embed_origin or "'none'")
    if isinstance(response, ProblemResponse) and "text/html" in request.headers.get("Accept", ""):
        response.content_type, response.text, policy = "text/html", response.page, PAGE_POLICY
    response.headers.update({**HEADERS, CSP: response.headers.get(CSP, policy)})
    if access.token and "Cache-Control" in response.headers:  # no shared cache may keep what needs a token
        response.headers["Cache-Control"] = response.headers["Cache-Control"].replace("public", "private")


def reject(access: Access, request: web.Request) -> web.Response | None:
    """Return the error response to a request that must not be served, else None."""
    if request.method not in METHODS:
        response = ProblemResponse(405, "Method not allowed", f"method is {request.method}, expected GET or HEAD")
        response.headers["Allow"] = ", ".join(METHODS)
        return response
    if request.can_read_body:
        return ProblemResponse(413, "No bodies", "requests must not have a body")
    try:  # aiohttp's file responses fail on dates beyond any calendar
        _ = request.if_modified_since, request.if_unmodified_since, request.if_range
    except (OverflowError, ValueError):
        return ProblemResponse(400, "Bad date", "a header has a date beyond any calendar")
    for host in hosts_of(request):
        if not access.host_allowed(host):
            advice = allowing(host) or "The Host header is no host name."
            return ProblemResponse(
                421, "Unknown host name", f"This server does not know the name in its address. {advice}"
            )
    refusal = refused_origin(access, request, request.headers.get("Origin", ""))
    if refusal and request.path.startswith(API):
        return ProblemResponse(403, "Foreign origin", refusal)
    return None


def hosts_of(request: web.BaseRequest) -> list[str]:
    """Return the hosts that a request is for: the one that a proxy says it was asked for, and the Host header.

    Without the header, aiohttp's ``request.host`` is the name of this machine.
    """
    forwarded = request.headers.get("X-Forwarded-Host", "").partition(",")[0].strip()
    return [*([forwarded] if forwarded else ()), request.headers.get("Host", "")]


def refused_origin(access: Access, request: web.BaseRequest, origin: str) -> str:
    """Return why a page of this origin may not use the server, empty if it may or none is given."""
    if not origin or access.origin_allowed(origin, hosts_of(request)):
        return ""
    return (
        f"The server does not know the name in the address of this page. {allowing(origin.partition('://')[2])}".strip()
    )


def allowing(host: str) -> str:
    """Return how the name in a Host header is made known to the server, empty for one that is no host."""
    if (found := split_host(host)) is None:
        return ""
    name = f"[{found[0]}]" if ":" in found[0] else found[0]
    return f"If '{name}' is a name of this server or of its proxy, start the server with --allow-host '{name}'."


def authenticate(access: Access, request: web.Request) -> web.Response | None:
    """Return a redirect that sets the cookie for a correct token in the URL, 401 without one, else None."""
    if not access.token:
        return None
    token = request.query.get("token", "")
    if token and access.token_matches(token):
        query = {key: value for key, value in request.query.items() if key != "token"}
        # relative, since the path may have lost a prefix at a proxy, and a path of two slashes would be another host
        here = URL(f"./{request.rel_url.raw_path.rpartition('/')[2]}", encoded=True).with_query(query)
        response = web.Response(status=303, headers={"Location": str(here)})
        # without a path it is for the folder of the address in the browser; not strict, so that links in mails work
        secure = request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip() == "https"
        name = COOKIE.format(port=access.port)
        response.set_cookie(name, access.token, httponly=True, samesite="Lax", secure=secure, path="")
        return response
    # of several cookies with the name, aiohttp keeps one
    pairs = (part.partition("=") for line in request.headers.getall("Cookie", ()) for part in line.split(";"))
    tokens = [value.strip().strip('"') for name, _, value in pairs if name.strip() == COOKIE.format(port=access.port)]
    if any([access.token_matches(token) for token in tokens[:MAX_COOKIES]]):
        return None
    return ProblemResponse(401, "Token required", "open the URL that the server printed at start")
