"""Random small battles for comparing kernels with the plain-Python rules, and the comparison itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from echelon.sim import batch, step
from echelon.sim.backend import Launch
from echelon.sim.state import lanes
from tests.oracles.shared import MECHS, MISSILE, SMOKE, SOLID
from tests.sim.flat_field import Field5v5, Scene

KINDS = (1, 1, 1, 2, 3, 4, 5, 7, 8, 9)
"""Materials that clutter is made of."""
RTOL = 1e-5
"""Relative tolerance of comparisons with the oracles."""


def clutter(rng: np.random.Generator, boxes: int = 25, ruins: int = 0):
    """Return an edit that strews random boxes of random materials, most of them low, over a map.

    ``ruins`` is the number of slabs in the air, and of posts in the last rows and columns.
    """

    def edit(grid: np.ndarray) -> None:
        z, y, x = grid.shape
        for _ in range(boxes):
            w, d, h = rng.integers(1, 7), rng.integers(1, 7), rng.choice([1, 1, 1, 2, 2, 4, 6])
            x0, y0 = rng.integers(0, x - w + 1), rng.integers(0, y - d + 1)
            grid[0:h, y0 : y0 + d, x0 : x0 + w] = rng.choice(KINDS)
        for _ in range(ruins):
            x0, y0, z0 = rng.integers(0, x - 3), rng.integers(0, y - 3), rng.integers(2, 5)
            grid[z0, y0 : y0 + 3, x0 : x0 + 3] = SOLID
            grid[0:5, y - 1, rng.integers(0, x)] = SOLID
            grid[0:5, rng.integers(0, y), x - 1] = SOLID

    return edit


def cluttered_field(
    seed: int, *, envs: int = 12, size: int = 30, boxes: int = 25, ruins: int = 0, **options: Any
) -> Field5v5:
    edit = clutter(np.random.default_rng(seed), boxes, ruins)
    return Field5v5(envs=envs, size=size, edit=edit, own_maps=True, **options)


def scatter(scene: Scene, rng: np.random.Generator, *, air: float = 0.2, spread: float = 1.0) -> None:
    """Throw every mech anywhere into its map, in a random condition: a shot of the middle of some battle."""
    envs, mechs = scene["alive"].shape
    shape = (envs, mechs)
    chassis = rng.integers(0, 4, shape)
    half = np.array([m.half for m in MECHS])[chassis]
    size = scene["size"][:, None].astype(np.float32)
    middle, room = size / 2, (size / 2 - half) * spread
    pos = middle + rng.uniform(-1, 1, (*shape, 3)).astype(np.float32) * room
    grounded = rng.random(shape) >= air
    pos[..., 2] = np.where(grounded, half[..., 2] + rng.choice([0.01, 1.01, 2.01], shape), pos[..., 2])
    cap = np.array([m.heat_cap for m in MECHS])[chassis]
    hp = np.array([m.hp for m in MECHS])[chassis]
    legs = np.array([m.leg_hp for m in MECHS])[chassis]
    some = rng.random
    values = {
        "chassis": chassis, "pos": pos, "vel": rng.uniform(-6, 6, (*shape, 3)), "yaw": rng.uniform(-3.1, 3.1, shape),
        "alive": some(shape) < 0.85, "present": 1, "hp": hp * rng.uniform(0.02, 1, shape),
        "leg_hp": np.where(some(shape) < 0.3, -1.0, legs), "heat": cap * rng.uniform(0, 1.2, shape),
        "stability": np.where(some(shape) < 0.15, 0.0, rng.uniform(1, 100, shape)),
        "fallen": np.where(some(shape) < 0.15, rng.integers(1, 60, shape), 0),
        "cooldown": rng.integers(0, 3, (*shape, 5)) * (some((*shape, 5)) < 0.3),
        "painted": np.where(some(shape) < 0.5, rng.integers(1, 100, shape), 0),
        "painter": rng.integers(-1, mechs, shape), "suppressed": rng.integers(0, 3, shape),
        "noise": rng.uniform(0, 10, shape) * (some(shape) < 0.8), "drive": rng.uniform(-1, 1, (*shape, 4)),
        "trigger": rng.integers(0, 16, shape), "vent": some(shape) < 0.4, "focus": rng.integers(-1, mechs, shape),
        "ecm": some(shape) < 0.2, "eccm": some(shape) < 0.2, "round_weapon": -1,
        "assist_tick": rng.integers(0, 200, shape),
    }  # fmt: skip
    values["shutdown"] = values["heat"] > cap
    for name, value in values.items():
        scene.put(name, value)
    scene.batch.set("tick", rng.integers(1, 200, envs).astype(np.int32))
    scene.batch.set("seed", rng.integers(0, 2**30, envs).astype(np.uint32))
    smoke_up(scene, rng)
    without = np.where(np.arange(envs) % 4 == 3, rng.integers(1, 16, envs), 0)
    scene.batch.set("withheld", without.astype(np.int32))


def smoke_up(scene: Scene, rng: np.random.Generator, clouds: float = 2.0) -> None:
    """Hang some clouds, ``clouds`` on average, over each map."""
    shape = scene["cloud_ticks"].shape
    live = rng.random(shape) < clouds / (shape[1] * shape[2])
    scene.put("cloud_ticks", np.where(live, rng.integers(1, 200, shape), 0))
    scene.put("cloud_pos", rng.uniform(0, 1, (*shape, 3)) * scene["size"][:, None, None] * [1, 1, 0.25])
    scene.batch.set("clouds", live.sum(axis=(1, 2)).astype(np.int32))


def stir(scene: Scene, rng: np.random.Generator) -> None:
    """Set at random what ``scatter`` does not: displays, hits, scores, rounds in flight."""
    envs, mechs = shape = scene["alive"].shape
    slots = scene["round_weapon"].shape
    for name, value in (
        ("sort_mode", rng.integers(0, 3, shape)), ("hostile_only", rng.random(shape) < 0.3),
        ("was_hit", rng.random(shape) < 0.3), ("engaged", rng.integers(0, 2, shape)),
        ("zone_tonnage", rng.choice([0, 20, 55, 85], (envs, 2))),
        ("score", rng.uniform(0, 33, (envs, 2))), ("cooldown", rng.integers(0, 100, (*shape, 5))),
        ("round_weapon", np.where(rng.random(slots) < 0.2, rng.choice([MISSILE, SMOKE], slots), -1)),
        ("round_target", (np.arange(mechs)[:, None] + mechs // 2 + rng.integers(-5, 5, slots)) % mechs),
    ):  # fmt: skip
        scene.batch.set(name, np.asarray(value).astype(scene[name].dtype))
    scene.batch.set("decision", np.arange(envs, dtype=np.int32) * 20)
    away = rng.normal(size=(*shape, 3))
    scene.put("hit_dir", away / np.linalg.norm(away, axis=-1, keepdims=True) * (rng.random((*shape, 1)) < 0.6))


def recall(scene: Scene, rng: np.random.Generator) -> None:
    """Set a random past of every display: slots, sightings of the last decisions, and the states of mechs then."""
    envs, mechs = scene["alive"].shape
    past = (envs, scene["trace_marks"].shape[1], mechs)
    scene.batch.set("decision", np.arange(envs, dtype=np.int32) * 20 + 23)
    now = scene["decision"][:, None, None]
    seen = now - rng.integers(1, 30, (envs, mechs, mechs))
    known = (rng.random(seen.shape) < 0.7) & ~np.eye(mechs, dtype=bool)
    scene.batch.set("seen", np.where(known, np.maximum(seen, -1), -1).astype(np.int32))
    who = rng.permuted(np.tile(np.arange(mechs), (envs, mechs, 1)), axis=2)[..., :20]
    slots = np.full(scene["contact"].shape, -1)
    slots[..., : who.shape[-1]] = np.where(rng.random(who.shape) < 0.6, who, -1)
    itself = slots == np.arange(mechs)[:, None]
    scene.batch.set("contact", np.where(itself, -1, slots).astype(np.int32))
    room = scene["size"][:, None, None].astype(float)
    body = [rng.uniform(-3, 3, past), *(rng.uniform(1, most, past) for most in (60, 120, 100))]
    scene.batch.set("trace_pos", (rng.uniform(0, 1, (*past, 3)) * room).astype(np.float32))
    scene.batch.set("trace_vel", rng.uniform(-6, 6, (*past, 3)).astype(np.float32))
    scene.batch.set("trace_body", np.stack(body, axis=-1).astype(np.float32))
    scene.batch.set("trace_marks", rng.integers(0, 4 * (mechs + 1), past).astype(np.int32))


def snapshot(scene: Scene, env: int) -> SimpleNamespace:
    """Return copies of one environment's arrays, by name."""
    return SimpleNamespace(**{name: scene[name][env].copy() for name in scene.batch.fields})


def snapshots(scene: Scene) -> list[SimpleNamespace]:
    arrays = {name: scene[name] for name in scene.batch.fields}
    return [
        SimpleNamespace(**{name: array[env].copy() for name, array in arrays.items()})
        for env in range(scene.batch.num_envs)
    ]


def assert_same(scene: Scene, wanted: list[SimpleNamespace], *names: str, atol: float = 2e-5) -> None:
    for name in names:
        got = np.asarray(scene[name], float)
        expected = np.stack([np.asarray(getattr(want, name), float) for want in wanted])
        close = np.isclose(got, expected, atol=atol, rtol=RTOL, equal_nan=True)
        for env in np.unique(np.nonzero(~close)[0]):
            np.testing.assert_allclose(
                got[env], expected[env], atol=atol, rtol=RTOL, err_msg=f"{name} of environment {env}"
            )


def phase(name: str, *, landing: bool = False, spread: bool = False) -> list[Launch]:
    """Return the launches of one phase of a tick; ``spread`` as on CUDA."""
    return [launch for launch in step.tick(landing=landing, spread=spread) if launch.phase.split(".")[1] == name]


@contextmanager
def many_lanes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch.state, "lanes", lambda device, num_mechs: lanes("cuda", num_mechs))
        yield


def clear(scene: Scene, *names: str) -> None:
    """Zero arrays, so that a kernel that writes nothing is found out."""
    for name in names:
        scene.batch[name].zero_()
