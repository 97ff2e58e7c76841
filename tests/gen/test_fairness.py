"""Fair maps: path costs of both teams within a ratio, without favouring a side, and their record in the recipe."""

from importlib import import_module
from math import sqrt

import numpy as np
import pytest

from echelon.config import Fairness, WorldConfig
from echelon.gen.fairness import CLASSES, MAX_RATIO, PathCosts, balanced_zone, imbalance, path_costs, straight_costs
from echelon.gen.generate import GeneratedMap, generate
from echelon.gen.objective import distance_ratio
from echelon.gen.recipe import FAIR_GENERATOR_VERSION, GENERATOR_VERSION, generator_record
from echelon.gen.shapes import Corner
from echelon.gen.spawn import anchor, corner_square, formations, spawn_clear
from echelon.nav.field import zone_field
from echelon.nav.graph import RADIUS_OF_CHASSIS, snap
from echelon.nav.lanes import zone_fields
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.sim.random import Stream, StreamId
from tests.gen.test_generate import check_soundness, unconnected

generate_module = import_module("echelon.gen.generate")

CORNERS = (Corner.BL, Corner.TR)
NO_BIAS = np.zeros(len(CLASSES))


def world(edge: int, fairness: Fairness = "path", **changes: float) -> WorldConfig:
    return WorldConfig(size_x=edge, size_y=edge, fairness=fairness, **changes)


def make(edge: int, seed: int, packs: int = 1, **changes: float) -> GeneratedMap:
    return generate(world(edge, **changes), seed, num_packs=packs, zone_radius_vox=7.5)


def class_ratios(made: GeneratedMap) -> dict[str, float]:
    """Return the ratio of the teams' mean path costs per class, mech by mech and with its own field per class."""
    half, ratios = len(made.spawn) // 2, {}
    for chassis in set(ROSTER):
        field = zone_field(made.material, zone=made.zone, radius=RADIUS_OF_CHASSIS[chassis], clearance=4)
        slots = [slot for slot in range(half) if ROSTER[slot % len(ROSTER)] == chassis]
        costs = []
        for first in (0, half):
            nodes = [snap(field.graph, float(x), float(y), 0.0) for x, y, _ in made.spawn[[first + s for s in slots]]]
            costs.append(max(sum(float(field.cost[node]) for node in nodes) / len(nodes), 1.0))
        ratios[CHASSIS[chassis].chassis.name.lower()] = max(costs) / min(costs)
    return ratios


def check_fair(made: GeneratedMap, settings: WorldConfig, packs: int) -> None:
    """Assert that a map is sound, fair for every class, and records its path costs."""
    check_soundness(made, settings, packs)
    ratios = class_ratios(made)
    assert max(ratios.values()) <= MAX_RATIO, ratios
    assert made.recipe["stats"]["paths"]["ratio"] == pytest.approx(max(ratios.values()), abs=2e-3)
    assert set(made.recipe["stats"]["paths"]["costs"]) == set(ratios)
    assert not made.open_map


@pytest.mark.parametrize(
    ("edge", "packs", "seeds"),
    [(60, 1, 5), (60, 2, 3), (60, 10, 2), (100, 1, 2), (100, 10, 1), (100, 20, 1), (200, 20, 1)],
)
def test_fair_maps_have_equal_path_costs_for_every_class(edge: int, packs: int, seeds: int) -> None:
    for seed in range(seeds):
        check_fair(make(edge, seed, packs), world(edge), packs)


@pytest.mark.slow
@pytest.mark.parametrize("packs", [1, 2, 10, 20])
@pytest.mark.parametrize("edge", [60, 100, 200])
def test_fair_maps_have_equal_path_costs_over_many_seeds(edge: int, packs: int) -> None:
    if (edge, packs) == (60, 20):
        with pytest.raises(ValueError, match="too small"):
            make(edge, 0, packs)
        return
    for seed in range(200):
        check_fair(make(edge, seed, packs), world(edge), packs)


@pytest.mark.parametrize("size", [(100, 50), (31, 97), (120, 90)])
def test_fair_maps_that_are_not_square_are_fair(size: tuple[int, int]) -> None:
    settings = WorldConfig(size_x=size[0], size_y=size[1], fairness="path")
    for seed in range(2):
        check_fair(generate(settings, seed, num_packs=1, zone_radius_vox=5.0), settings, 1)


def test_fair_maps_favour_no_side() -> None:
    settings = WorldConfig(size_x=48, size_y=40, size_z=16, fairness="path")
    blue_nearer, differ = 0, 0
    for seed in range(100):
        made = generate(settings, seed, num_packs=1, zone_radius_vox=5.0)
        blue, red = np.array(list(made.recipe["stats"]["paths"]["costs"].values())).sum(axis=0)
        blue_nearer, differ = blue_nearer + int(blue < red), differ + int(blue != red)
    assert differ > 50 and abs(blue_nearer - differ / 2) < 3 * sqrt(differ) / 2


@pytest.mark.long
def test_fair_maps_vary_corners_and_zones() -> None:
    maps = [make(40, seed) for seed in range(60)]
    zones = np.array([made.zone[:2] for made in maps])
    assert {made.blue_corner for made in maps} == {int(corner) for corner in Corner}
    assert zones.std(axis=0).min() > 3.0 and np.abs(zones.mean(axis=0) - 20).max() < 2.0


def test_fair_map_respects_max_distance_ratio() -> None:
    for seed in range(6):
        settings = world(60, max_distance_ratio=1.1)
        made = generate(settings, seed, num_packs=1, zone_radius_vox=7.5)
        clear = spawn_clear(settings, 1)
        starts = [anchor(settings, Corner(corner), clear) for corner in (made.blue_corner, made.red_corner)]
        assert distance_ratio(made.zone, (starts[0], starts[1])) <= 1.1


def test_fairest_draft_is_used_and_recorded_where_none_is_fair(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    monkeypatch.setattr(generate_module, "MAX_RATIO", 0.5)
    monkeypatch.setattr(
        generate_module, "path_costs", lambda *args: (found := path_costs(*args), measured.append(found.ratio))[0]
    )
    made = make(48, 1)
    assert len(measured) == generate_module.MAX_UNFAIR * generate_module.MAX_PLACEMENTS
    assert not made.open_map
    assert made.recipe["stats"]["paths"]["ratio"] == pytest.approx(min(measured), abs=1e-3)
    assert max(class_ratios(made).values()) == pytest.approx(min(measured), abs=1e-6)


def test_unconnectable_fair_map_becomes_flagged_open_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate_module, "connect", unconnected)
    made = make(48, 4)
    assert made.open_map and made.recipe["variant"]["open_map"]
    assert made.recipe["stats"]["paths"]["ratio"] <= MAX_RATIO


def test_generator_record_of_any_maps_has_no_fairness() -> None:
    old, fair = generator_record(world(60, "any")), generator_record(world(60))
    assert "fairness" not in old["world"] and old["version"] == GENERATOR_VERSION
    assert fair["world"]["fairness"] == "path" and fair["version"] == FAIR_GENERATOR_VERSION
    assert {**fair["world"], "fairness": None} == {**old["world"], "fairness": None}
    assert "paths" not in generate(world(48, "any"), 0, num_packs=1, zone_radius_vox=7.5).recipe["stats"]


@pytest.mark.parametrize("packs", [1, 3])
def test_formations_of_fair_maps_mirror_each_other(packs: int) -> None:
    spawn = formations(world(100), CORNERS, packs)
    half = len(spawn) // 2
    assert np.allclose(spawn[half:, :2], 100 - spawn[:half, 1::-1])
    turned = formations(world(100, "any"), CORNERS, packs)
    assert np.allclose(turned[half:, :2], 100 - turned[:half, :2])


def test_straight_costs_equal_path_costs_on_empty_ground() -> None:
    grid = np.zeros((12, 60, 60), dtype=np.uint8)
    spawn = formations(world(60), CORNERS, 1)
    for zone in ((30.5, 30.5, 6.0), (20.5, 44.5, 4.0)):
        measured = path_costs(zone_fields(grid, zone=zone, clearance=4), spawn).mean
        expected = straight_costs(np.array([zone[:2]]), zone[2], spawn)[:, :, 0]
        assert np.abs(measured - expected).max() < 2.5


def test_path_costs_without_path_are_infinite_and_recorded_as_none() -> None:
    grid = np.zeros((12, 60, 60), dtype=np.uint8)
    grid[:, :, 40:42] = 1
    found = path_costs(zone_fields(grid, zone=(20.0, 30.0, 5.0), clearance=4), formations(world(60), CORNERS, 1))
    assert not found.complete and found.ratio == float("inf")
    assert found.record()["ratio"] is None and found.record()["costs"]["heavy"][1] is None


def test_ratio_is_that_of_the_most_unequal_class() -> None:
    costs = np.array([[10.0, 10.0], [12.0, 10.0], [10.0, 11.0], [0.0, 0.5]])
    assert PathCosts(costs).ratio == pytest.approx(1.2)
    assert imbalance(costs).tolist() == pytest.approx([0.0, 1 / 11, -1 / 21, 0.0])


def balanced(seed: int, bias: np.ndarray = NO_BIAS, edge: int = 100) -> tuple[float, float, float]:
    settings, clear = world(edge), spawn_clear(world(edge), 1)
    return balanced_zone(
        settings,
        np.zeros((20, edge, edge), dtype=np.uint8),
        radius=6.0,
        spawn=formations(settings, CORNERS, 1),
        squares=(corner_square(settings, CORNERS[0], clear), corner_square(settings, CORNERS[1], clear)),
        starts=(anchor(settings, CORNERS[0], clear), anchor(settings, CORNERS[1], clear)),
        bias=bias,
        stream=Stream(seed, StreamId.VARIANT),
    )


def test_balanced_zones_lie_along_the_whole_front() -> None:
    zones = np.array([balanced(seed) for seed in range(60)])
    assert np.abs(zones[:, 0] + zones[:, 1] - 100).max() < 0.2
    assert zones[:, 0].min() < 20 and zones[:, 0].max() > 80
    assert (np.abs(zones[:, 0] - 50) < 10).sum() >= 5


@pytest.mark.parametrize("seed", range(5))
def test_bias_moves_the_zone_toward_the_team_with_the_longer_path(seed: int) -> None:
    plain, blue_longer = balanced(seed), balanced(seed, NO_BIAS + 0.05)
    assert sum(blue_longer[:2]) < sum(plain[:2]) - 3
    spawn = formations(world(100), CORNERS, 1)
    costs = straight_costs(np.array([blue_longer[:2]]), 6.0, spawn)
    assert np.abs(imbalance(costs) + 0.05).max() < 0.03
