"""Pilots do not act on what they cannot know: unperceived hostiles, and changes within the reaction delay.

Nothing moves in these scenes. The same decisions are taken twice, once with the state of hostiles changed where and
when a pilot cannot know it. Any leak changes an action.
"""

from collections.abc import Callable

import numpy as np
import pytest

from echelon.agents.heuristic import script_of
from echelon.agents.levels import LEVELS, delay_decisions
from echelon.sim.arsenal import Chassis
from tests.env.battle import Battle

BLUE, RED = slice(0, 5), slice(5, 10)
FACTS: dict[str, Callable[[Battle, slice, np.random.Generator], None]] = {
    "pos": lambda b, mechs, rng: b.put("pos", b["pos"][0, mechs] + rng.uniform(-6, 6, (5, 3)) * [1, 1, 0], mechs),
    "vel": lambda b, mechs, rng: b.put("vel", rng.uniform(-6, 6, (5, 3)), mechs),
    "yaw": lambda b, mechs, rng: b.put("yaw", rng.uniform(-3, 3, 5), mechs),
    "hp": lambda b, mechs, rng: b.put("hp", rng.uniform(1, 40, 5), mechs),
    "fallen": lambda b, mechs, rng: b.put("fallen", rng.integers(0, 2, 5) * 50, mechs),
    "shutdown": lambda b, mechs, rng: b.put("shutdown", rng.integers(0, 2, 5), mechs),
    "alive": lambda b, mechs, rng: b.put("alive", rng.integers(0, 2, 5), mechs),
    "heat": lambda b, mechs, rng: b.put("heat", rng.uniform(0, 100, 5), mechs),
    "cooldown": lambda b, mechs, rng: b.put("cooldown", rng.integers(0, 9, (5, 5)), mechs),
    "paint": lambda b, mechs, rng: paint(b, mechs, rng),
    "visible": lambda b, mechs, rng: hide(b, "visible", mechs, rng),
    "sight": lambda b, mechs, rng: hide(b, "sight", mechs, rng),
}
"""Functions that change each kind of knowledge of hostiles."""
UNSEEN = tuple(name for name in FACTS if name not in ("visible", "sight", "paint"))
"""Facts that may change about a hostile that is neither perceived nor painted."""
SLOW = tuple(name for name, level in LEVELS.items() if level.delay_s > 0)
DECISIONS = 8


def paint(battle: Battle, mechs: slice, rng: np.random.Generator) -> None:
    battle.put("painted", rng.integers(0, 2, 5) * 90, mechs)
    battle.put("painter", rng.integers(0, 5, 5), mechs)


def hide(battle: Battle, sense: str, mechs: slice, rng: np.random.Generator) -> None:
    found = battle[sense].copy()
    found[0, BLUE, mechs] *= rng.integers(0, 2, (5, 5)).astype(np.uint8)
    battle.batch.set(sense, found)


def scene(battle: Battle, skill: str, seed: int) -> None:
    """Place all mechs close together in the open, blue controlled by ``skill``, without perception history."""
    rng = np.random.default_rng(seed)
    battle.batch["forced_seed"].fill_(seed)
    battle.fresh()
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(3)), axis=-1).reshape(-1, 2)[rng.permutation(12)[:10]]
    for mech, (x, y) in enumerate(16 + 7.0 * grid + rng.uniform(-1, 1, (10, 2))):
        battle.place(mech, list(Chassis)[rng.integers(0, 4)], x, y, yaw=rng.uniform(-3, 3))
    battle.put("script", script_of(skill), BLUE)
    for name in ("fallen", "shutdown", "painted"):
        battle.put(name, 0)
    battle.observe()


def decide(battle: Battle, decision: int) -> np.ndarray:
    battle.fly(decision)
    return battle["actions"][0, BLUE].copy()


@pytest.mark.long
@pytest.mark.parametrize("skill", list(LEVELS))
def test_actions_ignore_unperceived_hostiles(field, skill):

    def play(fact: str | None, beside: int) -> np.ndarray:
        rng = np.random.default_rng(beside)
        scene(field, skill, seed=7)
        for sense in ("visible", "sight"):
            found = field[sense].copy()
            found[0, BLUE, RED] = 0
            field.batch.set(sense, found)
        acted = []
        for k in range(DECISIONS):
            if fact:
                FACTS[fact](field, RED, rng)
                if fact == "pos":
                    field.put("pos", field["pos"][0, beside] + [1.5, 0.5, 0], 5 + beside)
            acted.append(decide(field, k))
        return np.array(acted)

    for fact in UNSEEN:
        for beside in range(5):
            np.testing.assert_array_equal(play(None, beside), play(fact, beside), err_msg=fact)


def actions_with_and_without(field: Battle, skill: str, fact: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Actions [decision, mech, column] without and with a change of every hostile, the reaction delay before the end.

    Only the last decision may reflect the change.
    """
    changed = DECISIONS - delay_decisions(LEVELS[skill], 0.25) - 1
    found = []
    for changes in (False, True):
        scene(field, skill, seed)
        acted = []
        for k in range(DECISIONS):
            if changes and k == changed:
                FACTS[fact](field, RED, np.random.default_rng(seed))
            acted.append(decide(field, k))
        found.append(np.array(acted))
    return found[0], found[1]


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("skill", SLOW)
def test_actions_ignore_hostile_changes_within_reaction_delay(field, skill, fact):
    for seed in range(8):
        truth, change = actions_with_and_without(field, skill, fact, seed)
        np.testing.assert_array_equal(truth[:-1], change[:-1], err_msg=f"seed {seed}")


@pytest.mark.parametrize("fact", ["pos", "alive", "visible"])
@pytest.mark.parametrize("skill", SLOW)
def test_actions_reflect_hostile_changes_after_reaction_delay(field, skill, fact):
    assert any(
        not np.array_equal(*(acted[-1] for acted in actions_with_and_without(field, skill, fact, seed)))
        for seed in range(4)
    )


@pytest.mark.parametrize("fact", ["yaw", "hp", "fallen", "shutdown", "sight", "paint"])
def test_hard_pilot_reflects_secondary_facts_after_reaction_delay(field, fact):
    assert any(
        not np.array_equal(*(acted[-1] for acted in actions_with_and_without(field, "hard", fact, seed)))
        for seed in range(12)
    )
