"""What a list of runs needs of each: its newest records, read from the end of ``metrics.jsonl`` at a constant cost.

Following a run from its first record is ``snapshot``'s business; a glance reads the same few kilobytes whether the run
took a minute or a week.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from echelon.telemetry.events import (
    Event,
    EventAlert,
    EventCheckpoint,
    EventEnd,
    EventEval,
    EventResume,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.lines import from_json
from echelon.telemetry.log import is_superseded_by

BLOCK_BYTES = 1 << 16
LIMIT_BYTES = 8 << 20
"""Evaluations lie apart; one further from the end than this is not found."""

WANTED: tuple[type[Event], ...] = (
    EventUpdate,
    EventEval,
    EventCheckpoint,
    EventAlert,
    EventStart,
    EventEnd,
    EventResume,
)


@dataclass(frozen=True, kw_only=True)
class LatestRecords:
    """The newest record of each kind that a list shows."""

    start: EventStart | None = None
    update: EventUpdate | None = None
    evaluation: EventEval | None = None
    checkpoint: EventCheckpoint | None = None
    alert: EventAlert | None = None
    """These two are found only as far as the search for the others went."""
    end: EventEnd | None = None
    """None where a session began after it."""

    @property
    def global_step(self) -> int:
        return self.update.global_step if self.update else self.start.global_step if self.start else 0


PREFIXES: dict[type[Event], bytes] = {kind: f'\n{{"kind":"{kind.kind}"'.encode() for kind in WANTED}
"""How a line of each kind begins, after the end of the one before."""

UNTIL_LISTED: tuple[type[Event], ...] = (EventUpdate, EventEval)
"""What a list of runs shows; the search goes on until they are found."""

UNTIL_WITH_START: tuple[type[Event], ...] = (*UNTIL_LISTED, EventStart)
"""The same with the newest session's start, which in a long session lies far away; else the first one is taken."""


def read_latest(
    path: Path, limit_bytes: int = LIMIT_BYTES, until: tuple[type[Event], ...] = UNTIL_LISTED
) -> LatestRecords:
    """Return the newest records of a run; an empty glance where there are none."""
    found: dict[type[Event], Event] = {}
    resume: EventResume | None = None
    try:
        file = open(path, "rb")
    except OSError:
        return LatestRecords()
    with file:
        for block in _backwards(file, limit_bytes):
            for line in _newest_first(block, found):
                if (event := _record(line)) is None:
                    continue
                if isinstance(event, EventResume):
                    resume = event if resume is None or event.update < resume.update else resume
                elif resume is None or not is_superseded_by(event, resume):
                    found[type(event)] = event
                if isinstance(event, (EventStart, EventResume)):
                    found.setdefault(EventEnd, event)  # whatever ended before it has gone on since
            if all(kind in found for kind in until):
                break
        start = found.get(EventStart) or _first(file)
    return LatestRecords(
        start=start if isinstance(start, EventStart) else None,
        update=_as(EventUpdate, found),
        evaluation=_as(EventEval, found),
        checkpoint=_as(EventCheckpoint, found),
        alert=_as(EventAlert, found),
        end=_as(EventEnd, found),
    )


E = TypeVar("E", bound=Event)


def _as(kind: type[E], found: dict[type[Event], Event]) -> E | None:
    event = found.get(kind)
    return event if isinstance(event, kind) else None


def _newest_first(block: bytes, found: Container[type[Event]]) -> Iterator[bytes]:
    """Yield the lines of kinds that are not ``found`` by then, the last ones first; others are never looked at."""
    places = {kind: block.rfind(PREFIXES[kind]) for kind in WANTED if kind not in found}
    while places:
        kind = max(places, key=places.__getitem__)
        at = places[kind]
        if at < 0:
            return
        end = block.find(b"\n", at + 1)
        yield block[at + 1 : end if end >= 0 else len(block)]
        for done in [kind for kind in places if kind in found]:
            del places[done]
        if kind in places:
            places[kind] = block.rfind(PREFIXES[kind], 0, at)


def _backwards(file: BinaryIO, limit_bytes: int) -> Iterator[bytes]:
    """Yield blocks of whole lines, each line after a newline, the newest block first."""
    at = file.seek(0, os.SEEK_END)
    stop = max(0, at - limit_bytes)
    rest = b""
    while at > stop:
        size = min(BLOCK_BYTES, at - stop)
        at -= size
        file.seek(at)
        block = file.read(size) + rest
        if at == 0:
            yield b"\n" + block
            return
        first = block.find(b"\n")
        rest = block if first < 0 else block[:first]
        if first >= 0:
            yield block[first:]


def _first(file: BinaryIO) -> EventStart | None:
    """Return the first session's start, which is the first record."""
    file.seek(0)
    event = _record(file.readline(LIMIT_BYTES))
    return event if isinstance(event, EventStart) else None


def _record(line: bytes) -> Event | None:
    try:
        return from_json(line)
    except (ValueError, RecursionError):
        return None
