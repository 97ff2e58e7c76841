"""A first picture of a long run: updates taken at even distances from its records, without reading all of them.

Following a run from its first record is exact and takes as long as the run was; a preview reads a few hundred lines
wherever they lie, so that the whole range can be drawn at once while the exact history is read behind it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from echelon.telemetry.events import EventUpdate
from echelon.telemetry.lines import from_json

SAMPLES = 400
"""Places of a file that are looked at: about what the widest chart has columns of dots."""

LINE_BYTES = 1 << 14
"""Read at each place, and as much again while no update was found in it."""

TRIES = 8
"""Reads at one place before it is passed over."""

UPDATE_PREFIX = f'{{"kind":"{EventUpdate.kind}"'.encode()


def sample_updates(path: Path, samples: int = SAMPLES) -> list[EventUpdate]:
    """Return at most ``samples`` updates of a run in order, evenly spread; what was played again is left out."""
    found: dict[int, EventUpdate] = {}
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            for place in range(samples):
                event = _update_from(file, size * place // samples)
                if event is not None:
                    found[event.update] = event
    except OSError:
        return []
    ordered: list[EventUpdate] = []
    for event in sorted(found.values(), key=lambda event: (event.time, event.update)):
        while ordered and ordered[-1].update >= event.update:
            ordered.pop()
        ordered.append(event)
    return ordered


def _update_from(file: BinaryIO, offset: int) -> EventUpdate | None:
    """Return the first whole update that begins at or after a byte of the file."""
    file.seek(max(0, offset - 1))
    rest = b"" if offset else b"\n"
    for _ in range(TRIES):
        block = file.read(LINE_BYTES)
        rest += block
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if line.startswith(UPDATE_PREFIX):
                try:
                    event = from_json(line)
                except (ValueError, RecursionError):
                    continue
                return event if isinstance(event, EventUpdate) else None
        if len(block) < LINE_BYTES:
            return None
    return None
