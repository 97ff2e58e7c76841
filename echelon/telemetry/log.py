"""Writing, reading and following a run's ``metrics.jsonl``.

The file is the only channel between a worker and its readers: readers tolerate torn and damaged lines, and a writer
never damages a line further.
"""

import contextlib
import math
import os
from collections.abc import Iterable
from pathlib import Path

from echelon.closing import Closing
from echelon.files import fsync, open_own
from echelon.state_files import LineSplitter, open_regular
from echelon.telemetry.events import Event, EventAlert, EventEnd, EventResume, EventStart
from echelon.telemetry.lines import MAX_RECORD_BYTES, from_json, to_json

CHUNK_BYTES = 1 << 20
"""Bytes read at once, which bounds the memory needed for a long run."""

UNAFFECTED_BY_RESUME = (EventStart, EventAlert, EventResume, EventEnd)
"""Records about sessions and faults; a resume supersedes only records about training."""


class EventLog(Closing):
    """Writer of records: one ``write`` call per record, so lines of concurrent writers do not interleave."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending; a line torn by an earlier crash is terminated first."""
        self.path = path
        self._synced_name = False
        self._fd = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        size = os.fstat(self._fd).st_size
        self._torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    def append(self, event: Event) -> None:
        """Append one record; ``OSError`` on a full disk, after which the next record starts on a new line."""
        line = (b"\n" if self._torn else b"") + to_json(event).encode() + b"\n"
        self._torn = True
        written = os.write(self._fd, line)
        if written < len(line):
            raise OSError(f"only {written} of {len(line)} bytes of a record fit on the disk")
        self._torn = False

    def sync(self) -> None:
        """Flush appended records, and at first the file's entry in its folder, to the disk."""
        os.fsync(self._fd)
        if not self._synced_name:
            with contextlib.suppress(FileNotFoundError):  # the folder was renamed
                fsync(self.path.parent)
            self._synced_name = True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class EventFollower:
    """Reader of records: ``poll`` returns those appended since the last call.

    ``skipped`` counts unreadable lines. ``generation`` increases when the file was replaced or truncated; reading then
    restarts and the caller must discard earlier records. ``behind`` is set where a limited call left unread records.
    """

    def __init__(self, path: Path, *, offset: int = 0) -> None:
        """Follow ``path`` from byte ``offset``."""
        self.path = path
        self.skipped = 0
        self.generation = 0
        self.behind = False
        self._inode = -1
        self._offset = offset
        self._lines = LineSplitter(MAX_RECORD_BYTES + 1)

    @property
    def position(self) -> int:
        """Offset of the first byte that was not returned as part of a record."""
        return self._offset - len(self._lines.unfinished())

    def poll(self, limit_bytes: int | None = None) -> list[Event]:
        """Return the complete records appended since the last call, superseded ones included.

        ``limit_bytes`` limits the call to about that size, so that a long file can be shown while it is read.
        """
        self.behind = False
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            return []
        events: list[Event] = []
        with file:
            state = os.fstat(file.fileno())
            if self._inode not in (-1, state.st_ino) or state.st_size < self._offset:
                self._restart()
            self._inode = state.st_ino
            file.seek(self._offset)
            stop = math.inf if limit_bytes is None else self._offset + limit_bytes
            while chunk := file.read(CHUNK_BYTES):
                self._offset += len(chunk)
                self._parse(self._lines.feed(chunk), events)
                if self._offset >= stop:
                    self.behind = True
                    break
        return events

    def _restart(self) -> None:
        self.generation += 1
        self._offset, self.skipped = 0, 0
        self._lines.clear()

    def _parse(self, lines: Iterable[bytes], events: list[Event]) -> None:
        for line in lines:
            if not line.strip():
                continue
            try:
                events.append(from_json(line))
            except ValueError:
                self.skipped += 1


def drop_superseded(events: Iterable[Event]) -> list[Event]:
    """Return the records without those superseded by a later resume."""
    valid: list[Event] = []
    for event in events:
        if isinstance(event, EventResume):
            valid = [e for e in valid if not is_superseded_by(e, event)]
        valid.append(event)
    return valid


def is_superseded_by(event: Event, resume: EventResume) -> bool:
    """Whether ``event``, written before ``resume``, belongs to updates that training repeats after it."""
    return not isinstance(event, UNAFFECTED_BY_RESUME) and getattr(event, "update", 0) > resume.update


def read_events(path: Path) -> tuple[list[Event], int]:
    """Return the records of a file without superseded ones, and the number of unreadable lines."""
    follower = EventFollower(path)
    return drop_superseded(follower.poll()), follower.skipped
