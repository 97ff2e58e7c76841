"""Follower of a growing text log: complete lines without control characters, in bounded memory."""

import os
import re
from collections import deque
from pathlib import Path

from echelon.state_files import LineSplitter, open_regular
from echelon_cli.foreign_text import visible
from echelon_cli.tui.feed.messages import FileFollower, LogView

MAX_LINES = 20_000
MAX_LINE_CHARS = 2_000

MAX_LINE_BYTES = 1 << 16
"""Bytes read of a line; progress bars return to its start many times."""

READ_BYTES = 8 << 20
"""Bytes read per poll; of a longer log only the end is read."""

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


class LogFollower(FileFollower):
    """Follows one log file; ``lines`` holds its newest lines."""

    def __init__(self, path: Path, max_lines: int = MAX_LINES) -> None:
        self.path = path
        self.first = 0
        """Number of the first line in ``lines``."""
        self.lines: deque[str] = deque(maxlen=max_lines)
        self._inode, self._offset = -1, 0
        self._lines = LineSplitter(MAX_LINE_BYTES)

    @property
    def view(self) -> LogView:
        return LogView(str(self.path), self.path.name, self.first, tuple(self.lines))

    def poll(self) -> bool:
        """Read what was appended and return whether anything was; a rotated or truncated log is read from its start."""
        try:
            file = open_regular(self.path)
        except OSError:
            return False
        with file:
            state = os.fstat(file.fileno())
            if (state.st_ino, state.st_size) == (self._inode, self._offset):
                return False
            if state.st_ino != self._inode or state.st_size < self._offset:
                self.lines.clear()
                self._lines.clear()
                self.first, self._inode = 0, state.st_ino
                self._offset = max(0, state.st_size - READ_BYTES)
            file.seek(self._offset)
            data = file.read(READ_BYTES)
        self._offset += len(data)
        for line in self._lines.feed(data):
            self.first += len(self.lines) == self.lines.maxlen
            self.lines.append(readable(line))
        return True


def readable(line: bytes) -> str:
    """Return a line as a terminal would finally show it, without sequences that move the cursor."""
    text = line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    return visible(ESCAPES.sub("", text).expandtabs(4))[:MAX_LINE_CHARS]
