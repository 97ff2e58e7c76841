"""Preview of a long run: updates sampled at even distances in its file.

Reading a whole file takes time proportional to the run; a preview reads a few hundred lines, so that charts show the
whole range at once while the exact history is read in the background.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from echelon.state_files import open_regular
from echelon.telemetry.events import EventUpdate
from echelon.telemetry.lines import from_json

SAMPLES = 400
"""Default number of samples: about the dot columns of the widest chart."""

LINE_BYTES = 1 << 14
"""Bytes read at each sample position, and again while no update was found."""

TRIES = 8
UPDATE_PREFIX = f'{{"kind":"{EventUpdate.kind}"'.encode()


def sample_updates(path: Path, samples: int = SAMPLES) -> list[EventUpdate]:
    """Return at most ``samples`` evenly spread updates of a run in order, without superseded ones."""
    by_update: dict[int, EventUpdate] = {}
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            for i in range(samples):
                event = _update_from(file, size * i // samples)
                if event is not None:
                    by_update[event.update] = event
    except OSError:
        return []
    ordered: list[EventUpdate] = []
    for event in sorted(by_update.values(), key=lambda event: (event.time, event.update)):
        while ordered and ordered[-1].update >= event.update:
            ordered.pop()
        ordered.append(event)
    return ordered


def _update_from(file: BinaryIO, offset: int) -> EventUpdate | None:
    """Return the first complete update that starts at or after a byte offset."""
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
                except ValueError:
                    continue
                return event if isinstance(event, EventUpdate) else None
        if len(block) < LINE_BYTES:
            return None
    return None
