"""Events and statistics of ``EchelonEnv``: they agree with each other, with the arrays, and with the rules."""  # RL-8

from __future__ import annotations

from collections import Counter

import pytest

from echelon.agents.heuristic import HeuristicPolicy
from echelon.config import EnvConfig, WorldConfig
from echelon.env.env import STATS, EchelonEnv
from echelon.sim.world import Material

FIELDS = {
    "kill": {"shooter", "target"},
    "assist": {"painter", "target"},
    "laser_hit": {"shooter", "target", "damage", "weapon"},
    "projectile_hit": {"shooter", "target", "damage", "weapon"},
    "missile_launch": {"shooter", "weapon"},
    "smoke_launch": {"shooter", "weapon"},
    "kinetic_fire": {"shooter", "weapon"},
    "paint": {"shooter", "target"},
    "ams_intercept": {"defender", "shooter"},
}


def played(record: bool, skill: str = "hard", seed: int = 5) -> tuple[EchelonEnv, list[list[dict]], Counter]:
    """Play a whole battle of scripted pilots; return the environment, each decision's events, and sums of arrays."""
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=50, size_y=50)), record=record)
    env.reset(seed=seed)
    pilot, log, sums = HeuristicPolicy(1.0, skill), [], Counter()
    over = False
    while not over:
        *_, terminated, truncated, infos = env.step({aid: pilot.act(env, aid) for aid in env.possible_agents})
        shared = {id(infos[aid]["events"]) for aid in env.possible_agents}
        assert len(shared) == 1, "everybody is given the same list"
        log.append(infos["blue_0"]["events"])
        for name in ("kills", "assists", "intercepts", "died"):
            sums[name] += int(env.sim.numpy(name).sum())
        sums["damage"] += float(env.sim.numpy("dealt").sum() + env.sim.numpy("dealt_friendly").sum())
        over = all(terminated[a] or truncated[a] for a in env.possible_agents)
    return env, log, sums


@pytest.mark.parametrize("record", [False, True])
def test_events_add_up_to_the_statistics_and_to_the_arrays(record):
    env, log, sums = played(record)
    events = [event for decision in log for event in decision]
    counts = Counter(event["type"] for event in events)
    assert {"kill", "laser_hit", "projectile_hit", "paint", "kinetic_fire"} <= set(counts) <= set(FIELDS)
    for event in events:
        assert set(event) == FIELDS[event["type"]] | {"type", "tick"}
    total = {name: env.stats["blue"][name] + env.stats["red"][name] for name in STATS}
    assert total["kills"] == sums["kills"] and counts["kill"] == sums["died"]
    assert total["assists"] == counts["assist"] == sums["assists"]
    assert total["ams_intercepts"] == counts["ams_intercept"] == sums["intercepts"]
    for kind, stat in (("paint", "paints"), ("laser_hit", "laser_hits"), ("missile_launch", "missile_launches")):
        assert total[stat] == counts[kind] > 0
    hits = sum(e["damage"] for e in events if "damage" in e)
    assert hits == pytest.approx(sums["damage"], rel=0.35), "leg hits cost the body only a part"
    ticks = [event["tick"] for event in events]
    assert ticks == sorted(ticks) and 0 < ticks[0] and ticks[-1] <= 5 * len(log)
    assert env.last_outcome is not None and env.last_outcome["stats"] == env.stats
    env.close()


def test_recording_changes_no_event():
    plain, recorded = played(False), played(True)
    assert plain[1] == recorded[1] and recorded[0].get_replay()
    for env, *_ in (plain, recorded):
        env.close()


def test_a_second_episode_begins_with_nothing():
    env, *_ = played(True)
    env.reset(seed=6)
    assert all(value == 0.0 for team in env.stats.values() for value in team.values())
    *_, infos = env.step({})
    assert infos["red_0"]["events"] == []
    env.close()


@pytest.mark.parametrize(("material", "name"), [(Material.LAVA, "lava"), (Material.DEBRIS_FIELD, "debris")])
def test_a_death_by_a_hazard_names_it_and_counts_for_nobody(material, name):
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=50, size_y=50)))
    env.reset(seed=3)
    batch = env.sim
    voxels = batch.numpy("material").copy()
    x, y = (int(v) for v in batch.numpy("pos")[0, 4, :2])
    voxels[0, 0, y - 1 : y + 2, x - 1 : x + 2] = material
    batch.set("material", voxels)
    hp, pos = batch.numpy("hp").copy(), batch.numpy("pos").copy()
    hp[0, 4] = 0.05
    pos[0, 4, 2] += material == Material.DEBRIS_FIELD  # one wades in lava and stands on debris
    batch.set("hp", hp)
    batch.set("pos", pos)
    *_, infos = env.step({})
    kills = [event for event in infos["blue_0"]["events"] if event["type"] == "kill"]
    assert kills == [{"type": "kill", "shooter": name, "target": "blue_4", "tick": kills[0]["tick"]}]
    assert env.stats["blue"]["kills"] == env.stats["red"]["kills"] == 0
    env.close()


def test_legs_are_counted_once():
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=50, size_y=50)))
    env.reset(seed=3)
    legs = env.sim.numpy("leg_hp").copy()
    legs[0, 7] = -1.0
    env.sim.set("leg_hp", legs)
    for _ in range(3):
        env.step({})
    assert env.stats["red"]["legged"] == 1 and env.stats["blue"]["legged"] == 0
    env.close()
