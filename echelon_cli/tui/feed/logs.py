"""Follow a text log that grows: complete lines, no control characters, constant memory."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path

from echelon_cli.tui.widgets.cells import sanitize

MAX_LINES = 20_000
"""Newest lines of a log that can be read on the screen."""

MAX_LINE_CHARS = 2_000
"""Longer lines are cut."""

READ_BYTES = 8 << 20
"""Of a longer log, only the end is read."""

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Colours and other terminal sequences."""


class LogFollower:
    """The reading end of one log; ``poll`` says whether anything changed."""

    def __init__(self, path: Path, keep: int = MAX_LINES) -> None:
        self.path = path
        self.first = 0
        self.lines: deque[str] = deque(maxlen=keep)
        self._inode, self._offset = -1, 0
        self._rest = b""

    def poll(self) -> bool:
        """Take in what was written since the last call; a log put aside or cut is read anew."""
        try:
            file = open(self.path, "rb")
        except OSError:
            return False
        with file:
            state = os.fstat(file.fileno())
            if (state.st_ino, state.st_size) == (self._inode, self._offset):
                return False
            if state.st_ino != self._inode or state.st_size < self._offset:
                self.lines.clear()
                self.first, self._inode, self._rest = 0, state.st_ino, b""
                self._offset = max(0, state.st_size - READ_BYTES)
            file.seek(self._offset)
            data = file.read(READ_BYTES)
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self.first += len(self.lines) == self.lines.maxlen
            self.lines.append(readable(line))
        return True


def readable(line: bytes) -> str:
    """Return a line as it would stand on a terminal in the end, without anything that could move a cursor."""
    text = line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    return sanitize(ESCAPES.sub("", text).expandtabs(4))[:MAX_LINE_CHARS]
