"""Plain-Python rules of the skill levels: what a pilot knows of its hostiles, and which target it chooses.

A ``Memory`` holds the state of every decision of one environment. What a pilot knows is derived from it from scratch
each time, so only the choices themselves carry over from one decision to the next.
"""

from math import atan2, inf
from typing import Any, NamedTuple

import numpy as np

from echelon.actions import Order
from echelon.agents.levels import FIRST_LEVEL, LEVELS, Knowledge, Level, PaintUse, TargetChoice, delay_decisions
from echelon.sim.random import StreamId, uniform01
from tests.oracles import shared as o
from tests.oracles.sensing import RANGE_FACTOR

DT_ACT = 0.25
RADAR_VOX = 14.0
PACK = 5
CLASS_WORTH = (0.6, 0.7, 0.9, 1.0)


class Track(NamedTuple):
    """What a pilot knows of a hostile; ``age`` in decisions since it was last perceived, beyond the reaction delay."""

    age: int
    pos: np.ndarray
    vel: np.ndarray
    hp: float
    yaw: float
    fallen: bool
    shutdown: bool
    sees: bool
    """Whether the pilot itself has a clear line of sight."""
    paint: float
    """Ticks of own pack's paint left."""


class Memory:
    """The decisions of one episode, first to last."""

    def __init__(self) -> None:
        self.past: list[Any] = []

    def add(self, s) -> None:
        self.past.append(s)

    @property
    def now(self) -> int:
        return len(self.past) - 1

    def perceives(self, t: int, m: int, j: int, closely: bool = False) -> bool:
        """Return whether a mech perceives a hostile at a decision, ``closely`` by its own sight or radar."""
        s = self.past[t]
        if not (s.alive[m] and s.alive[j] and o.hostile(s, m, j) and s.visible[m, j]):
            return False
        radar = RADAR_VOX * s.quality[m] * RANGE_FACTOR[s.chassis[m]]
        return not closely or bool(s.sight[m, j] == 1 or o.distance(s.pos[j], s.pos[m]) <= radar)

    def observers(self, level: Level, m: int) -> list[int]:
        s = self.past[-1]
        if level.knowledge in (Knowledge.OWN_SIGHT, Knowledge.OWN):
            return [m]
        if level.knowledge == Knowledge.PACK:
            return pack_of(m)
        return [k for k in range(o.count(s)) if not o.hostile(s, m, k)]

    def known(self, level: Level, m: int, j: int) -> Track | None:
        """Return what the pilot of ``m`` knows of ``j``, as perceived its reaction delay ago."""
        then = self.now - delay_decisions(level, DT_ACT)
        if then < 0 or not self.past[then].alive[j]:
            return None
        closely, observers = level.knowledge == Knowledge.OWN_SIGHT, self.observers(level, m)
        memory = range(then, max(-1, then - 1 - round(level.memory_s / DT_ACT)), -1)
        last = next((t for t in memory if any(self.perceives(t, k, j, closely) for k in observers)), None)
        if last is None:
            return None
        s, seen, fresh = self.past[then], self.past[last], last == then
        return Track(
            then - last, seen.pos[j], seen.vel[j], float(seen.hp[j]), float(seen.yaw[j]),
            bool(fresh and s.fallen[j] > 0), bool(fresh and s.shutdown[j]),
            fresh and self.perceives(then, m, j) and bool(s.sight[m, j] == 1),
            float(s.painted[j] if o.painted_by_pack_of(s, m, j) else 0),
        )  # fmt: skip


def pack_of(m: int) -> list[int]:
    """Return the members of a mech's pack, itself included."""
    return list(range(m - m % PACK, m - m % PACK + PACK))


def level_of(s, m: int) -> Level | None:
    """Return the level that controls a mech, None for the baseline or no pilot."""
    index = int(s.script[m]) - FIRST_LEVEL
    return list(LEVELS.values())[index] if index >= 0 else None


def members_of(s, pack: list[int]) -> list[int]:
    return [m for m in pack if s.alive[m] and level_of(s, m)]


def threat(s, m: int, j: int, known: Track) -> float:
    d = o.distance(known.pos, s.pos[m])
    score = CLASS_WORTH[s.chassis[j]] * (1 - 0.6 * known.hp / o.MECHS[s.chassis[j]].hp) - d / 20
    score += 0.5 * (known.paint > 0)
    score += 0.5 * (np.hypot(*(known.pos[:2] - s.zone[:2])) < s.zone[2])
    score += 0.4 * (known.fallen or known.shutdown)
    away = s.pos[m].astype(float) - known.pos
    faces = abs(o.wrap(atan2(away[1], away[0]) - known.yaw)) < 0.35
    return float(score + 0.6 * bool(faces and d < 20 and known.sees))


def pack_choices(memory: Memory, s, before, pack: list[int]) -> tuple[int, int, int]:
    """Return a pack's mark, focus, and the decision that chose the focus; ``before`` is the last decision, if any."""
    members, row, now = members_of(s, pack), pack[0] // PACK, memory.now
    heavy_targets = [int(before.pilot_target[m]) for m in members if s.chassis[m] == o.HEAVY] if before else []
    mark = next((j for j in heavy_targets if j >= 0), -1)
    experts = [m for m in members if level_of(s, m).choice == TargetChoice.FOCUS]
    old, since = (int(before.pack_focus[row]), int(before.pack_focus_since[row])) if before else (-1, 0)
    if not experts:
        return mark, -1, since
    leader = experts[-1]
    if old >= 0 and memory.known(level_of(s, leader), leader, old) and (now - since) * DT_ACT < 2.0:
        return mark, old, since
    best, most = -1, -inf
    for j in range(o.count(s)):
        if not o.hostile(s, pack[0], j):
            continue
        scores = []
        for m in members:
            known = memory.known(level_of(s, m), m, j)
            if known and o.distance(known.pos, s.pos[m]) <= 20:
                scores.append(threat(s, m, j, known))
        if len(scores) >= 2 and sum(scores) > most:
            best, most = j, sum(scores)
    return mark, best, now


def chosen_target(memory: Memory, s, before, m: int) -> tuple[int, Track | None]:
    """Return the target of the pilot of ``m``, given the choices of its pack, and what the pilot knows of it."""
    level, row, now = level_of(s, m), m // PACK, memory.now
    held = int(before.pilot_target[m]) if before else -1
    held_s = (now - int(before.pilot_target_since[m])) * DT_ACT if before else 0.0
    carried = o.CARRIED[int(s.chassis[m])]
    guns = {trigger for weapon, trigger in carried.items() if o.GUNS[weapon].damage > 0}
    paints = any(weapon in o.PAINTERS and trigger not in guns for weapon, trigger in carried.items())
    best, most, chosen = -1, -inf, None
    for j in range(o.count(s)) if s.alive[m] else []:
        known = memory.known(level, m, j) if o.hostile(s, m, j) else None
        if not known:
            continue
        d, draw = o.distance(known.pos, s.pos[m]), 16 + j + 8 * (j >= 32)
        value = {
            TargetChoice.RANDOM: lambda draw=draw: uniform01(int(s.seed), StreamId.AGENT, int(s.tick), m, draw),
            TargetChoice.NEAREST: lambda d=d: -d,
            TargetChoice.PAINTED: lambda d=d, known=known: -d + (known.paint > 0),
            TargetChoice.THREAT: lambda j=j, known=known: threat(s, m, j, known),
            TargetChoice.FOCUS: lambda j=j, known=known, d=d: (
                threat(s, m, j, known) + 0.25 * (j == s.pack_focus[row] and d <= 14)
            ),
        }[level.choice]()
        held_on = level.choice == TargetChoice.RANDOM and j == held and held_s < 3.0
        packs = {PaintUse.MARK: s.pack_mark[row], PaintUse.FOCUS: s.pack_focus[row]}.get(level.paint, -1)
        marked = paints and j == packs and d <= 16
        value = 1e9 if held_on or marked else float(value)
        value = 2e9 if s.order_kind[m] == Order.FOCUS and j == s.order_mech[m] else value
        if value > most:
            best, most, chosen = j, value, known
    return best, chosen
