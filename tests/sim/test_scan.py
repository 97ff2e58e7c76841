"""Native searches of rows and the sure part of sight agree with plain rules, on random arrays and rays."""

import numpy as np
import pytest
import warp as wp

from echelon.sim.raycast import cast_ray, sure_sight
from echelon.sim.scan import (
    count_equal,
    count_mates_in_circle,
    next_hostile_in_sight,
    next_near,
    next_nonzero,
    next_round,
    next_unseen,
    see_directly,
)

wp.set_module_options({"enable_backward": False, "fuse_fp": False, "optimization_level": 0})

ENVS, MECHS, SLOTS = 3, 21, 5
SIZE = (40, 30, 12)
RAYS = 40_000


@wp.kernel
def search(
    a: wp.array2d(dtype=wp.int32),
    b: wp.array2d(dtype=wp.int32),
    pos: wp.array2d(dtype=wp.vec3),
    rounds: wp.array3d(dtype=wp.int32),
    reach: wp.vec2,
    found_out: wp.array3d(dtype=wp.int32),
):
    e, m = wp.tid()
    slots = rounds.shape[2]
    found_out[e, m, 0] = next_nonzero(a, b, e, m)
    found_out[e, m, 1] = count_equal(a, e, m % 3)
    found_out[e, m, 2] = next_round(rounds, e, m * slots, rounds.shape[1] * slots)
    found_out[e, m, 3] = next_near(pos, e, m, pos.shape[1], pos[e, 0], reach)


@wp.kernel
def search_senses(
    alive: wp.array2d(dtype=wp.int32),
    team: wp.array2d(dtype=wp.int32),
    pos: wp.array2d(dtype=wp.vec3),
    sight: wp.array3d(dtype=wp.uint8),
    zone: wp.vec3,
    full: int,
    visible_out: wp.array3d(dtype=wp.uint8),
    seen_out: wp.array3d(dtype=wp.int32),
    found_out: wp.array3d(dtype=wp.int32),
):
    e, m = wp.tid()
    see_directly(alive, sight, full, e, m, 7, visible_out, seen_out)
    found_out[e, m, 0] = next_unseen(alive, visible_out, e, m, m)
    found_out[e, m, 1] = next_hostile_in_sight(alive, team, sight, e, m, m)
    found_out[e, m, 2] = count_mates_in_circle(pos, alive, team, e, m, zone)


@wp.kernel
def cast(
    plane: wp.array3d(dtype=wp.uint64),
    size: wp.vec3i,
    a: wp.array(dtype=wp.vec3),
    b: wp.array(dtype=wp.vec3),
    found_out: wp.array2d(dtype=wp.int32),
):
    i = wp.tid()
    found_out[i, 0] = sure_sight(plane, 0, size, a[i], b[i])
    if cast_ray(plane, 0, size, a[i], b[i], False)[0] < 0.0:
        found_out[i, 1] = 1
    else:
        found_out[i, 1] = -1


def first(row: np.ndarray, start: int) -> int:
    """Return the index of the first true entry from ``start`` on, the length if there is none."""
    return start + int(np.argmax(np.append(row[start:], True)))


def test_searches_match_plain_loops():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 3, (ENVS, MECHS)) * (rng.random((ENVS, MECHS)) < share) for share in (0.2, 0.05))
    pos = rng.uniform(0, 30, (ENVS, MECHS, 3)).astype(np.float32)
    rounds = np.where(rng.random((ENVS, MECHS, SLOTS)) < 0.03, 2, -1)
    reach = np.float32([6, 4])
    found = wp.zeros((ENVS, MECHS, 4), dtype=wp.int32, device="cpu")
    arrays = [wp.array(x.astype(np.int32), device="cpu") for x in (a, b, rounds)]
    wp.launch(
        search,
        dim=(ENVS, MECHS),
        inputs=[*arrays[:2], wp.array(pos, dtype=wp.vec3, device="cpu"), arrays[2], wp.vec2(*reach), found],
        device="cpu",
    )
    near = (np.abs(pos[..., :2] - pos[:, :1, :2]) < reach).all(-1)
    for (e, m), row in zip(np.ndindex(ENVS, MECHS), found.numpy().reshape(-1, 4), strict=True):
        flat = rounds[e].reshape(-1) >= 0
        nonzero, equal = first((a[e] | b[e]) != 0, m), (a[e] == m % 3).sum()
        assert list(row) == [nonzero, equal, first(flat, m * SLOTS), first(near[e], m)]


@pytest.mark.parametrize("full", [0, 1])
def test_searches_of_senses_match_plain_loops(full):
    rng = np.random.default_rng(4)
    alive, team = rng.random((ENVS, MECHS)) < 0.8, rng.integers(0, 2, (ENVS, MECHS))
    pos = rng.uniform(0, 30, (ENVS, MECHS, 3)).astype(np.float32)
    sight = rng.integers(0, 3, (ENVS, MECHS, MECHS))
    arrays = [wp.array(x, dtype=wp.int32, device="cpu") for x in (alive, team)]
    arrays += [wp.array(pos, dtype=wp.vec3, device="cpu"), wp.array(sight, dtype=wp.uint8, device="cpu")]
    shape = (ENVS, MECHS, MECHS)
    visible, seen = wp.full(shape, 9, dtype=wp.uint8, device="cpu"), wp.full(shape, -1, dtype=wp.int32, device="cpu")
    found = wp.zeros((ENVS, MECHS, 3), dtype=wp.int32, device="cpu")
    outputs = [wp.vec3(15.0, 12.0, 9.0), full, visible, seen, found]
    wp.launch(search_senses, dim=(ENVS, MECHS), inputs=[*arrays, *outputs], device="cpu")
    pairs = alive[:, :, None] & alive[:, None] & ~np.eye(MECHS, dtype=bool)
    known = pairs & ((sight == 1) | (full == 1))
    hostile = (team[:, :, None] != team[:, None]) & alive[:, None]
    inside = alive & (np.hypot(pos[..., 0] - 15.0, pos[..., 1] - 12.0) < 9.0)
    assert np.array_equal(visible.numpy(), known) and np.array_equal(seen.numpy(), np.where(known, 7, -1))
    for (e, m), row in zip(np.ndindex(ENVS, MECHS), found.numpy().reshape(-1, 3), strict=True):
        mates = inside[e] & (team[e] == team[e, m]) & (np.arange(MECHS) != m)
        unseen, in_sight = first(alive[e] & ~known[e, m], m), first(hostile[e, m] & (sight[e, m] == 1), m)
        assert list(row) == [unseen, in_sight, mates.sum()]


def random_rays(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end points [vox] of rays: anywhere, nearly level, between cell corners, and along an axis."""
    a, b = rng.uniform(0, 1, (2, RAYS, 3)) * SIZE
    kind = np.arange(RAYS) % 4
    b[kind == 1, 2] = a[kind == 1, 2] + rng.uniform(-1, 1, (kind == 1).sum())
    a[kind == 2], b[kind == 2] = np.round(a[kind == 2]), np.round(b[kind == 2])
    b[kind == 3, 1:] = a[kind == 3, 1:]
    return a.astype(np.float32), b.astype(np.float32)


def test_sure_sight_agrees_with_the_traversal_of_cells():
    rng = np.random.default_rng(5)
    x, y, z = SIZE
    heights = rng.integers(0, z - 2, (y, x)) * (rng.random((y, x)) < 0.15)
    plane = (np.uint64(1) << heights.astype(np.uint64)) - np.uint64(1)
    found = wp.zeros((RAYS, 2), dtype=wp.int32, device="cpu")
    points = [wp.array(p, dtype=wp.vec3, device="cpu") for p in random_rays(rng)]
    planes = wp.array(plane[None], dtype=wp.uint64, device="cpu")
    wp.launch(cast, dim=RAYS, inputs=[planes, wp.vec3i(*SIZE), *points, found], device="cpu")
    sure, exact = found.numpy().T
    assert np.array_equal(sure[sure != 0], exact[sure != 0])
    for sight in (1, -1):
        assert (sure[exact == sight] != 0).mean() > 0.5, "the vector loop decides most rays"
