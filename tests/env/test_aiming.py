"""The blocks at the end of the suite layout; ``tests/parity/test_sensing.py`` compares their columns."""

import numpy as np
import pytest

from echelon.config import EnvConfig
from echelon.env import layout
from tests.env.battle import Battle


def test_end_blocks_close_every_row_of_the_suite_layout():
    for cfg in (EnvConfig(), EnvConfig(observe_scope=True, observe_local_map=False)):
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
