"""The docs site: its sources, its builds, and a server on loopback.

A wheel holds the sources (``manual/``), a checkout has them at its root. A site is built once per state of them and of
the program, whose commands, fields and docstrings are pages too, and stays in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from echelon.server.app import LOCAL_HOST, open_socket
from echelon.server.security import HEADERS, Access

PACKED = Path(__file__).with_name("manual")
"""Sources in a wheel."""
SETTINGS = "mkdocs.yml"
BUILDERS = ("mkdocs", "material", "mkdocstrings_handlers")
"""Modules of the extra that builds a site."""
STAMP = ".built-from"
"""File of a built site with the fingerprint of its sources; a folder with it may be replaced."""
MAX_CLIENTS = 64
"""Most clients at a time; further ones are disconnected."""
CACHED_SITES = 2
"""Most built sites in the cache."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: pages load nothing from other hosts. The theme has scripts and styles within its pages."""


class DocsError(ValueError):
    """The docs site cannot be built here."""


def sources() -> Path:
    """Return the folder with ``mkdocs.yml``, ``docs/`` and ``examples/``; ``DocsError`` without one."""
    for folder in (PACKED, PACKED.parents[1]):
        if (folder / SETTINGS).is_file() and (folder / "docs").is_dir():
            return folder
    raise DocsError(f"{SETTINGS} is in neither {str(PACKED)!r} nor a checkout; try to install echelon again")


def fingerprint(root: Path) -> str:
    """Return a hash of the pages below ``root`` by content, and of the program by size and time of its files."""
    digest = hashlib.sha256()
    pages = [path for name in ("docs", "examples") for path in sorted((root / name).rglob("*")) if path.is_file()]
    for path in (root / SETTINGS, *sorted(root.glob("*.md")), *pages):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    package = PACKED.parent.parent
    for path in (file for name in ("echelon", "echelon_cli") for file in sorted((package / name).rglob("*.py"))):
        state = path.stat()
        digest.update(f"{path.relative_to(package)}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:32]


def cached_site() -> tuple[Path, bool]:
    """Return the folder of the site of this installation, and whether it is built."""
    import platformdirs

    folder = Path(platformdirs.user_cache_dir("echelon")) / "docs" / fingerprint(sources())
    return folder, (folder / STAMP).is_file()


def build_site(out: Path) -> None:
    """Build the site into ``out``, which is empty, missing or an earlier site; ``DocsError`` if that cannot be."""
    root = sources()
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / STAMP).is_file())):
        raise DocsError(f"{str(out)!r} holds something else, expected a new folder or an earlier site; try another one")
    if missing := [name for name in BUILDERS if find_spec(name) is None]:
        raise DocsError(f"building the docs site needs {missing[0]}, which is missing; try pip install 'echelon[docs]'")
    from mkdocs.commands.build import build  # pyright: ignore[reportMissingImports]
    from mkdocs.config import load_config  # pyright: ignore[reportMissingImports]
    from mkdocs.exceptions import MkDocsException  # pyright: ignore[reportMissingImports]

    out.parent.mkdir(parents=True, exist_ok=True)
    hook = str(Path(__file__).with_name("docs_hooks.py"))
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        made = Path(scratch) / "site"
        warnings = Warnings(logging.WARNING)
        logging.getLogger("mkdocs").addHandler(warnings)
        try:
            build(load_config(str(root / SETTINGS), site_dir=str(made), hooks=[hook], strict=True))
        except MkDocsException as error:
            reasons = warnings.lines or [str(error)]
            raise DocsError(f"the docs site was not built: {' '.join('; '.join(reasons).split())}") from None
        finally:
            logging.getLogger("mkdocs").removeHandler(warnings)
        (made / STAMP).write_text(fingerprint(root), encoding="ascii")
        shutil.rmtree(out, ignore_errors=True)
        made.rename(out)


class Warnings(logging.Handler):
    """Collects the messages of a build that end it."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def trim_cache(newest: Path) -> None:
    """Delete all but the newest sites beside ``newest`` in the cache."""
    sites = sorted((path for path in newest.parent.iterdir() if (path / STAMP).is_file()), key=os.path.getmtime)
    for old in sites[:-CACHED_SITES]:
        shutil.rmtree(old, ignore_errors=True)


class DocsHandler(SimpleHTTPRequestHandler):
    """Serves the files of a site to requests that name this host, and lists no folder."""

    timeout = 30.0
    """Time after which a client that sends or reads nothing is disconnected [s]."""

    def __init__(self, *arguments: Any, access: Access, folder: Path) -> None:
        self._access = access
        super().__init__(*arguments, directory=str(folder))

    def send_head(self) -> Any:
        if not self._access.host_allowed(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        if "\0" in self.translate_path(self.path):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        for name, value in {**HEADERS, "Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


class DocsServer(ThreadingHTTPServer):
    """A thread for each of at most ``MAX_CLIENTS`` clients; one that leaves within an answer is no error."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(MAX_CLIENTS)
        super().__init__(*arguments, **options)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing."""


def serve_site(folder: Path, *, port: int | None = None, ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve a built site on loopback until interrupted; ``ready`` is called with its address."""
    bound = open_socket(LOCAL_HOST, port)
    access = Access(LOCAL_HOST, bound.getsockname()[1])
    handler = partial(DocsHandler, access=access, folder=folder)
    with DocsServer((LOCAL_HOST, access.port), handler, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = bound
        previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            ready(f"http://{LOCAL_HOST}:{access.port}/")
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGTERM, previous)
