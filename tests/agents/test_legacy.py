"""The ``legacy`` baseline pilot and stuck detection, at any tick and decision length."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.agents.heuristic import SKILLS, HeuristicPolicy, install
from echelon.config import EnvConfig, WorldConfig
from echelon.env.env import EchelonEnv
from echelon.sim.arsenal import CHASSIS, Chassis, Weapon
from tests.env.battle import Battle
from tests.oracles import pilot as rules
from tests.parity.scenes import clutter, scatter, snapshots

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
FORWARD, STRAFE, YAW, VENT, SECONDARY = 0, 1, 3, 5, 6
TRIGGERS = [4, 6, 7, 8]


@pytest.fixture(scope="module")
def field():
    made = Battle(pilots=install)
    yield made
    made.close()


@pytest.fixture
def duel(field):
    """An empty field whose mechs the baseline controls."""
    field.engine.reset()
    field.empty()
    field.batch["script"].fill_(1)
    field.batch["weapon_prob"].fill_(1.0)
    return field


@pytest.mark.parametrize("weapon_prob", [0.0, 0.5, 1.0])
def test_legacy_actions_match_oracle(weapon_prob):
    battle = Battle(
        envs=12, size=44, edit=clutter(np.random.default_rng(2)), own_maps=True, num_packs=2, pilots=install
    )  # fmt: skip
    battle.batch["script"].fill_(1)
    scatter(battle, np.random.default_rng(5), spread=0.8)
    battle.batch.set("weapon_prob", np.full(12, weapon_prob, np.float32))
    battle.batch.set("decision", np.full(12, 3, np.int32))
    battle.put("heat", battle["heat"] * 0.75)
    battle.put("pilot_pos", battle["pos"] + 99)
    battle.observe()
    battle.batch["actions"].fill_(7.0)
    expected = snapshots(battle)
    battle.play("pilots", lambda: [x for x in battle.engine.decision() if x.phase.startswith("pilots")])
    fired = 0
    for e, s in enumerate(expected):
        for m in range(20):
            want = rules.legacy(s, m, weapon_prob)
            np.testing.assert_allclose(battle["actions"][e, m], want, atol=2e-5, err_msg=f"mech {m}, environment {e}")
            fired += bool(want[TRIGGERS].any() and s.chassis[m] != SCOUT)
    assert (fired > 10) == (weapon_prob > 0)
    battle.close()


@pytest.mark.parametrize("bearing", [0.6, -2.5, 3.0])
def test_legacy_turns_to_nearest_hostile(duel, bearing):
    duel.place(0, LIGHT, 20, 30)
    duel.place(5, HEAVY, 20 + 15 * np.cos(bearing), 30 + 15 * np.sin(bearing))
    duel.place(6, HEAVY, 50, 58)
    duel.put("script", 0, slice(5, 10))
    duel.observe()
    for _ in range(32):
        duel.put("pos", (20, 30, 1), 0)
        duel.step()
    assert duel["yaw"][0, 0] == pytest.approx(bearing, abs=0.03)


@pytest.mark.parametrize(
    ("distance", "painted", "missile", "gauss"),
    [(11.0, False, True, True), (13.0, False, False, True), (21.0, True, True, False), (49.0, True, True, False)],
)
def test_legacy_heavy_fires_missile_and_gauss_but_never_smoke(duel, distance, painted, missile, gauss):
    duel.place(0, HEAVY, 5, 30)
    duel.place(1, SCOUT, 5, 50)
    duel.place(5, HEAVY, 5 + distance, 30, yaw=np.pi)
    duel.put("painted", 100 * painted, 5)
    duel.put("painter", 1, 5)
    duel.observe()
    duel.step()
    for weapon, fires in ((Weapon.MISSILE, missile), (Weapon.GAUSS, gauss), (Weapon.SMOKE, False)):
        assert bool(duel["actions"][0, 0, TRIGGERS[CHASSIS[HEAVY].carries[weapon]]]) == fires, weapon.name
        assert bool(duel["fired"][0, 0] >> weapon & 1) == fires, weapon.name


def test_legacy_vents_and_holds_fire_when_hot(duel):
    duel.place(0, MEDIUM, 27, 30)
    duel.place(5, HEAVY, 33, 30, yaw=np.pi)
    for heat, hot in ((74.0, False), (76.0, True)):
        duel.put("heat", heat, 0)
        duel.observe()
        duel.step()
        assert bool(duel["actions"][0, 0, VENT]) == hot
        assert bool(duel["actions"][0, 0, TRIGGERS].any()) != hot


def test_legacy_at_zero_weapon_probability_keeps_ecm(duel):
    for m in range(5):
        duel.place(m, list(Chassis)[m % 4], 24 + 3 * m, 26)
        duel.place(5 + m, list(Chassis)[m % 4], 24 + 3 * m, 32, yaw=-np.pi / 2)
    duel.put("yaw", np.pi / 2, slice(0, 5))
    duel.batch["weapon_prob"].fill_(0.0)
    duel.observe()
    for _ in range(20):
        duel.step()
        assert not duel["fired"].any() and (duel["hp"][0] > 0).all()
        scouts = duel["chassis"][0] == SCOUT
        assert (duel["actions"][0][scouts, SECONDARY] == 0.25).all(), "the scout does not jam"
    duel.put("heat", 60.0)
    duel.step()
    assert duel["actions"][0, 0, SECONDARY] == 0.75


@pytest.mark.parametrize(("dt", "repeat"), [(0.05, 5), (0.025, 10), (0.1, 1)])
def test_legacy_backs_out_when_stuck_for_2_5_seconds_at_any_clock(dt, repeat):
    def edit(grid: np.ndarray) -> None:
        grid[0:4, 18:43, 18] = grid[0:4, 18:43, 19] = 1

    battle = Battle(pilots=install, edit=edit, dt_sim=dt, decision_repeat=repeat)
    battle.empty()
    battle.batch["script"].fill_(1)
    battle.place(0, MEDIUM, 16.7, 30)
    battle.place(5, SCOUT, 59, 30)
    battle.put("script", 0, 5)
    battle.observe()
    step_s, log = dt * repeat, []
    for k in range(round(6.0 / step_s)):
        battle.step()
        forward, strafe = battle["actions"][0, 0, [FORWARD, STRAFE]]
        log.append((round(k * step_s, 3), float(forward), float(strafe)))
    battle.close()
    back = [t for t, forward, _ in log if forward == -1]
    aside = [t for t, _, strafe in log if abs(strafe) == 1]
    idle = [t for t, forward, strafe in log if forward == 0 == strafe]
    assert idle[0] == pytest.approx(2.5, abs=2 * step_s), "stuck after 2.5 s without progress"
    assert back[0] == pytest.approx(idle[0] + step_s, abs=1e-3)
    assert len(back) * step_s == pytest.approx(1.0, abs=0.01)
    assert len(aside) * step_s == pytest.approx(1.0, abs=0.01) and aside[0] > back[-1]
    assert aside[-1] - back[0] + step_s == pytest.approx(2.0, abs=0.01)
    assert log[-1][1] > 0.5, "it continues toward the zone"


def test_stuck_detection_ignores_intended_standstill(duel):
    duel.place(0, HEAVY, 30, 30)
    duel.place(5, HEAVY, 36, 31, yaw=np.pi)
    duel.batch["weapon_prob"].fill_(0.0)
    for _ in range(24):
        duel.put("pos", (30, 30, 2), 0)
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
        duel.play("pilots", lambda: [x for x in duel.engine.decision() if x.phase.startswith("pilots")])
        assert duel["pilot_stuck_s"][0, 0] == pytest.approx(stuck)


def test_legacy_leaves_other_mechs_actions_unchanged(duel):
    duel.place(0, MEDIUM, 20, 30)
    duel.place(5, MEDIUM, 40, 30)
    duel.put("script", 0, 0)
    duel.act(0, forward=0.5, primary=-0.25)
    duel.step()
    assert duel["actions"][0, 0, :5].tolist() == [0.5, 0, 0, 0, -0.25]


@pytest.mark.parametrize(("arguments", "named"), [({"skill": "wizard"}, "wizard"), ({"weapon_fire_prob": 1.5}, "1.5")])
def test_heuristic_policy_rejects_invalid_arguments(arguments, named):
    with pytest.raises(ValueError, match=named):
        HeuristicPolicy(**arguments)
    assert SKILLS


def test_heuristic_policy_controls_one_agent():
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=40, size_y=40, size_z=20)))
    env.reset(seed=3)
    pilot, quiet = HeuristicPolicy(weapon_fire_prob=1.0), HeuristicPolicy(weapon_fire_prob=0.0)
    acted = []
    for _ in range(60):
        actions = {aid: (pilot if aid.startswith("blue") else quiet).act(env, aid) for aid in env.possible_agents}
        acted.append([actions[aid][TRIGGERS].any() for aid in ("blue_0", "blue_1", "red_0", "red_1")])
        env.step(actions)
    shots = np.array(acted).sum(axis=0)
    assert shots[:2].sum() > 0 and shots[2:].sum() == 0
    with pytest.raises(ValueError, match="green_7"):
        pilot.act(env, "green_7")
