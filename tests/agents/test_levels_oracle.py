"""The kernels of the skill levels match their rules in plain Python through whole fights."""

import numpy as np
import pytest

from echelon.agents.heuristic import install
from echelon.agents.levels import FIRST_LEVEL, LEVELS, Route
from echelon.agents.targets import DIRECTIONS, ESCAPE_DRAW, TARGET_DRAW, target_draw
from echelon.sim.arsenal import Weapon
from tests.env.battle import Battle
from tests.env.test_orders import any_orders
from tests.oracles.collision_avoidance import CHANGE_SIDE_S, avoidance
from tests.oracles.levels import Memory, chosen_target, level_of, pack_choices
from tests.oracles.moves import flank_time_left, level_controlled, movement_plan, shortest, throttles
from tests.oracles.shared import CARRIED, SMOKES
from tests.oracles.triggers import muzzle_blocked, systems, triggers
from tests.parity.scenes import clutter, scatter, snapshots

ENVS, DECISIONS = 10, 24


@pytest.fixture(scope="module")
def fights():
    """States (before, after) of every decision of ten cluttered fights of 2 packs a side, and the flow fields.

    Each pilot has a random level, and in half of the fights most get orders; no fight ends.
    """
    rng = np.random.default_rng(22)
    battle = Battle(envs=ENVS, size=44, edit=clutter(rng), own_maps=True, num_packs=2, pilots=install)
    battle.batch.set("script", rng.integers(FIRST_LEVEL, FIRST_LEVEL + len(LEVELS), (ENVS, 20)).astype(np.int32))
    scatter(battle, rng, spread=0.8)
    battle.put("heat", battle["heat"] * rng.uniform(0.4, 0.95, (ENVS, 20)))
    battle.put("hp", battle["hp"] * rng.choice([0.3, 1.0, 1.0], (ENVS, 20)) + rng.choice([5, 30], (ENVS, 20)))
    battle.observe()
    decisions, flow = [], battle["bank_flow"].copy()
    for decision in range(DECISIONS):
        if decision in (6, 14):
            given = any_orders(envs=ENVS, seed=decision)
            battle.engine.give_orders({(e, m): order for (e, m), order in given.items() if e >= ENVS // 2})
        before = snapshots(battle)
        battle.step()
        decisions.append((before, snapshots(battle)))
    assert (battle["decision"] == DECISIONS).all(), "a fight has ended"
    return decisions, flow


def test_random_draws_of_targets_and_escapes_differ_in_the_largest_battle():
    draws = [target_draw(j) for j in range(200)]
    assert not set(draws) & set(range(ESCAPE_DRAW, ESCAPE_DRAW + DIRECTIONS)) and len(set(draws)) == 200
    assert draws[:32] == list(range(TARGET_DRAW, ESCAPE_DRAW)), "battles of up to 32 mechs stay the same"


def test_targets_match_oracle(fights):
    levels_with_target, remembered = set(), 0
    for e in range(ENVS):
        memory, previous = Memory(), None
        for before, after in ((b[e], a[e]) for b, a in fights[0]):
            memory.add(before)
            for first in range(0, 20, 5):
                row = first // 5
                mark, focus, since = pack_choices(memory, before, previous, list(range(first, first + 5)))
                assert (after.pack_mark[row], after.pack_focus[row]) == (mark, focus)
                assert focus < 0 or after.pack_focus_since[row] == since
            before.pack_mark, before.pack_focus = after.pack_mark, after.pack_focus
            for m in range(20):
                want, known = chosen_target(memory, before, previous, m)
                assert after.pilot_target[m] == want, f"mech {m} at decision {memory.now}, environment {e}"
                assert after.pilot_age[m] == (known.age if known else -1)
                if known:
                    np.testing.assert_allclose(after.pilot_spot[m], known.pos, atol=1e-6)
                    np.testing.assert_allclose(after.pilot_drift[m], known.vel, atol=1e-6)
                    levels_with_target.add(level_of(before, m))
                    remembered += known.age > 0
            previous = after
    assert levels_with_target == set(LEVELS.values()) and remembered > 0


@pytest.mark.long
def test_weapons_and_systems_match_oracle(fights):
    used, blocked, fired = np.zeros(18, int), 0, set()
    decisions, flow = fights
    for e in range(ENVS):
        memory, previous = Memory(), None
        for before, after in ((b[e], a[e]) for b, a in decisions):
            memory.add(before)
            for m in np.flatnonzero(before.alive).tolist():
                j = int(after.pilot_target[m])
                known = memory.known(level_of(before, m), m, j) if j >= 0 else None
                waited = float(previous.pilot_wait_s[m]) if previous else 0.0
                new = previous is None or previous.pilot_target[m] != j
                shots, waited, shooting = triggers(memory, before, m, known, waited, prob=1.0, new_target=new)
                guns = CARRIED[int(before.chassis[m])] if known else ()
                blocked += any(muzzle_blocked(level_of(before, m), before, m, weapon, known.pos) for weapon in guns)
                want = np.zeros(18)
                for column, value in (shots | systems(memory, before, after, m, known, flow)).items():
                    want[column] = value
                got = np.where(np.arange(18) < 4, 0.0, after.actions[m])
                where = f"mech {m} at decision {memory.now}, environment {e}"
                np.testing.assert_array_equal(got, want, err_msg=where)
                assert after.pilot_wait_s[m] == pytest.approx(waited), where
                used += want != 0
                fired |= shooting
            previous = after
    assert (used[[4, 5, 6, 7, 8, 9, 14, 17]] > 0).all() and blocked > 10, (used, blocked)
    missing = [weapon.name for weapon in Weapon if weapon not in fired | SMOKES]
    assert not missing, f"no pilot of these fights fires {missing}: extend tests/oracles/triggers.py or the fights"


@pytest.mark.long
def test_movement_plan_and_throttles_match_oracle(fights):
    decisions, flow = fights
    jumps, gathered_count, phases, off_shortest = 0, 0, set(), {"hard": 0, "expert": 0}
    for e in range(ENVS):
        memory, retreat, flank, waited = Memory(), np.zeros(20), np.zeros(20), np.zeros(20)
        for t, (before, after) in enumerate((b[e], a[e]) for b, a in decisions):
            memory.add(before)
            for m in level_controlled(before):
                where = f"mech {m} at decision {t}, environment {e}"
                flank[m] = flank_time_left(memory, before, m, flow, flank[m])
                assert after.pilot_flank_s[m] == pytest.approx(flank[m]), where
                velocity, path, retreat[m], gathered = movement_plan(
                    memory, before, after, m, flow, retreat[m], flank[m], waited[m]
                )
                np.testing.assert_allclose(after.pilot_way[m], path, atol=1e-5, err_msg=where)
                np.testing.assert_allclose(after.pilot_desired[m], velocity, atol=2e-5, err_msg=where)
                assert after.pilot_retreat_s[m] == pytest.approx(retreat[m]), where
                assert after.pilot_gather_s[m] == pytest.approx(gathered), where
                gathered_count += gathered > waited[m]
                waited[m] = gathered
                np.testing.assert_allclose(after.actions[m, :4], throttles(before, after, m), atol=1e-4, err_msg=where)
                level = level_of(before, m)
                if level.route >= Route.COVERED and shortest(before, m, flow) @ path < 0.999:
                    off_shortest[next(name for name in LEVELS if LEVELS[name] == level)] += 1
                jumps += after.actions[m, 2] > 0
                phases.add(int(after.pilot_phase[m]))
    assert jumps > 0 and gathered_count > 5 and len(phases) > 1, (jumps, gathered_count, phases)
    assert min(off_shortest.values()) > 10, off_shortest


def test_collision_avoidance_matches_oracle(fights):
    counts = dict.fromkeys(("detours", "waits", "escapes", "side changes", "jumps"), 0)
    for e in range(ENVS):
        memory = Memory()
        for t, (before, after) in enumerate((b[e], a[e]) for b, a in fights[0]):
            memory.add(before)
            for m in level_controlled(before):
                where = f"mech {m} at decision {t}, environment {e}"
                want = avoidance(memory, before, after, m)
                np.testing.assert_allclose(after.pilot_move[m], want.move, atol=2e-5, err_msg=where)
                assert (after.pilot_turn[m], bool(after.pilot_hops[m])) == (want.turn, want.hops), where
                for name in ("detour_s", "lost_s", "escape_s", "stay_s"):
                    got = getattr(after, f"pilot_{name}")[m]
                    assert got == pytest.approx(getattr(want, name), abs=1e-5), (name, where)
                turned_back = want.detour_s * before.pilot_detour_s[m] < 0
                counts["detours"] += want.turn > 0
                counts["jumps"] += want.hops
                counts["waits"] += np.hypot(*after.pilot_desired[m]) > 0.2 and not want.move.any()
                counts["escapes"] += want.escape_s == 1.25
                counts["side changes"] += turned_back and before.pilot_lost_s[m] >= CHANGE_SIDE_S - 1e-4
    assert counts["detours"] > 100 and counts["waits"] > 0 and counts["escapes"] > 5, counts
    assert counts["side changes"] > 0 and counts["jumps"] > 5, counts
