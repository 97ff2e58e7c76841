"""No pilot acts on what it could not know: hostiles that nobody perceives, and what became of others just now.

Nothing moves in these scenes: the same decisions are taken twice, once with the truth about hostiles changed where and
when a pilot cannot know it. Whatever leaks, changes an action.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from echelon.agents.heuristic import install, script_of
from echelon.agents.levels import LEVELS, delay_decisions
from echelon.sim.arsenal import Chassis
from tests.env.battle import Battle

BLUE, RED = slice(0, 5), slice(5, 10)
FACTS: dict[str, Callable[[Battle, slice, np.random.Generator], None]] = {
    "pos": lambda b, who, rng: b.put("pos", b["pos"][0, who] + rng.uniform(-6, 6, (5, 3)) * [1, 1, 0], who),
    "vel": lambda b, who, rng: b.put("vel", rng.uniform(-6, 6, (5, 3)), who),
    "yaw": lambda b, who, rng: b.put("yaw", rng.uniform(-3, 3, 5), who),
    "hp": lambda b, who, rng: b.put("hp", rng.uniform(1, 40, 5), who),
    "fallen": lambda b, who, rng: b.put("fallen", rng.integers(0, 2, 5) * 50, who),
    "shutdown": lambda b, who, rng: b.put("shutdown", rng.integers(0, 2, 5), who),
    "alive": lambda b, who, rng: b.put("alive", rng.integers(0, 2, 5), who),
    "heat": lambda b, who, rng: b.put("heat", rng.uniform(0, 100, 5), who),
    "cooldown": lambda b, who, rng: b.put("cooldown", rng.integers(0, 9, (5, 5)), who),
    "paint": lambda b, who, rng: paint(b, who, rng),
    "visible": lambda b, who, rng: blind(b, "visible", who, rng),
    "sight": lambda b, who, rng: blind(b, "sight", who, rng),
}
"""What there is to know of hostiles, and how it is changed."""
UNSEEN = tuple(name for name in FACTS if name not in ("visible", "sight", "paint"))
"""What may change about a mech that nobody perceives, who is not painted either."""
SLOW = tuple(name for name, level in LEVELS.items() if level.delay_s > 0)
DECISIONS = 8


def paint(battle: Battle, who: slice, rng: np.random.Generator) -> None:
    """Have blue paint half of red."""
    battle.put("painted", rng.integers(0, 2, 5) * 90, who)
    battle.put("painter", rng.integers(0, 5, 5), who)


def blind(battle: Battle, sense: str, who: slice, rng: np.random.Generator) -> None:
    """Take half of what blue perceives of red by one of the senses."""
    found = battle[sense].copy()
    found[0, BLUE, who] *= rng.integers(0, 2, (5, 5)).astype(np.uint8)
    battle.batch.set(sense, found)


def scene(battle: Battle, skill: str, seed: int) -> None:
    """Everybody close together in the open, in the zone and out of it, blue flown by ``skill``; nothing known yet."""
    rng = np.random.default_rng(seed)
    battle.batch["forced_seed"].fill_(seed)
    battle.engine.reset()
    battle.batch["script"].fill_(0)
    battle.batch["weapon_prob"].fill_(1.0)
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(3)), axis=-1).reshape(-1, 2)[rng.permutation(12)[:10]]
    for mech, place in enumerate(16 + 7.0 * grid + rng.uniform(-1, 1, (10, 2))):
        battle.place(mech, list(Chassis)[rng.integers(0, 4)], *place, yaw=rng.uniform(-3, 3))
    battle.put("script", script_of(skill), BLUE)
    for name in ("fallen", "shutdown", "painted"):
        battle.put(name, 0)
    battle.look()


def decide(battle: Battle, decision: int) -> np.ndarray:
    """What blue does at a decision of the standing scene."""
    battle.batch.set("decision", np.array([decision], np.int32))
    battle.play("fly", lambda: [x for x in battle.engine.decision() if x.phase.startswith("pilots")])
    return battle["actions"][0, BLUE].copy()


@pytest.fixture(scope="module")
def field():
    made = Battle(pilots=install)
    yield made
    made.close()


@pytest.mark.parametrize("skill", list(LEVELS))
def test_actions_ignore_unperceived_hostiles(field, skill):
    """Not even one that stands within a voxel: pilots do not feel for mechs that they do not know of."""

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


def late(field: Battle, skill: str, fact: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Actions [decision, mech, column] without and with a change of every hostile at the last decisions.

    Of these each level is allowed to know at the last one alone.
    """
    changed = DECISIONS - delay_decisions(LEVELS[skill], 0.25) - 1
    told = []
    for changes in (False, True):
        scene(field, skill, seed)
        acted = []
        for k in range(DECISIONS):
            if changes and k == changed:
                FACTS[fact](field, RED, np.random.default_rng(seed))
            acted.append(decide(field, k))
        told.append(np.array(acted))
    return told[0], told[1]


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("skill", SLOW)
def test_actions_ignore_hostile_changes_within_reaction_delay(field, skill, fact):
    for seed in range(8):
        truth, change = late(field, skill, fact, seed)
        np.testing.assert_array_equal(truth[:-1], change[:-1], err_msg=f"seed {seed}")


@pytest.mark.parametrize("fact", ["pos", "alive", "visible"])
@pytest.mark.parametrize("skill", SLOW)
def test_actions_reflect_hostile_changes_after_reaction_delay(field, skill, fact):
    """The test above could fail: once it is late enough, what it changes does show."""
    assert any(not np.array_equal(*(acted[-1] for acted in late(field, skill, fact, seed))) for seed in range(4))


@pytest.mark.parametrize("fact", ["yaw", "hp", "fallen", "shutdown", "sight", "paint"])
def test_hard_pilot_reflects_secondary_facts_after_reaction_delay(field, fact):
    assert any(not np.array_equal(*(acted[-1] for acted in late(field, "hard", fact, seed))) for seed in range(12))
