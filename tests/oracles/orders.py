"""Plain-Python rules of orders: where they lead, and how far they are obeyed."""

import numpy as np

from echelon.actions import Order
from tests.oracles.moves import shortest, unit
from tests.oracles.shared import MECHS, ahead, distance, flat, hostile, living


def goal(s, m: int, spawn) -> np.ndarray:
    """Return the circle that the order of m leads to: x, y, radius; zeros for no place."""
    kind, named, (x, y, radius) = Order(int(s.order_kind[m])), int(s.order_mech[m]), s.zone.astype(float)
    if kind == Order.HOLD:
        return np.array([*s.order_place[m][:2], 6.0])
    if kind == Order.ADVANCE:
        return np.array([x, y, radius])
    if kind == Order.RETREAT:
        return np.array([*spawn[:2], 6.0])
    if kind in (Order.FLANK_LEFT, Order.FLANK_RIGHT):
        along = unit([x - spawn[0], y - spawn[1]])
        left = np.array([-along[1], along[0]]) * (1 if kind == Order.FLANK_LEFT else -1)
        return np.array([*np.clip(np.array([x, y]) + left * (radius + 6), 3, s.size[:2] - 3.0), 6.0])
    if named >= 0 and s.alive[named]:
        p = s.pos[named].astype(float)
        if kind == Order.FOCUS and s.visible[m, named]:
            return np.array([*p[:2], 12.0])
        if kind == Order.SCREEN:
            seen = [j for j in living(s) if hostile(s, named, j) and s.visible[named, j]]
            if seen:
                away = s.pos[min(seen, key=lambda j: distance(s.pos[j], p))] - p
                p[:2] += unit(away) * min(6.0, flat(away[:2]) / 2)
            return np.array([*p[:2], 6.0])
    return np.zeros(3)


def obedience(s, m: int, circle, flow=None) -> float:
    """Return how far m obeys its order to be in ``circle``; without ``flow`` ADVANCE goes straight."""
    kind, toward = Order(int(s.order_kind[m])), np.asarray(circle[:2], float) - s.pos[m][:2]
    if kind == Order.NONE or circle[2] == 0 or not s.alive[m]:
        return 0.0
    if flat(toward) < circle[2]:
        aims = unit(toward) @ ahead(float(s.yaw[m]))[:2] >= 0.978
        return float(kind != Order.FOCUS or aims)
    way = shortest(s, m, flow) if kind == Order.ADVANCE and flow is not None else unit(toward)
    return float(np.clip(way @ s.vel[m][:2] / MECHS[s.chassis[m]].speed, -1, 1))
