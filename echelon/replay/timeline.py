"""Timeline of a match for its INDEX: values per second, event markers, win probability and turning points.

The writer computes it for its own chunks, a reader for a file that was not closed, and a server for a live match.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.replay import schema
from echelon.replay.columns import TEAMS, GrowingRows, Ints, bounds
from echelon.replay.moments import MomentScan

TEAM_NAMES = ("blue", "red")
SUMMED = ("score", "alive", "hp")
SERIES = (*SUMMED, "damage")
MARKED = [int(kind) for kind in schema.MARKERS]
SAMPLED = ("score", "flags", "hp")
"""Columns that series are computed from."""


class Timeline:
    """Values per second and team, markers, win probability and moments of the chunks added so far.

    Its size depends on the seconds and markers of the match, not on its frames.
    """

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._hz = float(header["tick_hz"])
        self._team = np.array([int(mech["team"]) for mech in header["roster"]])
        self._sides = np.stack([self._team == team for team in range(TEAMS)]).astype(np.float64)
        self._scale = {str(c["name"]): float(c["scale"]) for c in header["columns"]}
        (events,) = (table["columns"] for table in header["tables"] if table["name"] == schema.EVENTS.name)
        self._damage_scale = next(float(c["scale"]) for c in events if c["name"] == "value")
        self._seconds = GrowingRows(len(SUMMED), TEAMS, dtype=np.float64)
        """Sums ``[name, team]`` at each second."""
        self._dealt = GrowingRows(TEAMS, dtype=np.float64)
        """Damage ``[team]`` during each second."""
        self._undated = np.zeros(TEAMS)
        """Damage ``[team]`` since the last second."""
        self._markers = GrowingRows(len(schema.MARKER_TABLE.columns), dtype=np.int64)
        self._moments = MomentScan(header)
        self._last: list[list[float]] | None = None

    def add(self, frames: Mapping[str, Ints], events: Mapping[str, Ints], tick0: int) -> None:
        """Add the chunk that starts at ``tick0``: frame columns ``[F, W]`` and event columns ``[rows]``.

        Its first frame repeats the last of the chunk before.
        """
        self._moments.add(frames, events, tick0)
        new = slice(1 if self._last else 0, None)
        sums = self._sums(*(frames[name][new] for name in SAMPLED))
        ticks = frames["tick"][new, 0] + tick0
        ends = np.zeros(0, np.int64)
        if len(ticks):
            second = np.arange(self._seconds.count, int(ticks[-1] / self._hz) + 1)
            at = np.minimum(np.searchsorted(ticks, second * self._hz), len(ticks) - 1)
            ends = ticks[at]
            self._seconds.append(sums[at])
            self._last = sums[-1].tolist()
        self._add_damage(events, tick0, ends)
        marked = np.flatnonzero(np.isin(events["kind"], MARKED))[: schema.MAX_MARKERS - self._markers.count]
        columns = (events["tick"][marked] + tick0, *(events[name][marked] for name in ("kind", "actor", "target")))
        self._markers.append(np.stack(columns, axis=1))

    def tables(self, winner: int = schema.UNDECIDED) -> tuple[dict[str, Ints], list[dict[str, Any]]]:
        """Return the rows of the tables of an INDEX except ``chunks``, and the moments of a match with this winner."""
        win, moments = self._moments.result(winner)
        markers = np.array(sorted(self._markers.rows.tolist()), np.int64).reshape(-1, len(schema.MARKER_TABLE.columns))
        return {
            schema.SERIES.name: self._series(),
            schema.MARKER_TABLE.name: markers,
            schema.WIN_TABLE.name: win,
        }, moments

    def _series(self) -> Ints:
        """Return the rows of the table ``series``."""
        seconds = np.arange(self._seconds.count)
        sums = self._seconds.rows.reshape(len(seconds), len(SUMMED) * TEAMS)
        values = np.column_stack((seconds, sums, np.round(self._dealt.rows, 1)))
        scales = np.array([column.scale for column in schema.SERIES.columns])
        limits = np.array([bounds(column.dtype) for column in schema.SERIES.columns])
        return np.clip(np.rint(values / scales).astype(np.int64), limits[:, 0], limits[:, 1])

    @property
    def size(self) -> int:
        return sum(rows.size for rows in (self._seconds, self._dealt, self._markers, self._moments))

    @property
    def last(self) -> dict[str, list[float]]:
        """Score, living mechs and hit points of each team at the last frame; empty before the first chunk."""
        return dict(zip(SUMMED, self._last, strict=True)) if self._last else {}

    def _sums(self, score: Ints, flags: Ints, hp: Ints) -> NDArray[np.float64]:
        """Return score, living mechs and hit points ``[F, name, team]`` of frames ``[F, W]``."""
        living = (flags & int(schema.MechFlag.ALIVE)).astype(np.float64)
        alive, hit_points = living @ self._sides.T, (living * hp) @ self._sides.T
        scores = np.round(score * self._scale["score"], 2)
        return np.stack([scores, alive, np.round(hit_points * self._scale["hp"], 1)], axis=1).astype(np.float64)

    def _add_damage(self, events: Mapping[str, Ints], tick0: int, ends: Ints) -> None:
        """Add the damage that each team dealt to the other to the seconds that end at the ticks ``ends``."""
        hits = np.flatnonzero(events["kind"] == int(schema.EventKind.HIT))
        attacker, target = events["actor"][hits], events["target"][hits]
        mechs = len(self._team)
        valid = (attacker >= 0) & (attacker < mechs) & (target >= 0) & (target < mechs)
        hits, attacker, target = hits[valid], attacker[valid], target[valid]
        hostile = self._team[attacker] != self._team[target]
        dealt = np.zeros((len(ends) + 1, TEAMS))
        dealt[0] = self._undated
        second = np.searchsorted(ends, events["tick"][hits[hostile]] + tick0)
        np.add.at(dealt, (second, self._team[attacker[hostile]]), events["value"][hits[hostile]] * self._damage_scale)
        self._dealt.append(dealt[:-1])
        self._undated = dealt[-1].copy()


def unpack_tables(tables: Mapping[str, Mapping[str, Ints]]) -> dict[str, Any]:
    """Return ``series``, ``markers`` and ``win`` with physical values as arrays, from the columns of their tables."""
    rows, win = tables[schema.SERIES.name], tables[schema.WIN_TABLE.name]
    scale = {c.name: c.scale for c in (*schema.SERIES.columns, *schema.WIN_TABLE.columns)}
    series: dict[str, Any] = {"second": rows["second"]}
    for name in SERIES:
        keys = [f"{name}_{team}" for team in TEAM_NAMES]
        series[name] = [np.round(rows[key] * scale[key], 2) for key in keys]
    return {
        "series": series,
        "markers": np.stack(list(tables[schema.MARKER_TABLE.name].values()), axis=1),
        "win": {
            "tick": win["tick"],
            **{name: np.round(win[name] * scale[name], 5) for name in schema.PROBABILITIES},
            "parts": [np.round(win[name] * scale[name], 3) for name in schema.WIN_GROUPS],
        },
    }
