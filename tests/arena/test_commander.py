"""Commanders: views, orders through whole matches, and faults."""

import numpy as np
import pytest

from echelon.actions import Order
from echelon.arena.commander import Commander, command, view_of
from echelon.arena.contest import Contest, MatchSession
from echelon.arena.match_runner import play
from echelon.arena.named_pilots import level_pilot
from echelon.config.opponents import split_commander
from tests.arena.recorded_matches import small_game
from tests.env.battle import Battle


def results(order: object, envs: int) -> list[tuple]:
    commander = Commander(lambda view: {own.mech: order for own in view.mechs})
    contest = Contest(env=small_game(), pilots=("led", "easy"), policies={"led": level_pilot("easy")}, matches=4)
    session = MatchSession(envs=envs, commanders={"led": commander})
    played = sorted(play(contest.plan, contest.pairings(), session), key=lambda r: r.pairing.number)
    assert not commander.report() and commander.calls >= 4
    return [(r.record.winner, r.record.zone_score, r.record.hp) for r in played]


def test_orders_of_a_commander_decide_matches_whatever_the_batch():
    assert results("retreat", 4) == results("retreat", 3) != results(None, 4)
    assert all(score[0] == 0 for _, score, _ in results("retreat", 4)), "mechs that retreat take no zone"


def test_view_has_own_living_mechs_and_hostiles_in_sight():
    battle = Battle()
    battle.put("alive", 0, 3)
    seen = np.zeros_like(battle["visible"])
    seen[0, 1, 7] = seen[0, 3, 8] = seen[0, 9, 2] = 1
    battle.batch.set("visible", seen)
    view = view_of(battle.engine, 0, 0)
    assert [own.mech for own in view.mechs] == [0, 1, 2, 4] and [hostile.mech for hostile in view.hostiles] == [7]
    assert view.mechs[0].pos == tuple(battle["pos"][0, 0]) and view.hostiles[0].hp == 1.0


def test_fault_leaves_the_last_orders_and_is_counted():
    battle = Battle()
    for returned in ({0: "hold", 1: ("focus", 7)}, {0: "dance"}, {0: ("focus", 1)}, {9: "hold"}, {0: 3}, 5):
        commander = Commander(lambda view, returned=returned: returned)
        command(battle.engine, {(0, 0): commander})
        assert battle["order_kind"][0, :3].tolist() == [Order.HOLD, Order.FOCUS, Order.NONE]
        assert len(commander.faults) == (returned != {0: "hold", 1: ("focus", 7)})
    crew = np.arange(10)[None] < 1
    command(battle.engine, {(0, 0): Commander(lambda view: {0: "retreat", 1: "retreat"}, crew)})
    assert battle["order_kind"][0, :3].tolist() == [Order.RETREAT, Order.FOCUS, Order.NONE], "orders for others"
    assert commander.report().startswith("of 1 calls of the commander 1 failed, the first at 0 s: TypeError")
    assert split_commander("commander:C:/x.py:f+hard") == ("C:/x.py:f", "hard")
    for name in ("commander:x.py", "commander:x.py+"):
        with pytest.raises(ValueError, match="has no pilot, expected commander:FILE"):
            split_commander(name)
