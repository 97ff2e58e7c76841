"""Display options: alerts, ablations, swapped suites, attention budget."""

import numpy as np
import pytest

from echelon.config import DisplayConfig, EnvConfig
from echelon.env import display, layout
from echelon.env.suites import SuiteType
from echelon.sim.arsenal import Weapon
from tests.env.battle import Battle
from tests.env.display_scenes import AT, CLASS, HEAVY, MEDIUM, SCOUT, VALID, contacts, duel, hide, next_decision
from tests.oracles import sensing as sense
from tests.parity.scenes import clutter, scatter, snapshot, stir

MECHS = 20


def slots_after(change, **options) -> list[int]:
    """Return the slots of a heavy after ``change`` to a scene with two hostiles ahead and a friend behind them."""
    battle = Battle(observation_mode="full", display=DisplayConfig(**options))
    battle.empty()
    battle.place(0, HEAVY, 20, 30)
    battle.place(1, SCOUT, 45, 40)
    battle.place(5, MEDIUM, 32, 30)
    battle.place(6, HEAVY, 40, 30)
    battle.put("hostile_only", 1, 0)
    battle.put("contact", -1, 0)
    change(battle)
    battle.observe()
    slots = battle["contact"][0, 0, :5].tolist()
    return slots


def missile(battle: Battle) -> None:
    battle.put_round(6, Weapon.MISSILE, (30.0, 30.0, 5.0), target=0)


def crash(battle: Battle) -> None:
    battle.put("pos", (24.0, 30.0, 1.5), 1)
    battle.put("vel", (-6.0, 0.0, 0.0), 1)


def ambush(battle: Battle) -> None:
    battle.put("pos", (14.0, 30.0, 2.0), 6)
    battle.put("pos", (22.0, 30.0, 2.0), 5)


def paint(battle: Battle) -> None:
    battle.put("painted", 50, 0)
    battle.put("painter", 6, 0)


ALERTS = {missile: 6, crash: 1, ambush: 6, paint: 6, lambda b: b.put("heat", 125.0, 0): 5,
          lambda b: b.put("stability", 10.0, 0): 5}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), ALERTS.items())
def test_alert_takes_slot_0_of_the_heavy_suite_despite_the_filter(change, expected):
    assert slots_after(change)[0] == expected
    assert slots_after(lambda battle: None) == [5, 6, -1, -1, -1]
    assert sorted(slots_after(change, alerts=False)) == [-1, -1, -1, 5, 6]


def test_alert_never_shows_an_unknown_mech():
    battle = duel(viewer=HEAVY)
    battle.place(6, HEAVY, 55, 30)
    missile(battle)
    battle.observe()
    assert not battle["visible"][0, 0, 6] and 6 not in battle["contact"][0, 0]


def random_battle(**options) -> Battle:
    battle = Battle(num_packs=2, size=40, edit=clutter(np.random.default_rng(3)), display=DisplayConfig(**options))
    rng = np.random.default_rng(8)
    scatter(battle, rng)
    stir(battle, rng)
    battle.observe()
    return battle


def test_display_ablation_removes_only_its_columns():
    plain = random_battle()
    living = plain["alive"][0] == 1
    block = {name: slice(*span) for name, span in AT.items()}
    for option, columns in (("scope", slice(AT["ego_state"][0], AT["ego_state"][0] + 4)),
                          ("descriptor", block["suite_descriptor"]),
                          ("alerts", slice(AT["panel_stats"][0] + 6, AT["panel_stats"][0] + 7))):  # fmt: skip
        off = random_battle(**{option: False})
        assert plain.obs[0, living][:, columns].any() and not off.obs[0, :, columns].any(), option
        if option != "alerts":
            rest = np.ones(plain.obs.shape[-1], bool)
            rest[columns] = False
            assert np.array_equal(plain.obs[0][:, rest], off.obs[0][:, rest]), f"{option} changes other columns"


def test_oracle_display_shows_every_living_mech_exactly():
    battle = random_battle(oracle=True)
    alive = battle["alive"][0] == 1
    for m in np.flatnonzero(alive):
        slots = battle["contact"][0, m]
        assert len(slots[slots >= 0]) == alive.sum() - 1 or battle["hostile_only"][0, m]
        rows = contacts(battle, m)[slots >= 0]
        assert (rows[:, VALID] == 1).all() and set(np.unique(rows[:, CLASS])) <= {0.0, 1.0}


def test_keeps_slots_off_ranks_contacts_afresh_each_step():
    battle = random_battle(keeps_slots=False, alerts=False, memory_s=0.0, degrades=False)
    s = snapshot(battle, 0)
    for m in range(MECHS):
        expected = sense.contacts(s, m, seen=lambda s, m, j: s.visible[m, j])
        assert battle["contact"][0, m].tolist() == expected + [-1] * (20 - len(expected))


def test_reports_off_hides_painted_mechs():
    seen = []
    for reports in (True, False):
        battle = duel(display=DisplayConfig(reports=reports))
        hide(battle, 0, 5)
        battle.put("painted", 50, 5)
        battle.put("painter", 0, 5)
        battle.observe()
        seen.append(bool(battle["visible"][0, 0, 5]))
    assert seen == [True, False]


@pytest.mark.parametrize(("suites", "of_heavy"), [("own", 3), ("swapped", 0), ("light", 1)])
def test_swapped_suites_change_slots_and_descriptor(suites, of_heavy):
    cfg = EnvConfig(display=DisplayConfig(suites=suites))
    assert display.suites(cfg)[HEAVY].suite == SuiteType(of_heavy)
    battle = Battle(display=DisplayConfig(suites=suites))
    low = AT["suite_descriptor"][0]
    assert battle.obs[0, 0, low + of_heavy] == 1 and battle["chassis"][0, 0] == HEAVY


@pytest.mark.parametrize(("points", "slots"), [(0, (20, 10, 6, 5)), (100, (18, 5, 5, 5)), (20, (2, 0, 0, 2))])
def test_attention_budget_reduces_contact_slots(points, slots):
    cfg = EnvConfig(display=DisplayConfig(attention=points))
    assert tuple(display.constants(cfg)["suite_slots"][0]) == slots


@pytest.mark.parametrize("fill", ["quotas", "suite"])
@pytest.mark.parametrize(("points", "calm"), [(1, 0), (14, 1), (100, 5)])
def test_alert_slot_is_free_of_the_attention_budget(points, calm, fill):
    expected = [j for j in slots_after(lambda battle: None, attention=points, fill=fill) if j >= 0]
    assert len(expected) == min(2, calm)
    during = slots_after(missile, attention=points, fill=fill)
    assert during[0] == 6 and len([j for j in during if j >= 0]) == min(2, calm + 1)


def test_display_without_slots_has_an_empty_panel():
    battle = Battle(display=DisplayConfig(attention=1))
    assert not any(display.constants(battle.cfg)["suite_slots"][0])
    assert not battle["bad_obs"].any() and not battle.obs[..., layout.offset("panel")].any()


def test_classic_layout_ignores_display_options():
    rows = []
    for options in (DisplayConfig(), DisplayConfig(noise=1.0, memory_s=0.0, oracle=True, scope=False, suites="scout")):
        battle = Battle(num_packs=2, size=40, obs_layout="classic", display=options)
        scatter(battle, np.random.default_rng(4))
        battle.observe()
        rows.append(battle.obs.copy())
    assert np.array_equal(rows[0], rows[1]) and rows[0].any()


def test_columns_keep_their_bounds_with_extreme_display_options():
    cfg = DisplayConfig(noise=1.0, jam_confidence=1.0, quality_age_s=60.0)
    battle = Battle(num_packs=2, size=36, display=cfg)
    low, high = layout.bounds(battle.cfg)
    for seed in range(5):
        scatter(battle, np.random.default_rng(seed))
        battle.put("ecm", 1)
        next_decision(battle)
        battle.observe()
        assert ((battle.obs >= low) & (battle.obs <= high)).all()
