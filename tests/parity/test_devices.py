"""Device functions against numpy and the plain-Python rules: random numbers, angles, rays."""

import numpy as np
import pytest
import warp as wp

from echelon.sim.geometry import arc_tan2, cos_sin, exponential, natural_log, power, wrap_angle
from echelon.sim.random import draw_u32, uniform01
from echelon.sim.raycast import cast_ray
from echelon.sim.rng import below
from echelon.sim.rng import draw_u32 as device_draw
from echelon.sim.rng import uniform01 as device_uniform
from echelon.sim.world import BLOCKS_SIGHT, bit_plane
from tests.oracles.shared import SIGHT
from tests.oracles.world import cast

wp.set_module_options({"enable_backward": False, "fuse_fp": False, "optimization_level": 0})


@wp.kernel
def draw_many(
    # rules
    keys: wp.array2d(dtype=wp.int32),
    # out
    bits: wp.array(dtype=wp.uint32), unit: wp.array(dtype=wp.float32), small: wp.array(dtype=wp.int32),
):  # fmt: skip
    i = wp.tid()
    seed = wp.uint32(keys[i, 0])
    bits[i] = device_draw(seed, keys[i, 1], keys[i, 2], keys[i, 3], keys[i, 4])
    unit[i] = device_uniform(seed, keys[i, 1], keys[i, 2], keys[i, 3], keys[i, 4])
    small[i] = below(bits[i], 7)


@wp.kernel
def angles(
    # rules
    a: wp.array(dtype=wp.float32), v: wp.array(dtype=wp.vec2),
    # out
    trig: wp.array(dtype=wp.vec2), wrapped: wp.array(dtype=wp.float32), turned: wp.array(dtype=wp.float32),
):  # fmt: skip
    i = wp.tid()
    trig[i] = cos_sin(a[i])
    wrapped[i] = wrap_angle(a[i])
    turned[i] = arc_tan2(v[i][1], v[i][0])


@wp.kernel
def elementary(
    # rules
    x: wp.array(dtype=wp.float32), n: wp.array(dtype=wp.int32),
    # out
    found: wp.array2d(dtype=wp.float32),
):  # fmt: skip
    i = wp.tid()
    found[i, 0] = natural_log(x[i])
    found[i, 1] = exponential(-x[i])
    found[i, 2] = exponential(x[i] * 0.01)
    found[i, 3] = power(x[i] * 0.01, n[i])


@wp.kernel
def cast_many(
    # rules
    plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3),
    include_end: bool,
    # out
    found: wp.array(dtype=wp.vec4),
):  # fmt: skip
    i = wp.tid()
    found[i] = cast_ray(plane, 0, size, a[i], b[i], include_end)


def test_elementary_functions_are_rounded_correctly():
    draws = np.random.default_rng(4)
    x = np.concatenate([draws.uniform(0, 120, 5000), 10.0 ** draws.uniform(-30, 3.9, 1000), [1.0]]).astype(np.float32)
    n = draws.integers(0, 20, len(x)).astype(np.int32)
    found = wp.zeros((len(x), 4), wp.float32)
    wp.launch(elementary, len(x), [wp.array(x, dtype=wp.float32), wp.array(n, dtype=wp.int32), found], device="cpu")
    small, exact = (x * np.float32(0.01)).astype(np.float64), x.astype(np.float64)
    expected = [np.log(exact), np.exp(-exact), np.exp(small), small**n]
    np.testing.assert_array_max_ulp(found.numpy(), np.stack(expected, axis=1).astype(np.float32), maxulp=1)
    assert (found.numpy() == np.stack(expected, axis=1).astype(np.float32)).mean() > 0.999


def test_device_random_matches_numpy():
    keys = np.random.default_rng(0).integers(-(2**31), 2**31, (5000, 5)).astype(np.int32)
    bits, unit, small = wp.zeros(5000, wp.uint32), wp.zeros(5000, wp.float32), wp.zeros(5000, wp.int32)
    wp.launch(draw_many, 5000, [wp.array(keys, dtype=wp.int32), bits, unit, small], device="cpu")
    columns = [keys[:, i] for i in range(5)]
    assert np.array_equal(bits.numpy(), draw_u32(*columns))
    assert np.array_equal(unit.numpy(), uniform01(*columns))
    assert np.array_equal(small.numpy(), (draw_u32(*columns).astype(np.uint64) * 7) >> np.uint64(32))


def test_device_trigonometry_is_exact_to_single_precision():
    rng = np.random.default_rng(1)
    a = rng.uniform(-20, 20, 20000).astype(np.float32)
    v = (rng.uniform(-1, 1, (20000, 2)) * 10.0 ** rng.integers(-3, 3, (20000, 1))).astype(np.float32)
    trig, wrapped, turned = wp.zeros(20000, wp.vec2), wp.zeros(20000, wp.float32), wp.zeros(20000, wp.float32)
    inputs = [wp.array(a, dtype=wp.float32), wp.array(v, dtype=wp.vec2), trig, wrapped, turned]
    wp.launch(angles, 20000, inputs, device="cpu")
    exact = np.stack([np.cos(a.astype(float)), np.sin(a.astype(float))], 1)
    assert np.abs(trig.numpy() - exact).max() < 4e-7
    assert np.abs(turned.numpy() - np.arctan2(*v.astype(float).T[::-1])).max() < 4e-7
    gap = wrapped.numpy() - ((a.astype(float) + np.pi) % (2 * np.pi) - np.pi)
    assert np.abs((gap + np.pi) % (2 * np.pi) - np.pi).max() < 3e-6
    assert wrapped.numpy().min() >= -np.pi - 1e-6 and wrapped.numpy().max() < np.pi


def cast_all(material: np.ndarray, a: np.ndarray, b: np.ndarray, include_end: bool) -> list[tuple | None]:
    """Cast rays on the device; each gives the blocking cell or None."""
    found = wp.zeros(len(a), wp.vec4)
    plane = wp.array(bit_plane(material, BLOCKS_SIGHT)[None], dtype=wp.uint64)
    size = wp.vec3i(*material.shape[::-1])
    inputs = [plane, size, wp.array(a, dtype=wp.vec3), wp.array(b, dtype=wp.vec3), include_end, found]
    wp.launch(cast_many, len(a), inputs, device="cpu")
    return [None if row[0] < 0 else tuple(int(v) for v in row[1:]) for row in found.numpy()]


def random_world(rng: np.random.Generator, share: float) -> np.ndarray:
    return np.where(rng.random((12, 18, 15)) < share, rng.integers(1, 10, (12, 18, 15)), 0).astype(np.uint8)


@pytest.mark.parametrize("include_end", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_rays_match_reference_traversal(include_end, share):
    rng = np.random.default_rng(5)
    material = random_world(rng, share)
    top = np.array([15, 18, 12])
    a = (rng.uniform(-0.1, 1.1, (700, 3)) * top).astype(np.float32)
    b = (rng.uniform(-0.1, 1.1, (700, 3)) * top).astype(np.float32)
    b[:50] = a[:50] + rng.uniform(-0.6, 0.6, (50, 3)).astype(np.float32)
    b[50:100, :2] = a[50:100, :2]
    wanted = [cast(SIGHT[material], p, q, include_end) for p, q in zip(a, b, strict=True)]
    assert cast_all(material, a, b, include_end) == wanted
    assert 20 < sum(w is None for w in wanted) < 680


def test_diagonal_ray_is_blocked_by_cells_sharing_an_edge():
    material = np.zeros((8, 8, 8), np.uint8)
    material[:, 3, 4] = material[:, 4, 3] = 1
    a, b = np.array([[1.5, 1.5, 2.5]], np.float32), np.array([[6.5, 6.5, 2.5]], np.float32)
    assert cast_all(material, a, b, False) == [cast(SIGHT[material], a[0], b[0])] != [None]


def test_ray_ties_step_along_z_then_y_then_x():
    lone = {"z": (3, 2, 2), "y": (3, 3, 2)}
    for z, y, x in lone.values():
        material = np.zeros((8, 8, 8), np.uint8)
        material[z, y, x] = 1
        start, end = np.array([[2.5, 2.5, 2.5]], np.float32), np.array([[5.5, 5.5, 5.5]], np.float32)
        assert cast_all(material, start, end, False) == [(x, y, z)]


@pytest.mark.parametrize("beyond", [(4, 1), (5, 0), (4, 2)])
def test_ray_missing_end_cell_at_corner_stops_there(beyond):
    material = np.zeros((8, 8, 8), np.uint8)
    material[2, beyond[1], beyond[0]] = 1
    a, b = np.array([[1.5, 4.5, 2.5]], np.float32), np.array([[3.0, 3.0, 2.5]], np.float32)
    assert cast_all(material, a, b, False) == [cast(SIGHT[material], a[0], b[0])] == [None]


@pytest.mark.parametrize(("include_end", "found"), [(False, None), (True, (8, 4, 4))])
def test_ray_ending_outside_is_blocked_only_with_end_tested(include_end, found):
    a, b = np.array([[6.5, 4.5, 4.5]], np.float32), np.array([[8.5, 4.5, 4.5]], np.float32)
    material = np.zeros((8, 8, 8), np.uint8)
    assert cast_all(material, a, b, include_end) == [cast(SIGHT[material], a[0], b[0], include_end)] == [found]


def test_rays_between_centres_on_cell_faces_reach_end():
    rng = np.random.default_rng(2)
    a, b = (rng.uniform(0, 8, (2000, 3)).astype(np.float32) for _ in range(2))
    a[:, 2], b[:, 2] = rng.choice([1.0, 2.0], (2, 2000))
    assert cast_all(np.zeros((8, 8, 8), np.uint8), a, b, False) == [None] * 2000
