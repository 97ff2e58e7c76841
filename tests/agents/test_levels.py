"""The five skill levels: knowledge, reaction delay, memory, heat, electronic warfare, smoke and missiles."""

from dataclasses import fields
from typing import get_args

import numpy as np
import pytest

from echelon.actions import TARGET_START
from echelon.agents import levels
from echelon.agents.heuristic import install, script_of
from echelon.agents.levels import LEVELS, SKILLS, Level
from echelon.config import PilotSkill
from echelon.sim.arsenal import CHASSIS, WEAPONS, Chassis
from tests.env.battle import Battle

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
FORWARD, STRAFE, VERTICAL, YAW, PRIMARY, VENT, SECONDARY, TERTIARY, SPECIAL = range(9)
TRIGGERS = [PRIMARY, SECONDARY, TERTIARY, SPECIAL]
MIDDLE = 30


def fly(battle: Battle, skill: str, mechs=slice(0, 5), decisions: int = 1) -> np.ndarray:
    """Let ``skill`` control ``mechs`` of a standing scene for some decisions; return the last actions [M, A]."""
    battle.put("script", script_of(skill), mechs)
    battle.observe()
    for _ in range(decisions):
        held = {name: battle[name].copy() for name in ("pos", "yaw", "heat", "hp", "alive")}
        battle.step()
        actions = battle["actions"][0].copy()
        for name, value in held.items():
            battle.batch.set(name, value)
        battle.observe()
    return actions


def test_skill_names_match_configuration():
    assert get_args(PilotSkill) == SKILLS == tuple(LEVELS)
    with pytest.raises(ValueError, match="wizard.*expert"):
        script_of("wizard")


def test_packed_levels_carry_every_field():
    rows = levels.pack_levels(0.25)
    for level, row in zip(LEVELS.values(), rows, strict=True):
        assert row.delay == levels.delay_decisions(level, 0.25) and row.memory * 0.25 == level.memory_s
        assert row.cone == pytest.approx(np.radians(level.cone_deg))
        assert row.aim_sigma == pytest.approx(np.radians(level.aim_sigma_deg))
        for field in fields(Level):
            value = float(getattr(level, field.name))
            assert float(getattr(row, field.name)) == pytest.approx(min(value, levels.ALWAYS)), field.name


@pytest.mark.parametrize(("dt_act", "trivial", "medium"), [(0.25, 4, 2), (0.1, 10, 3), (1.0, 1, 1)])
def test_delay_decisions_scales_with_decision_length(dt_act, trivial, medium):
    assert levels.delay_decisions(LEVELS["trivial"], dt_act) == trivial
    assert levels.delay_decisions(LEVELS["medium"], dt_act) == medium
    assert levels.history_decisions(dt_act) == trivial + 1


@pytest.fixture(scope="module")
def walled():
    """A field that a wall divides, so that it hides the far hostiles."""

    def wall(grid: np.ndarray) -> None:
        grid[0:16, :, 25:28] = 1

    return Battle(size=60, edit=wall, pilots=install)


@pytest.mark.parametrize("skill", list(LEVELS))
@pytest.mark.parametrize("seed", [3, 4])
def test_actions_ignore_mechs_hidden_behind_wall(walled, skill, seed):
    rng = np.random.default_rng(seed)
    places = [*zip(rng.uniform(2, 22, 8), rng.uniform(2, 58, 8), strict=True), (50.0, 12.0), (54.0, 45.0)]
    yaws, hidden = rng.uniform(-3, 3, 10), [8, 9]

    def play(moved: bool) -> np.ndarray:
        walled.batch["forced_seed"].fill_(seed)
        walled.fresh()
        for mech, (x, y) in enumerate(places):
            walled.place(mech, list(Chassis)[mech % 4], x, y, yaw=yaws[mech])
        walled.batch["script"].fill_(script_of(skill))
        acted = []
        for k in range(6):
            walled.batch["decision"].fill_(k)
            for mech in hidden if moved else ():
                x, y = places[mech]
                walled.put("pos", (x + 0.7 * k, y - 0.9 * k, 1.5), mech)
                walled.put("yaw", yaws[mech] + 2.0, mech)
                walled.put("hp", 20.0, mech)
            walled.observe()
            visible = walled["visible"][0].astype(bool)
            assert not visible[:5, hidden].any() and visible[:5, 5:8].any(), "the wall must hide some hostiles"
            walled.fly()
            acted.append(walled["actions"][0, :5].copy())
        return np.array(acted)

    np.testing.assert_array_equal(play(False), play(True))


def test_target_known_after_reaction_delay(duel):
    duel.place(0, MEDIUM, 20, MIDDLE)
    duel.place(5, MEDIUM, 27, MIDDLE, yaw=np.pi)
    for skill, level in LEVELS.items():
        duel.batch["decision"].zero_()
        known = []
        for _ in range(6):
            fly(duel, skill, 0)
            known.append(int(duel["pilot_target"][0, 0]) == 5)
        first = levels.delay_decisions(level, 0.25)
        assert known == [k >= first for k in range(6)], skill


def test_lost_target_remembered_for_level_memory(duel):
    for skill, seconds in (("medium", 0.0), ("hard", 3.0), ("expert", 5.0)):
        duel.fresh()
        duel.place(0, MEDIUM, 5, MIDDLE)
        duel.place(5, MEDIUM, 12, MIDDLE, yaw=np.pi)
        fly(duel, skill, 0, decisions=3)
        assert duel["pilot_target"][0, 0] == 5
        late = levels.delay_decisions(LEVELS[skill], 0.25)
        for k in range(24):
            # out of sight: the sensing result itself is cleared
            duel.put("pos", (55, 55, 1.5), 5)
            duel.batch["visible"].zero_()
            duel.fly()
            still = duel["pilot_target"][0, 0] == 5
            assert still == ((k + 1 - late) * 0.25 <= seconds), (skill, k)
            assert not still or duel["pilot_age"][0, 0] == max(0, k + 1 - late), (skill, k)
            if still:
                np.testing.assert_allclose(duel["pilot_spot"][0, 0], (12, MIDDLE, 1.5), atol=1e-4)
            duel.batch.set("decision", duel["decision"] + 1)


def test_medium_uses_pack_perception_and_easy_does_not(duel):
    duel.place(0, MEDIUM, 5, 5)
    duel.place(1, SCOUT, 40, 50)
    duel.place(5, HEAVY, 48, 50, yaw=np.pi)
    for skill, knows in (("easy", False), ("medium", True)):
        duel.put("script", script_of(skill), 0)
        for k in range(5):
            duel.put("visible", 0)
            duel.put("visible", np.arange(10) == 5, 1)
            duel.fly(k)
        assert (duel["pilot_target"][0, 0] == 5) == knows


@pytest.mark.parametrize("skill", ["medium", "hard", "expert"])
def test_levels_request_target_and_filter_contacts(duel, skill):
    duel.place(0, MEDIUM, 20, MIDDLE)
    duel.place(5, MEDIUM, 26, MIDDLE, yaw=np.pi)
    action = fly(duel, skill, 0, decisions=4)[0]
    slot = duel["contact"][0, 0].tolist().index(5)
    assert action[TARGET_START + slot] == 1.0
    assert action[14] == 1.0 and action[17] == 1.0


@pytest.mark.parametrize(("skill", "hot"), [("easy", 0.86), ("medium", 0.76), ("hard", 0.91), ("expert", 0.98)])
def test_levels_vent_and_hold_fire_above_heat_threshold(duel, skill, hot):
    duel.place(0, MEDIUM, 20, MIDDLE)
    duel.place(5, HEAVY, 26, MIDDLE, yaw=np.pi)
    duel.put("heat", hot * CHASSIS[MEDIUM].heat_cap, 0)
    action = fly(duel, skill, 0, decisions=4)[0]
    assert action[VENT] == 1.0 and not action[TRIGGERS].any()


@pytest.mark.parametrize(
    ("skill", "heat", "vents"),
    [("easy", 75.0, False), ("medium", 45.0, False), ("medium", 55.0, True), ("hard", 45.0, True),
     ("expert", 5.0, True)],
)  # fmt: skip
def test_vent_while_firing_above_level_threshold(duel, skill, heat, vents):
    duel.place(0, MEDIUM, 20, MIDDLE)
    duel.place(5, HEAVY, 26, MIDDLE, yaw=np.pi)
    duel.put("heat", heat, 0)
    vented = []
    for _ in range(12):
        duel.put("cooldown", 0)
        action = fly(duel, skill, 0)[0]
        if action[[PRIMARY, SECONDARY, TERTIARY]].any():
            vented.append(bool(action[VENT]))
    assert vented and set(vented) == {vents}


def test_expert_leaves_watched_lane_for_four_seconds(duel):
    duel.place(0, MEDIUM, 16, 8)
    duel.place(6, SCOUT, 24, 24)  # a scout has no guns, so it covers nothing
    for skill, leaves in (("medium", False), ("expert", True)):
        duel.put("alive", 0, 5)
        duel.batch["decision"].zero_()
        fly(duel, skill, 0)
        lane = duel["pilot_way"][0, 0].copy()
        duel.place(5, HEAVY, 21, 22, yaw=-np.pi / 2)
        fly(duel, skill, 0, decisions=3)
        assert duel["visible"][0, 0, 5]
        off = [bool(duel["pilot_way"][0, 0] @ lane < 0.95)]
        duel.put("alive", 0, 5)
        for _ in range(18):
            fly(duel, skill, 0)
            off.append(bool(duel["pilot_way"][0, 0] @ lane < 0.95))
        assert off == [leaves] * 16 + [False] * 3, skill


def test_hard_and_expert_keep_shots_below_heat_limit(duel):
    heat, medium = 80.0, CHASSIS[MEDIUM]
    cool = {t for w, t in medium.carries.items() if heat + WEAPONS[w].heat <= medium.heat_cap}
    assert cool and set(medium.carries.values()) - cool, "no weapon or every weapon fits below the cap"
    duel.place(0, MEDIUM, 20, MIDDLE)
    duel.place(5, HEAVY, 26, MIDDLE, yaw=np.pi)
    duel.put("heat", heat, 0)
    for skill in ("hard", "expert"):
        duel.batch["decision"].zero_()
        pulled = set()
        for _ in range(12):
            duel.put("cooldown", 0)
            pulled |= set(np.nonzero(fly(duel, skill, 0)[0][TRIGGERS])[0].tolist())
        assert pulled and pulled <= cool, skill


@pytest.mark.parametrize(
    ("skill", "share", "expected"),
    [("easy", 0.8, 0.25), ("medium", 0.6, 0.25), ("medium", 0.8, 0.75), ("trivial", 0.1, 0.0)],
)
def test_scout_ewar_follows_level(duel, skill, share, expected):
    duel.place(0, SCOUT, 20, MIDDLE)
    duel.put("heat", share * CHASSIS[SCOUT].heat_cap, 0)
    assert fly(duel, skill, 0)[0][SECONDARY] == expected


def test_expert_scout_emits_only_with_contact(duel):
    duel.place(0, SCOUT, 20, MIDDLE)
    assert fly(duel, "expert", 0)[0][SECONDARY] == 0.0
    duel.place(5, HEAVY, 30, MIDDLE, yaw=np.pi)
    assert fly(duel, "expert", 0, decisions=2)[0][SECONDARY] > 0.0


def test_only_hard_and_expert_deploy_smoke_when_damaged(duel):
    for skill, throws in (("medium", False), ("hard", True), ("expert", True)):
        duel.fresh()
        duel.place(0, LIGHT, 20, MIDDLE)
        duel.place(5, MEDIUM, 30, MIDDLE, yaw=np.pi)
        duel.put("hp", 20.0, 0)
        smoked = False
        for _ in range(4):
            duel.put("was_hit", 1, 0)
            smoked |= bool(fly(duel, skill, 0)[0][SPECIAL])
        assert smoked == throws, skill


def test_hard_heavy_waits_for_scout_paint(duel):
    def launches(skill: str, decisions: int) -> list[bool]:
        duel.fresh()
        duel.place(0, HEAVY, 20, MIDDLE)
        duel.place(4, SCOUT, 24, 36)
        duel.place(5, MEDIUM, 30, MIDDLE, yaw=np.pi)
        pulled = []
        for _ in range(decisions):
            duel.put("cooldown", 0)
            pulled.append(bool(fly(duel, skill, 0)[0][SECONDARY]))
        return pulled

    assert any(launches("medium", 8))
    hard = launches("hard", 24)
    assert not any(hard[:8]) and any(hard), "two seconds of waiting for paint, then by sight"


def test_pilots_deterministic_across_batch_size_and_threads():
    def outcome(envs: int, threads: int) -> list[np.ndarray]:
        battle = Battle(envs=envs, threads=threads, seed=3, size=50, pilots=install)
        scripts = np.array([[script_of(s)] * 10 for s in (*LEVELS, "easy")], np.int32)
        battle.batch.set("script", np.concatenate([scripts] * (envs // 6)))
        battle.batch.set("forced_seed", np.tile(np.arange(6, dtype=np.int32) + 7, envs // 6))
        battle.batch["weapon_prob"].fill_(1.0)
        battle.engine.reset()
        for _ in range(60):
            battle.step()
        found = [battle[name][:6].copy() for name in ("pos", "hp", "heat", "actions")]
        return found

    for one, many in zip(outcome(6, 1), outcome(12, 2), strict=True):
        np.testing.assert_array_equal(one, many)


def test_dead_mech_action_is_zero(duel):
    duel.place(5, MEDIUM, 26, MIDDLE, yaw=np.pi)
    assert not fly(duel, "expert")[:5].any()
