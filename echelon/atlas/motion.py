"""Motion of a match between its recorded frames: mechs, shots, kills and smoke at any time, in voxels and seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.replay.codec import ReplayError
from echelon.replay.columns import Ints
from echelon.replay.reader import Chunk, Replay
from echelon.replay.schema import EventKind, HitFlag, MechFlag
from echelon.sim.world import MATERIALS

Floats = NDArray[np.float64]
CLOUD_LIFE_S, CLOUD_RADIUS = 10.0, 4.0
"""Of smoke in files whose header has no entry for it."""
MAX_FLIGHT_S = 6.0
"""Longest flight of a round [s]."""
SHOTS = (EventKind.HIT, EventKind.IMPACT)
PER_TEAM = ("score", "tonnage")
COLUMNS = ("x", "y", "yaw", "hp", "flags", *PER_TEAM)


class Shot(NamedTuple):
    """Flight of a round or a beam from a mech to where it hits."""

    start: float
    """[s]; beams start when they hit."""
    end: float
    origin: tuple[float, float]
    target: tuple[float, float]
    owner: int
    weapon: int
    damage: float
    """0 for ground."""


class Kill(NamedTuple):
    """A destroyed mech and where."""

    second: float
    mech: int
    at: tuple[float, float]


class Cloud(NamedTuple):
    """A smoke cloud."""

    second: float
    """Of its burst."""
    at: tuple[float, float]


@dataclass(frozen=True)
class Pose:
    """State of all M mechs at a time; arrays are [M]."""

    x: Floats
    y: Floats
    yaw: Floats
    hp: Floats
    alive: NDArray[np.bool_]
    flags: Ints
    score: Floats
    """Zone points of blue and red [2]."""
    tonnage: Floats
    """Tonnage in the zone [2]."""


class Motion:
    """A stretch of a match in memory, from one second to another."""

    def __init__(self, replay: Replay, start: float, end: float) -> None:
        header = replay.header
        self.hz = float(header["tick_hz"])
        self._mechs = int(header["mechs"])
        self._scale = {str(column["name"]): float(column["scale"]) for column in header["columns"]}
        tables = {str(table["name"]): table["columns"] for table in header["tables"]}
        self._table_scale = {
            name: {str(column["name"]): float(column["scale"]) for column in columns}
            for name, columns in tables.items()
        }
        self._speeds = [float(weapon["speed"]) for weapon in header["weapons"]]
        self.first_chunk = 0
        """Number of the first chunk in memory."""
        chunks = self._chunks(replay, start, end)
        self._ticks = np.concatenate([chunk.ticks for chunk in chunks]).astype(np.float64)
        keep = np.append(np.diff(self._ticks) > 0, True)  # a chunk begins with the last frame of the one before
        self._ticks = self._ticks[keep]
        self._columns = {name: self._joined(chunks, name)[keep] for name in COLUMNS}
        self.shots: list[Shot] = []
        self.kills: list[Kill] = []
        self.clouds: list[Cloud] = []
        for chunk in chunks:
            self._add_events(chunk)
        self.clouds = sorted(set(self.clouds))
        life = header.get("cloud") or {}
        self.cloud_life = float(life.get("life_s", CLOUD_LIFE_S))
        self.cloud_radius = float(life.get("radius", CLOUD_RADIUS))

    def _chunks(self, replay: Replay, start: float, end: float) -> list[Chunk]:
        numbers = [
            n for n, ref in enumerate(replay.chunks) if ref.tick1 >= start * self.hz and ref.tick0 <= end * self.hz
        ]
        numbers = numbers or [len(replay.chunks) - 1]
        self.first_chunk = numbers[0]
        return [replay.chunk(n) for n in numbers]

    def _joined(self, chunks: list[Chunk], name: str) -> Floats:
        if name not in self._scale:  # not every replay has yaw and tonnage
            return np.zeros((sum(len(chunk.ticks) for chunk in chunks), 2 if name in PER_TEAM else self._mechs))
        scale = self._scale[name]
        return np.concatenate([chunk.frames[name] for chunk in chunks]).astype(np.float64) * scale

    def _rows(self, chunk: Chunk, name: str) -> Mapping[str, Floats]:
        """Return the physical values of a table's columns, ticks of the match."""
        scale = self._table_scale.get(name, {})
        rows = {
            key: values.astype(np.float64) * scale.get(key, 1.0) for key, values in chunk.tables.get(name, {}).items()
        }
        if "tick" in rows:
            rows["tick"] = rows["tick"] + chunk.ref.tick0
        return rows

    def _add_events(self, chunk: Chunk) -> None:
        rows = self._rows(chunk, "events")
        mechs, count = self._mechs, len(rows["kind"])
        absent = np.full(count, -1.0)
        rows = {**dict.fromkeys(("weapon", "flags", "x", "y"), absent), **rows}
        for i, kind in enumerate(rows["kind"].astype(int).tolist()):
            second = float(rows["tick"][i]) / self.hz
            actor, victim, weapon = (int(rows[name][i]) for name in ("actor", "target", "weapon"))
            if kind == EventKind.KILL and 0 <= victim < mechs:
                self.kills.append(Kill(second, victim, self.place(victim, second)))
            if kind not in SHOTS or not (0 <= actor < mechs and 0 <= weapon < len(self._speeds)):
                continue
            splash = kind == EventKind.HIT and bool(int(rows["flags"][i]) & HitFlag.SPLASH)
            if splash or (kind == EventKind.HIT and not 0 <= victim < mechs):
                continue
            hit = kind == EventKind.HIT
            target = self.place(victim, second) if hit else (float(rows["x"][i]), float(rows["y"][i]))
            self.shots.append(self._shot(second, actor, target, weapon, float(rows["value"][i]) if hit else 0.0))
        clouds = self._rows(chunk, "clouds")
        for i in range(len(clouds["tick"]) if {"tick", "x", "y"} <= clouds.keys() else 0):
            at = (float(clouds["x"][i]), float(clouds["y"][i]))
            self.clouds.append(Cloud(float(clouds["tick"][i]) / self.hz, at))

    def _shot(self, end: float, owner: int, target: tuple[float, float], weapon: int, damage: float) -> Shot:
        """Return a shot that hits at ``end``, with the owner's place when it was fired."""
        speed, origin, start = self._speeds[weapon], self.place(owner, end), end
        if speed > 0:
            length = float(np.hypot(target[0] - origin[0], target[1] - origin[1]))
            start = end - min(MAX_FLIGHT_S, length / speed)
            origin = self.place(owner, start)
        return Shot(start, end, origin, target, owner, weapon, damage)

    def place(self, mech: int, second: float) -> tuple[float, float]:
        """Return x and y of a mech at a time."""
        tick = second * self.hz
        return (
            float(np.interp(tick, self._ticks, self._columns["x"][:, mech])),
            float(np.interp(tick, self._ticks, self._columns["y"][:, mech])),
        )

    def at(self, second: float) -> Pose:
        """Return the interpolated state of all mechs."""
        tick = min(max(second * self.hz, self._ticks[0]), self._ticks[-1])
        last = min(int(np.searchsorted(self._ticks, tick, side="right")), len(self._ticks) - 1)
        first = max(0, last - 1)
        span = self._ticks[last] - self._ticks[first]
        share = float((tick - self._ticks[first]) / span) if span else 0.0
        values: dict[str, Any] = {
            name: column[first] + (column[last] - column[first]) * share
            for name, column in self._columns.items()
            if name not in ("yaw", "flags")
        }
        yaw = self._columns["yaw"]
        turn = (yaw[last] - yaw[first] + np.pi) % (2 * np.pi) - np.pi
        flags = self._columns["flags"][last if share >= 1.0 else first].astype(np.int64)
        alive = (flags & MechFlag.ALIVE) != 0
        return Pose(**values, yaw=yaw[first] + turn * share, flags=flags, alive=alive)

    def living_places(self) -> Floats:
        """Return x and y of the living mechs over all frames [K, 2]."""
        alive = (self._columns["flags"].astype(np.int64) & MechFlag.ALIVE) != 0
        return np.stack([self._columns["x"][alive], self._columns["y"][alive]], axis=1)


def terrain_at(replay: Replay, number: int) -> NDArray[np.uint8]:
    """Return the materials at the start of a chunk ``[Z, Y, X]``: the world with the voxels changed until then."""
    material = replay.materials()
    rows = replay.chunk(number).tables["base"]
    flat = material.reshape(-1).copy()
    ends = np.cumsum(rows["run"])
    cells = np.repeat(rows["cell"], rows["run"]) + np.arange(int(ends[-1]) if len(ends) else 0)
    cells -= np.repeat(ends - rows["run"], rows["run"])
    if len(cells) and not 0 <= cells.min() <= cells.max() < len(flat):
        raise ReplayError(f"chunk {number} of replay {replay.path.name!r} changes voxels outside the map")
    flat[cells] = np.repeat(rows["material"], rows["run"])
    if flat.max(initial=0) >= len(MATERIALS):
        raise ReplayError(f"chunk {number} of replay {replay.path.name!r} has unknown materials")
    return np.ascontiguousarray(flat.reshape(material.shape).transpose(2, 0, 1))
