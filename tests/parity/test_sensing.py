"""What mechs know and are shown against the plain-Python rules, on random battles."""

import numpy as np
import pytest

from echelon.env import layout
from echelon.sim.state import TRACKS
from tests.env.battle import Battle
from tests.oracles import aiming, display, world
from tests.oracles import sensing as rules
from tests.parity.scenes import clear, clutter, many_lanes, recall, scatter, snapshots, stir


@pytest.fixture(scope="module", params=["partial", "full"])
def battle(request):
    edit = clutter(np.random.default_rng(6))
    with many_lanes():
        made = Battle(envs=8, edit=edit, own_maps=True, num_packs=2, size=40, observation_mode=request.param)
    rng = np.random.default_rng(11)
    scatter(made, rng)
    stir(made, rng)
    recall(made, rng)
    made.before = made["contact"].copy()
    chosen = np.take_along_axis(made["contact"], rng.integers(0, 20, (8, 20, 1)), -1)[..., 0]
    made.batch.set("focus", np.where(rng.random(chosen.shape) < 0.5, chosen, made["focus"]))
    made.put("zone", np.linspace(3.0, 11.0, 8), 2)
    made.past = {name: made[name].copy() for name in ("seen", *TRACKS)}
    clear(made, "quality", "jam", "aid", "sight")
    made.batch.set("visible", rng.integers(0, 2, made["visible"].shape).astype(np.uint8))
    made.rows[:] = -7.0
    made.observe()
    made.expected = snapshots(made)
    return made


def test_sensor_quality_matches_oracle(battle):
    for e, s in enumerate(battle.expected):
        wanted = np.array([rules.quality(s, m) for m in range(20)])
        np.testing.assert_allclose(battle["quality"][e], wanted[:, 0], atol=1e-5, err_msg="quality")
        np.testing.assert_allclose(battle["jam"][e], wanted[:, 1], atol=1e-5, err_msg="jam")
        np.testing.assert_allclose(battle["aid"][e], wanted[:, 2], atol=1e-5, err_msg="aid")


def test_sight_matches_oracle(battle):
    seen = 0
    for e, s in enumerate(battle.expected):
        wanted = np.eye(20, dtype=int)
        for i, j in zip(*np.triu_indices(20, 1), strict=True):
            if s.alive[i] and s.alive[j] and world.sight(s, i, j):
                wanted[i, j] = wanted[j, i] = 2 if world.smoked(s, i, j) else 1
        assert np.array_equal(battle["sight"][e], wanted), f"sight of environment {e}"
        seen |= set(wanted.ravel().tolist()) == {0, 1, 2}
    assert seen


def test_visibility_matches_oracle(battle):
    for e, s in enumerate(battle.expected):
        if battle.cfg.observation_mode == "full":
            alive = s.alive.astype(bool)
            wanted = np.outer(alive, alive) & ~np.eye(20, dtype=bool)
        else:
            wanted = np.array([[rules.visible(s, m, j) for j in range(20)] for m in range(20)])
            assert 0.2 < wanted.mean() < 0.8
        assert np.array_equal(battle["visible"][e].astype(bool), wanted), f"visible of environment {e}"


def test_tracks_gain_one_row_per_decision(battle):
    for e, s in enumerate(battle.expected):
        page, living = int(s.decision) % 21, s.alive == 1
        assert np.array_equal(s.seen, np.where(s.visible == 1, s.decision, battle.past["seen"][e])), "seen"
        marks = (s.fallen > 0) + 2 * (s.leg_hp <= 0) + 4 * np.where(s.painted > 0, s.painter + 1, 0)
        body = np.stack([s.yaw, s.hp, s.heat, s.stability], axis=-1)
        for name, now in (("trace_pos", s.pos), ("trace_vel", s.vel), ("trace_body", body), ("trace_marks", marks)):
            wanted = battle.past[name][e].copy()
            wanted[page][living] = now[living]
            assert np.array_equal(getattr(s, name), wanted), name


def test_contact_slots_match_oracle(battle):
    unchanged = moved = 0
    for e, s in enumerate(battle.expected):
        for m in range(20):
            wanted = display.fill(s, m, battle.before[e, m].tolist())
            same = np.array(wanted) == battle.before[e, m]
            unchanged, moved = unchanged + int((same & (np.array(wanted) >= 0)).sum()), moved + int((~same).sum())
            assert battle["contact"][e, m].tolist() == wanted, f"contacts of mech {m} in environment {e}"
    assert unchanged > 100 and moved > 100


def test_contact_allocation_is_idempotent_within_decision(battle):
    slots, rows = battle["contact"].copy(), battle.rows.copy()
    battle.observe()
    assert np.array_equal(battle["contact"], slots) and np.array_equal(battle.rows, rows)


def test_observation_columns_match_oracle(battle):
    names = [row.name for row in layout.columns(battle.cfg)]
    for e, s in enumerate(battle.expected):
        flow = battle.batch.maps.flow[int(battle["map_slot"][e])]
        cores = [rules.row(s, m, shown=display.contact_row) for m in range(20)]
        ends = [aiming.row(s, m, flow, core) for m, core in enumerate(cores)]
        wanted = np.hstack([cores, ends])
        gap = np.abs(battle.obs[e] - wanted)
        m, column = np.unravel_index(gap.argmax(), gap.shape)
        got = f"{names[column]} is {battle.obs[e, m, column]}, wanted {wanted[m, column]}"
        assert gap.max() < 1e-5, f"mech {m} of environment {e}: {got}"
    living = battle.obs[battle["alive"] == 1]
    constant = [names[column] for column in np.flatnonzero(np.ptp(living, axis=0) == 0)]
    assert not [name for name in constant if name.startswith(("course", "aiming[0]"))], constant


def test_local_map_matches_oracle_at_edges_of_small_and_full_maps():
    made = Battle(envs=2, edit=clutter(np.random.default_rng(6)), own_maps=True, num_packs=2, size=24)
    made.batch.set("size", np.array([[24, 24, 20], [21, 14, 20]], np.int32))
    rng = np.random.default_rng(12)
    inset = rng.uniform(0.6, 6.0, (2, 20, 3)).astype(np.float32)
    corner = rng.integers(0, 2, (2, 20, 3))
    made.put("pos", np.where(corner == 1, made["size"][:, None] - inset, inset))
    made.put("yaw", rng.uniform(-np.pi, np.pi, (2, 20)))
    made.put("alive", 0, slice(0, 20, 6))
    made.rows[:] = -7.0
    made.observe()
    start = layout.offset("local_map", layout.blocks(made.cfg))
    shown = made.obs[..., start : start + layout.LOCAL_MAP.width]
    for e, s in enumerate(snapshots(made)):
        for m in range(20):
            wanted = rules.local_map(s, m) if s.alive[m] else np.zeros(121)
            assert np.array_equal(shown[e, m], wanted), f"mech {m} of environment {e}"
