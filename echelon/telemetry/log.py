"""Append records to a run's ``metrics.jsonl``, read them back and follow a file that is being written.

The file is the only bus between a trainer and its readers, so a reader must survive torn and damaged lines, and
a writer must never make one worse. What the records say is decided in ``events``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from echelon.telemetry.events import Event, EventAlert, EventEnd, EventResume, EventStart
from echelon.telemetry.lines import from_json, to_json

CHUNK_BYTES = 1 << 20
"""Read at most this much at once, so that opening a long run needs little memory."""

UNAFFECTED_BY_RESUME = (EventStart, EventAlert, EventResume, EventEnd)
"""Records about sessions and faults; a resume supersedes only those about training."""


class EventLog:
    """The writing end: one ``write`` call per record, so that lines of different writers never mix."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending; a line torn by an earlier crash is closed first."""
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._fd).st_size
        self._torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    def append(self, event: Event) -> None:
        """Write one record; ``OSError`` on a full disk, and the next record starts on a line of its own."""
        line = (b"\n" if self._torn else b"") + to_json(event).encode() + b"\n"
        self._torn = True
        written = os.write(self._fd, line)
        if written < len(line):
            raise OSError(f"only {written} of {len(line)} bytes of a record fit on the disk")
        self._torn = False

    def sync(self) -> None:
        """Force what was appended to the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EventFollower:
    """The reading end: ``poll`` returns what was appended since the last call.

    ``skipped`` counts lines that could not be read. ``generation`` rises when the file was replaced or cut, after
    which reading starts anew and a caller must forget what it folded. ``behind`` says that a limited call left some.
    """

    def __init__(self, path: Path, *, offset: int = 0) -> None:
        """Follow ``path``, from byte ``offset`` on."""
        self.path = path
        self.skipped = 0
        self.generation = 0
        self.behind = False
        self._inode = -1
        self._offset = offset
        self._rest = b""

    def poll(self, limit_bytes: int | None = None) -> list[Event]:
        """Return the complete records appended since the last call, superseded ones included.

        With ``limit_bytes``, about so much is read, so that somebody who waits for a long file sees it grow.
        """
        self.behind = False
        try:
            file = open(self.path, "rb")
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
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                self._parse(lines, events)
                if self._offset >= stop:
                    self.behind = True
                    break
        return events

    def _restart(self) -> None:
        self.generation += 1
        self._offset, self._rest, self.skipped = 0, b"", 0

    def _parse(self, lines: Iterable[bytes], events: list[Event]) -> None:
        for line in lines:
            if not line.strip():
                continue
            try:
                events.append(from_json(line))
            except (ValueError, RecursionError):
                self.skipped += 1


def drop_superseded(events: Iterable[Event]) -> list[Event]:
    """Return the records without those that a later resume took back, so that curves never zigzag."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, EventResume):
            kept = [e for e in kept if not is_superseded_by(e, event)]
        kept.append(event)
    return kept


def is_superseded_by(event: Event, resume: EventResume) -> bool:
    """Whether ``event``, written before ``resume``, belongs to updates that are played again after it."""
    return not isinstance(event, UNAFFECTED_BY_RESUME) and getattr(event, "update", 0) > resume.update


def read_events(path: Path) -> tuple[list[Event], int]:
    """Return the records of a file without superseded ones, and how many lines could not be read."""
    follower = EventFollower(path)
    return drop_superseded(follower.poll()), follower.skipped
