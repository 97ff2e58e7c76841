"""Replays the recorded actions of a match and reports the first divergence from its recording.

The match runs alone on the map of its seed and is recorded again; the two recordings are compared chunk by chunk.
Mode ``strict`` requires equal hashes and columns; ``tolerant``, for another device or version, requires each mech's
columns to be within ``TOLERANCES``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from echelon.arena.reconstruct import load_nearest_state, open_match, play_step, recorded_steps
from echelon.replay.codec import ReplayError
from echelon.replay.extra_records import read_state, state_heads
from echelon.replay.reader import Chunk, Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import MechFlag

TOLERANCES: Mapping[str, float] = {
    "tick": 0.0, "x": 1.0, "y": 1.0, "z": 1.0, "hp": 5.0, "leg_hp": 5.0, "heat": 5.0, "stability": 10.0,
}  # fmt: skip
"""Largest deviation of each column in mode ``tolerant`` [unit of the column]; other columns may differ."""
STATE = "state"
"""Field of a differing STATE record."""
NOT_SIMULATED = ("value", "chance")
"""Columns that are not computed by the simulator."""


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """First difference between a replay and its recording."""

    chunk: int
    tick: int
    field: str
    """A frame column, a table and its column, a STATE record and its array, ``length`` or ``hash``."""
    mech: str = ""
    recorded: float = 0.0
    played: float = 0.0


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """Result of ``verify``."""

    ok: bool
    mode: str
    chunks: int
    """Number of leading chunks that agree."""
    seconds: float
    """Duration of the match [s]."""
    first: Divergence | None = None
    largest: float = 0.0
    """Largest position deviation [vox]."""


def verify(path: Path, *, tolerant: bool = False, device: str = "cpu") -> VerifyResult:
    """Replay the actions of the match at ``path`` and compare; ``ValueError`` where that is not possible."""
    with Replay(path) as recorded, TemporaryDirectory(prefix="echelon-verify-") as folder:
        again = replay_actions(recorded, Path(folder), device)
        with Replay(again) as played:
            return compare(recorded, played, tolerant=tolerant)


def replay_actions(recorded: Replay, folder: Path, device: str) -> Path:
    header = recorded.header
    engine = open_match(recorded, device=device)
    try:
        first, _ = load_nearest_state(recorded, engine, 0, earliest=True)
        match = MatchInfo(name="again", map_seed=int(header["map_seed"]))
        recorder = Recorder(engine, [0], folder, [match], policy="acts" if "insight" in header else "actions")
        recorder.begin()
        for step in recorded_steps(recorded, first, recorded.ticks):
            play_step(engine, step)
            if step.inputs is not None:
                recorder.add_inputs(step.seats, step.inputs)
            recorder.after_step()
        (path,) = recorder.finish()
    finally:
        engine.close()
    return path


def compare(recorded: Replay, played: Replay, *, tolerant: bool = False) -> VerifyResult:
    hz, mode = float(recorded.header["tick_hz"]), "tolerant" if tolerant else "strict"
    largest, first, number = 0.0, None, 0
    for number in range(len(recorded.chunks)):
        if number >= len(played.chunks):
            first = Divergence(chunk=number, tick=played.ticks, field="length")
            break
        one, two = recorded.chunk(number), played.chunk(number)
        largest = max(largest, _position_deviation(recorded, one, two))
        first = _difference(recorded, number, one, two, tolerant)
        if first is not None:
            break
    if first is None and not tolerant:
        first = _state_divergence(recorded, played)
    agreed = first.chunk if first is not None else len(recorded.chunks)
    return VerifyResult(
        ok=first is None, mode=mode, chunks=agreed, seconds=recorded.ticks / hz, first=first, largest=largest
    )


def _state_divergence(recorded: Replay, played: Replay) -> Divergence | None:
    again = {head.tick0: head for head in state_heads(played)}
    for head in state_heads(recorded):
        chunk = next((n for n, ref in enumerate(recorded.chunks) if head.tick0 <= ref.tick1), 0)
        try:
            arrays = read_state(recorded, head).arrays
            expected = read_state(played, again[head.tick0]).arrays
        except (ReplayError, KeyError):
            return Divergence(chunk=chunk, tick=head.tick0, field=STATE)
        for name in sorted(arrays.keys() | expected.keys()):
            if name not in arrays or name not in expected or not np.array_equal(arrays[name], expected[name]):
                return Divergence(chunk=chunk, tick=head.tick0, field=f"{STATE}.{name}")
    return None


def _difference(replay: Replay, number: int, one: Chunk, two: Chunk, tolerant: bool) -> Divergence | None:
    if len(one.ticks) != len(two.ticks):
        frames = min(len(one.ticks), len(two.ticks))
        return Divergence(chunk=number, tick=int(one.ticks[frames - 1]), field="length")
    differences: list[tuple[int, int, str]] = []
    for order, column in enumerate(replay.header["columns"]):
        name = column["name"]
        if name in NOT_SIMULATED or name not in two.frames or (tolerant and name not in TOLERANCES):
            continue
        if one.frames[name].shape != two.frames[name].shape:
            return Divergence(chunk=number, tick=one.ref.tick0, field=name)
        differs = np.abs(one.frames[name] - two.frames[name]) * column["scale"] > (
            TOLERANCES[name] if tolerant else 0.0
        )
        if differs.any():
            differences.append((int(np.flatnonzero(differs.any(axis=1))[0]), order, name))
    if differences:
        frame, _, name = min(differences)
        return _column_divergence(replay, number, one, two, frame, name)
    if tolerant:
        return None
    for name in one.tables:
        if (row := _table_divergence(number, one, two, name)) is not None:
            return row
    return None if one.hash == two.hash else Divergence(chunk=number, tick=one.ref.tick1, field="hash")


def _column_divergence(replay: Replay, number: int, one: Chunk, two: Chunk, frame: int, name: str) -> Divergence:
    column = next(c for c in replay.header["columns"] if c["name"] == name)
    a, b = one.frames[name][frame], two.frames[name][frame]
    at = int(np.argmax(np.abs(a - b)))
    mech = replay.header["roster"][at // column["k"]]["name"] if column["per"] == "mech" else ""
    return Divergence(
        chunk=number,
        tick=int(one.ticks[frame]),
        field=name,
        mech=mech,
        recorded=float(a[at]) * column["scale"],
        played=float(b[at]) * column["scale"],
    )


def _table_divergence(number: int, one: Chunk, two: Chunk, name: str) -> Divergence | None:
    if list(one.tables[name]) != list(two.tables.get(name, ())):
        return Divergence(chunk=number, tick=one.ref.tick0, field=name)
    a, b = (np.stack(list(chunk.tables[name].values()), axis=1) for chunk in (one, two))
    columns, common = list(one.tables[name]), min(len(a), len(b))
    row, column = (list(part) for part in np.nonzero(a[:common] != b[:common]))
    if row:
        at, i = int(row[0]), int(column[0])
        field, values = f"{name}.{columns[i]}", (float(a[at, i]), float(b[at, i]))
    elif len(a) == len(b):
        return None
    else:
        at, field, values = common, name, (float(len(a)), float(len(b)))
    shown = a if at < len(a) else b
    ticks = {"tick": lambda t: one.ref.tick0 + t, "frame": lambda f: int(one.ticks[min(f, len(one.ticks) - 1)])}
    tick = next((when(int(shown[at, columns.index(key)])) for key, when in ticks.items() if key in columns), None)
    return Divergence(
        chunk=number, tick=one.ref.tick0 if tick is None else tick, field=field, recorded=values[0], played=values[1]
    )


def _position_deviation(replay: Replay, one: Chunk, two: Chunk) -> float:
    """Return the largest distance between a living mech and its recorded position [vox]."""
    frames = min(len(one.ticks), len(two.ticks))
    scale = {column["name"]: column["scale"] for column in replay.header["columns"]}
    living = (one.frames["flags"][:frames] & MechFlag.ALIVE) != 0
    deltas = [(one.frames[axis][:frames] - two.frames[axis][:frames]) * scale[axis] for axis in "xyz"]
    return float((np.sqrt(sum(part.astype(np.float64) ** 2 for part in deltas)) * living).max(initial=0.0))
