"""Plain-Python reference of displays: known contacts, confidence, slots by quota, alerts and readings."""

from math import floor
from types import SimpleNamespace

import numpy as np

from echelon.sim.random import StreamId, bell, draw_u32
from tests.oracles import sensing as sense
from tests.oracles.shared import MECHS, MISSILE, count, distance, hostile, is_legged

MEMORY_S, DECISION_S, MARGIN = 5.0, 0.25, 1.2
SLOTS = (20, 10, 6, 5)
FIDELITY = (0.8, 0.6, 0.7, 1.0)
HEAVY = 3
SELECTABLE = 5
"""Slots that target preferences can select."""


def view(s, m: int) -> tuple[float, float, float]:
    """Return the confidence, the class confidence, and the age that bad sensors add [s]."""
    q, jam, eccm = min(1.0, float(s.quality[m])), float(s.jam[m]), float(s.aid[m]) * min(0.5, float(s.jam[m]))
    sure = q * (1 - 0.7 * jam) + 0.5 * eccm
    kind = q * (1 - 0.5 * jam) + 0.3 * eccm
    return min(1.0, sure), min(1.0, kind), 2 * (1 - q) + 2 * jam


def age(s, m: int, j: int) -> int | None:
    """Return the steps since m saw j, None if it does not know of j."""
    if s.visible[m, j]:
        return 0
    since = int(s.decision) - int(s.seen[m, j])
    if not s.alive[j] or s.seen[m, j] < 0 or since <= 0:
        return None
    return since if since <= min(20, floor((MEMORY_S - view(s, m)[2]) / DECISION_S + 1e-4)) else None


def confidence(s, m: int, j: int) -> float:
    a, (sure, _, extra) = age(s, m, j), view(s, m)
    return sure if a == 0 else sure * max(0.01, 1 - (a * DECISION_S + extra) / MEMORY_S)


def known(s, m: int, j: int) -> dict:
    """Return the state of j as m knows it: current, or last seen."""
    a = age(s, m, j)
    if not a:
        by = int(s.painter[j]) if s.painted[j] > 0 else -1
        return {"pos": s.pos[j], "vel": s.vel[j], "yaw": s.yaw[j], "hp": s.hp[j], "heat": s.heat[j], "painter": by,
                "stability": s.stability[j], "fallen": s.fallen[j] > 0, "legged": is_legged(s, j)}  # fmt: skip
    k = (int(s.decision) - a) % 21
    yaw, hp, heat, stability = s.trace_body[k, j]
    marks = int(s.trace_marks[k, j])
    return {"pos": s.trace_pos[k, j], "vel": s.trace_vel[k, j], "yaw": yaw, "hp": hp, "heat": heat, "painter":
            (marks >> 2) - 1, "stability": stability, "fallen": bool(marks & 1), "legged": bool(marks & 2)}  # fmt: skip


def key(s, m: int, j: int) -> tuple[float, float]:
    """Return the sort key of j, lower first."""
    what, mech = known(s, m, j), MECHS[s.chassis[j]]
    d = float(np.float32(distance(what["pos"], s.pos[m])))
    share = max(0.01, 1 - (age(s, m, j) * DECISION_S + view(s, m)[2]) / MEMORY_S)
    if confidence(s, m, j) < 0.1 - 1e-6:
        share *= 0.1
    first = {0: (d, 0.0), 1: (1 / mech.rank, d), 2: (float(what["hp"]) / mech.hp, d)}[int(s.sort_mode[m])]
    return first[0] / share, first[1] / share


def precedes(a: tuple[float, float], b: tuple[float, float], margin: float = MARGIN) -> bool:
    same = abs(a[0] - b[0]) <= 1e-6 * max(abs(a[0]), abs(b[0]))
    return (not same and a[0] * margin < b[0]) or (same and a[1] * margin < b[1])


def alerted_contact(s, m: int) -> int | None:
    """Return the mech of a heavy's most urgent alert, None without one."""
    if s.chassis[m] != HEAVY:
        return None
    near = [j for j in range(count(s)) if age(s, m, j) == 0]
    for j in range(count(s)):
        if age(s, m, j) is not None and hostile(s, m, j) and MISSILE in s.round_weapon[j][s.round_target[j] == m]:
            return j
    times = {}
    for j in near:
        r = s.pos[j].astype(float) - s.pos[m]
        closing = -(s.vel[j].astype(float) - s.vel[m]) @ r
        times[j] = r @ r / closing if closing > 0 else np.inf
    soon = min(near, key=lambda j: times[j], default=None)
    if soon is not None and times[soon] < 1.0:
        return soon
    ahead = np.array([np.cos(s.yaw[m]), np.sin(s.yaw[m])])
    foes = sorted((float(distance(s.pos[j], s.pos[m])), j) for j in near if hostile(s, m, j))
    for d, j in foes:
        if d <= 8 and s.sight[m, j] == 1 and (s.pos[j] - s.pos[m])[:2] @ ahead < 0:
            return j
    by = int(s.painter[m])
    if s.painted[m] > 0 and by >= 0 and hostile(s, m, by) and age(s, m, by) is not None:
        return by
    critical = s.heat[m] > 0.9 * MECHS[HEAVY].heat_cap or s.stability[m] < 20
    return foes[0][1] if critical and foes else None


def fill(s, m: int, before: list[int], slots: int | None = None, alerts: bool = True) -> list[int]:
    """Return the 20 contact slots of m after those of ``before``, -1 for none."""
    slots = (slots or SLOTS[s.chassis[m]]) * int(s.alive[m])
    if not slots:
        return [-1] * 20
    alerted = alerted_contact(s, m) if alerts else None
    held: dict[int, int] = {} if alerted is None else {0: alerted}
    first = len(held)
    room = slots - first
    shown = [j for j in range(count(s)) if hostile(s, m, j) or not s.hostile_only[m]]
    pool = [j for j in shown if j != alerted and age(s, m, j) is not None]
    pool.sort(key=lambda j: (*key(s, m, j), j))
    order = {j: i for i, j in enumerate(pool)}
    foes = [j for j in pool if hostile(s, m, j)][:room]
    friends = [j for j in pool if not hostile(s, m, j)][:room]
    near = min(3, len(friends))
    counts = {True: min(len(foes), room - near)}
    counts[False] = min(len(friends), room - counts[True])
    held |= {k: before[k] for k in range(first, slots) if before[k] in pool}
    rank = {j: i for ranking in (foes, friends) for i, j in enumerate(ranking)}

    def of(side: bool) -> list[int]:
        return [k for k in sorted(held) if k >= first and hostile(s, m, held[k]) == side]

    def last(side: bool) -> int:
        return max(of(side), key=lambda k: order[held[k]])

    for side in (True, False):
        while len(of(side)) > counts[side]:
            del held[last(side)]
    zone = first + near
    front = {True: range(zone, slots), False: range(first, zone)}
    rest = {True: range(first, slots), False: range(slots - 1, first - 1, -1)}
    for side, ranking, want in ((False, friends, near), (True, foes, counts[True]), (False, friends, counts[False])):
        for j in [j for j in ranking if j not in held.values()][: max(0, want - len(of(side)))]:
            held[next(k for k in (*front[side], *rest[side]) if k not in held)] = j
    for k in sorted((k for k in of(True) if k >= SELECTABLE and held[k] in rank), key=lambda k: rank[held[k]]):
        free = [q for q in (*front[True], *rest[True]) if q not in held]
        if free and free[0] < SELECTABLE:
            held[free[0]] = held.pop(k)
    for side, ranking in ((True, foes), (False, friends)):
        settle_slots(held, of(side), ranking, order, lambda j: key(s, m, j))
    return [held.get(k, -1) for k in range(20)]


def settle_slots(held: dict[int, int], slots: list[int], ranking: list[int], order: dict[int, int], of) -> None:
    """Change the slots of one side in place: better candidates replace worse ones, then better ones move up.

    ``order`` has the rank of every known mech; the ``ranking`` of the side has its best.
    """
    for j in ranking:
        if j in held.values() or not slots:
            continue
        worst = max(slots, key=lambda k: order[held[k]])
        if order[held[worst]] < order[j] or not precedes(of(j), of(held[worst])):
            break
        held[worst] = j
    slots = [k for k in slots if held[k] in ranking]
    for n, k in enumerate(slots):
        q = min(slots[n:], key=lambda q: order[held[q]])
        if q != k and precedes(of(held[q]), of(held[k])):
            held[k], held[q] = held[q], held[k]


def noise(s, m: int, j: int) -> np.ndarray:
    """Return the noise of six readings as a share of their range: hull, heat, stability, velocity."""
    when = int(s.decision) - (age(s, m, j) or 0)
    drawn = bell(draw_u32(int(s.seed), StreamId.DISPLAY, when, m, 8 * j + np.arange(6)))
    return drawn.astype(float) * 0.1 * (1 - FIDELITY[s.chassis[m]])


def classes(s, m: int, j: int) -> list[float]:
    sure = view(s, m)[1]
    if sure < 0.5:
        return [0.25] * 4
    return [sure * float(s.chassis[j] == c) + (1 - sure) / 4 for c in range(4)]


def contact_row(s, m: int, j: int) -> list[float]:
    """Return the 25 columns of a contact: those of ``sensing.contact_row`` for its known state, with noise."""
    what, mech, read = known(s, m, j), MECHS[s.chassis[j]], noise(s, m, j)
    ahead, left, up = 2 * read[3:] * [14, 14, 10]
    c, n = np.cos(float(s.yaw[m])), np.sin(float(s.yaw[m]))
    values = {
        "pos": what["pos"], "vel": what["vel"] + [c * ahead - n * left, n * ahead + c * left, up], "yaw": what["yaw"],
        "hp": what["hp"] + read[0] * mech.hp, "heat": what["heat"] + read[1] * 2 * mech.heat_cap,
        "stability": what["stability"] + read[2] * 100, "fallen": what["fallen"],
        "leg_hp": -1.0 if what["legged"] else 1.0, "painted": what["painter"] >= 0, "painter": what["painter"],
    }  # fmt: skip
    believed = SimpleNamespace(**vars(s))
    for name, value in values.items():
        column = np.array(getattr(s, name), float if np.ndim(value) or isinstance(value, float) else None)
        column[j] = value
        setattr(believed, name, column)
    row = list(sense.contact_row(believed, m, j))
    row[16:20] = classes(s, m, j)
    row[21] = max(0.01, confidence(s, m, j))
    return row
