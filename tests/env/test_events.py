"""Events and statistics of ``EchelonEnv``: they agree with each other, with the arrays, and with the rules."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from echelon.agents.heuristic import HeuristicPolicy
from echelon.config import EnvConfig, WorldConfig
from echelon.env.env import STATS, EchelonEnv
from echelon.env.events import EventReader
from echelon.sim.arsenal import Chassis
from echelon.sim.world import Material
from tests.env.battle import Battle

HIT = {"shooter", "target", "damage", "weapon", "rear", "leg", "painted"}
FIELDS = {
    "kill": {"shooter", "target"},
    "assist": {"painter", "shooter", "target", "bonus"},
    "laser_hit": HIT,
    "projectile_hit": HIT | {"stability", "splash"},
    "missile_launch": {"shooter", "weapon", "target", "lock"},
    "smoke_launch": {"shooter", "weapon"},
    "kinetic_fire": {"shooter", "weapon"},
    "paint": {"shooter", "target"},
    "ams_intercept": {"defender", "shooter", "target"},
    "explosion": {"shooter", "weapon", "radius"},
    "smoke_cloud": {"shooter", "weapon", "radius"},
}


class Match(NamedTuple):
    """A battle of scripted pilots: its environment at the end, the events of each step, and sums of arrays."""

    env: EchelonEnv
    log: list[list[dict]]
    sums: Counter[str]
    stats: dict[str, dict[str, float]]
    outcome: dict[str, Any] | None


def played(record: bool) -> Match:
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=50, size_y=50)), record=record)
    env.reset(seed=5)
    pilot, log, sums = HeuristicPolicy(1.0, "hard"), [], Counter()
    while env.last_outcome is None:
        *_, infos = env.step({aid: pilot.act(env, aid) for aid in env.possible_agents})
        shared = {id(infos[aid]["events"]) for aid in env.possible_agents}
        assert len(shared) == 1, "agents have different event lists"
        log.append(infos["blue_0"]["events"])
        for name in ("kills", "assists", "intercepts", "died"):
            sums[name] += int(env.sim.numpy(name).sum())
        sums["damage"] += float(env.sim.numpy("dealt").sum() + env.sim.numpy("dealt_friendly").sum())
    return Match(env, log, sums, env.stats, env.last_outcome)


@pytest.fixture(scope="module")
def matches() -> Iterator[tuple[Match, Match]]:
    """The same battle without and with a recording."""
    both = played(False), played(True)
    yield both
    for match in both:
        match.env.close()


def test_events_sum_to_statistics_and_arrays(matches):
    _, log, sums, stats, outcome = matches[1]
    events = [event for decision in log for event in decision]
    counts = Counter(event["type"] for event in events)
    assert {"kill", "laser_hit", "projectile_hit", "paint", "kinetic_fire"} <= set(counts) <= set(FIELDS)
    for event in events:
        assert set(event) == FIELDS[event["type"]] | {"type", "pos", "tick"}
    total = {name: stats["blue"][name] + stats["red"][name] for name in STATS}
    assert total["kills"] == sums["kills"] and counts["kill"] == sums["died"]
    assert total["assists"] == counts["assist"] == sums["assists"]
    assert total["ams_intercepts"] == counts["ams_intercept"] == sums["intercepts"]
    for kind, stat in (("paint", "paints"), ("laser_hit", "laser_hits"), ("missile_launch", "missile_launches")):
        assert total[stat] == counts[kind] > 0
    hits = sum(e["damage"] for e in events if "damage" in e)
    assert hits == pytest.approx(sums["damage"], rel=0.35), "leg hits damage the body only in part"
    ticks = [event["tick"] for event in events]
    assert ticks == sorted(ticks) and 0 < ticks[0] and ticks[-1] <= 5 * len(log)
    assert outcome is not None and outcome["stats"] == stats


def test_recording_does_not_change_events(matches):
    plain, recorded = matches
    assert plain.log == recorded.log and plain.stats == recorded.stats and recorded.env.get_replay()


def test_second_episode_starts_with_empty_events_and_statistics(matches):
    env = matches[1].env
    env.reset(seed=6)
    assert all(value == 0.0 for team in env.stats.values() for value in team.values())
    *_, infos = env.step({})
    assert infos["red_0"]["events"] == []


@pytest.mark.parametrize(("material", "name"), [(Material.LAVA, "lava"), (Material.DEBRIS_FIELD, "debris")])
def test_hazard_death_names_the_hazard_and_credits_nobody(material, name):
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=50, size_y=50)))
    env.reset(seed=3)
    batch = env.sim
    voxels = batch.numpy("material").copy()
    x, y = (int(v) for v in batch.numpy("pos")[0, 4, :2])
    voxels[0, 0, y - 1 : y + 2, x - 1 : x + 2] = material
    batch.set("material", voxels)
    hp, pos = batch.numpy("hp").copy(), batch.numpy("pos").copy()
    hp[0, 4] = 0.05
    pos[0, 4, 2] += material == Material.DEBRIS_FIELD  # mechs wade in lava and stand on debris
    batch.set("hp", hp)
    batch.set("pos", pos)
    *_, infos = env.step({})
    (kill,) = [event for event in infos["blue_0"]["events"] if event["type"] == "kill"]
    assert kill["shooter"] == name and kill["target"] == "blue_4"
    np.testing.assert_allclose(kill["pos"], batch.numpy("pos")[0, 4], atol=1e-3)
    assert env.stats["blue"]["kills"] == env.stats["red"]["kills"] == 0


def names(battle: Battle) -> list[str]:
    return [f"{team}_{i}" for team in ("blue", "red") for i in range(battle.cfg.team_size)]


def stage(**options: Any) -> tuple[Battle, EventReader]:
    battle = Battle(**options)
    battle.empty()
    battle.engine.record([0])
    return battle, EventReader(battle.batch, names(battle))


def held(battle: Battle, mech: int, **columns: float) -> None:
    battle.batch["actions"].zero_()
    battle.act(mech, **columns)


def test_crash_death_is_named_crash():
    battle, log = stage(landing=True, decision_repeat=10)
    battle.place(4, Chassis.SCOUT, 20, 20, z=8.0)
    battle.place(5, Chassis.SCOUT, 40, 40)
    for name, value in (("vel", (0.0, 0.0, -24.0)), ("hp", 1.0), ("fallen", 50), ("stability", 10.0)):
        battle.put(name, value, 4)
    held(battle, 4)
    battle.step()
    (kill,) = (event for event in log.read() if event["type"] == "kill")
    assert (kill["shooter"], kill["target"]) == ("crash", "blue_4")
    np.testing.assert_allclose(kill["pos"], battle["pos"][0, 4], atol=1e-3)


def test_death_on_debris_beside_lava_is_named_debris():
    def edit(grid: np.ndarray) -> None:
        grid[0, 18:23, 18:25] = Material.LAVA
        grid[0, 20, 20] = Material.DEBRIS_FIELD

    battle, log = stage(edit=edit)
    battle.place(4, Chassis.SCOUT, 20.5, 20.5, z=1.91)
    battle.place(5, Chassis.SCOUT, 40, 40)
    battle.put("hp", 0.05, 4)
    held(battle, 4)
    battle.step()
    (kill,) = (event for event in log.read() if event["type"] == "kill")
    assert kill["shooter"] == "debris"


@pytest.mark.parametrize("painted", [False, True])
def test_missile_events_hold_target_lock_and_explosion_position(painted):
    battle, log = stage(decision_repeat=1)
    battle.place(0, Chassis.HEAVY, 20, 20)
    battle.place(1, Chassis.MEDIUM, 10, 10)
    battle.place(5, Chassis.MEDIUM, 30, 20, yaw=np.pi)
    battle.put("painted", 100 * painted, 5)
    battle.put("painter", 1 if painted else -1, 5)
    held(battle, 0, secondary=1.0)
    start, events = battle["pos"][0, 0].copy(), []
    for _ in range(40):
        battle.step()
        events += log.read()
    by_type = {event["type"]: event for event in events}
    launch, hit = by_type["missile_launch"], by_type["projectile_hit"]
    assert (launch["shooter"], launch["target"]) == ("blue_0", "red_0")
    assert launch["lock"] == ("paint" if painted else "los")
    np.testing.assert_allclose(launch["pos"], start + [0, 0, 2.5], atol=1e-3)
    target = battle["pos"][0, 5]
    assert hit["painted"] == painted and not hit["splash"] and not hit["rear"] and hit["stability"] == 15.0
    np.testing.assert_allclose([hit["pos"], by_type["explosion"]["pos"]], [target] * 2, atol=1e-3)
    assert by_type["explosion"]["radius"] == 2.5 and by_type["explosion"]["weapon"] == "missile"
    assert ("assist" in by_type) == painted
    if painted:
        assist = by_type["assist"]
        assert (assist["painter"], assist["shooter"], assist["target"]) == ("blue_1", "blue_0", "red_0")
        assert assist["bonus"] == pytest.approx(4.0, abs=1e-3)


def test_rear_hit_flags_and_smoke_position():
    battle, log = stage(decision_repeat=1)
    battle.place(1, Chassis.MEDIUM, 20, 20)
    battle.place(5, Chassis.MEDIUM, 24, 20)
    held(battle, 1, primary=1.0, special=1.0)
    events = []
    for _ in range(12):
        battle.step()
        events += log.read()
    by_type = {event["type"]: event for event in events}
    assert by_type["laser_hit"]["rear"] and not by_type["laser_hit"]["painted"]
    cloud = by_type["smoke_cloud"]
    assert cloud["radius"] == 4.0 and by_type["smoke_launch"]["shooter"] == cloud["shooter"] == "blue_1"
    standing = battle["cloud_pos"][0, 1][battle["cloud_ticks"][0, 1] > 0]
    np.testing.assert_allclose([cloud["pos"]], standing, atol=1e-3)


def test_ams_intercept_names_shooter_defender_and_target():
    battle, log = stage(decision_repeat=1)
    battle.place(0, Chassis.HEAVY, 20, 20)
    battle.place(6, Chassis.SCOUT, 30, 20)
    battle.place(5, Chassis.HEAVY, 30, 23)
    battle.put("hp", 1e6, 6)
    held(battle, 0, secondary=1.0)
    caught: list[dict] = []
    for _ in range(600):
        battle.put("heat", 0.0, 0)
        battle.step()
        caught += [event for event in log.read() if event["type"] == "ams_intercept"]
        log.clear()
    assert caught, "point defence never hit"
    for event in caught:
        assert (event["defender"], event["shooter"], event["target"]) == ("red_0", "blue_0", "red_1")
        assert np.linalg.norm(np.array(event["pos"]) - battle["pos"][0, 5]) <= 5.5


def test_full_journal_reports_dropped_rows():
    battle, log = stage(decision_repeat=1)
    battle.place(1, Chassis.MEDIUM, 20, 20)
    battle.place(5, Chassis.MEDIUM, 24, 20)
    held(battle, 1, primary=1.0)
    capacity = battle.batch["journal"].shape[1]
    battle.batch.set("journal_count", np.array([capacity - 1], np.int32))
    log.resume()
    battle.put("cooldown", 0)
    battle.act(1, tertiary=1.0)
    battle.step()
    events = log.read()
    lost = int(battle["journal_count"][0]) - capacity
    assert lost > 0 and len(events) == 2, "expected one row to fit"
    assert events[-1] == {"type": "overflow", "dropped": lost, "tick": 1} and log.dropped == lost
    battle.put("cooldown", 0)
    battle.step()
    (more,) = log.read()
    assert more["dropped"] == int(battle["journal_count"][0]) - capacity - lost and log.dropped > lost
    log.clear()
    battle.put("cooldown", 0)
    battle.step()
    assert {event["type"] for event in log.read()} >= {"laser_hit", "kinetic_fire"}


def test_legged_mech_is_counted_once():
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=50, size_y=50)))
    env.reset(seed=3)
    legs = env.sim.numpy("leg_hp").copy()
    legs[0, 7] = -1.0
    env.sim.set("leg_hp", legs)
    for _ in range(3):
        env.step({})
    assert env.stats["red"]["legged"] == 1 and env.stats["blue"]["legged"] == 0
