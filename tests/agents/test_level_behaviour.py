"""Behaviour of the upper levels: gathering, jumping over obstacles, smoke, missile timing, retreat, zone balance."""

import numpy as np
import pytest

from echelon.agents.heuristic import script_of
from echelon.agents.levels import LEVELS
from echelon.sim.arsenal import CHASSIS, Chassis
from tests.env.battle import Battle
from tests.oracles.shared import MISSILE

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
SECONDARY, SPECIAL = 6, 8
MIDDLE = 30.0


Zone = tuple[float, float, float]


def begin(battle: Battle, skill: str, mechs: dict[int, tuple], *, zone: Zone = (30.0, 30.0, 6.0), flown=0) -> None:
    """Place mechs by index, class, x, y and yaw; ``skill`` controls those ``flown``."""
    battle.fresh()
    battle.batch.set("zone", np.array([zone], np.float32))
    for mech, (chassis, x, y, *yaw) in mechs.items():
        battle.place(mech, chassis, x, y, yaw=sum(yaw))
    battle.put("script", script_of(skill), flown)


def decide(battle: Battle, decisions: int) -> np.ndarray:
    for k in range(decisions):
        battle.fly(k)
    return battle["actions"][0, 0].copy()


@pytest.mark.parametrize(
    ("skill", "held", "behind", "waits"),
    [
        ("medium", (0, 85), 10, False),
        ("hard", (0, 85), 10, True),
        ("expert", (0, 85), 10, True),
        ("expert", (0, 0), 10, False),
        ("expert", (35, 85), 10, False),
        ("expert", (0, 85), 2, False),
        ("expert", (0, 85), -8, False),
    ],
)
def test_pack_gathers_before_hostile_zone(field, skill, held, behind, waits):
    pack = {0: (LIGHT, 30.0, MIDDLE), 1: (LIGHT, 30.0 - behind, MIDDLE + 4)}
    begin(field, skill, pack, zone=(50.0, 30.0, 6.0), flown=slice(0, 2))
    field.batch.set("zone_tonnage", np.array([held], np.float32))
    field.observe()
    decide(field, 1)
    assert (np.hypot(*field["pilot_desired"][0, 0]) < 0.01) == waits


@pytest.mark.parametrize("skill", ["hard", "expert"])
def test_gathering_ends_at_level_time_limit(field, skill):
    begin(field, skill, {0: (LIGHT, 30.0, MIDDLE), 1: (LIGHT, 20.0, MIDDLE)}, zone=(50.0, 30.0, 6.0))
    field.batch.set("zone_tonnage", np.array([(0, 85)], np.float32))
    field.observe()
    waited = 0
    for k in range(60):
        field.fly(k)
        waited += np.hypot(*field["pilot_desired"][0, 0]) < 0.01
    assert 0 < waited * 0.25 <= LEVELS[skill].gather_s


@pytest.mark.parametrize(
    ("skill", "chassis", "over"), [("hard", LIGHT, True), ("medium", LIGHT, False), ("hard", MEDIUM, False)]
)
def test_jets_clear_low_obstacle_missing_from_flow_field(field, skill, chassis, over):
    begin(field, skill, {0: (chassis, 10.0, MIDDLE)})
    plane = field["move_plane"].copy()
    plane[0, :, 16:18] |= np.uint64(0b1111)
    field.batch.set("move_plane", plane)
    field.observe()
    for _ in range(16):
        field.step()
    assert (field["pos"][0, 0, 0] > 18) == over, field["pos"][0, 0]


def test_jets_stay_below_height_limit(field):
    begin(field, "expert", {0: (SCOUT, 20.0, MIDDLE), 5: (HEAVY, 22.5, MIDDLE, np.pi)})
    field.observe()
    top = []
    for _ in range(40):
        field.put("hp", CHASSIS[SCOUT].hp, 0)
        field.put("pos", [*field["pos"][0, 0, :2], 2.0], 5)
        field.put("pos", [22.5, MIDDLE, field["pos"][0, 0, 2]], 5)
        field.put("pos", [20.0, MIDDLE, field["pos"][0, 0, 2]], 0)
        field.observe()
        field.step()
        top.append(float(field["pos"][0, 0, 2]) - 0.9)
    assert 3.0 < max(top) < 9.0, top


@pytest.mark.parametrize(
    ("skill", "ams", "reloads", "launches"),
    [
        ("hard", True, False, True),
        ("expert", False, False, True),
        ("expert", True, False, False),
        ("expert", True, True, True),
    ],
)
def test_expert_launches_past_ams_only_while_it_reloads(field, skill, ams, reloads, launches):
    mechs = {0: (HEAVY, 10.0, MIDDLE), 1: (SCOUT, 20.0, MIDDLE + 20), 5: (MEDIUM, 40.0, MIDDLE, np.pi)}
    begin(field, skill, mechs)
    if ams:
        field.place(6, HEAVY, 43.0, MIDDLE + 3, yaw=np.pi)
    field.put("painted", 90, 5)
    field.put("painter", 1, 5)
    if reloads:
        field.put_round(2, MISSILE, (14.0, MIDDLE, 4.0))
    field.observe()
    assert bool(decide(field, 3)[SECONDARY]) == launches
    field.put("round_weapon", -1)


@pytest.mark.parametrize(
    ("skill", "distance", "cover", "throws"),
    [
        ("expert", 15.0, False, True),
        ("hard", 15.0, False, False),
        ("expert", 15.0, True, False),
        ("expert", 24.0, False, False),
        ("expert", 6.0, False, False),
    ],
)
def test_expert_deploys_smoke_on_open_ground(field, skill, distance, cover, throws):
    mechs = {0: (LIGHT, 20.0, 40.0, -np.pi / 2), 5: (HEAVY, 20.0, 40.0 - distance, np.pi / 2)}
    begin(field, skill, mechs, zone=(50.0, 50.0, 5.0))
    planes = field["sight_plane"].copy()
    if cover:
        planes[0, 28:31, 22:30] |= np.uint64(0xFFFF)
        field.batch.set("sight_plane", planes)
    field.observe()
    assert field["sight"][0, 0, 5] == 1
    assert bool(decide(field, 3)[SPECIAL]) == throws


def test_smoke_does_not_block_packmate_line_of_sight(field):
    mechs = {0: (LIGHT, 20.0, 20.0, -np.pi / 2), 1: (MEDIUM, 30.0, 14.0, np.pi), 5: (HEAVY, 20.0, 5.0, np.pi / 2)}
    begin(field, "expert", mechs, zone=(50.0, 50.0, 5.0), flown=slice(0, 2))
    field.observe()
    assert not decide(field, 3)[SPECIAL]


@pytest.mark.parametrize("skill", ["hard", "expert"])
def test_overheated_pilot_hides_until_cool(field, skill):
    begin(field, skill, {0: (MEDIUM, 30.0, MIDDLE), 5: (MEDIUM, 42.0, MIDDLE, np.pi)}, zone=(50.0, 30.0, 6.0))
    field.put("hp", 30.0, 0)
    field.observe()

    def desired(k: int, heat: float) -> np.ndarray:
        field.put("heat", heat * CHASSIS[MEDIUM].heat_cap, 0)
        field.fly(k)
        return field["pilot_desired"][0, 0].copy()

    for k in range(8):
        retreating = desired(k, 0.8)
    assert retreating[0] < -0.5, "away from a target in sight"
    field.batch["visible"].fill_(0)  # as behind a wall
    for k in range(8, 12):
        hiding = desired(k, 0.8)
    assert field["pilot_sees"][0, 0] == 0
    assert np.hypot(*hiding) < 0.01, "it does not return while hot"
    assert np.hypot(*desired(12, 0.3)) > 0.1, "it continues once cool"


@pytest.mark.parametrize("x", [24.0, 26.0])
def test_zone_balance_counts_own_tonnage_once(field, x):
    begin(field, "hard", {0: (LIGHT, x, MIDDLE)}, zone=(30.0, 30.0, 5.0))
    inside = x > 25.0
    field.batch.set("score", np.array([(5.0, 0.0)], np.float32))
    field.batch.set("zone_tonnage", np.array([(35.0 * inside, 85.0)], np.float32))
    field.observe()
    decide(field, 1)
    assert field["pilot_desired"][0, 0][0] < -0.5


def test_paint_wait_is_spent_once_per_launch(field):
    begin(field, "hard", {0: (HEAVY, 20.0, MIDDLE), 4: (SCOUT, 24.0, 36.0), 5: (MEDIUM, 30.0, MIDDLE, np.pi)})
    field.observe()
    pulled = []
    for k in range(26):
        field.put("cooldown", 0 if k >= 16 else 100, 0)
        field.fly(k)
        pulled.append(bool(field["actions"][0, 0, SECONDARY]))
        assert k >= 16 or field["pilot_wait_s"][0, 0] == 0, "no waiting while the launcher reloads"
    assert not any(pulled[:24]) and pulled[24]


@pytest.mark.parametrize(("distance", "turns"), [(15.0, True), (6.0, False)])
def test_rear_attacker_takes_precedence_over_distant_target(field, distance, turns):
    begin(field, "hard", {0: (MEDIUM, 30.0, MIDDLE), 5: (MEDIUM, 30.0 + distance, MIDDLE, np.pi)})
    field.observe()
    decide(field, 6)
    field.put("was_hit", 1, 0)
    field.put("hit_dir", (-1.0, 0.0, 0.0), 0)
    field.fly(6)
    assert (abs(field["actions"][0, 0, 3]) > 0.9) == turns


def test_random_target_redrawn_every_three_seconds(field):
    mechs = {0: (MEDIUM, 20.0, MIDDLE), 5: (MEDIUM, 30.0, 26.0, np.pi), 6: (MEDIUM, 30.0, 34.0, np.pi)}
    begin(field, "trivial", mechs)
    field.observe()
    since = set()
    for k in range(50):
        field.batch["tick"].fill_(5 * k)
        field.fly(k)
        if field["pilot_target"][0, 0] >= 0:
            since.add(int(field["pilot_target_since"][0, 0]))
    assert len(since) == 4 and set(np.diff(sorted(since))) == {12}
