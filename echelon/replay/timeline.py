"""What an INDEX says about a whole match: values per second and markers, folded from decoded chunks.

The writer folds its own chunks, a reader those of a file that was not closed, and a server those of a match that is
still being played: all get the same timeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from echelon.replay.columns import TEAMS, Ints, bounds
from echelon.replay.schema import DTYPE_BYTES, EVENTS, MARKERS, EventKind, MechFlag
from echelon.replay.schema import SERIES as SERIES_TABLE

TEAM_NAMES = ("blue", "red")
NOTHING = np.zeros(0, np.int64)
SERIES = ("score", "alive", "hp", "damage")
MARKED = np.zeros(2 ** (8 * DTYPE_BYTES[EVENTS.columns[1].dtype]), bool)
MARKED[[int(kind) for kind in MARKERS]] = True
"""Whether a kind of event gets a mark."""
KEPT = MARKED.copy()
KEPT[int(EventKind.HIT)] = True
SAMPLED = ("score", "flags", "hp")
"""Columns of which series are made."""


class Timeline:
    """Values per second and team, and the events worth a mark, of the chunks added so far, in order.

    Adding only keeps what is needed; the sums are made when they are asked for.
    """

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._hz = float(header["tick_hz"])
        self._team = np.array([int(mech["team"]) for mech in header["roster"]])
        self._sides = np.stack([self._team == team for team in range(TEAMS)]).astype(np.float64)
        self._scale = {str(c["name"]): float(c["scale"]) for c in header["columns"]}
        events = {str(table["name"]): table["columns"] for table in header["tables"]}.get("events", [])
        self._damage_scale = next((float(c["scale"]) for c in events if c["name"] == "value"), 1.0)
        self._frames: list[tuple[Ints, ...]] = []
        self._events: list[tuple[Ints, ...]] = []

    def add(self, frames: Mapping[str, Ints], events: Mapping[str, Ints], tick0: int) -> None:
        """Take in one chunk from ``tick0``: frame columns ``[F, W]`` and the columns of its events ``[rows]``."""
        fresh = slice(1 if self._frames else 0, None)
        self._frames.append((frames["tick"][fresh, 0] + tick0, *(frames[name][fresh] for name in SAMPLED)))
        wanted = np.flatnonzero(KEPT[events["kind"]])
        if len(wanted):
            columns = (events[name][wanted] for name in ("kind", "who", "whom", "value"))
            self._events.append((events["tick"][wanted] + tick0, *columns))

    def index(self) -> dict[str, Any]:
        """Return series and markers as an index has them."""
        if not self._frames:
            return {"series": {"second": [], **{name: [[], []] for name in SERIES}}, "markers": []}
        ticks, score, flags, hp = (np.concatenate(parts) for parts in zip(*self._frames, strict=True))
        events = [np.concatenate(parts) for parts in zip(*self._events, strict=True)] or [NOTHING] * 5
        second = np.arange(int(ticks[-1] / self._hz) + 1)
        at = np.searchsorted(ticks, second * self._hz)
        sums = self._sums(score[at], flags[at], hp[at])
        series = {**sums, "damage": self._damage(ticks[at], events)}
        marked = MARKED[events[1]]
        markers = np.stack([column[marked] for column in events[:4]], axis=1)
        return {"series": {"second": second.tolist(), **series}, "markers": sorted(markers.tolist())}

    @property
    def last(self) -> dict[str, list[float]]:
        """Score, living mechs and hit points of each team at the end; empty before the first chunk."""
        if not self._frames:
            return {}
        _, *newest = (part[-1:] for part in self._frames[-1])
        return {name: [team[0] for team in teams] for name, teams in self._sums(*newest).items()}

    def _sums(self, score: Ints, flags: Ints, hp: Ints) -> dict[str, list[list[float]]]:
        """Return score, living mechs and hit points of each team at some frames ``[F, W]``."""
        living = (flags & int(MechFlag.ALIVE)).astype(np.float64)
        return {
            "score": np.round(score.T * self._scale["score"], 2).tolist(),
            "alive": (self._sides @ living.T).tolist(),
            "hp": np.round(self._sides @ (living * hp).T * self._scale["hp"], 1).tolist(),
        }

    def _damage(self, ends: Ints, events: Sequence[Ints]) -> list[list[float]]:
        """Return what each team dealt to the other up to the frame of each second, since that of the one before."""
        tick, kind, who, whom, value = events
        dealt = np.zeros((TEAMS, len(ends) + 1))
        mechs = len(self._team)
        known = (kind == int(EventKind.HIT)) & (who >= 0) & (who < mechs) & (whom >= 0) & (whom < mechs)
        hits = np.flatnonzero(known)
        hits = hits[self._team[who[hits]] != self._team[whom[hits]]]
        slot = np.searchsorted(ends, tick[hits])
        np.add.at(dealt, (self._team[who[hits]], slot), value[hits] * self._damage_scale)
        return np.round(dealt[:, :-1], 1).tolist()


def pack_series(series: Mapping[str, Any]) -> Ints:
    """Return the rows ``[seconds, columns]`` of the table ``series``."""
    flat = [series["second"], *(series[name][team] for name in SERIES for team in range(TEAMS))]
    scales = np.array([[column.scale] for column in SERIES_TABLE.columns])
    limits = np.array([bounds(column.dtype) for column in SERIES_TABLE.columns])
    return np.clip(np.rint(np.array(flat, np.float64) / scales).astype(np.int64).T, limits[:, 0], limits[:, 1])


def unpack_series(columns: Mapping[str, Ints]) -> dict[str, Any]:
    """Return series as an index has them from the columns ``[seconds]`` of the table ``series``."""
    scale = {c.name: c.scale for c in SERIES_TABLE.columns}
    found: dict[str, Any] = {"second": columns["second"].tolist()}
    for name in SERIES:
        keys = [f"{name}_{team}" for team in TEAM_NAMES]
        found[name] = [np.round(columns[key] * scale[key], 2).tolist() for key in keys]
    return found
