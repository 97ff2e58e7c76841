"""Copying to the clipboard of whoever looks, wherever the dashboard runs: OSC 52, also through tmux, and a file.

A terminal never says whether it took a copy, so the same text is written to a file beside the runs as well.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from echelon.runs import atomic_write

COPY_NAME = "copied.txt"
"""File beside the runs that holds what was copied last."""

LIMIT_BYTES = 74_000
"""Longer texts are refused by many terminals; they are in the file only."""


def sequence(text: str, environment: Mapping[str, str]) -> str:
    """Return what makes a terminal copy the text; empty where it is too long for that.

    tmux takes the plain sequence with ``set-clipboard on`` and the wrapped one with ``allow-passthrough on``, so both
    are sent to it.
    """
    raw = text.encode()
    if len(raw) > LIMIT_BYTES:
        return ""
    plain = f"\x1b]52;c;{base64.b64encode(raw).decode()}\x07"
    if "TMUX" not in environment:
        return plain
    return plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def save_copy(home: Path, text: str) -> str:
    """Write the text beside the runs and return where; ``OSError`` where that is impossible."""
    path = home / COPY_NAME
    atomic_write(path, text + "\n", durable=False)
    return str(path)
