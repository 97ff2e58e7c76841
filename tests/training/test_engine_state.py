"""A saved engine state fits the engine, also one with more reward terms, or is rejected before anything changes."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

from echelon.env import reward
from echelon.env.engine_state import FIRST_TERMS, TERMS, EngineStateMismatch, load_engine_state, save_engine_state
from echelon.sim.state import Mechs
from echelon.sim.tables import NUM_WEAPONS
from tests.env.battle import Battle
from tests.state_hash import state_hash


@pytest.fixture(scope="module")
def battle():
    return Battle(size=40)


def extended(values: np.ndarray) -> np.ndarray:
    """Return an array with one more entry on its last axis, as more weapons or rounds would have."""
    return np.concatenate([values, values[..., -1:]], axis=-1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"hit_damage": extended},
            rf"engine state does not fit: array 'hit_damage' is .* \(1, 10, {NUM_WEAPONS + 1}\), expected",
        ),
        ({"round_weapon": extended}, "array 'round_weapon' .*; it was saved with other tables or by another version"),
        ({"hp": np.float64}, "array 'hp' is float64 .*, expected float32"),
        ({"size": lambda size: size + 1}, "engine state has maps of other sizes than the map bank"),
        ({"map_slot": lambda slot: slot + 7}, "engine state has maps of other sizes than the map bank"),
    ],
)
def test_load_engine_state_rejects_other_tables_unchanged(battle, change, message):
    battle.engine.reset()
    before = state_hash(battle.batch, 0)
    state = save_engine_state(battle.engine)
    state["heat"] = state["heat"] + np.float32(5)
    for name, make in change.items():
        state[name] = np.asarray(make(state[name]))
    with pytest.raises(EngineStateMismatch, match=message) as caught:
        load_engine_state(battle.engine, state)
    assert "\n" not in str(caught.value) and state_hash(battle.batch, 0) == before


def test_load_engine_state_rejects_unknown_array(battle):
    state = save_engine_state(battle.engine) | {"morale": np.zeros(1)}
    with pytest.raises(EngineStateMismatch, match="array 'morale', which this version does not have"):
        load_engine_state(battle.engine, state)


@wp.kernel
def term_added(mechs: Mechs, column: wp.int32, amounts_out: wp.array3d(dtype=wp.float32)):
    """One for every living mech."""
    e, m = wp.tid()
    amounts_out[e, m, column] = float(mechs.alive[e, m])


@pytest.fixture
def with_term():
    """Return an engine with one more reward term, which is not the last column."""
    return Battle(size=40, terms=(*reward.TERMS, reward.Term("added", term_added, weight=0.5)))


@pytest.mark.parametrize("has_names", [True, False], ids=["names", "without names"])
def test_load_engine_state_places_reward_terms_by_name(battle, with_term, has_names):
    battle.engine.reset()
    for _ in range(3):
        battle.step()
    state = save_engine_state(battle.engine)
    saved = battle.engine.term_names
    if not has_names:
        saved = FIRST_TERMS
        del state[TERMS]
    placed = ("sum_terms", "done_terms", "terms", "amounts")
    for number, name in enumerate(placed):
        state[name] = np.arange(10 * len(saved), dtype=np.float32).reshape(1, 10, -1) + number
    load_engine_state(with_term.engine, state)
    names = with_term.engine.term_names
    assert {*saved, "added"} <= {*names} and names.index("added") == len(names) - 2
    for name in placed:
        columns = [names.index(term) for term in saved]
        np.testing.assert_array_equal(with_term[name][..., columns], state[name])
        assert not np.delete(with_term[name], columns, axis=-1).any()
    assert state_hash(with_term.batch, 0) == state_hash(battle.batch, 0)
    battle.step()
    with_term.step()
    assert state_hash(with_term.batch, 0) == state_hash(battle.batch, 0)
    assert (with_term["sum_terms"][..., names.index("added")] == 0.5).all()


def test_load_engine_state_rejects_reward_term_that_the_engine_lacks(battle, with_term):
    before = state_hash(battle.batch, 0)
    with pytest.raises(
        EngineStateMismatch, match="engine state has reward term 'added', expected one of approach, zone"
    ):
        load_engine_state(battle.engine, save_engine_state(with_term.engine))
    assert state_hash(battle.batch, 0) == before


@pytest.mark.parametrize("names", [b"", b"approach\nzone", b"\xff\xfe", b"\n".join([b"zone"] * 7)])
def test_load_engine_state_rejects_names_of_other_columns(battle, names):
    battle.engine.reset()
    state = save_engine_state(battle.engine) | {TERMS: np.frombuffer(names, np.uint8)}
    with pytest.raises(EngineStateMismatch, match="only new episodes can begin"):
        load_engine_state(battle.engine, state)
