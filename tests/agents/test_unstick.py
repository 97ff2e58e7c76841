"""Stuck detection and the manoeuvre of backing out, at any tick and decision length; the policy object of a pilot."""

import numpy as np
import pytest

from echelon.agents.heuristic import install, script_of
from echelon.sim.arsenal import Chassis
from tests.env.battle import Battle
from tests.oracles import pilot as rules
from tests.parity.scenes import snapshots

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
FORWARD, STRAFE = 0, 1
TRIGGERS = [4, 6, 7, 8]


@pytest.fixture
def duel(duel):
    """An empty field whose mechs are easy pilots, the weakest that back out."""
    duel.batch["script"].fill_(script_of("easy"))
    return duel


@pytest.mark.parametrize(("dt", "repeat"), [(0.05, 5), (0.025, 10), (0.1, 1)])
def test_pilot_backs_out_when_stuck_for_2_5_seconds_at_any_clock(dt, repeat):
    battle = Battle(pilots=install, dt_sim=dt, decision_repeat=repeat)
    battle.empty()
    battle.place(0, MEDIUM, 10, 30)
    battle.place(5, SCOUT, 59, 30)
    battle.put("script", script_of("easy"), 0)
    battle.observe()
    held, step_s, log = battle["pos"][0, 0].copy(), dt * repeat, []
    for k in range(round(6.0 / step_s)):
        battle.step()
        battle.put("pos", held, 0)
        forward, strafe = battle["actions"][0, 0, [FORWARD, STRAFE]]
        log.append((round(k * step_s, 3), float(forward), float(strafe)))
    back = [t for t, forward, _ in log if forward == -1]
    aside = [t for t, _, strafe in log if abs(strafe) == 1]
    idle = [t for t, forward, strafe in log if forward == 0 == strafe]
    assert idle[0] == pytest.approx(2.5, abs=2 * step_s), "stuck after 2.5 s without progress"
    assert back[0] == pytest.approx(idle[0] + step_s, abs=1e-3)
    assert len(back) * step_s == pytest.approx(1.0, abs=0.01)
    assert len(aside) * step_s == pytest.approx(1.0, abs=0.01) and aside[0] > back[-1]
    assert aside[-1] - back[0] + step_s == pytest.approx(2.0, abs=0.01)
    assert log[-1][1] > 0.5, "it continues toward the zone"


def test_stuck_detection_ignores_a_mech_that_cannot_walk(duel):
    duel.place(0, HEAVY, 10, 30)
    for _ in range(24):
        duel.put("pos", (10, 30, 2), 0)
        duel.put("fallen", 100, 0)
        duel.step()
    assert duel["pilot_phase"][0, 0] == 0 and duel["pilot_stuck_s"][0, 0] == 0


def test_stuck_detection_accounts_for_leg_loss_and_water(duel):
    duel.place(0, MEDIUM, 10, 30)
    duel.place(5, SCOUT, 58, 30)
    duel.put("leg_hp", -1.0, 0)
    duel.observe()
    s = snapshots(duel)[0]
    assert not rules.is_without_progress(s, 0, 0.14, 1.0, 0.25) and rules.is_without_progress(s, 0, 0.13, 1.0, 0.25)
    for moved, stuck in ((0.14, 0.0), (0.13, 0.25)):
        duel.put("pilot_stuck_s", 0.0)
        duel.put("pilot_throttle", 1.0, 0)
        duel.batch.set("decision", np.array([5], np.int32))
        duel.put("pilot_pos", duel["pos"][0, 0] - [moved, 0, 0], 0)
        duel.fly()
        assert duel["pilot_stuck_s"][0, 0] == pytest.approx(stuck)


def test_pilots_leave_other_mechs_actions_unchanged(duel):
    duel.place(0, MEDIUM, 20, 30)
    duel.place(5, MEDIUM, 40, 30)
    duel.put("script", 0, 0)
    duel.act(0, forward=0.5, primary=-0.25)
    duel.step()
    assert duel["actions"][0, 0, :5].tolist() == [0.5, 0, 0, 0, -0.25]
