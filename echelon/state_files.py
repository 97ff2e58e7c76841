"""Reading of files of any origin, perhaps damaged: bounded in bytes, objects and nesting, and never blocking.

Files of a run folder, a league or a user come from other versions, crashed machines and other people. Every reader of
one goes through ``open_regular`` and ``parse_json``, which raise ``OSError`` and ``ValueError`` only.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json

from echelon.files import IrregularFileError as IrregularFileError
from echelon.files import open_own, require_regular

MAX_STATE_BYTES = 1 << 20
"""Size above which a state file counts as damaged; the largest ones, specs and manifests, have some 10 KiB."""

MAX_DEPTH = 64
"""Greatest nesting of JSON; what Echelon writes is nested less than ten deep."""


SURROGATES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape of JSON; the group is that of a lone surrogate, which is half a character and no text."""

SHOWN_CHARS = 200
"""Characters shown of text that is refused."""


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file for reading; ``IrregularFileError`` for anything else, such as a pipe that would block."""
    return os.fdopen(_open(path), "rb")


def _open(path: Path | str, *, follow_links: bool = True) -> int:
    """Return a descriptor of a regular file."""
    if not follow_links:
        return open_own(path, os.O_RDONLY)
    return require_regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), path)


def read_bounded(path: Path | str, limit: int = MAX_STATE_BYTES, *, follow_links: bool = True) -> bytes:
    """Return the content of a regular file; ``ValueError`` where it has more than ``limit`` bytes."""
    handle = _open(path, follow_links=follow_links)
    try:
        data = os.read(handle, limit + 1)
        while data and len(data) <= limit and (more := os.read(handle, limit + 1 - len(data))):
            data += more
    finally:
        os.close(handle)
    if len(data) > limit:
        raise ValueError(f"file {str(path)!r} has more than {limit} bytes")
    return data


def parse_json(data: str | bytes, *, names: bool = False) -> Any:
    r"""Return the value of a JSON text; ``ValueError`` where it is none or is nested deeper than ``MAX_DEPTH``.

    A lone surrogate reads as its escape, such as ``\udce9``, so that every string of the value can be encoded; with
    ``names`` it stays, so that names of files that are no UTF-8 read back as they were written.
    """
    raw = data.encode() if isinstance(data, str) else data
    try:
        value = from_json(raw)
    except ValueError:
        readable = SURROGATES.sub(lambda escape: b"\\\\" + escape[1] if escape[1] else escape[0], raw)
        if readable == raw:
            raise
        value = json.loads(raw) if names and _is_shallow(from_json(readable)) else from_json(readable)
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and not _is_shallow(value):
        raise ValueError(f"JSON is nested deeper than {MAX_DEPTH}")
    return value


def require_utf8(value: object, name: str) -> None:
    """Raise ``ValueError`` where text of a JSON value has a lone surrogate, as names that are no UTF-8 do.

    The one gate of text that others will read: no reader could tell such text from a damaged file.
    """
    if "\\ud" not in json.dumps(value, default=str):
        return
    for text in _strings(value):
        if not is_utf8(text):
            raise ValueError(f"{name} contains {text[:SHOWN_CHARS]!r}, expected UTF-8; rename it")


def is_utf8(text: str) -> bool:
    """Whether text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _strings(value: object) -> Iterator[str]:
    """Yield every string of a JSON value, keys included."""
    if isinstance(value, dict):
        for part in (*value.keys(), *value.values()):
            yield from _strings(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _strings(part)
    elif not isinstance(value, (int, float)) and value is not None:
        yield str(value)


def _is_shallow(value: Any) -> bool:
    """Whether containers are nested at most ``MAX_DEPTH`` deep, found level by level."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return True
    return not any(isinstance(node, (dict, list)) for node in level)


class LineSplitter:
    """Splits bytes that arrive in pieces into lines, in time linear in their number and in bounded memory."""

    def __init__(self, max_bytes: int) -> None:
        """Cut lines after ``max_bytes``."""
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in ``data``, without their line ends."""
        first, *others = data.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [b"".join(self._parts), *(line[: self._max_bytes] for line in others[:-1])]
        self.clear()
        self._keep(others[-1])
        return lines

    def unfinished(self) -> bytes:
        """Return the bytes after the last line end."""
        return b"".join(self._parts)

    def clear(self) -> None:
        """Forget the bytes after the last line end."""
        self._parts, self._size = [], 0

    def _keep(self, part: bytes) -> None:
        if fitting := part[: self._max_bytes - self._size]:
            self._parts.append(fitting)
            self._size += len(fitting)
