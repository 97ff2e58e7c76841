"""How the cost of a mech grows with the number of others; run on an idle machine with -m bench."""

from __future__ import annotations

from statistics import median

import pytest

from echelon.bench import scenes
from echelon.bench.phases import fold

QUADRATIC = 4.0
"""How often as much a mech among 40 would cost as one among 10, if all that it costs grew with the others."""


@pytest.mark.bench
def test_movement_and_weapon_cost_grows_subquadratically():
    costs = {}
    for packs, envs in ((1, 64), (4, 16)):
        with scenes.battle(packs, envs=envs, observe=False, maps=16) as env:
            alive = [float(env.alive_now.sum())]
            trees = [fold(scenes.phase_tree(env)) for _ in range(5)]
            alive.append(float(env.alive_now.sum()))
        for phase in ("tick.movement", "tick.weapons"):
            costs[packs, phase] = median(tree[phase] for tree in trees) / (sum(alive) / 2)
    for phase in ("tick.movement", "tick.weapons"):
        ratio = costs[4, phase] / costs[1, phase]
        print(f"{phase}: a mech among 40 costs {ratio:.2f} times one among 10")
        assert ratio < 0.5 * QUADRATIC, phase
