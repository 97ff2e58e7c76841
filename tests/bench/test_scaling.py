"""Growth of the simulation cost per mech with the number of mechs; needs an idle machine."""

from statistics import median

import pytest

from echelon.bench import scenes
from echelon.bench.phases import sums_by_prefix

QUADRATIC = 4.0
"""Cost ratio of a mech among 40 to one among 10 if the cost per mech grew linearly with their number."""


@pytest.mark.bench
def test_movement_and_weapon_cost_grows_subquadratically():
    costs = {}
    for packs, envs in ((1, 64), (4, 16)):
        with scenes.battle(packs, envs=envs, observe=False, maps=16) as env:
            alive = [float(env.results.alive.sum())]
            trees = [sums_by_prefix(scenes.phase_tree(env)) for _ in range(5)]
            alive.append(float(env.results.alive.sum()))
        for phase in ("tick.movement", "tick.weapons"):
            costs[packs, phase] = median(tree[phase] for tree in trees) / (sum(alive) / 2)
    for phase in ("tick.movement", "tick.weapons"):
        ratio = costs[4, phase] / costs[1, phase]
        print(f"{phase}: cost per mech among 40 is {ratio:.2f} times that among 10")
        assert ratio < 0.5 * QUADRATIC, phase
