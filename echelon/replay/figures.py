"""Figures of each mech up to a tick, as a scoreboard shows them (the counterpart of viewer/src/data/figures.ts)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.replay.codec import ReplayError
from echelon.replay.reader import Chunk, Replay
from echelon.replay.schema import EventKind, HitFlag, MechFlag

FIGURES = ("kills", "assists", "damage", "taken", "shots", "hits", "zone_s")
"""Kills of hostiles; assists by painting; damage to hostiles and damage by hits of any mech, to hull and legs [hit
points]; shots of weapons that deal damage, and direct hits of them on hostiles; time alive in the zone [s].

A hitscan weapon fires only at a target that it hits. Hazards and falls are in no figure. Positions are recorded to 1/16
voxel, so a mech on the edge of the zone may differ from the simulator by a step.
"""


def figures_at(replay: Replay, tick: int | None = None) -> dict[str, NDArray[np.float64]]:
    """Return each of ``FIGURES`` by mech ``[M]``, from the first recorded tick up to ``tick``, by default the last.

    Damaged chunks count nothing.
    """
    until = replay.ticks if tick is None else tick
    found = {name: np.zeros(len(replay.header["roster"])) for name in FIGURES}
    for number, ref in enumerate(replay.chunks):
        if ref.tick0 <= until:
            with suppress(ReplayError):
                _add(found, replay.header, replay.chunk(number), until)
    return found


def accuracy(hits: float, shots: float) -> float | None:
    return hits / shots if shots else None


def _add(found: dict[str, NDArray[np.float64]], header: Mapping[str, Any], chunk: Chunk, until: int) -> None:
    """Add what a chunk has up to a tick; its first frame repeats the last one of the chunk before."""
    table = next(table["columns"] for table in header["tables"] if table["name"] == "events")
    events, scale = chunk.tables["events"], {column["name"]: float(column["scale"]) for column in table}
    within = events["tick"] + chunk.ref.tick0 <= until
    kind, flags, value = events["kind"][within], events["flags"][within], events["value"][within] * scale["value"]
    team = np.array([mech["team"] for mech in header["roster"]] + [-1])
    harmful = np.array([row["damage"] > 0 for row in header["weapons"]] + [False])
    hitscan = np.array([row["guidance"] == "hitscan" for row in header["weapons"]] + [False])
    actor, target = (_indices(events[name][within], len(team) - 1) for name in ("actor", "target"))
    weapon = _indices(events["weapon"][within], len(harmful) - 1)
    by, at = team[actor] >= 0, team[target] >= 0
    hostile = by & at & (team[actor] != team[target])
    hit, direct, harms = kind == EventKind.HIT, (flags & HitFlag.SPLASH) == 0, harmful[weapon]
    shot = (kind == EventKind.LAUNCH) | (hit & direct & hitscan[weapon])
    for name, rows, mechs, amount in (
        ("kills", (kind == EventKind.KILL) & hostile, actor, None),
        ("assists", (kind == EventKind.ASSIST) & by, actor, None),
        ("damage", hit & hostile, actor, value),
        ("taken", hit & at, target, value),
        ("shots", by & harms & shot, actor, None),
        ("hits", hit & direct & hostile & harms, actor, None),
    ):
        np.add.at(found[name], mechs[rows], 1.0 if amount is None else amount[rows])
    columns = {column["name"]: float(column["scale"]) for column in header["columns"]}
    zone_x, zone_y, radius = header["zone"]
    frames = slice(1, int(np.searchsorted(chunk.ticks, until, "right")))
    x, y = (chunk.frames[axis][frames] * columns[axis] - middle for axis, middle in (("x", zone_x), ("y", zone_y)))
    inside = ((chunk.frames["flags"][frames] & MechFlag.ALIVE) != 0) & (x * x + y * y < radius * radius)
    seconds = np.diff(chunk.ticks)[: inside.shape[0], None] / float(header["tick_hz"])
    found["zone_s"] += (inside * seconds).sum(axis=0)


def _indices(values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return indices of a list, ``count`` for those outside of it."""
    return np.where((values >= 0) & (values < count), values, count)
