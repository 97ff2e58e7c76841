"""Copying to the user's clipboard over any connection: OSC 52, also through tmux, and a file.

A terminal does not report whether it accepted OSC 52, so the text is also written to a file beside the runs.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from echelon.files import atomic_write

COPY_NAME = "copied.txt"
"""File beside the runs with the text copied last."""

LIMIT_BYTES = 74_000
"""Many terminals refuse longer texts; those are only written to the file."""


def clipboard_sequence(text: str, environment: Mapping[str, str]) -> str:
    """Return the terminal sequence that copies the text; empty where it is longer than ``LIMIT_BYTES``.

    tmux accepts the plain sequence with ``set-clipboard on`` and the wrapped one with ``allow-passthrough on``; both
    are sent.
    """
    raw = text.encode()
    if len(raw) > LIMIT_BYTES:
        return ""
    plain_rows = f"\x1b]52;c;{base64.b64encode(raw).decode()}\x07"
    if "TMUX" not in environment:
        return plain_rows
    return plain_rows + "\x1bPtmux;" + plain_rows.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def save_copy(home: Path, text: str) -> str:
    """Write the text to ``COPY_NAME`` beside the runs and return its path; ``OSError`` where that fails."""
    path = home / COPY_NAME
    atomic_write(path, text + "\n", durable=False)
    return str(path)
