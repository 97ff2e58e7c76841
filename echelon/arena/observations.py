"""What the policy of a mech observed in a recorded match: every row that it received, from playing the match again.

Recordings have actions and states, not observations. Played from its first tick, the match gives each row bit for bit;
a file from which another match would be played is refused. ``python -m echelon.arena.observations FILE MECH`` writes
the packed rows to standard output; the server runs it as a process of its own, so that it loads no simulator.
"""

import json
import struct
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.arena.reconstruct import ReplayedMatch, require_playable
from echelon.env import layout
from echelon.env.engine import Engine
from echelon.replay.codec import WORLD_LEVEL, ReplayError
from echelon.replay.reader import Replay
from echelon.replay.schema import MAX_RAW_BYTES

REFUSED = 3
"""Exit status where a file has no observations; the reason is one line of standard error."""


class Observations(NamedTuple):
    """Observations of a mech, one before each environment step and one after the last."""

    tick: int
    """Tick of the first row; further ones follow every ``step`` ticks."""
    step: int
    columns: tuple[layout.ObservationColumn, ...]
    rows: NDArray[np.float32]
    """Values ``[S, D]``."""
    contacts: NDArray[np.int32]
    """Mech in each contact row ``[S, K]``, -1 for an empty one."""

    def pack(self) -> bytes:
        """Return size and zlib stream: the length of a JSON map, the map, contacts, and rows column by column."""
        about = {"tick": self.tick, "step": self.step, "rows": len(self.rows), "contacts": self.contacts.shape[1]}
        columns = [[column.name, column.low, column.high, column.unit] for column in self.columns]
        text = json.dumps({**about, "columns": columns}).encode()
        text += b" " * (-len(text) % 4)
        arrays = self.contacts.astype("<i4").tobytes() + np.ascontiguousarray(self.rows.T, "<f4").tobytes()
        body = struct.pack("<I", len(text)) + text + arrays
        return struct.pack("<I", len(body)) + zlib.compress(body, WORLD_LEVEL)


def observe(recorded: Replay, mech: int) -> Observations:
    """Return the observations of a mech in a match; ``ValueError`` for a match that cannot be played again exactly."""
    cfg, name, step = require_playable(recorded), recorded.path.name, int(recorded.header["frame_ticks"])
    if not 0 <= mech < len(recorded.header["roster"]) or not recorded.header["roster"][mech]["present"]:
        raise ValueError(f"replay {name!r} has no mech {mech}")
    if not recorded.chunks:
        raise ValueError(f"replay {name!r} has no chunk")
    columns, first = layout.columns(cfg), recorded.chunks[0].tick0
    if 4 * len(columns) * (2 + (recorded.ticks - first) // step) > MAX_RAW_BYTES // 2:
        raise ValueError(f"replay {name!r} is too long: its observations would take more than {MAX_RAW_BYTES // 2} B")
    row = np.zeros((1, 1, len(columns)), np.float32)
    rows: list[NDArray[np.float32]] = []
    contacts: list[NDArray[np.int32]] = []

    def attach(engine: Engine) -> None:
        engine.attach(row, np.zeros_like(row))
        row_of = np.full((1, engine.num_mechs), -1, np.int32)
        row_of[0, mech] = 0
        engine.batch.set("row_of", row_of)

    def keep(engine: Engine) -> None:
        rows.append(row[0, 0].copy())
        contacts.append(engine.batch.numpy("contact")[0, mech].copy())

    with ReplayedMatch(recorded, prepare=attach) as match:
        match.go_to(recorded.ticks, from_start=True, before_step=keep)
        keep(match.engine)
    return Observations(first, step, columns, np.array(rows), np.array(contacts, np.int32))


def main(path: str, mech: str) -> int:
    try:
        with Replay(Path(path)) as recorded:
            data = observe(recorded, int(mech)).pack()
    except (ReplayError, ValueError) as error:
        print(error, file=sys.stderr)
        return REFUSED
    sys.stdout.buffer.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
