"""The kernels of the skill levels against their rules in plain Python, through whole fights."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.agents.heuristic import install
from echelon.agents.levels import FIRST_LEVEL, LEVELS, Route
from echelon.sim.arsenal import Weapon
from tests.env.battle import Battle
from tests.oracles.collision_avoidance import LEAVE_S, footing
from tests.oracles.levels import Memory, level_of, marks, target
from tests.oracles.moves import flank_time, flown_by_levels, planned, shortest, steered
from tests.oracles.shared import CARRIED
from tests.oracles.triggers import SMOKES, muzzle_blocked, systems, triggers
from tests.parity.scenes import clutter, scatter, snapshots

ENVS, DECISIONS = 10, 24


@pytest.fixture(scope="module")
def fights():
    """Every decision of ten cluttered fights of 2 packs a side, each pilot of a level of its own; none of them ends."""
    rng = np.random.default_rng(22)
    battle = Battle(envs=ENVS, size=44, edit=clutter(rng), own_maps=True, num_packs=2, pilots=install)
    battle.batch.set("script", rng.integers(FIRST_LEVEL, FIRST_LEVEL + len(LEVELS), (ENVS, 20)).astype(np.int32))
    scatter(battle, rng, spread=0.8)
    battle.put("heat", battle["heat"] * rng.uniform(0.4, 0.95, (ENVS, 20)))
    battle.put("hp", battle["hp"] * rng.choice([0.3, 1.0, 1.0], (ENVS, 20)) + rng.choice([5, 30], (ENVS, 20)))
    battle.look()
    told, flow = [], battle["bank_flow"].copy()
    for _ in range(DECISIONS):
        before = snapshots(battle)
        battle.step()
        told.append((before, snapshots(battle)))
    assert (battle["decision"] == DECISIONS).all(), "rules do not follow a battle beyond its end"
    yield told, flow
    battle.close()


def test_targets_match_oracle(fights):
    chosen, remembered = set(), 0
    for e in range(ENVS):
        memory, previous = Memory(), None
        for before, after in ((b[e], a[e]) for b, a in fights[0]):
            memory.add(before)
            for first in range(0, 20, 5):
                told = (after.pack_mark[first // 5], after.pack_focus[first // 5], after.pack_focus_since[first // 5])
                mark, focus, since = marks(memory, before, previous, list(range(first, first + 5)))
                assert told[:2] == (mark, focus)
                assert focus < 0 or told[2] == since
            before.pack_mark, before.pack_focus = after.pack_mark, after.pack_focus
            for m in range(20):
                want, known = target(memory, before, previous, m)
                assert after.pilot_target[m] == want, f"mech {m} at decision {memory.now}, environment {e}"
                assert after.pilot_age[m] == (known.age if known else -1)
                if known:
                    np.testing.assert_allclose(after.pilot_spot[m], known.pos, atol=1e-6)
                    np.testing.assert_allclose(after.pilot_drift[m], known.vel, atol=1e-6)
                    chosen.add(level_of(before, m))
                    remembered += known.age > 0
            previous = after
    assert chosen == set(LEVELS.values()) and remembered > 0


def test_weapons_and_systems_match_oracle(fights):
    used, blocked, fired = np.zeros(26, int), 0, set()
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
                want = np.zeros(26)
                for column, value in (shots | systems(memory, before, after, m, known, flow)).items():
                    want[column] = value
                got = np.where(np.arange(26) < 4, 0.0, after.actions[m])
                where = f"mech {m} at decision {memory.now}, environment {e}"
                np.testing.assert_array_equal(got, want, err_msg=where)
                assert after.pilot_wait_s[m] == pytest.approx(waited), where
                used += want != 0
                fired |= shooting
            previous = after
    assert (used[[4, 5, 6, 7, 8, 9, 14, 17]] > 0).all() and blocked > 10, (used, blocked)
    missing = [weapon.name for weapon in Weapon if weapon not in fired | SMOKES]
    assert not missing, f"no pilot of these fights fires {missing}: extend tests/oracles/triggers.py or the fights"


def test_movement_plan_and_throttles_match_oracle(fights):
    told, flow = fights
    jumps, held_back, phases, elsewhere = 0, 0, set(), {"hard": 0, "expert": 0}
    for e in range(ENVS):
        memory, retreat, flank, waited = Memory(), np.zeros(20), np.zeros(20), np.zeros(20)
        for t, (before, after) in enumerate((b[e], a[e]) for b, a in told):
            memory.add(before)
            for m in flown_by_levels(before):
                where = f"mech {m} at decision {t}, environment {e}"
                flank[m] = flank_time(memory, before, m, flow, flank[m])
                assert after.pilot_flank_s[m] == pytest.approx(flank[m]), where
                wish, way, retreat[m], gathered = planned(
                    memory, before, after, m, flow, retreat[m], flank[m], waited[m]
                )
                np.testing.assert_allclose(after.pilot_way[m], way, atol=1e-5, err_msg=where)
                np.testing.assert_allclose(after.pilot_wish[m], wish, atol=2e-5, err_msg=where)
                assert after.pilot_retreat_s[m] == pytest.approx(retreat[m]), where
                assert after.pilot_gather_s[m] == pytest.approx(gathered), where
                held_back += gathered > waited[m]
                waited[m] = gathered
                np.testing.assert_allclose(after.actions[m, :4], steered(before, after, m), atol=1e-4, err_msg=where)
                level = level_of(before, m)
                if level.route >= Route.COVERED and shortest(before, m, flow) @ way < 0.999:
                    elsewhere[next(name for name in LEVELS if LEVELS[name] == level)] += 1
                jumps += after.actions[m, 2] > 0
                phases.add(int(after.pilot_phase[m]))
    assert jumps > 0 and held_back > 5 and len(phases) > 1 and min(elsewhere.values()) > 10, (held_back, elsewhere)


def test_collision_avoidance_matches_oracle(fights):
    detours, waits, escapes, turned_back, hopped = 0, 0, 0, 0, 0
    for e in range(ENVS):
        memory = Memory()
        for t, (before, after) in enumerate((b[e], a[e]) for b, a in fights[0]):
            memory.add(before)
            for m in flown_by_levels(before):
                where = f"mech {m} at decision {t}, environment {e}"
                want = footing(memory, before, after, m)
                np.testing.assert_allclose(after.pilot_move[m], want.move, atol=2e-5, err_msg=where)
                assert (after.pilot_turn[m], bool(after.pilot_hops[m])) == (want.turn, want.hops), where
                for name in ("detour_s", "lost_s", "escape_s", "stay_s"):
                    assert getattr(after, f"pilot_{name}")[m] == pytest.approx(getattr(want, name), abs=1e-5), (
                        name,
                        where,
                    )
                detours += want.turn > 0
                hopped += want.hops
                waits += np.hypot(*after.pilot_wish[m]) > 0.2 and not want.move.any()
                escapes += want.escape_s == 1.25
                turned_back += want.detour_s * before.pilot_detour_s[m] < 0 and before.pilot_lost_s[m] >= LEAVE_S - 1e-4
    assert detours > 100 and waits > 0 and escapes > 5 and turned_back > 0 and hopped > 5, (
        detours,
        waits,
        escapes,
        turned_back,
        hopped,
    )
