"""Where and when most happens in a recorded match: around which mech, at which tick.

What happens is counted by name: ``hit``, ``kill`` and ``launch`` where the mechs are that take part, ``missile``
and ``cloud`` where missiles fly and smoke stands.
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
    """What is looked for."""

    counts: Mapping[str, float]
    """What each thing that happens is worth."""
    radius: float
    """How far from a mech it counts [vox]."""
    lasts_s: float = 0.8
    """How long it counts after it happened [s]."""
    contested: bool = False
    """Whether mechs of both teams have to be in the zone."""
    rank: int = 0
    """How many better moments, at least ``apart_s`` away, are passed over."""
    apart_s: float = 2.0
    before_end_s: float = 3.0
    """How long before the end it is at the latest, so that no result is shown yet [s]."""


@dataclass(frozen=True, kw_only=True)
class Fight:
    """What was found."""

    tick: int
    mech: int
    """In the middle of it."""
    x: float
    y: float
    z: float
    """Middle of the mechs that are in it [vox]."""


@dataclass(frozen=True)
class Course:
    """A match, frame by frame: F frames, M mechs."""

    ticks: NDArray[np.int64]
    """[F]"""
    places: Floats
    """[F, M, 3], in voxels."""
    alive: NDArray[np.bool_]
    """[F, M]"""
    happened: list[tuple[int, float, float, float]]
    """Frame, x, y and worth of all that counts."""


def find_fight(path: Path, moment: Moment) -> Fight:
    """Return the best moment of a match."""
    with Replay(path) as replay:
        course = read_course(replay, moment)
        hz = int(replay.header["tick_hz"])
        zone = replay.header["zone"]
        teams = np.array([mech["team"] for mech in replay.header["roster"]])
    worth = np.zeros(course.alive.shape)
    lasts = moment.lasts_s * hz
    for frame, x, y, value in course.happened:
        shown = (course.ticks >= course.ticks[frame]) & (course.ticks <= course.ticks[frame] + lasts)
        near = np.hypot(course.places[shown, :, 0] - x, course.places[shown, :, 1] - y) < moment.radius
        worth[shown] += value * near
    worth *= course.alive & (course.ticks < course.ticks[-1] - moment.before_end_s * hz)[:, None]
    if moment.contested:
        inside = np.hypot(course.places[..., 0] - zone[0], course.places[..., 1] - zone[1]) < zone[2]
        inside &= course.alive
        both = (inside & (teams == 0)).any(1) & (inside & (teams == 1)).any(1)
        worth *= inside & both[:, None]
    for _ in range(moment.rank):
        best = course.ticks[int(worth.max(1).argmax())]
        worth[np.abs(course.ticks - best) < moment.apart_s * hz] = 0
    frame, mech = np.unravel_index(int(worth.argmax()), worth.shape)
    apart = np.hypot(*np.moveaxis(course.places[frame, :, :2] - course.places[frame, mech, :2], -1, 0))
    x, y, z = course.places[frame, course.alive[frame] & (apart < moment.radius)].mean(0)
    return Fight(tick=int(course.ticks[frame]), mech=int(mech), x=float(x), y=float(y), z=float(z))


def read_course(replay: Replay, moment: Moment) -> Course:
    """Read the places of mechs, and what happens that counts."""
    scale = {column["name"]: float(column["scale"]) for column in replay.header["columns"]}
    tables = {
        table["name"]: {c["name"]: float(c["scale"]) for c in table["columns"]} for table in replay.header["tables"]
    }
    missile = [weapon["name"] for weapon in replay.header["weapons"]].index("missile")
    ticks, places, alive = [], [], []
    happened: list[tuple[int, float, float, float]] = []
    for n in range(len(replay.chunks)):
        chunk = replay.chunk(n)
        first = len(ticks)
        where = np.stack([chunk.frames[axis] * scale[axis] for axis in "xyz"], -1).astype(np.float64)
        ticks.extend(chunk.ticks)
        places.extend(where)
        alive.extend((chunk.frames["flags"] & MechFlag.ALIVE) > 0)
        for name, frame, x, y in (*_events(chunk, where), *_things(chunk, tables, missile)):
            if name in moment.counts:
                happened.append((first + frame, x, y, moment.counts[name]))
    return Course(np.array(ticks), np.array(places), np.array(alive), happened)


def _events(chunk: Chunk, where: Floats) -> list[tuple[str, int, float, float]]:
    """Return name, frame and place of each event of a chunk; ``where [F, M, 3]`` are its mechs."""
    events, found = chunk.tables["events"], []
    frames = np.searchsorted(chunk.frames["tick"][:, 0], events["tick"]).clip(0, len(where) - 1)
    for name, kind in KINDS.items():
        for row in np.flatnonzero(events["kind"] == kind):
            mech = max(int(events["whom"][row]), 0) if name != "launch" else int(events["who"][row])
            found.append((name, int(frames[row]), *(float(v) for v in where[frames[row], mech, :2])))
    return found


def _things(
    chunk: Chunk, tables: Mapping[str, Mapping[str, float]], missile: int
) -> list[tuple[str, int, float, float]]:
    """Return name, frame and place of each missile in flight and, at its last frame, of each cloud."""
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
