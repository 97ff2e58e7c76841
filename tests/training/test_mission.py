"""Missions: the embedding's shape and bounds, weights that always sum to one, verbs, success."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from echelon.training import mission
from echelon.training.mission import Order

ORDER = Order(verb="scout", risk=0.2, loss_appetite=0.3, time_pressure=1.0, grouping=0.0)


def test_an_order_is_fifteen_numbers_within_bounds():
    row = mission.embed(ORDER, 100.0, math.pi / 2, 0.4)
    assert len(row) == mission.EMBEDDING_DIM == 15
    assert row == pytest.approx([0, 0, 0, 0, 0, 1, 0, 0.2, 0.3, 1.0, 0.0, 0.5, 1.0, 0.0, 0.4], abs=1e-12)
    far = mission.embed(ORDER, 1e6, -3.0, 7.0)
    assert all(-1.0 <= x <= 1.0 for x in far) and far[11] == 1.0


@pytest.mark.parametrize(
    ("progress", "raw", "phase"), [(0.0, 0.70, 1), (0.25, 1.28, 2), (0.5, 1.06, 3), (0.75, 0.535, 4), (1.0, 1.035, 4)]
)
def test_raw_weights_have_the_sums_of_the_design(progress, raw, phase):
    # the sums are given to two or three digits
    assert sum(mission.raw_weights(progress).values()) == pytest.approx(raw, abs=0.01)
    assert mission.phase_at(progress) == phase


def test_weights_sum_to_one_at_every_progress():
    for step in range(101):
        found = mission.weights(step / 100)
        assert sum(found.values()) == pytest.approx(1.0) and min(found.values()) >= 0


def test_shaping_fades_the_objective_comes_and_goes_and_the_outcome_rises():
    assert [mission.shaping_weight(p) for p in (0.0, 0.75, 1.0)] == pytest.approx([1.0, 0.05, 0.05])
    assert [mission.objective_weight(p) for p in (0, 0.125, 0.25, 0.5, 0.625, 0.75, 1)] == pytest.approx(
        [0, 0.5, 1, 1, 0.5, 0, 0]
    )
    assert [mission.terminal_weight(p) for p in (0.0, 0.5, 0.75, 1.0)] == pytest.approx([0, 0, 0.5, 1.0])


@pytest.mark.parametrize("verb", mission.VERBS)
def test_a_verb_gates_shaping_but_keeps_its_sum(verb):
    shaping = {"damage": 0.2, "survival": 0.3, "detection": 0.1}
    found = mission.gated(verb, shaping)
    assert sum(found.values()) == pytest.approx(0.6)
    gate = mission.VERB_GATES[verb]
    assert (found["damage"] == 0) == (gate.damage == 0)
    ratio = {n: found[n] / (shaping[n] * getattr(gate, n)) for n in shaping if getattr(gate, n) > 0}
    assert max(ratio.values()) == pytest.approx(min(ratio.values()))


def test_a_verb_that_lets_nothing_through_pays_nothing():
    assert mission.gated("scout", {"damage": 0.2}) == {"damage": 0.0}


def test_success_by_verb():
    assert mission.success_of_scout(0, 0, 0.5) == pytest.approx(0.8), "no enemy is all of them"
    assert mission.success_of_scout(1, 4, 1.0) == pytest.approx(0.55)
    assert mission.success_of_assault(1.0, 0.5) == pytest.approx(0.85)
    assert mission.success_of_hold(0.5, 1.0) == pytest.approx(0.7)


def test_losses_beyond_appetite_halve_and_lateness_costs_a_fifth():
    assert mission.judged(0.8, ORDER, 0.3, 1.0) == pytest.approx(0.8)
    assert mission.judged(0.8, ORDER, 0.31, 1.0) == pytest.approx(0.4)
    assert mission.judged(0.8, ORDER, 0.0, 1.01) == pytest.approx(0.64)
    assert mission.judged(0.8, ORDER, 1.0, 2.0) == pytest.approx(0.32)
    assert [mission.terminal_reward(s) for s in (0.0, 0.5, 1.0)] == [-1.0, 0.0, 1.0]


def test_a_force_counts_in_packs():
    assert mission.pack_equivalent({"heavy": 1, "medium": 2, "light": 1, "scout": 1}) == pytest.approx(0.52)
    with pytest.raises(ValueError, match="mech class is 'tank'"):
        mission.pack_equivalent({"tank": 1})


def test_impossible_orders_are_named():
    with pytest.raises(ValueError, match="order.verb is 'dance', wanted one of assault"):
        replace(ORDER, verb="dance")
    with pytest.raises(ValueError, match="order.risk is 1.5, wanted 0 to 1"):
        replace(ORDER, risk=1.5)
    with pytest.raises(ValueError, match="shaping component is 'luck'"):
        mission.gated("hold", {"luck": 1.0})
