"""The docs site: built without warnings, free of requests to other hosts, served on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from html.parser import HTMLParser
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from echelon_cli import docs_site

needs_builder = pytest.mark.skipif(
    not all(map(find_spec, docs_site.BUILDERS)), reason="building the docs site needs the extra 'docs'"
)
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
"""Attributes of elements whose address a browser loads; ``a`` waits for a click."""


class Loads(HTMLParser):
    """Addresses that a page loads, and the links that it offers."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if (address := found.get(LOADING.get(tag, ""))) and found.get("rel") != "canonical":
            self.loaded.append(address)
        if tag == "a" and (address := found.get("href")):
            self.links.append(address)
        if name := found.get("id"):
            self.anchors.add(name)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Return a site that the command built: a process of its own, since MkDocs keeps state."""
    folder = tmp_path_factory.mktemp("site") / "built"
    command = [sys.executable, "-m", "echelon_cli.main", "docs", "--build", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=docs_site.sources())
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"warning", done.stderr, re.IGNORECASE), done.stderr
    return folder


@pytest.mark.long
@needs_builder
def test_site_is_built_and_loads_nothing_from_other_hosts(site):
    pages = {page: Loads(page) for page in site.rglob("*.html")}
    assert len(pages) > 30
    foreign = {(page.name, url) for page, found in pages.items() for url in found.loaded if urlsplit(url).netloc}
    assert foreign == set()
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert [url for url in re.findall(r"url\(([^)]+)\)", styles) if urlsplit(url.strip("\"'")).netloc] == []
    for page, found in pages.items():
        for link in found.links:
            target, parts = page, urlsplit(link)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            if parts.path:
                target = (page.parent / parts.path).resolve()
                target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{page.relative_to(site)} links to {link}"
            if parts.fragment and target in pages:
                assert parts.fragment in pages[target].anchors, f"{page.relative_to(site)} links to {link}"
    decisions = sorted(folder.name for folder in (site / "decisions").iterdir() if folder.is_dir())
    sidebar = pages[site / "decisions" / decisions[0] / "index.html"].links
    assert [name for name in decisions[1:] if f"../{name}/" not in sidebar] == []
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"reference/commands/", "reference/configuration/", "reference/python/", "tour/", "changelog/"} <= found


@pytest.mark.long
@needs_builder
def test_docs_command_serves_a_built_site_on_loopback(site, tmp_path):
    code = (
        "from pathlib import Path; from echelon_cli import docs_site; from echelon_cli.main import run; import sys;"
        f"docs_site.cached_site = lambda: (Path({str(site)!r}), True); sys.exit(run(['docs', '--json', '--no-open']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(docs_site.PACKED.parents[1])}
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        assert urlsplit(url).hostname == "127.0.0.1"
        with urllib.request.urlopen(f"{url}reference/commands/", timeout=10) as reply:
            assert b"echelon train" in reply.read()
            assert reply.headers["Content-Security-Policy"].startswith("default-src 'self';")
        for path in ("assets/", "no-such-page/", "../mkdocs.yml", "%2e%2e/%2e%2e/etc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url + path, timeout=10)
        connection = HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=10)
        connection.request("GET", "/", headers={"Host": "elsewhere.example"})
        assert connection.getresponse().status == 403
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=10) == 0


def test_build_refuses_a_folder_with_other_files(echelon, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    code, _, err = echelon("docs", "--build", str(tmp_path))
    assert code == 1 and "holds something else" in err and err.count("\n") == 1
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_missing_builder_is_named_with_its_extra(echelon, tmp_path, monkeypatch):
    monkeypatch.setattr(docs_site, "find_spec", lambda name: None)
    code, _, err = echelon("docs", "--build", str(tmp_path / "new"))
    assert code == 1 and "pip install 'echelon[docs]'" in err and err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_fingerprint_changes_with_pages_and_not_otherwise(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / docs_site.SETTINGS).write_text("site_name: x")
    page = tmp_path / "docs" / "index.md"
    page.write_text("one")
    first = docs_site.fingerprint(tmp_path)
    assert docs_site.fingerprint(tmp_path) == first
    page.write_text("two")
    assert docs_site.fingerprint(tmp_path) != first


def test_cache_keeps_the_newest_sites(tmp_path):
    for n, name in enumerate(("a", "b", "c")):
        (tmp_path / name).mkdir()
        (tmp_path / name / docs_site.STAMP).write_text(name)
        os.utime(tmp_path / name, (n, n))
    (tmp_path / "other").mkdir()
    docs_site.trim_cache(tmp_path / "c")
    assert {path.name for path in tmp_path.iterdir()} == {"b", "c", "other"}


@pytest.fixture
def served(tmp_path):
    """A server of a folder with one large page, and its port."""
    (tmp_path / "index.html").write_bytes(bytes(16 << 20))
    bound = docs_site.open_socket(docs_site.LOCAL_HOST, None)
    access = docs_site.Access(docs_site.LOCAL_HOST, bound.getsockname()[1])
    handler = partial(docs_site.DocsHandler, access=access, folder=tmp_path)
    with docs_site.DocsServer((docs_site.LOCAL_HOST, access.port), handler, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = bound
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server, access.port
        server.shutdown()
        thread.join(10)


def send(port: int, text: bytes) -> socket.socket:
    """Send bytes and return the connection."""
    connection = socket.create_connection((docs_site.LOCAL_HOST, port), timeout=10)
    connection.sendall(text.replace(b"HERE", f"127.0.0.1:{port}".encode()))
    return connection


def test_docs_server_prints_nothing_of_bad_requests_and_lost_clients(served, capfd):
    server, port = served
    with send(port, b"GET /%00 HTTP/1.0\r\nHost: HERE\r\n\r\n") as connection:
        assert connection.recv(64).startswith(b"HTTP/1.0 404")
    for text in (b"GET / HTTP/1.0\r\nHost: HERE\r\n\r\n", b"GET /"):
        connection = send(port, text)
        # closing with a reset while the server writes or reads
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    while server._places._value < docs_site.MAX_CLIENTS:
        time.sleep(0.01)
    assert capfd.readouterr() == ("", "")


def test_docs_server_has_a_bounded_number_of_clients(served, monkeypatch):
    server, port = served
    idle = [send(port, b"") for _ in range(docs_site.MAX_CLIENTS)]
    while server._places._value:
        time.sleep(0.01)
    with send(port, b"") as further:
        assert further.recv(64) == b"", "disconnected"
    for connection in idle:
        connection.close()
    while server._places._value < docs_site.MAX_CLIENTS:
        time.sleep(0.01)
    assert docs_site.DocsHandler.timeout, "and idle ones are disconnected in time"
