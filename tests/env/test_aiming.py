"""The blocks at the end of the suite layout: their columns against the plain-Python rules."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.config import EnvConfig, WorldConfig
from echelon.env import layout
from echelon.sim.batch import PreparedMaps
from tests.env.battle import Battle
from tests.oracles import aiming, display, sensing
from tests.parity.scenes import clutter, recall, scatter, snapshots, stir
from tests.sim.flat_field import flat_maps

ENVS, EDGE = 6, 40
END_AT = layout.obs_dim(EnvConfig()) - layout.END_WIDTH
"""First column of the end blocks."""


def hunted(maps: PreparedMaps) -> Battle:
    """Return battles in which half of the mechs have a contact as target, on cluttered maps."""
    made = Battle(envs=ENVS, maps=maps, own_maps=True, num_packs=2, size=EDGE)
    rng = np.random.default_rng(11)
    scatter(made, rng)
    stir(made, rng)
    recall(made, rng)
    made.observe()
    slot = rng.integers(0, 20, (*made["alive"].shape, 1))
    some = rng.random(made["alive"].shape) < 0.5
    made.batch.set("focus", np.where(some, np.take_along_axis(made["contact"], slot, -1)[..., 0], made["focus"]))
    made.rows[:] = -7.0
    made.observe()
    return made


@pytest.fixture(scope="module")
def maps():
    cfg = EnvConfig(world=WorldConfig(size_x=EDGE, size_y=EDGE), num_packs=2)
    made = flat_maps(cfg, clutter(np.random.default_rng(6)), ENVS)
    made.zone[:, 2] = np.linspace(3.0, 11.0, ENVS)
    return made


@pytest.fixture(scope="module")
def battle(maps):
    made = hunted(maps)
    made.expected = snapshots(made)
    yield made
    made.close()


def test_columns_match_oracle(battle, maps):
    names = [row.name for row in layout.columns(battle.cfg)]
    for e, s in enumerate(battle.expected):
        cores = [sensing.row(s, m, shown=display.contact_row) for m in range(20)]
        wanted = np.stack([aiming.row(s, m, maps.flow[e], core) for m, core in enumerate(cores)])
        gap = np.abs(battle.obs[e, :, END_AT:] - wanted)
        m, column = np.unravel_index(gap.argmax(), gap.shape)
        got = f"{names[END_AT + column]} is {battle.obs[e, m, END_AT + column]}, expected {wanted[m, column]}"
        assert gap.max() < 1e-4, f"mech {m} of environment {e}: {got}"


def test_scene_uses_every_column(battle):
    living = battle.obs[battle["alive"] == 1]
    names = [row.name for row in layout.columns(battle.cfg)]
    constant = [names[END_AT + c] for c in np.flatnonzero(np.ptp(living[:, END_AT:], axis=0) == 0)]
    assert not [name for name in constant if name.startswith(("course", "aiming[0]"))], constant


def test_end_blocks_close_every_row_of_the_suite_layout():
    for cfg in (EnvConfig(), EnvConfig(observe_scope=True, observe_comms=False)):
        assert layout.blocks(cfg)[-2:] == layout.END_BLOCKS
    assert layout.END_WIDTH == 20 * 8 + 7


def test_path_leads_around_a_wall_and_the_zone_bearing_through_it():
    def wall(grid: np.ndarray) -> None:
        grid[:8, 16:18, 10:50] = 1

    battle = Battle(edit=wall)
    battle.empty()
    battle.place(0, 2, 30.5, 10.5, z=2.6, yaw=np.pi / 2)
    battle.observe()
    row = dict(zip((c.name for c in layout.columns(battle.cfg)), battle.obs[0, 0].tolist(), strict=True))
    assert row["course.zone_cos"] == pytest.approx(1.0, abs=1e-3)
    assert row["course.zone_range"] == pytest.approx(19.5 / 15, abs=1e-3)
    assert row["course.zone_radius"] == pytest.approx(0.5)
    assert row["course.path_cos"] < 0.8 and row["course.path_length"] > 2 * row["course.zone_range"]
    battle.close()
