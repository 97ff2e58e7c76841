"""Contact slots by suite rules: random battles against the reference, and scenes for each suite."""

import numpy as np
import pytest

from echelon.config import DisplayConfig, EnvConfig
from echelon.env import display as display_rules
from echelon.env.suites import COMBAT_SUITES, FillRule, SuiteType
from tests.env.battle import Battle
from tests.env.display_scenes import HEAVY, LIGHT, MEDIUM, SCOUT, hide, next_decision, wall
from tests.oracles import display
from tests.oracles import slot_allocation as rules
from tests.parity.scenes import clear, clutter, recall, scatter, snapshots, stir

MECHS = 20
BY_SUITE = DisplayConfig(fill="suite")


@pytest.fixture(scope="module", params=["partial", "full"])
def battle(request):
    edit = clutter(np.random.default_rng(6))
    made = Battle(
        envs=8, edit=edit, own_maps=True, num_packs=2, size=40, observation_mode=request.param, display=BY_SUITE
    )  # fmt: skip
    rng = np.random.default_rng(12)
    scatter(made, rng)
    stir(made, rng)
    recall(made, rng)
    made.before, made.since = made["contact"].copy(), made["known_since"].copy()
    decision = made["decision"][:, None, None]
    made.since[:] = np.where(rng.random(made.since.shape) < 0.7, decision - rng.integers(0, 20, made.since.shape), -1)
    made.batch.set("known_since", made.since)
    clear(made, "quality", "jam", "aid", "sight", "visible")
    made.observe()
    made.expected = snapshots(made)
    return made


def test_suite_slots_match_the_reference(battle):
    remaining = moved = 0
    for e, s in enumerate(battle.expected):
        for m in range(MECHS):
            expected = rules.fill(s, m, battle.before[e, m].tolist())
            assert battle["contact"][e, m].tolist() == expected, f"contacts of mech {m} in environment {e}"
            same = np.array(expected) == battle.before[e, m]
            remaining, moved = remaining + int((same & (np.array(expected) >= 0)).sum()), moved + int((~same).sum())
    assert remaining > 100 and moved > 100


def test_known_since_is_the_first_step_of_a_contact(battle):
    for e, s in enumerate(battle.expected):
        for m in range(MECHS):
            known = [bool(s.alive[m]) and j != m and display.age(s, m, j) is not None for j in range(MECHS)]
            since = battle.since[e, m]
            expected = np.where(known, np.where(since < 0, s.decision, since), -1)
            assert battle["known_since"][e, m].tolist() == expected.tolist(), f"mech {m} of environment {e}"


def test_allocating_twice_in_a_step_changes_nothing(battle):
    slots, rows = battle["contact"].copy(), battle.rows.copy()
    battle.observe()
    assert np.array_equal(battle["contact"], slots) and np.array_equal(battle.rows, rows)


def scene(viewer: int, **options) -> Battle:
    """Return an observer, mech 0, at (20, 30) that faces two hostiles, near a wall that blocks sight."""
    made = Battle(edit=wall, display=BY_SUITE, **options)
    made.empty()
    made.place(0, viewer, 20, 30)
    made.place(5, SCOUT, 30, 30)
    made.place(6, HEAVY, 35, 26)
    made.put("contact", -1)
    return made


def slots(made: Battle) -> list[int]:
    made.observe()
    return made["contact"][0, 0].tolist()


def test_light_suite_shows_attacker_leader_and_zone_hostile():
    made = scene(HEAVY)
    made.place(3, LIGHT, 20, 34)
    made.place(6, HEAVY, 35, 26, yaw=np.pi - 0.2)
    made.place(1, MEDIUM, 20, 33)
    made.observe()
    shown = made["contact"][0, 3].tolist()
    assert shown[0] == 6 and shown[3:5] == [0, 1] and shown[7] == 5


def test_heavy_suite_reserves_a_slot_for_the_focus_target():
    made = scene(HEAVY, observation_mode="full")
    hide(made, 0, 5)
    made.put("focus", 5, 0)
    assert slots(made)[:5] == [-1, 6, -1, -1, 5]
    made.put("focus", -1, 0)
    made.put("contact", -1)
    assert slots(made)[:5] == [5, 6, -1, -1, -1], "a hostile out of the line of fire must fill a REST slot"


def test_new_contact_takes_a_newest_slot_of_the_scout_suite():
    made = scene(SCOUT, num_packs=3)
    for j in range(1, 15):
        made.place(j, LIGHT, 4 + j, 12)
    made.place(15, SCOUT, 33, 30)
    made.place(16, HEAVY, 35, 26)
    for j in range(17, 26):
        made.place(j, SCOUT, 36, 4 + 2 * j)
    before = slots(made)
    assert -1 not in before
    made.place(26, SCOUT, 38, 58)
    next_decision(made)
    after = slots(made)
    assert 26 in after[4:13] and len({*before} - {*after}) == 1


def test_slot_rules_cover_every_slot_of_every_suite():
    for spec in COMBAT_SUITES.values():
        assert sum(count for _, count in spec.fill) == spec.visual_contact_slots
    table = display_rules.slot_rules(EnvConfig(display=DisplayConfig(suites="heavy")))
    heavy = [FillRule.ALERT, *3 * [FillRule.FIRE_LINE], FillRule.DESIGNATED, *15 * [FillRule.REST]]
    assert (table == heavy).all()
    assert COMBAT_SUITES[SuiteType.LIGHT_SKIRMISH].fill[1] == (FillRule.FRIENDS, 4)
