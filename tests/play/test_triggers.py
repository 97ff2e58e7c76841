"""Why a trigger does nothing: the reasons of a seat agree with the simulator's weapons phase."""

import numpy as np

from echelon.play.match import NewMatch, begin_match
from echelon.play.triggers import Triggers
from echelon.play_protocol import HOLDS
from echelon.sim.arsenal import CHASSIS
from echelon.sim.backend import Launch, in_phase
from echelon.sim.kernels import fire, sensing
from echelon.sim.step import MECH
from tests.arena.recorded_matches import small_game

STATES = 12
ALL_TRIGGERS = 15


def test_weapon_without_a_reason_is_one_that_the_kernel_fires(tmp_path):
    played = begin_match(NewMatch(env=small_game(size=60), seed=4), tmp_path / "holds.ecr", {})
    engine = played.engine
    programs = [Launch(sensing.sense_for_launch, MECH), Launch(fire.choose_targets, MECH)]
    engine.programs["choose"] = lambda: in_phase("choose", programs)
    view = {name: engine.batch.row(name, 0) for name in engine.batch.fields}
    mechs, draws = engine.num_mechs, np.random.default_rng(3)
    triggers = [Triggers(engine, m) for m in range(mechs)]
    carried = [[int(w) for w in CHASSIS[c].carries] for c in view["chassis"]]
    start, seen = view["pos"].copy(), set()
    for state in range(STATES):
        view["pos"][:] = start
        view["pos"][:, :2] = draws.uniform(5, 55, (mechs, 2))
        view["yaw"][:] = draws.uniform(-3, 3, mechs)
        view["heat"][:] = draws.choice([0.0, 500.0], mechs, p=[0.9, 0.1])
        view["fallen"][:] = draws.choice([0, 9], mechs, p=[0.9, 0.1])
        view["cooldown"][:] = draws.choice([0, 7], view["cooldown"].shape, p=[0.8, 0.2])
        view["painted"][:] = draws.choice([0, 30], mechs)
        view["painter"][:] = draws.integers(0, mechs, mechs)
        engine.batch.set("withheld", np.array([2 if state % 4 == 3 else 0], np.int32))
        alone = (view["team"] == 0) | (state > 0)  # in the first state nobody is left to fire at
        engine.batch.set("alive", ((draws.random((1, mechs)) < 0.9) & alone).astype(np.int32))
        engine.run("observe")
        view["trigger"][:] = ALL_TRIGGERS
        engine.run("choose")
        for m in range(mechs):
            hostile = np.flatnonzero((view["team"] != view["team"][m]) & (view["alive"] == 1))
            holds = triggers[m].holds(hostile, view["pos"][hostile])
            for w in carried[m]:
                fires = view["aim"][m, w] != fire.HOLD_FIRE
                assert (holds[w] == 0) == fires, (state, m, w, HOLDS[holds[w]])
                seen.add(HOLDS[holds[w]])
    played.finish()
    assert seen == set(HOLDS)
