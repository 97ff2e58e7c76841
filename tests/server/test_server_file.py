"""``.server.json``, by which commands find a running server: its content is of any origin."""

import contextlib
import json
import os
import socket
import threading

import pytest

import echelon
from echelon.server.app import SERVER_FILE, running_server
from echelon.server.catalogue import home_hash


def answering(body: bytes):
    """Return the port of a server that answers one request, and the first lines of the requests it got."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10.0)
    requests: list[bytes] = []

    def answer() -> None:
        with contextlib.suppress(OSError), listener, listener.accept()[0] as client:
            requests.append(client.recv(4096))
            client.sendall(body)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return listener, thread, requests


def reply(content: object, status: str = "200 OK", *headers: str) -> bytes:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def ask(home, body: bytes, url: str = "http://127.0.0.1:{port}/") -> tuple[str | None, list[bytes]]:
    """Return what ``running_server`` makes of a server file and an answer, and the requests that were sent."""
    listener, thread, requests = answering(body)
    (home / SERVER_FILE).write_text(json.dumps({"url": url.format(port=listener.getsockname()[1]), "pid": 1}))
    try:
        return running_server(home), requests
    finally:
        with contextlib.suppress(OSError):  # wakes a server that nothing was asked of
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10.0)


def healthy(home) -> dict[str, str]:
    return {"version": echelon.__version__, "home": home_hash(home)}


def test_running_server_of_the_same_home_and_version_is_found(tmp_path):
    url, requests = ask(tmp_path, reply(healthy(tmp_path)))
    assert url is not None and url.startswith("http://127.0.0.1:") and url.endswith("/")
    assert requests[0].startswith(b"GET /api/v1/healthz HTTP/1.1")


ENTRIES = [
    None, 5, "text", [], {}, {"url": None}, {"url": 5}, {"url": ["http://127.0.0.1:9/"]}, {"url": "http://127.0.0.1:/"},
    {"url": "http://127.0.0.1:port/"}, {"url": "http://127.0.0.1:0/"}, {"url": "http://127.0.0.1:99999/"},
    {"url": "http://127.0.0.1:8400\u0660/"}, {"url": "http://127.0.0.1:84\n00/"}, {"url": "http://127.0.0.1:8400/\n"},
    {"url": "http://127.0.0.1:" + "9" * 5000 + "/"}, {"url": "http://127.0.0.1:-1/"}, {"url": "http://[::1/"},
    {"url": "file:///etc/passwd"}, {"url": "http://127.0.0.1:8400/../"}, {"url": "http://evil.example/", "pid": 1},
    {"url": "http://127.0.0.1:9/", "pid": 1},
    {"url": "http://127.0.0.1:8400"}, {"url": "http://127.0.0.1:8400/ x"},
]  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_hostile_server_file_is_no_server(tmp_path, entry):
    (tmp_path / SERVER_FILE).write_text(json.dumps(entry))
    assert running_server(tmp_path) is None


def test_server_file_that_is_a_pipe_is_no_server(tmp_path):
    os.mkfifo(tmp_path / SERVER_FILE)
    assert running_server(tmp_path) is None


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9@127.0.0.1:{port}/", "http://127.0.0.1:{port}/elsewhere/", "http://127.0.0.1:{port}/?token=x&"],
)
def test_server_file_chooses_nothing_but_a_port(tmp_path, url):
    assert ask(tmp_path, reply(healthy(tmp_path)), url) == (None, [])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff\xfe\r\n\r\n",
        b"SSH-2.0-anything\r\n",
        b"HTTP/1.1 wrong\r\n\r\n",
        *map(reply, ([], "text", None, b"[" * 60_000, b"{" * 5, {"version": 5, "home": []})),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200,
    ],
)
def test_hostile_answer_is_no_server(tmp_path, answer):
    assert ask(tmp_path, answer)[0] is None


def test_redirection_is_not_followed(tmp_path):
    listener, thread, requests = answering(reply(healthy(tmp_path)))
    target = f"Location: http://127.0.0.1:{listener.getsockname()[1]}/"
    assert ask(tmp_path, reply({}, "302 Found", target))[0] is None
    assert requests == []
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10.0)


def test_watch_with_a_hostile_server_file_serves_itself(tmp_path, monkeypatch):
    from echelon_cli.commands import serve

    home = tmp_path / "runs"
    home.mkdir()
    monkeypatch.setenv("ECHELON_HOME", str(home))
    (home / SERVER_FILE).write_text(json.dumps({"url": "http://127.0.0.1:port/"}))
    started = []
    monkeypatch.setattr(serve, "fragment_of", lambda what, follow: "#match=x")
    monkeypatch.setattr("echelon.server.app.serve", lambda *args, **options: started.append(args))
    serve.watch(open_browser=False)
    assert started == [(None,)]
