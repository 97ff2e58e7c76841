"""Why a weapon does not fire when its trigger is held, as far as the pilot of its mech knows.

The conditions are the functions that the kernel ``choose_targets`` calls (``echelon.sim.kernels.fire``), called here on
the contacts of one pilot: a hostile that it does not know of gives no reason away.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.env.engine import Engine
from echelon.play_protocol import HOLDS
from echelon.sim.geometry import cos_sin
from echelon.sim.kernels import fire, sensing, upkeep
from echelon.sim.tables import NUM_WEAPONS, pack_rules

AIMED = (fire.HITSCAN, fire.HOMING)
"""Guidance of weapons that fire only at a target; others fire ahead without one."""


class Triggers:
    """The weapons of one mech in the only environment of an engine on the CPU."""

    def __init__(self, engine: Engine, mech: int, view: Mapping[str, NDArray[Any]]) -> None:
        self._view, self._mech, self._batch = view, mech, engine.batch
        rules = pack_rules(engine.cfg, engine.batch.tables(0), "cpu")
        rows = {name: getattr(rules, name).numpy().view(np.recarray) for name in ("weapons", "chassis")}
        limits = {name: getattr(rules, name) for name in ("paint_quality", "shutdown_restart")}
        self._rules = SimpleNamespace(**rows, **limits)
        self._mechs = SimpleNamespace(**{name: view[name][None] for name in ("painted", "painter", "team", "pack")})
        chassis = int(view["chassis"][mech])
        self._carried = [w for w in range(NUM_WEAPONS) if rules.trigger_of.numpy()[chassis, w] >= 0]

    def holds(self, hostile: NDArray[np.int64], places: NDArray[np.float32], quality: float) -> list[int]:
        """Return the index in ``HOLDS`` of each weapon, in the order of ``Weapon``; 0 for those that would fire.

        ``hostile`` are the hostiles that the pilot knows of, ``places`` their positions as it knows them.
        """
        reasons = [""] * NUM_WEAPONS
        for w in self._carried:
            reasons[w] = self._state() or self._weapon(w) or self._targets(w, hostile, places, quality)
        return [HOLDS.index(reason) for reason in reasons]

    def _state(self) -> str:
        view, m = self._view, self._mech
        if not view["alive"][m]:
            return "destroyed"
        if view["fallen"][m] > 0:
            return "knocked down"
        hot = upkeep.overheated.func(self._rules, view["chassis"][m], view["heat"][m], view["shutdown"][m])
        return "overheated" if hot else ""

    def _weapon(self, w: int) -> str:
        row = self._rules.weapons[w]
        if row.needs & int(self._batch.numpy("withheld")[0]):
            return "disabled"
        return "reloading" if self._view["cooldown"][self._mech, row.cooldown] > 0 else ""

    def _targets(self, w: int, hostile: NDArray[np.int64], places: NDArray[np.float32], quality: float) -> str:
        """Return the reason of the target that the weapon comes nearest to lock on, "" if it locks on one."""
        row, view, m = self._rules.weapons[w], self._view, self._mech
        if row.guidance not in AIMED:
            return ""
        cs, found = cos_sin(float(view["yaw"][m])), "no target"
        for j, place in zip(hostile.tolist(), places, strict=True):
            delta = wp.vec3(*(place - view["pos"][m]).tolist())
            paint = fire.is_painted_for.func(self._mechs, 0, m, j)
            sees = view["sight"][m, j] == sensing.CLEAR
            if not fire.in_arc.func(delta, cs, row.arc_cos):
                reason = "out of arc"
            elif (away := wp.length(delta)) > row.range_vox:
                reason = "out of range"
            elif not fire.locks.func(self._rules, w, away, sees, paint, quality):
                reason = "no paint" if away > row.sight_range_vox else "no sight"
            else:
                return ""
            found = max(found, reason, key=HOLDS.index)
        return found
