"""Navigation assist: throttles blended with the route to the zone, against a plain-Python reference."""

from math import cos, hypot, sin

import numpy as np
import pytest

from echelon.nav.field import FLOW_NONE
from echelon.nav.graph import RADII, RADIUS_OF_CHASSIS
from echelon.sim.arsenal import CHASSIS, Chassis
from tests.env.battle import Battle
from tests.nav.walk import next_cell
from tests.oracles.pilot import decode_action
from tests.parity.scenes import clutter, scatter

FORWARD, STRAFE = 0, 1
SHARE = {"off": 0.0, "assist": 0.3, "full": 1.0}


def waypoint(flow, zone, pos, foot, cells=2):
    """Return the point ``cells`` ahead on the route, the zone centre inside the zone, None without a route."""
    size_y, size_x = flow.shape[1:]
    x, y = min(max(int(pos[0]), 0), size_x - 1), min(max(int(pos[1]), 0), size_y - 1)
    k = min(max(int(foot + 0.01), 0), flow.shape[0] - 1)
    while k > 0 and flow[k, y, x] == FLOW_NONE:
        k -= 1
    here = (x, y, k)
    for _ in range(cells):
        if flow[here[2], here[1], here[0]] == FLOW_NONE:
            return None
        here = next_cell(flow, here[0] + 0.5, here[1] + 0.5, here[2])
    if flow[here[2], here[1], here[0]] == FLOW_NONE:
        return here[0] + 0.5, here[1] + 0.5
    there = next_cell(flow, here[0] + 0.5, here[1] + 0.5, here[2])
    return (float(zone[0]), float(zone[1])) if there == here else (here[0] + 0.5, here[1] + 0.5)


def blended(s, flows, mode, own):
    if not s["alive"] or s["shutdown"]:
        return own
    chassis = int(s["chassis"])
    flow = flows[RADII.index(RADIUS_OF_CHASSIS[chassis])]
    foot = s["pos"][2] - CHASSIS[chassis].size[2] / 2
    goal = waypoint(flow, s["zone"], s["pos"], foot)
    if goal is not None and goal != tuple(map(float, s["zone"][:2])) and hypot(*(goal - s["pos"][:2])) <= 1.0:
        goal = waypoint(flow, s["zone"], s["pos"], foot, 3)
    if goal is None:
        return own
    dx, dy = goal[0] - s["pos"][0], goal[1] - s["pos"][1]
    if hypot(dx, dy) <= 1.0:
        return own
    dx, dy, yaw, share = dx / hypot(dx, dy), dy / hypot(dx, dy), s["yaw"], SHARE[mode]
    direction = np.array([dx * cos(yaw) + dy * sin(yaw), dy * cos(yaw) - dx * sin(yaw)])
    return np.clip((1 - share) * np.asarray(own) + share * direction, -1, 1)


@pytest.mark.parametrize("mode", ["off", "assist", "full"])
def test_navigation_assist_blends_throttles_like_the_reference(mode):
    battle = Battle(envs=8, size=44, edit=clutter(np.random.default_rng(2)), own_maps=True, num_packs=2, nav_mode=mode)
    rng = np.random.default_rng(7)
    scatter(battle, rng, spread=0.9)
    battle.put("shutdown", (rng.random((8, 20)) < 0.2).astype(np.int32))
    battle.observe()
    own = rng.uniform(-1, 1, (8, 20, battle.engine.action_dim)).astype(np.float32)
    own[rng.random(own.shape) < 0.1] = 3.0
    own[rng.random(own.shape) < 0.05] = np.nan
    battle.batch.set("actions", own)
    program = [x for x in battle.engine.decision() if x.phase.startswith(("controls", "assist"))]
    assert (program[-1].phase == "assist") == (mode != "off"), "the assist must come last, after the controls are read"
    battle.play("assist", lambda: program)
    found, moved = battle["drive"], 0
    flow = battle.batch.maps.flow
    for e in range(8):
        for m in range(20):
            s = {name: battle[name][e, m] for name in ("alive", "shutdown", "chassis", "pos", "yaw")}
            s["zone"] = battle["zone"][e]
            read = decode_action(own[e, m]) * s["alive"]
            want = blended(s, flow[int(battle["map_slot"][e])], mode, read[:2])
            np.testing.assert_allclose(found[e, m, :2], want, atol=3e-5, err_msg=f"mech {m}, environment {e}")
            np.testing.assert_array_equal(found[e, m, 2:], read[2:4])
            moved += not np.allclose(want, read[:2])
    np.testing.assert_array_equal(battle["actions"], own, err_msg="the caller's actions were changed")
    assert np.array_equal(battle["bad_actions"], (~np.isfinite(own)).sum(axis=2)) and battle["bad_actions"].any()
    assert (moved > 40) == (mode != "off")


def test_navigation_assist_replaces_nonfinite_throttles():
    battle = Battle(size=44, nav_mode="full")
    battle.empty()
    battle.place(0, Chassis.MEDIUM, 5, 5)
    battle.observe()
    actions = np.zeros((1, 10, battle.engine.action_dim), np.float32)
    actions[0, 0, :2] = np.nan
    battle.step(actions)
    assert hypot(*battle["vel"][0, 0, :2]) > 1.0 and np.isfinite(battle["pos"]).all()
    assert battle["bad_actions"][0, 0] == 2


def test_full_assist_walks_every_class_around_a_wall():
    def edit(grid):
        grid[0:8, 7:37, 14:17] = 1

    battle = Battle(size=44, edit=edit, nav_mode="full", max_episode_seconds=120.0, zone_win_share=1.0)
    battle.empty()
    for mech, chassis in enumerate(Chassis):
        battle.place(mech, chassis, 5, 8 + 8 * mech)
    battle.place(5, Chassis.SCOUT, 42, 42)
    battle.observe()
    for _ in range(160):
        battle.batch["actions"].fill_(0.0)
        battle.put("pos", (42, 42, 0.9), 5)
        battle.step()
    zone = battle["zone"][0]
    away = np.hypot(*(battle["pos"][0, :4, :2] - zone[:2]).T)
    assert (away < zone[2]).all(), away
