"""The state of a match has everything that a step reads, and every array of it has limits."""

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.config import EnvConfig
from echelon.env.engine_state import EngineStateMismatch
from echelon.env.match_state import (
    INTEGERS,
    MARKED_PAINTERS,
    OMITTED,
    POSITIONS,
    SETTINGS,
    load_match_state,
    save_match_state,
    state_names,
)
from echelon.sim.state import World
from echelon.sim.structs import fields_of
from tests.env.battle import Battle

GAMES = {"suite": EnvConfig(), "classic": EnvConfig(obs_layout="classic"), "scope": EnvConfig(observe_scope=True)}


def battle(game: EnvConfig, seed: int = 3, envs: int = 1) -> Battle:
    options = {name: getattr(game, name) for name in ("obs_layout", "observe_scope")}
    made = Battle(envs=envs, size=32, seed=seed, pilots=heuristic.install, **options)
    made.batch.set("script", np.full((envs, made.cfg.num_mechs), heuristic.script_of("hard"), np.int32))
    made.batch.set("forced_seed", np.full(envs, seed, np.int32))
    made.engine.reset()
    return made


@pytest.mark.parametrize("game", GAMES)
def test_every_integer_array_has_limits(game):
    made = battle(GAMES[game])
    for name in state_names(made.engine):
        values = made.batch.numpy(name)
        if values.dtype.kind == "i":
            assert (name in INTEGERS) != (name in MARKED_PAINTERS), f"{name} needs limits in INTEGERS"
        assert not name.endswith("_pos") or name in POSITIONS, f"{name} needs to be in POSITIONS"


@pytest.mark.parametrize("game", GAMES)
def test_step_reads_nothing_that_the_state_omits(game):
    one, two = battle(GAMES[game]), battle(GAMES[game], envs=2)
    for _ in range(30):
        one.step()
    untouched = {*fields_of(World), *SETTINGS, "present", "team", "pack", "chassis", "telemetry", "bin_stale"}
    for name in OMITTED - untouched:
        if name in two.batch.fields:
            values = two.batch.numpy(name)
            values[...] = 1 if values.dtype.kind in "iu" else 0.5
    load_match_state(two.engine, save_match_state(one.engine, 0))
    for step in range(12):
        expected = save_match_state(one.engine, 0)
        for env in range(2):
            found = save_match_state(two.engine, env)
            assert not [name for name in expected if not np.array_equal(found[name], expected[name])], f"step {step}"
            np.testing.assert_array_equal(two.obs[env], one.obs[0])
        one.step()
        two.step()


def test_state_of_an_engine_without_an_array_is_rejected():
    one, two = battle(GAMES["suite"]), battle(GAMES["scope"])
    before = save_match_state(two.engine, 0)
    with pytest.raises(EngineStateMismatch, match="has no array 'heard'"):
        load_match_state(two.engine, save_match_state(one.engine, 0))
    after = save_match_state(two.engine, 0)
    assert all(np.array_equal(before[name], after[name]) for name in before)
