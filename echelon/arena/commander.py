"""Commanders: Python functions that give the mechs of a side orders, once a second.

``commander:FILE.py[:FUNCTION]+PILOT`` is a pilot whose mechs ``PILOT`` flies, a level or a policy, under the orders of
``FUNCTION``, by default ``command``. It takes a ``View`` and returns orders by mech: a name such as "hold", or the name
and the mech that it names, such as ("focus", 7). A class in its place is called once for each side of a match, for an
object with a memory. Mechs that are not mentioned keep their orders. Where a call fails or returns no valid orders, all
keep theirs, and ``Commander`` counts the call.
"""

import runpy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.actions import ORDER_NAMES, Order
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.env.observe.orders import check_order
from echelon.rl.agent_process import Calls as Calls
from echelon.sim.arsenal import CHASSIS

COMMAND_S = 1.0
"""Time between calls [s]."""
SLOW_S = 0.2
"""Time of a call from which it counts as slow [s]; a slow call has the same effect."""


@dataclass(frozen=True, kw_only=True)
class SeenMech:
    """A mech as a commander knows it."""

    mech: int
    """Number by which orders name it."""
    chassis: str
    pos: tuple[float, float, float]
    """Position [vox]."""
    hp: float
    """Hit points, share of the maximum."""
    order: str = "none"
    """Its order, of own mechs."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What a commander knows: its own mechs that are alive, and the hostiles that one of them sees now."""

    side: str
    seconds: float
    """Time since the match began [s]."""
    size: tuple[int, int]
    """Edges of the map [vox]."""
    zone: tuple[float, float, float]
    """Centre and radius of the zone [vox]."""
    score: tuple[float, float]
    """Zone scores, own and hostile [s]."""
    mechs: tuple[SeenMech, ...]
    hostiles: tuple[SeenMech, ...]


def require_orders(env: EnvConfig, name: str) -> None:
    """Raise ``ValueError`` for a policy that was trained in an ``env`` without the observation of orders."""
    if not env.observe_orders:
        raise ValueError(
            f"policy {name!r} observes no orders, expected a level or a policy trained with env.observe_orders=true"
        )


@dataclass
class Commander:
    """Commands sides of matches by a function, or by objects of a class, one for each side."""

    command: Callable[..., Any]
    crew: NDArray[np.bool_] | None = None
    """Mechs that get its orders ``[E, M]``; None for all of its side."""
    calls: int = 0
    slow: int = 0
    """Calls that took ``SLOW_S`` or longer."""
    faults: list[str] = field(default_factory=list)
    """Why calls gave no orders, one line each."""
    _objects: dict[tuple[int, int], Callable[[View], Any]] = field(default_factory=dict)

    @classmethod
    def from_file(cls, text: str) -> "Commander":
        """Return the commander ``FILE.py[:FUNCTION]``; ``ValueError`` for a file or function that cannot be used."""
        file, _, name = text.partition(":")
        try:
            found = runpy.run_path(str(Path(file).expanduser())).get(name or "command")
        except Exception as error:
            raise ValueError(f"commander {file!r} cannot be read: {type(error).__name__}: {error}") from None
        if not callable(found):
            raise ValueError(
                f"commander {file!r} has no function {name or 'command'!r}, expected one that takes a view"
            )
        return cls(found)

    def orders(self, engine: Engine, env: int, side: int) -> dict[tuple[int, int], tuple[Order, int]]:
        """Return the orders for a side by environment and mech, none after a fault."""
        view, began = view_of(engine, env, side), time.perf_counter()
        self.calls += 1
        try:
            if engine.batch.row("decision", env) == 0:
                self._objects[env, side] = self.command() if isinstance(self.command, type) else self.command
            returned = dict(self._objects[env, side](view) or {})
            found = {(env, int(mech)): _parsed(order) for mech, order in returned.items()}
            for (_, mech), (order, named) in found.items():
                if mech not in [own.mech for own in view.mechs]:
                    raise ValueError(
                        f"order {order.name.lower()!r} is for mech {mech}, expected a living one of its side"
                    )
                check_order(engine.batch, env, mech, order, named)
            found = {mech: order for mech, order in found.items() if self.crew is None or self.crew[mech]}
        except Exception as error:
            self.faults.append(f"{view.seconds:g} s: {type(error).__name__}: {error}")
            found = {}
        self.slow += time.perf_counter() - began >= SLOW_S
        return found

    def counts(self) -> Calls:
        return Calls(self.calls, len(self.faults), self.slow, self.faults[0] if self.faults else "")

    def report(self) -> str:
        """Return a line about calls that failed or were slow, "" if there are none."""
        faults = f"{len(self.faults)} failed, the first at {self.faults[0]}" if self.faults else ""
        slow = f"{self.slow} took {SLOW_S:g} s or longer" if self.slow else ""
        found = "; ".join(filter(None, (faults, slow)))
        return f"of {self.calls} calls of the commander {found}" if found else ""


def _parsed(order: Any) -> tuple[Order, int]:
    name, named = (order or "none", -1) if order is None or isinstance(order, str) else order
    if name not in ORDER_NAMES:
        raise ValueError(f"order {name!r} does not exist, expected one of: {', '.join(ORDER_NAMES)}")
    return Order(ORDER_NAMES.index(name)), int(named)


def view_of(engine: Engine, env: int, side: int) -> View:
    names = ("team", "alive", "chassis", "pos", "hp", "order_kind", "visible", "zone", "size", "score", "tick")
    row = {name: engine.batch.row(name, env) for name in names}
    own = (row["team"] == side) & (row["alive"] == 1)
    seen = (row["team"] != side) & (row["alive"] == 1) & row["visible"][own].any(axis=0)
    tables = engine.batch.tables(env).chassis

    def mechs(chosen: Any) -> tuple[SeenMech, ...]:
        return tuple(
            SeenMech(
                mech=m,
                chassis=CHASSIS[row["chassis"][m]].chassis.name.lower(),
                pos=tuple(row["pos"][m].tolist()),
                hp=float(row["hp"][m]) / tables[row["chassis"][m]].hp,
                order=ORDER_NAMES[row["order_kind"][m]] if row["team"][m] == side else "none",
            )
            for m in chosen.nonzero()[0].tolist()
        )

    return View(
        side=("blue", "red")[side],
        seconds=float(row["tick"]) * engine.cfg.dt_sim,
        size=tuple(row["size"][:2].tolist()),
        zone=tuple(row["zone"].tolist()),
        score=(float(row["score"][side]), float(row["score"][1 - side])),
        mechs=mechs(own),
        hostiles=mechs(seen),
    )


def command(engine: Engine, sides: Mapping[tuple[int, int], Commander]) -> None:
    """Let commanders give orders where a second has passed, by environment and side; call it before a step."""
    every, decision = max(1, round(COMMAND_S / engine.cfg.dt_act)), engine.batch.numpy("decision")
    given: dict[tuple[int, int], tuple[Order, int]] = {}
    for (env, side), commander in sides.items():
        if decision[env] % every == 0:
            given |= commander.orders(engine, env, side)
    if given:
        engine.give_orders(given)
