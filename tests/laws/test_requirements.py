"""Requirements without another test: one short test each, with the id of the requirement in its comment."""

import re
from pathlib import Path

import numpy as np
import pytest

import echelon
from echelon.arena.contest import Contest, MatchSession
from echelon.arena.match_runner import play
from echelon.config import EnvConfig, RewardConfig
from echelon.config.presets import quickstart
from echelon.env import reward
from echelon.env.suites import COMBAT_SUITES
from echelon.sim import geometry
from echelon.sim.arsenal import CHASSIS, ROSTER, Chassis
from tests.env.battle import Battle
from tests.sim.flat_field import Field5v5

SOURCES = sorted(Path(echelon.__file__).parent.rglob("*.py"))
SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
APPROACH = reward.TERM_NAMES.index("approach")


def test_epsilons_are_defined_once():  # MED-14
    assert (float(geometry.EPS_NORM), float(geometry.EPS_DIV)) == (1e-7, 1e-9)
    stray = re.compile(r"\b1(?:\.0)?e-0?(?:7|8|9|10|12)\b")
    allowed = {"geometry.py"}
    kernels = [p for p in SOURCES if "kernels" in p.parts or p.parent.name == "sim"]
    found = [p.name for p in kernels if p.name not in allowed and stray.search(p.read_text(encoding="utf-8"))]
    assert found == []


def test_coinciding_mechs_give_finite_senses_and_rewards():  # MED-14
    battle = Battle(size=40)
    battle.empty()
    battle.place(0, HEAVY, 20, 20)
    battle.place(5, HEAVY, 20, 20, z=9.0)
    battle.place(6, LIGHT, 20, 20)
    battle.place(1, MEDIUM, 20, 20, z=20 - 1.5)
    actions = np.ones(battle["actions"].shape, np.float32)
    for _ in range(6):
        battle.step(actions)
        for name in ("pos", "vel", "yaw", "hp", "hit_dir", "reward", "round_vel", "quality", "jam"):
            assert np.isfinite(battle[name]).all(), name
        assert np.isfinite(battle.obs).all()


def test_angle_wrapping_is_defined_once():  # MED-15
    wraps = [p.name for p in SOURCES if re.search(r"def (?:\w*_)?wrap_angle\w*\(", p.read_text(encoding="utf-8"))]
    assert wraps == ["geometry.py"]
    by_hand = re.compile(r"[-+] *(?:TWO_PI|2(?:\.0)? *\* *(?:wp\.|np\.|math\.)?pi)\b")
    assert [p.name for p in SOURCES if p.name != "geometry.py" and by_hand.search(p.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("packs", [1, 3])
def test_pack_and_class_follow_the_mech_index(packs):  # LOW-4
    field = Field5v5(size=80, num_packs=packs)
    numbers = np.arange(5 * packs)
    assert np.array_equal(field["pack"][0], np.tile(numbers // 5, 2))
    assert np.array_equal(field["chassis"][0], np.tile([int(ROSTER[n % 5]) for n in numbers], 2))


def test_no_code_parses_agent_names_for_team_or_pack():  # LOW-4
    parsed = re.compile(r"(?:rsplit|split|removeprefix)\(\s*[\"'](?:_|blue_|red_)[\"']")
    game = [p for p in SOURCES if p.parent.name in ("sim", "env", "kernels")]
    assert [p.name for p in game if parsed.search(p.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("mates", "share"), [(0, 1.0), (1, 0.5), (2, 0.25)])
def test_approach_reward_halves_per_teammate_in_the_zone(mates, share):  # HIGH-7
    battle = Battle()
    battle.empty()
    battle.place(0, MEDIUM, 10, 30)
    battle.place(9, SCOUT, 55, 55)
    for m in range(mates):
        battle.place(1 + m, SCOUT, 28 + 3 * m, 30)
    battle.act(0, forward=1)
    battle.step()
    cfg = battle.cfg
    # the potential is minus the distance in map widths, halved per team mate inside
    before, after = (20.0 / 60, (20.0 - (battle["pos"][0, 0, 0] - 10.0)) / 60)
    expected = cfg.reward.approach * share * (before - cfg.gamma * after)
    assert battle["terms"][0, 0, APPROACH] == pytest.approx(expected, abs=1e-5) and expected > 0


def test_default_combat_reward_weights():  # HIGH-6
    r = RewardConfig()
    assert (r.damage, r.kill, r.assist, r.death) == (0.005, 1.0, 0.5, -2.0)


def test_classes_get_different_numbers_of_contact_slots():  # KEEP-6
    battle = Battle(num_packs=2, observation_mode="full", size=80)
    slots = (battle["contact"][0] >= 0).sum(axis=1)
    by_class = {c: set(slots[battle["chassis"][0] == c].tolist()) for c in Chassis}
    assert all(len(seen) == 1 for seen in by_class.values())
    order = [by_class[c].pop() for c in (SCOUT, LIGHT, MEDIUM, HEAVY)]
    assert order == sorted(order, reverse=True) and len(set(order)) == 4
    assert max(order) <= max(spec.visual_contact_slots for spec in COMBAT_SUITES.values())


@pytest.mark.parametrize(
    ("env", "pilot", "most"),
    [(EnvConfig(), "medium", 0.1), (quickstart().env, "medium", 0.25),
     (quickstart().env, "easy", 0.25)],
    ids=["medium", "quickstart-medium", "quickstart-easy"],
)  # fmt: skip
def test_terminal_reward_is_a_small_share_of_all_reward(env, pilot, most):  # KEEP-3
    contest = Contest(env=env, pilots=(pilot, pilot), matches=20)
    terms = np.stack([result.record.terms for result in play(contest.plan, contest.pairings(), MatchSession())])
    amount = np.abs(terms).sum(axis=(0, 1))
    share = amount[reward.TERM_NAMES.index("terminal")] / amount.sum()
    assert share < most, {name: round(float(a), 1) for name, a in zip(reward.TERM_NAMES, amount, strict=True)}


def test_weapons_target_only_hostiles_among_many_friends():  # HIGH-12
    field = Field5v5()
    for m in range(1, 5):
        field.place(m, LIGHT, 32, 24 + 3 * m)
    field.place(0, HEAVY, 30, 30)
    field.place(7, HEAVY, 36, 30, yaw=np.pi)
    field.act(0, primary=1)
    field.run(1)
    assert field["took"][0].nonzero()[0].tolist() == [7]


def test_dead_mechs_are_ignored_by_aim_movement_and_score():  # LOW-6
    battle = Battle(max_episode_seconds=30.0)
    battle.empty()
    battle.place(0, HEAVY, 30, 30)
    battle.place(5, MEDIUM, 36, 30)
    battle.place(6, MEDIUM, 30, 37)
    battle.put("alive", 0, 5)
    battle.put("hp", 0.0, 5)
    battle.act(0, primary=1, forward=1)
    for _ in range(16):
        battle.step()
    assert battle["took"][0, 5] == 0 and battle["hp"][0, 5] == 0
    assert battle["pos"][0, 0, 0] > 36 + CHASSIS[MEDIUM].size[0] / 2, "the dead stood in the way"
    assert battle["zone_tonnage"][0, 1] in (0, 55)
