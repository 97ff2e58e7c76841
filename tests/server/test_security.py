"""Access control: hosts, origins, methods, tokens and security headers."""

import asyncio
import errno
import json
import re
import socket

import pytest
from yarl import URL

from echelon.server import app
from echelon.server.app import PortTakenError, address, open_socket
from echelon.server.security import TOKEN_VARIABLE, Access, ProblemResponse, split_host
from tests.server.conftest import serving


async def get(client, path="/api/v1/runs", method="GET", **options):
    reply = await client.request(method, path, allow_redirects=False, **options)
    return reply.status, reply.headers, await reply.text()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]", "localhost:1:2"]
)
async def test_foreign_host_header_is_rejected(host, client):
    status, headers, body = await get(client, headers={"Host": host})
    assert status == 421 and headers["Content-Type"].startswith("application/problem+json")
    assert ("--allow-host" in body) == (host.count(":") < 2 or "[" in host)
    status, headers, body = await get(client, "/", headers={"Host": host, "Accept": "text/html,*/*;q=0.8"})
    assert status == 421 and headers["Content-Type"].startswith("text/html") and "<h1>Unknown host name</h1>" in body
    assert (
        "script" not in headers["Content-Security-Policy"]
        and "default-src 'none'" in headers["Content-Security-Policy"]
    )
    assert (await get(client, headers={"X-Forwarded-Host": host}))[0] == 421


@pytest.mark.parametrize(
    "host", ["localhost:9000", "localhost", "127.0.0.1:1", "127.0.0.2:81", "[::1]:9000", "[::1]", "LOCALHOST:65535"]
)
async def test_loopback_is_known_at_every_port(host, client):
    assert (await get(client, headers={"Host": host, "Origin": f"http://{host}"}))[0] == 200
    assert (await get(client, headers={"X-Forwarded-Host": f"{host}, x", "Origin": f"https://{host}"}))[0] == 200


def test_foreign_markup_in_a_refusal_is_text():
    page = ProblemResponse(421, "<i>", "'<script> --x-y").page
    assert "&lt;i&gt;" in page and "<b>--x-y</b>" in page and "&#x27;&lt;script&gt;" in page and "<script>" not in page


CANDIDATES = {
    "lab.example", "LAB.example:80", "lab.example:443", "lab.example:8443", "x.lab.example", "[fd00::7]:9000",
    "[fd00::7]",
}  # fmt: skip
ALLOWED = {
    "lab.example": {"lab.example", "LAB.example:80", "lab.example:443", "lab.example:8443"},
    "lab.example:8443": {"lab.example:8443"},
    "lab.example:443": {"lab.example:443", "lab.example"},
    "[fd00::7]": {"[fd00::7]:9000", "[fd00::7]"},
}
"""A host of the command line -> those of ``CANDIDATES`` that it allows."""


@pytest.mark.parametrize("given", ALLOWED)
def test_allowed_host_is_known_at_its_port_or_at_every_one(given):
    access = Access.create("127.0.0.1", 8400, extra_hosts=(given,))
    assert set(filter(access.host_allowed, CANDIDATES)) == ALLOWED[given]
    # by default nginx sends its upstream as Host
    assert {host for host in CANDIDATES if access.origin_allowed(f"https://{host}", ["127.0.0.1:8400"])} == ALLOWED[
        given
    ]


@pytest.mark.parametrize("given", ["https://lab.example", "lab.example/x", "fd00::7", "", "lab.example:port", "a b"])
def test_allowed_host_that_is_no_host_is_refused_in_one_line(given):
    with pytest.raises(ValueError, match=re.escape(f"host {given!r} is no name, expected NAME or NAME:PORT")):
        Access.create("127.0.0.1", 8400, extra_hosts=(given,))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "file://", "https://localhost.evil.example"])
async def test_foreign_origin_is_rejected(origin, client):
    assert (await get(client, headers={"Origin": origin}))[0] == 403


async def test_live_channel_rejects_foreign_origin(client):
    reply = await client.get(
        "/api/v1/live",
        headers={
            "Origin": "http://evil.example", "Upgrade": "websocket", "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        },
    )  # fmt: skip
    assert reply.status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_writing_methods_are_rejected(method, client):
    status, headers, _ = await get(client, method=method)
    assert status == 405 and headers["Allow"] == "GET, HEAD"


async def test_request_bodies_are_rejected(client):
    assert (await get(client, data=b"x" * 100))[0] == 413


async def test_responses_carry_security_headers(client):
    for path in ("/api/v1/runs", "/", "/nowhere"):
        _, headers, _ = await get(client, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "unsafe-eval" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"


async def test_token_becomes_cookie(home):
    async with serving(home, token="secret") as client:
        answers = [await get(client, f"/api/v1/runs{query}") for query in ("", "?token=wrong", "?token=secret")]
        after = await client.get("/api/v1/runs", cookies={f"echelon_token_{client.port}": "secret"})
    assert [status for status, _, _ in answers] == [401, 401, 303] and after.status == 200
    headers = answers[2][1]
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Secure" not in cookie and "Path" not in cookie
    assert headers["Location"] == "./runs"


async def test_token_of_a_page_behind_tls_and_a_prefix_stays_below_the_prefix(home):
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "lab.example"}
    async with serving(home, token="secret", extra_hosts=("lab.example",)) as client:
        status, headers, _ = await get(client, "/?token=secret&quality=low", headers=forwarded)
    assert status == 303 and headers["Location"] == "./?quality=low" and "Secure" in headers["Set-Cookie"]


def test_token_of_the_environment_is_required_everywhere(monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "personal_token-of-mine")
    assert {Access.create(host, 8400).token for host in ("127.0.0.1", "0.0.0.0")} == {"personal_token-of-mine"}
    for unsuitable in ("short", "sixteen letters & more", "x" * 129):
        monkeypatch.setenv(TOKEN_VARIABLE, unsuitable)
        with pytest.raises(ValueError, match=f"{TOKEN_VARIABLE} is unsuitable") as error:
            Access.create("127.0.0.1", 8400)
        assert unsuitable not in str(error.value)


@pytest.mark.parametrize(
    "path", ["//evil.example/x", "///evil.example", "/\\\\evil.example", "//\\evil.example", "/%5cevil"]
)
async def test_token_redirect_stays_on_this_server(home, path):
    async with serving(home, token="secret") as client:
        url = URL(f"http://127.0.0.1:{client.port}{path}?token=secret&a=b", encoded=True)
        reply = await client.session.get(url, allow_redirects=False)
    location = reply.headers["Location"]
    assert reply.status == 303 and location[:2] == "./" and "/" not in location[2:] and location.endswith("?a=b")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_names_are_checked_on_every_interface(host, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Mars")
    monkeypatch.setattr(socket, "getfqdn", lambda: "mars.lan")
    access = Access.create(host, 8400, extra_hosts=("proxy.example",))
    assert all(map(access.host_allowed, (
        "mars", "Mars.LAN:8400", "mars.local", "192.168.1.5:80", "[fe80::1]:8400", "localhost", "proxy.example",
    )))  # fmt: skip
    assert not any(map(access.host_allowed, (
        "evil.example", "evil.example:8400", "mars.evil.example", "1.2.3", "", "1.2.3.4.example",
    )))  # fmt: skip


async def test_foreign_names_are_rejected_on_every_interface(home):
    cookie = {"Cookie": "echelon_token=secret"}
    async with serving(home, host="0.0.0.0", token="secret") as client:
        assert (await get(client, headers={"Host": "evil.example", **cookie}))[0] == 421
        assert (await get(client, headers={"Origin": "http://evil.example", **cookie}))[0] == 403


def test_token_is_required_beyond_loopback():
    assert Access.create("127.0.0.1", 8400).token == ""
    first, second = Access.create("0.0.0.0", 8400), Access.create("0.0.0.0", 8400)
    assert len(first.token) >= 32 and first.token != second.token
    assert first.token in address(first) and address(Access.create("::1", 8400)) == "http://[::1]:8400/"


@pytest.mark.parametrize(
    ("header", "parts"),
    [("a:1", ("a", 1)), ("A", ("a", None)), ("[::1]:9", ("::1", 9)), ("[::1]", ("::1", None)), ("a:x", None)],
)
def test_split_host_parses_name_and_port(header, parts):
    assert split_host(header) == parts


def test_open_socket_reports_port_in_use():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} of 127.0.0.1 is in use"):
            open_socket("127.0.0.1", port)
        open_socket("127.0.0.1", None).close()


def test_open_socket_rejects_foreign_address():
    with pytest.raises(ValueError, match=r"address '192\.0\.2\.1' does not belong to this machine"):
        open_socket("192.0.2.1", None)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "port 80 of h cannot be opened: permission denied"),
        (socket.gaierror(-2, "Name or service not known"), "address 'h' is unknown"),
    ],
)
def test_open_socket_names_the_reason(monkeypatch, error, expected):
    class Failing(socket.socket):
        def bind(self, address):
            raise error

    monkeypatch.setattr(app.socket, "socket", Failing)
    with pytest.raises(ValueError, match=re.escape(expected)):
        open_socket("h", 80)


ORIGINS = {
    ("http://localhost:8400", "localhost:8400"): True,
    ("http://LOCALHOST:8400", "localhost:8400"): True,
    ("http://[::1]:8400", "[::1]:8400"): True,
    ("http://localhost", "localhost:8400"): False,
    ("http://localhost:81", "localhost:8400"): False,
    ("https://localhost:8400", "localhost:8400"): True,
    ("ftp://localhost:8400", "localhost:8400"): False,
    ("http://127.0.0.1:8400", "localhost:8400"): False,
    ("http://10.0.0.7", "10.0.0.7:8400"): False,
    ("http://evil@localhost:8400", "localhost:8400"): False,
    ("null", "localhost:8400"): False,
    ("https://proxy.example", "proxy.example"): True,
    ("http://proxy.example", "proxy.example"): True,
    ("https://proxy.example:81", "proxy.example"): True,
    ("https://proxy.example", "localhost:8400"): True,
    ("https://x.proxy.example", "localhost:8400"): False,
}


@pytest.mark.parametrize(("case", "allowed"), ORIGINS.items(), ids=str)
def test_origin_is_compared_with_the_host_of_the_request(case, allowed):
    origin, host = case
    access = Access("0.0.0.0", 8400, "x", extra_hosts=("proxy.example",))
    assert access.host_allowed(host) and access.origin_allowed(origin, [host]) == allowed


async def test_origins_on_standard_ports_of_this_machine_are_foreign(client):
    assert (await get(client, headers={"Origin": "http://localhost"}))[0] == 403
    assert (await get(client, headers={"Origin": f"http://127.0.0.1:{client.port}"}))[0] == 200


async def test_page_of_an_unknown_proxy_is_loaded_and_told_why_it_gets_no_notices(client):
    proxied = {"Origin": "https://lab.example"}
    assert (await get(client, "/icon.svg", headers=proxied))[0] in (200, 404)
    status, _, body = await get(client, "/api/v1/healthz?origin=https://lab.example")
    assert status == 200 and "--allow-host 'lab.example'" in json.loads(body)["refusal"]
    own = f"http://127.0.0.1:{client.port}"
    assert json.loads((await get(client, f"/api/v1/healthz?origin={own}"))[2])["refusal"] == ""


@pytest.mark.parametrize(
    "host", ["[fe80::1%eth0]", "[::1%25x;script-src *]:8400", "fe80::1", "local host", "localhost;", "localhost:", "[]"]
)
def test_host_values_that_are_no_host_are_refused(host):
    assert not Access("::", 8400, "x", extra_hosts=(host,)).host_allowed(host)


async def test_request_without_host_is_refused(home):
    async with serving(home, host="0.0.0.0", extra_hosts=(socket.gethostname(), socket.getfqdn())) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET /api/v1/runs HTTP/1.0\r\n\r\n")
        assert b"421" in await reader.readline()
        writer.close()
