"""World statistics of a handmade world with known values."""

import numpy as np
import pytest

from echelon.atlas.statistics import top_height, world_statistics
from echelon.sim.world import BLOCKS_MOVE, Material
from tests.atlas.worlds import EDGE, HEIGHT, generated, handmade, scene


def test_statistics_of_handmade_world():
    result = world_statistics(handmade())
    cells, columns = EDGE * EDGE * HEIGHT, EDGE * EDGE
    assert result["materials"]["solid"] == pytest.approx(5 * 16 / cells)
    assert result["seen_from_above"]["solid"] == pytest.approx(16 / columns)
    assert result["seen_from_above"]["water"] == pytest.approx(16 / columns)
    assert (
        sum(result["materials"].values()) == pytest.approx(1) == pytest.approx(sum(result["seen_from_above"].values()))
    )
    assert result["solid_share"] == result["opaque_share"] == pytest.approx(80 / cells)
    heights = result["heights"]
    assert (heights["median_built"], heights["max"]) == (5, 5)
    assert heights["open_share"] == pytest.approx(1 - 16 / columns) and heights["mean"] == pytest.approx(80 / columns)


def test_path_statistics_measure_spawn_to_zone_edge():
    paths = world_statistics(handmade())["ways"]
    assert paths["blue"]["straight"] == pytest.approx(8.5 - 3, abs=0.1)
    assert paths["blue"]["cut_off"] == paths["red"]["cut_off"] == 0
    assert paths["blue"]["walked"] == pytest.approx(paths["red"]["walked"])
    assert paths["ratio"] == pytest.approx(1)


def test_path_statistics_count_walled_in_mechs():
    world = handmade()
    material = world.material.copy()
    material[:, :, 7:9] = Material.REINFORCED
    walled = type(world)(**{**world.__dict__, "material": material})
    result = world_statistics(walled)
    assert result["ways"]["blue"] == {"walked": None, "straight": pytest.approx(5.5, abs=0.1), "cut_off": 1}
    assert result["ways"]["red"]["cut_off"] == 0 and result["ways"]["ratio"] is None
    assert result["walk"][0]["largest_component"] < 1 and result["walk"][0]["reach_zone"] < 1


def test_walk_statistics_give_heavy_fewer_cells():
    small, heavy = world_statistics(scene())["walk"]
    assert small["classes"] == ["scout", "light", "medium"] and heavy["classes"] == ["heavy"]
    assert small["cells"] > heavy["cells"] > 0


def test_top_height_counts_highest_matching_layer():
    material = np.zeros((4, 1, 3), np.uint8)
    material[0] = Material.DIRT
    material[1, 0, 1] = Material.SOLID
    material[3, 0, 2] = Material.FOLIAGE
    assert top_height(material, BLOCKS_MOVE).tolist() == [[0, 2, 0]]
    assert top_height(material, np.arange(10) != Material.AIR).tolist() == [[1, 2, 4]]


def test_spawn_positions_list_classes():
    spawns = world_statistics(scene())["spawns"]
    assert [mech["class"] for mech in spawns["blue"]["mechs"]] == ["heavy", "medium", "medium", "light", "scout"]
    positions = [mech["place"] for side in ("blue", "red") for mech in spawns[side]["mechs"]]
    assert np.allclose(positions, generated().spawn, atol=1e-3)
