"""Phase 3 of a tick and the reading of actions against the plain-Python rules, on random battles."""

import numpy as np
import pytest

from echelon.sim import step
from tests.oracles import combat as rules
from tests.oracles import pilot
from tests.parity.scenes import assert_same, cluttered_field, phase, scatter, snapshots


@pytest.fixture(scope="module")
def field():
    return cluttered_field(0, num_packs=2)


@pytest.mark.parametrize("seed", range(3))
def test_upkeep_matches_oracle(field, seed):
    field.play("reset", list)
    scatter(field, np.random.default_rng(seed))
    field.put("hp", 0.03, slice(0, 5))
    field.put("shutdown", 0, slice(5, 10))
    wanted = snapshots(field)
    for s in wanted:
        rules.upkeep(s)
    field.play("upkeep", lambda: phase("upkeep"))
    assert_same(field, wanted, "cooldown", "painted", "suppressed", "heat", "hp", "alive", "died", "dying", "took",
                "shutdown", "shutdowns", "fallen", "stability", "vel", "knockdowns", "killer", "hazard")  # fmt: skip
    assert_same(field, wanted, "material", "voxel_hp")
    assert field["died"].sum() > 0 and field["knockdowns"].sum() > 0 and field["shutdowns"].sum() > 0


def test_clock_advances_and_ages_smoke(field):
    field.play("reset", list)
    rng = np.random.default_rng(2)
    scatter(field, rng)
    field.put("cloud_ticks", np.minimum(field["cloud_ticks"], 2))
    for _ in range(3):
        wanted = snapshots(field)
        for s in wanted:
            rules.clock(s)
        field.play("clock", lambda: phase("clock"))
        assert_same(field, wanted, "tick", "cloud_ticks", "clouds")
    assert not field["clouds"].any()


@pytest.mark.parametrize("switched", [True, False])
def test_controls_match_oracle(switched):
    names = ("enable_target_selection", "enable_ewar", "enable_obs_control")
    field = cluttered_field(1, envs=8, num_packs=2, boxes=0, **dict.fromkeys(names, switched))
    rng = np.random.default_rng(4)
    scatter(field, rng)
    actions = rng.normal(0, 0.8, field["actions"].shape).astype(np.float32)
    actions[rng.random(actions.shape) < 0.1] = 0.0
    actions[rng.random(actions.shape) < 0.05] = 0.5
    actions[rng.random(actions.shape) < 0.02] = np.nan
    actions[rng.random(actions.shape) < 0.02] = -np.inf
    field.batch.set("actions", actions)
    field.put("contact", rng.integers(-1, 20, field["contact"].shape))
    wanted = snapshots(field)
    for s in wanted:
        pilot.read_actions(s, switched)
    field.play("decide", step.read_actions)
    assert_same(field, wanted, "drive", "trigger", "vent", "focus", "focus_slot", "ecm", "eccm", "sort_mode",
                "hostile_only", "bad_actions", "acting")  # fmt: skip
    assert np.array_equal(field["actions"], actions, equal_nan=True), "the caller's actions were changed"


@pytest.mark.parametrize(
    ("asked", "ecm", "eccm"),
    [(0.0, 0, 0), (-0.5, 0, 0), (0.003, 0, 0), (0.005, 1, 0), (0.5, 1, 0), (0.507, 1, 0), (0.51, 0, 1), (1.0, 0, 1)],
)
def test_ewar_selector_half_is_ecm(asked, ecm, eccm):
    field = cluttered_field(1, envs=1, boxes=0)
    scouts = np.flatnonzero(field["chassis"][0] == 0)
    field.batch["actions"].fill_(asked)
    field.put("alive", 1)
    field.play("decide", step.read_actions)
    assert len(scouts) == 2
    assert (field["ecm"][0, scouts] == ecm).all() and (field["eccm"][0, scouts] == eccm).all()
