"""Scenes for display tests: an observer and a hostile that can be hidden from it, and access to contact rows."""

import numpy as np

from echelon.env.layout import flat_offsets
from echelon.sim.arsenal import Chassis
from tests.env.battle import Battle

AT = flat_offsets()
SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
VALID, CLASS, HULL, VELOCITY = 21, slice(16, 20), 8, slice(3, 6)


def contacts(battle: Battle, m: int, env: int = 0) -> np.ndarray:
    """Return the contact rows of a mech ``[20, 25]``."""
    return battle.obs[env, m, slice(*AT["contacts"])].reshape(20, 25)


def row_of(battle: Battle, m: int, j: int, env: int = 0) -> np.ndarray:
    (slots,) = np.nonzero(battle["contact"][env, m] == j)
    assert len(slots) == 1, f"{j} has {len(slots)} slots on the display of {m}"
    return contacts(battle, m, env)[slots[0]]


def next_decision(battle: Battle, by: int = 1) -> None:
    battle.batch.set("decision", battle["decision"] + by)


def hide(battle: Battle, m: int, j: int) -> None:
    """Hide j from every sensor of m: far away, behind a wall, cold."""
    battle.put("pos", (55.0, 30.0, 2.0), j)
    battle.put("heat", 0.0, j)


def wall(grid: np.ndarray) -> None:
    grid[:, :, 40:42] = 1


def duel(viewer: int = MEDIUM, **options) -> Battle:
    """Return an observer, mech 0, that sees a medium hostile, mech 5; a wall hides the far side of the map."""
    battle = Battle(edit=wall, **options)
    battle.empty()
    battle.place(0, viewer, 20, 30)
    battle.place(5, MEDIUM, 30, 30, yaw=np.pi)
    battle.put("vel", (0.0, 2.0, 0.0), 5)
    battle.observe()
    return battle
