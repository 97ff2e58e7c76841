"""Finds the mech and tick of a replay with the highest activity around it.

Activity is counted by kind: ``hit``, ``kill`` and ``launch`` at the position of the mech involved, ``missile`` and
``cloud`` at their own position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from echelon.replay.reader import Chunk, Replay
from echelon.replay.schema import EventKind, MechFlag

Floats = NDArray[np.float64]
KINDS = {"hit": EventKind.HIT, "kill": EventKind.KILL, "launch": EventKind.LAUNCH}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Search criteria for a moment of a match."""

    counts: Mapping[str, float]
    """Weight of each kind of activity."""
    radius: float
    """Distance from a mech within which activity counts [vox]."""
    lasts_s: float = 0.8
    """Time for which activity counts [s]."""
    contested: bool = False
    """Whether mechs of both teams must be in the zone."""
    rank: int = 0
    """Rank of the moment among moments at least ``apart_s`` apart, 0 for the best."""
    apart_s: float = 2.0
    before_end_s: float = 3.0
    """Minimum time before the match's end [s]."""


@dataclass(frozen=True, kw_only=True)
class Fight:
    """A moment of a match."""

    tick: int
    mech: int
    """Mech at the centre."""
    x: float
    y: float
    z: float
    """Mean position of the mechs within the radius [vox]."""


@dataclass(frozen=True)
class Course:
    """Positions and activity of a match; F frames, M mechs."""

    ticks: NDArray[np.int64]
    """Tick of each frame [F]."""
    positions: Floats
    """Positions of the mechs [F, M, 3] [vox]."""
    alive: NDArray[np.bool_]
    """Whether each mech is alive [F, M]."""
    activity: list[tuple[int, float, float, float]]
    """Frame, x, y and weight of each activity."""


def find_fight(path: Path, moment: Moment) -> Fight:
    """Return the moment of a replay with the highest activity."""
    with Replay(path) as replay:
        course = read_course(replay, moment)
        hz = int(replay.header["tick_hz"])
        zone = replay.header["zone"]
        teams = np.array([mech["team"] for mech in replay.header["roster"]])
    score = np.zeros(course.alive.shape)
    lasts = moment.lasts_s * hz
    for frame, x, y, value in course.activity:
        shown = (course.ticks >= course.ticks[frame]) & (course.ticks <= course.ticks[frame] + lasts)
        near = np.hypot(course.positions[shown, :, 0] - x, course.positions[shown, :, 1] - y) < moment.radius
        score[shown] += value * near
    score *= course.alive & (course.ticks < course.ticks[-1] - moment.before_end_s * hz)[:, None]
    if moment.contested:
        inside = np.hypot(course.positions[..., 0] - zone[0], course.positions[..., 1] - zone[1]) < zone[2]
        inside &= course.alive
        both = (inside & (teams == 0)).any(1) & (inside & (teams == 1)).any(1)
        score *= inside & both[:, None]
    for _ in range(moment.rank):
        best = course.ticks[int(score.max(1).argmax())]
        score[np.abs(course.ticks - best) < moment.apart_s * hz] = 0
    frame, mech = np.unravel_index(int(score.argmax()), score.shape)
    apart = np.hypot(*np.moveaxis(course.positions[frame, :, :2] - course.positions[frame, mech, :2], -1, 0))
    x, y, z = course.positions[frame, course.alive[frame] & (apart < moment.radius)].mean(0)
    return Fight(tick=int(course.ticks[frame]), mech=int(mech), x=float(x), y=float(y), z=float(z))


def read_course(replay: Replay, moment: Moment) -> Course:
    """Read the positions of mechs and the activity that counts for ``moment``."""
    scale = {column["name"]: float(column["scale"]) for column in replay.header["columns"]}
    tables = {
        table["name"]: {c["name"]: float(c["scale"]) for c in table["columns"]} for table in replay.header["tables"]
    }
    missile = [weapon["name"] for weapon in replay.header["weapons"]].index("missile")
    ticks, positions, alive = [], [], []
    activity: list[tuple[int, float, float, float]] = []
    for n in range(len(replay.chunks)):
        chunk = replay.chunk(n)
        first = len(ticks)
        chunk_positions = np.stack([chunk.frames[axis] * scale[axis] for axis in "xyz"], -1).astype(np.float64)
        ticks.extend(chunk.ticks)
        positions.extend(chunk_positions)
        alive.extend((chunk.frames["flags"] & MechFlag.ALIVE) > 0)
        for name, frame, x, y in (*_events(chunk, chunk_positions), *_objects(chunk, tables, missile)):
            if name in moment.counts:
                activity.append((first + frame, x, y, moment.counts[name]))
    return Course(np.array(ticks), np.array(positions), np.array(alive), activity)


def _events(chunk: Chunk, positions: Floats) -> list[tuple[str, int, float, float]]:
    """Return kind, frame and position of each event of a chunk; ``positions [F, M, 3]`` are those of its mechs."""
    events, found = chunk.tables["events"], []
    frames = np.searchsorted(chunk.frames["tick"][:, 0], events["tick"]).clip(0, len(positions) - 1)
    for name, kind in KINDS.items():
        for row in np.flatnonzero(events["kind"] == kind):
            mech = max(int(events["target"][row]), 0) if name != "launch" else int(events["actor"][row])
            found.append((name, int(frames[row]), *(float(v) for v in positions[frames[row], mech, :2])))
    return found


def _objects(
    chunk: Chunk, tables: Mapping[str, Mapping[str, float]], missile: int
) -> list[tuple[str, int, float, float]]:
    """Return kind, frame and position of each missile in flight, and of each cloud at the last frame."""
    rounds, clouds = chunk.tables["rounds"], chunk.tables["clouds"]
    step = tables["rounds"]["x"], tables["clouds"]["x"]
    found = [
        ("missile", int(f), float(x * step[0]), float(y * step[0]))
        for f, x, y, weapon in zip(*(rounds[name] for name in ("frame", "x", "y", "weapon")), strict=True)
        if weapon == missile
    ]
    last = len(chunk.frames["tick"]) - 1
    found += [
        ("cloud", last, float(x * step[1]), float(y * step[1])) for x, y in zip(clouds["x"], clouds["y"], strict=True)
    ]
    return found
