"""What mechs hear, against a plain loop over all of them."""

from __future__ import annotations

import numpy as np

from echelon.env import layout
from tests.env.battle import Battle
from tests.oracles import sensing as rules
from tests.parity.scenes import clutter, scatter, snapshots


def test_acoustic_quadrants_match_reference_loop():
    battle = Battle(envs=8, edit=clutter(np.random.default_rng(6)), own_maps=True, num_packs=2, size=40)
    scatter(battle, np.random.default_rng(3))
    battle.observe()
    names = [row.name for row in layout.columns(battle.cfg)]
    first = next(i for i, name in enumerate(names) if "front_left" in name)
    assert "rear_right" in names[first + 3]
    heard = 0
    for e, s in enumerate(snapshots(battle)):
        for m in np.flatnonzero(s.alive).tolist():
            wanted = rules.acoustic(s, m)
            np.testing.assert_allclose(battle.obs[e, m, first : first + 4], wanted, rtol=0, atol=1e-6)
            heard += sum(x > 0 for x in wanted)
    assert heard > 100
    battle.close()
