"""Scripted pilots obey orders."""

import numpy as np
import pytest

from echelon.actions import Order
from echelon.agents import heuristic
from echelon.env.reward import TERM_NAMES
from tests.env.battle import Battle
from tests.parity.scenes import clutter

NAMED = {Order.FOCUS: 7, Order.SCREEN: 0}


@pytest.mark.parametrize("level", ["medium", "hard", "expert"])
def test_pilots_obey_every_order_and_do_otherwise_without(level):
    kinds = list(Order)[1:]
    battle = Battle(envs=14, seed=4, edit=clutter(np.random.default_rng(2), 15), num_packs=1, pilots=heuristic.install)
    battle.batch["script"].fill_(heuristic.script_of(level))
    obeyed, targets = np.zeros((60, 14, 4)), np.zeros((60, 14, 4))
    for step in range(60):
        if step == 20:
            given = {(e, m): (k, NAMED.get(k, -1)) for e, k in enumerate(2 * kinds) for m in range(1, 5)}
            battle.engine.give_orders(given)
        hidden = {name: battle[name][7:].copy() for name in ("order_kind", "order_goal")}
        for name in hidden:
            battle[name][7:] = 0
        battle.engine.run("pilots")
        for name, values in hidden.items():
            battle[name][7:] = values
        battle.engine.step(program="after_pilots")
        amounts, targets[step] = battle["amounts"][:, 1:5, TERM_NAMES.index("obey")], battle["pilot_target"][:, 1:5]
        obeyed[step] = np.where(battle["alive"][:, 1:5], amounts, np.nan)
    mean = np.nanmean(obeyed[21:], axis=(0, 2))
    for e, kind in enumerate(kinds):
        if kind == Order.FOCUS:
            first, without = targets[20:24, e], targets[20:24, e + 7]
            assert (first[first >= 0] == 7).all() and (first == 7).any() and (without[without >= 0] != 7).any(), level
        else:
            assert mean[e] > 0.6 and mean[e] >= mean[e + 7], f"{kind.name}: {mean[e]:.2f}, without it {mean[e + 7]:.2f}"
