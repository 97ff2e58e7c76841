"""Heat maps: cells, files, and the observer that fills them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from echelon.config import EnvConfig, WorldConfig
from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.spatial import HeatMapObserver, SpatialAccumulator, load_heat, save_heat
from echelon.training.vec_env import VectorEnv


def test_heat_map_cell_has_y_as_row():
    assert SpatialAccumulator().grid_size == 32
    heat = SpatialAccumulator(16)
    assert heat.grid_size == 16 and heat.death_locations.shape == (16, 16)
    heat.record_death(99.9, 0.0, (100, 50))
    heat.record_damage(0.0, 25.0, 12.5, (100, 50))
    heat.record_position(50.0, 49.0, (100, 50))
    assert np.argwhere(heat.death_locations).tolist() == [[0, 15]]
    assert np.argwhere(heat.damage_locations).tolist() == [[8, 0]] and heat.damage_locations[8, 0] == 12.5
    assert np.argwhere(heat.movement_density).tolist() == [[15, 8]]
    assert heat.death_locations.dtype == np.float32


def test_heat_map_accepts_arrays_of_positions_and_world_sizes_and_clamps_to_the_edge():
    heat = SpatialAccumulator(2)
    x, y = np.array([1.0, 1.0, 30.0]), np.array([1.0, -5.0, 1.0])
    heat.record_damage(x, y, np.array([1.0, 2.0, 4.0]), (np.array([40, 40, 40]), np.array([40, 40, 40])))
    assert heat.damage_locations.tolist() == [[3.0, 4.0], [0.0, 0.0]]
    assert set(heat.maps()) == {"damage"}, "empty maps are left out"
    heat.reset()
    assert heat.maps() == {}


@pytest.mark.parametrize("missing", ["wandb", "matplotlib"])
def test_to_images_warns_and_returns_nothing_without_libraries(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    heat = SpatialAccumulator()
    heat.record_death(1, 1, (10, 10))
    with pytest.warns(RuntimeWarning, match="heat maps are not drawn") as caught:
        assert heat.to_images() == {}
    assert len(caught) == 1


def test_to_images_returns_nonempty_maps():
    pytest.importorskip("wandb", reason="needs W&B")
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    heat = SpatialAccumulator()
    heat.record_position(1, 1, (10, 10))
    heat.record_death(1, 1, (10, 10))
    assert set(heat.to_images()) == {"deaths", "movement"}
    from matplotlib import pyplot

    assert pyplot.get_fignums() == [], "figures are closed"


def test_heat_maps_roundtrip_through_file(tmp_path):
    heat = SpatialAccumulator(5)
    heat.record_damage(3, 9, 7.5, (10, 10))
    save_heat(heat, tmp_path / "heat" / "u000001.safetensors")
    again = load_heat(tmp_path / "heat" / "u000001.safetensors")
    assert again.grid_size == 5 and again.damage_locations.tolist() == heat.damage_locations.tolist()
    (tmp_path / "torn.safetensors").write_bytes(b"PK torn")
    with pytest.raises(ValueError, match="torn.safetensors' cannot be read"):
        load_heat(tmp_path / "torn.safetensors")


def test_heat_map_observer_counts_learners_until_episode_end():
    cfg = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=3.0, zone_win_share=2.0)
    with VectorEnv(
        3,
        cfg,
        sides=Sides(["blue", "red", "blue"]),
        maps=Maps(2),
        pilots=Pilots("expert"),
        episodes=Episodes(autoreset=False),
    ) as env:
        heat = SpatialAccumulator(4)
        watch = HeatMapObserver(env, heat)
        env.reset()
        watch.begin()
        expected, died = np.zeros((4, 4), np.float32), 0
        for step in range(cfg.max_steps + 5):
            env.actions.zero_()
            env.step()
            watch.after_step()
            if step >= cfg.max_steps:
                continue
            pos, acting = env.engine.batch.numpy("pos"), env.results.acting.numpy()
            for e, side in enumerate((0, 1, 0)):
                for m in range(5 * side, 5 * side + 5):
                    if acting[e, m]:
                        expected[int(pos[e, m][1] / 10), int(pos[e, m][0] / 10)] += 1
                        died += int(env.engine.batch.numpy("died")[e, m])
        assert heat.movement_density.tolist() == expected.tolist() and expected.sum() > 0
        assert heat.death_locations.sum() == died
