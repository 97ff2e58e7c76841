"""Access control: hosts, origins, methods, tokens and security headers."""

from __future__ import annotations

import asyncio
import errno
import re
import socket

import pytest
from yarl import URL

from echelon.server import app
from echelon.server.app import PortTakenError, address, open_socket, running_server
from echelon.server.security import Access, split_host


def get(ask, path="/api/v1/runs", access=None, method="GET", **options):
    async def work(client):
        reply = await client.request(method, path, allow_redirects=False, **options)
        return reply.status, dict(reply.headers), await reply.text()

    return ask(work, **(access or {}))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]", "localhost:1:2"]
)
def test_foreign_host_header_is_rejected(ask, host):
    status, _, body = get(ask, headers={"Host": host})
    assert status == 421 and "evil" not in body


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "file://", "https://localhost.evil.example"])
def test_foreign_origin_is_rejected(ask, origin):
    assert get(ask, headers={"Origin": origin})[0] == 403


def test_live_channel_rejects_foreign_origin(ask):
    async def work(client):
        reply = await client.get(
            "/api/v1/live",
            headers={
                "Origin": "http://evil.example", "Upgrade": "websocket", "Connection": "Upgrade",
                "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            },
        )  # fmt: skip
        return reply.status

    assert ask(work) == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_writing_methods_are_rejected(ask, method):
    status, headers, _ = get(ask, method=method)
    assert status == 405 and headers["Allow"] == "GET, HEAD"


def test_request_bodies_are_rejected(ask):
    assert get(ask, data=b"x" * 100)[0] == 413


def test_responses_carry_security_headers(ask):
    for path in ("/api/v1/runs", "/", "/nowhere"):
        _, headers, _ = get(ask, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "unsafe-eval" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"


def test_token_becomes_cookie(ask):
    async def work(client):
        bare = await client.get("/api/v1/runs")
        wrong = await client.get("/api/v1/runs?token=wrong", allow_redirects=False)
        right = await client.get("/api/v1/runs?token=secret", allow_redirects=False)
        after = await client.get("/api/v1/runs", cookies={f"echelon_token_{client.port}": "secret"})
        return bare.status, wrong.status, right.status, right.headers, after.status

    bare, wrong, right, headers, after = ask(work, token="secret")
    assert (bare, wrong, right, after) == (401, 401, 303, 200)
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and headers["Location"] == "/api/v1/runs"


@pytest.mark.parametrize(
    "path", ["//evil.example/x", "///evil.example", "/\\\\evil.example", "//\\evil.example", "/%5cevil"]
)
def test_token_redirect_stays_on_this_server(ask, path):
    async def work(client):
        url = URL(f"http://127.0.0.1:{client.port}{path}?token=secret&a=b", encoded=True)
        reply = await client.session.get(url, allow_redirects=False)
        return reply.status, reply.headers["Location"]

    status, location = ask(work, token="secret")
    assert status == 303 and location[0] == "/" and location[1] not in "/\\" and location.endswith("?a=b")


def test_garbage_cookie_returns_401_without_error(ask, caplog):
    status, headers, _ = get(ask, headers={"Cookie": "echelon_token=\udcff\udcfe"}, access={"token": "secret"})
    assert status == 401 and "json" in headers["Content-Type"] and not caplog.records


def test_host_header_is_case_insensitive():
    assert Access("MyHost.lan", 8400, "x").host_allowed("myhost.lan:8400")
    assert Access("MyHost.lan", 8400, "x").host_allowed("MyHost.LAN")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_names_are_checked_on_every_interface(host, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Mars")
    monkeypatch.setattr(socket, "getfqdn", lambda: "mars.lan")
    access = Access.create(host, 8400, extra_hosts=("proxy.example",))
    allowed = (
        "mars",
        "mars.lan:8400",
        "mars.local",
        "192.168.1.5:8400",
        "[fe80::1]:8400",
        "localhost",
        "proxy.example",
    )
    assert all(access.host_allowed(name) for name in allowed)
    foreign = (
        "evil.example",
        "evil.example:8400",
        "192.168.1.5:80",
        "mars.evil.example",
        "1.2.3",
        "",
        "1.2.3.4.example",
    )
    assert not any(access.host_allowed(name) for name in foreign)


def test_foreign_names_are_rejected_on_every_interface(ask):
    access = {"host": "0.0.0.0", "token": "secret"}
    cookie = {"Cookie": "echelon_token=secret"}
    assert get(ask, headers={"Host": "evil.example", **cookie}, access=access)[0] == 421
    assert get(ask, headers={"Origin": "http://evil.example", **cookie}, access=access)[0] == 403


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
        (OSError(errno.EADDRNOTAVAIL, "?"), "address 'h' does not belong to this machine"),
        (OSError(errno.EADDRINUSE, "?"), "port 80 of h is in use"),
    ],
)
def test_open_socket_names_the_reason(monkeypatch, error, expected):
    class Failing(socket.socket):
        def bind(self, address):
            raise error

    monkeypatch.setattr(app.socket, "socket", Failing)
    with pytest.raises(ValueError, match=re.escape(expected)):
        open_socket("h", 80)


def test_running_server_ignores_stale_server_file(home):
    (home / ".server.json").write_text('{"url": "http://127.0.0.1:9/", "pid": 1}')
    assert running_server(home) is None
    (home / ".server.json").write_text('{"url": "http://evil.example/", "pid": 1}')
    assert running_server(home) is None


ORIGINS = {
    ("http://localhost:8400", "localhost:8400"): True,
    ("http://LOCALHOST:8400", "localhost:8400"): True,
    ("http://[::1]:8400", "[::1]:8400"): True,
    ("http://localhost", "localhost:8400"): False,
    ("http://localhost:81", "localhost:8400"): False,
    ("https://localhost:8400", "localhost:8400"): False,
    ("http://127.0.0.1:8400", "localhost:8400"): False,
    ("http://10.0.0.7", "10.0.0.7:8400"): False,
    ("http://evil@localhost:8400", "localhost:8400"): False,
    ("null", "localhost:8400"): False,
    ("https://proxy.example", "proxy.example"): True,
    ("http://proxy.example", "proxy.example"): True,
    ("https://proxy.example:81", "proxy.example"): False,
    ("https://proxy.example", "localhost:8400"): False,
}


@pytest.mark.parametrize(("case", "allowed"), ORIGINS.items(), ids=str)
def test_origin_is_compared_with_the_host_of_the_request(case, allowed):
    origin, host = case
    access = Access("0.0.0.0", 8400, "x", extra_hosts=("proxy.example",))
    assert access.host_allowed(host) and access.origin_allowed(origin, "http", host) == allowed


def test_origins_on_standard_ports_of_this_machine_are_foreign(ask):
    assert get(ask, headers={"Origin": "http://localhost"})[0] == 403

    async def work(client):
        return (await client.get("/api/v1/runs", headers={"Origin": f"http://127.0.0.1:{client.port}"})).status

    assert ask(work) == 200


@pytest.mark.parametrize(
    "host", ["[fe80::1%eth0]", "[::1%25x;script-src *]:8400", "fe80::1", "local host", "localhost;", "localhost:", "[]"]
)
def test_host_values_that_are_no_host_are_refused(host):
    assert not Access("::", 8400, "x", extra_hosts=(host,)).host_allowed(host)


def test_request_without_host_is_refused(ask):
    async def work(client):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET /api/v1/runs HTTP/1.0\r\n\r\n")
        status = await reader.readline()
        writer.close()
        return status

    machine = {"host": "0.0.0.0", "extra_hosts": (socket.gethostname(), socket.getfqdn())}
    assert b"421" in ask(work, **machine)
