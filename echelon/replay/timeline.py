"""Timeline of a match for its INDEX: values per second and event markers, computed from decoded chunks.

The writer computes it for its own chunks, a reader for a file that was not closed, and a server for a live match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.replay.columns import TEAMS, Ints, bounds
from echelon.replay.schema import DTYPE_BYTES, EVENTS, MARKERS, EventKind, MechFlag
from echelon.replay.schema import SERIES as SERIES_TABLE

TEAM_NAMES = ("blue", "red")
NO_ROWS = np.zeros(0, np.int64)
SUMMED = ("score", "alive", "hp")
SERIES = (*SUMMED, "damage")
MARKED = np.zeros(2 ** (8 * DTYPE_BYTES[EVENTS.columns[1].dtype]), bool)
MARKED[[int(kind) for kind in MARKERS]] = True
"""Whether an event kind gets a marker."""
COUNTED = MARKED.copy()
COUNTED[int(EventKind.HIT)] = True
"""Whether an event kind is needed for markers or damage."""
SAMPLED = ("score", "flags", "hp")
"""Columns that series are computed from."""


class Timeline:
    """Values per second and team, and markers, of the chunks added so far.

    It stores sums per frame instead of frames, so that its size stays small for matches of hours.
    """

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._hz = float(header["tick_hz"])
        self._team = np.array([int(mech["team"]) for mech in header["roster"]])
        self._sides = np.stack([self._team == team for team in range(TEAMS)]).astype(np.float64)
        self._scale = {str(c["name"]): float(c["scale"]) for c in header["columns"]}
        events = {str(table["name"]): table["columns"] for table in header["tables"]}.get("events", [])
        self._damage_scale = next((float(c["scale"]) for c in events if c["name"] == "value"), 1.0)
        self._frames: list[tuple[Ints, NDArray[np.float64]]] = []
        """Ticks ``[F]`` and sums ``[F, name, team]`` of each chunk; about 1 MB per hour of play."""
        self._events: list[tuple[Ints, ...]] = []

    def add(self, frames: Mapping[str, Ints], events: Mapping[str, Ints], tick0: int) -> None:
        """Add the chunk that starts at ``tick0``: frame columns ``[F, W]`` and event columns ``[rows]``."""
        new = slice(1 if self._frames else 0, None)
        sums = self._sums(*(frames[name][new] for name in SAMPLED))
        self._frames.append((frames["tick"][new, 0] + tick0, sums))
        rows = np.flatnonzero(COUNTED[events["kind"]])
        if len(rows):
            columns = (events[name][rows] for name in ("kind", "who", "whom", "value"))
            self._events.append((events["tick"][rows] + tick0, *columns))

    def index(self) -> dict[str, Any]:
        """Return ``series`` and ``markers`` as in an index."""
        if not self._frames:
            return {"series": {"second": [], **{name: [[], []] for name in SERIES}}, "markers": []}
        ticks, sums = (np.concatenate(parts) for parts in zip(*self._frames, strict=True))
        events = [np.concatenate(parts) for parts in zip(*self._events, strict=True)] or [NO_ROWS] * 5
        second = np.arange(int(ticks[-1] / self._hz) + 1)
        at = np.searchsorted(ticks, second * self._hz)
        series = {name: sums[at, i].T.tolist() for i, name in enumerate(SUMMED)}
        series["damage"] = self._damage(ticks[at], events)
        marked = MARKED[events[1]]
        markers = np.stack([column[marked] for column in events[:4]], axis=1)
        return {"series": {"second": second.tolist(), **series}, "markers": sorted(markers.tolist())}

    @property
    def last(self) -> dict[str, list[float]]:
        """Score, living mechs and hit points of each team at the last frame; empty before the first chunk."""
        return dict(zip(SUMMED, self._frames[-1][1][-1].tolist(), strict=True)) if self._frames else {}

    def _sums(self, score: Ints, flags: Ints, hp: Ints) -> NDArray[np.float64]:
        """Return score, living mechs and hit points ``[F, name, team]`` of frames ``[F, W]``."""
        living = (flags & int(MechFlag.ALIVE)).astype(np.float64)
        alive, hit_points = living @ self._sides.T, (living * hp) @ self._sides.T
        scores = np.round(score * self._scale["score"], 2)
        return np.stack([scores, alive, np.round(hit_points * self._scale["hp"], 1)], axis=1).astype(np.float64)

    def _damage(self, ends: Ints, events: Sequence[Ints]) -> list[list[float]]:
        """Return the damage that each team dealt to the other during each second, ``[team][second]``."""
        tick, kind, attacker, target, value = events
        dealt = np.zeros((TEAMS, len(ends) + 1))
        mechs = len(self._team)
        valid = (attacker >= 0) & (attacker < mechs) & (target >= 0) & (target < mechs)
        hits = np.flatnonzero((kind == int(EventKind.HIT)) & valid)
        hits = hits[self._team[attacker[hits]] != self._team[target[hits]]]
        second = np.searchsorted(ends, tick[hits])
        np.add.at(dealt, (self._team[attacker[hits]], second), value[hits] * self._damage_scale)
        return np.round(dealt[:, :-1], 1).tolist()


def pack_series(series: Mapping[str, Any]) -> Ints:
    """Return series as rows ``[seconds, columns]`` of the table ``series``."""
    flat = [series["second"], *(series[name][team] for name in SERIES for team in range(TEAMS))]
    scales = np.array([[column.scale] for column in SERIES_TABLE.columns])
    limits = np.array([bounds(column.dtype) for column in SERIES_TABLE.columns])
    return np.clip(np.rint(np.array(flat, np.float64) / scales).astype(np.int64).T, limits[:, 0], limits[:, 1])


def unpack_series(columns: Mapping[str, Ints]) -> dict[str, Any]:
    """Return series as in an index from the columns ``[seconds]`` of the table ``series``."""
    scale = {c.name: c.scale for c in SERIES_TABLE.columns}
    series: dict[str, Any] = {"second": columns["second"].tolist()}
    for name in SERIES:
        keys = [f"{name}_{team}" for team in TEAM_NAMES]
        series[name] = [np.round(columns[key] * scale[key], 2).tolist() for key in keys]
    return series
