"""Latest records of a run, read from the end of ``metrics.jsonl`` at constant cost, as lists of runs need them.

``snapshot`` reads a run from its first record instead.
"""

import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from echelon.state_files import open_regular
from echelon.telemetry.events import (
    Event,
    EventAlert,
    EventCheckpoint,
    EventEnd,
    EventEval,
    EventEvalBatch,
    EventResume,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.lines import MAX_RECORD_BYTES, from_json
from echelon.telemetry.log import is_superseded_by
from echelon.telemetry.snapshot import LISTS, NEWEST, RunSnapshot

BLOCK_BYTES = 1 << 14
LIMIT_BYTES = 8 << 20
"""Distance from the end of the file up to which records are found; evaluations can be far apart."""

SEARCHED: tuple[type[Event], ...] = (*NEWEST, EventEval, EventEvalBatch, EventCheckpoint, EventAlert, EventResume)

PREFIXES: dict[type[Event], bytes] = {kind: f'\n{{"kind":"{kind.kind}"'.encode() for kind in SEARCHED}
"""Start of a line of each kind, with the preceding newline."""

UNTIL_LISTED: tuple[type[Event], ...] = (EventUpdate, EventEval)
"""Kinds shown by a list of runs; the search continues until they are found."""

SEARCHED_LISTED = tuple(kind for kind in SEARCHED if kind not in (EventCheckpoint, EventAlert, EventEnd))
"""Kinds that a list of runs shows of an ended run; of a running one also its alerts."""


def read_latest(
    path: Path,
    limit_bytes: int = LIMIT_BYTES,
    until: tuple[type[Event], ...] = UNTIL_LISTED,
    searched: tuple[type[Event], ...] = SEARCHED,
) -> RunSnapshot:
    """Return a snapshot with the newest record of each kind, searching back until the kinds in ``until`` are found.

    Only kinds in ``searched`` are looked for; without ``EventResume`` superseded records are returned too.
    """
    found: dict[type[Event], Event] = {}
    resume: EventResume | None = None
    try:
        file = open_regular(path)
    except OSError:
        return RunSnapshot()
    with file:
        for block in _backwards(file, limit_bytes):
            for line in _newest_first(block, found, searched):
                if (event := _record(line)) is None:
                    continue
                if isinstance(event, EventResume):
                    resume = event if resume is None or event.update < resume.update else resume
                elif resume is None or not is_superseded_by(event, resume):
                    found[type(event)] = event
                if isinstance(event, (EventStart, EventResume)):
                    found.setdefault(EventEnd, event)  # a session that ended before it was continued
            if all(kind in found for kind in until):
                break
        if EventStart not in found and (start := _first(file)):
            found[EventStart] = start
    newest: dict[str, Any] = {name: found[kind] for kind, name in NEWEST.items() if isinstance(found.get(kind), kind)}
    lists: dict[str, Any] = {name: (found[row.kind],) for name, row in LISTS.items() if row.kind in found}
    return RunSnapshot(**newest, **lists)


def _newest_first(block: bytes, found: Container[type[Event]], searched: tuple[type[Event], ...]) -> Iterator[bytes]:
    """Yield the lines of searched kinds not in ``found`` yet, last first, without parsing other lines."""
    positions = {kind: block.rfind(PREFIXES[kind]) for kind in searched if kind not in found}
    while positions:
        kind = max(positions, key=positions.__getitem__)
        at = positions[kind]
        if at < 0:
            return
        end = block.find(b"\n", at + 1)
        yield block[at + 1 : end if end >= 0 else len(block)]
        for done in [kind for kind in positions if kind in found]:
            del positions[done]
        if kind in positions:
            positions[kind] = block.rfind(PREFIXES[kind], 0, at)


def _backwards(file: BinaryIO, limit_bytes: int) -> Iterator[bytes]:
    """Yield blocks of complete lines, each line preceded by a newline, newest block first."""
    at = file.seek(0, os.SEEK_END)
    stop = max(0, at - limit_bytes)
    rest: list[bytes] = []
    while at > stop:
        size = min(BLOCK_BYTES, at - stop)
        at -= size
        file.seek(at)
        block = file.read(size)
        first = block.find(b"\n")
        if at > 0 and first < 0:
            rest.append(block)
            continue
        whole = b"".join([block, *reversed(rest)])
        yield whole[first:] if at > 0 else b"\n" + whole
        rest = [block[:first]]


def _first(file: BinaryIO) -> EventStart | None:
    """Return the start of the first session, the first record of the file."""
    file.seek(0)
    event = _record(file.readline(MAX_RECORD_BYTES + 1))
    return event if isinstance(event, EventStart) else None


def _record(line: bytes) -> Event | None:
    try:
        return from_json(line)
    except ValueError:
        return None
