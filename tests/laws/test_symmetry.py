"""Symmetry of the sides: a battle on the rotated map with swapped sides is the rotated battle.

Half a turn keeps left and right, so that the same actions apply. Draws by mech index are excluded: the leg draw, the
chance of point defence, and mechs so close that their order of movement matters.
"""

from dataclasses import replace

import numpy as np
import pytest

from echelon.config import EnvConfig
from tests.laws.configs import RandomActions
from tests.laws.invariants import HALF
from tests.parity.scenes import clutter, scatter
from tests.sim.flat_field import Field5v5, flat_maps

SIZE, ENVS = 44, 80
APART = 1.5
"""Least gap between boxes at which the order of movement cannot matter within a step [vox]."""
VECTORS = ("pos", "vel")
SCALARS = ("hp", "leg_hp", "heat", "stability", "fallen", "suppressed", "painted", "shutdown", "alive", "cooldown",
           "dealt", "took", "kills")  # fmt: skip


def swapped(values: np.ndarray) -> np.ndarray:
    """Return the values with the teams exchanged ``[E, M, ...]``."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, half:], values[:, :half]], axis=1)


def rotated(name: str, values: np.ndarray) -> np.ndarray:
    if name == "yaw":
        return (values + 2 * np.pi) % (2 * np.pi) - np.pi
    sign = np.array([-1, -1, 1], np.float32)
    return values * sign + (np.array([SIZE, SIZE, 0], np.float32) if name == "pos" else 0)


def two_fields(seed: int) -> tuple[Field5v5, Field5v5]:
    base = EnvConfig()
    physics = {"leg_height": 0.0, "ams_chance": 1.0}
    maps = flat_maps(replace(base, world=replace(base.world, size_x=SIZE, size_y=SIZE)), None, ENVS)
    rng = np.random.default_rng(seed)
    for grid in maps.material:
        clutter(rng, 20)(grid)
    there = replace(maps, material=np.ascontiguousarray(maps.material[:, :, ::-1, ::-1]))
    for name in ("move_plane", "sight_plane", "shot_plane"):
        setattr(there, name, np.ascontiguousarray(getattr(maps, name)[:, ::-1, ::-1]))
    return tuple(
        Field5v5(envs=ENVS, size=SIZE, maps=m, own_maps=True, seed=seed, physics=physics) for m in (maps, there)
    )  # type: ignore[return-value]


def apart(field: Field5v5) -> np.ndarray:
    """Whether the living mechs of an environment keep their distance ``[E]``."""
    pos, half = field["pos"], HALF[field["chassis"]]
    gap = np.abs(pos[:, :, None] - pos[:, None]) - (half[:, :, None] + half[:, None])
    near = (gap.max(axis=-1) < APART) & (field["alive"][:, :, None] == 1) & (field["alive"][:, None] == 1)
    near &= ~np.eye(pos.shape[1], dtype=bool)
    return ~near.any(axis=(1, 2))


def begin(here: Field5v5, there: Field5v5, seed: int) -> None:
    """Scatter mechs over one field, and the same rotated and swapped over the other."""
    rng = np.random.default_rng(seed)
    scatter(here, rng)
    for name, value in (("cloud_ticks", 0), ("painter", -1), ("painted", 0), ("ecm", 0), ("eccm", 0)):
        here.put(name, value)
    here.batch["clouds"].zero_()
    for name in (*VECTORS, "yaw", *SCALARS, "chassis", "present", "noise", "painter", "focus"):
        values = swapped(here[name])
        there.batch.set(name, rotated(name, values) if name in (*VECTORS, "yaw") else values)
    for name in ("tick", "seed", "withheld"):
        there.batch.set(name, here[name].copy())
    there.put("round_weapon", -1)
    there.put("cloud_ticks", 0)
    there.batch["clouds"].zero_()


@pytest.mark.parametrize("seed", [1, 2])
def test_swapped_sides_on_the_rotated_map_mirror_the_battle(seed):
    here, there = two_fields(seed)
    begin(here, there, seed)
    fair = apart(here)
    random_actions = RandomActions(here.cfg, ENVS, seed)
    hurt = 0.0
    for _ in range(4):
        actions = random_actions.draw("duel")
        actions[..., 9:14] = 0
        here.batch.set("actions", actions)
        there.batch.set("actions", swapped(actions))
        for field in (here, there):
            field.run(1)
        fair &= apart(here)
        hurt += float(here["took"][fair].sum())
    same = np.ones(ENVS, bool)
    for name in (*VECTORS, *SCALARS):
        back = swapped(there[name])
        back = rotated(name, back) if name in VECTORS else back
        off = np.abs(back.astype(float) - here[name].astype(float)).reshape(ENVS, -1).max(axis=1)
        same &= off < 0.02
    assert fair.sum() >= 8 and hurt > 100, "too few battles to judge"
    unequal = np.flatnonzero(fair & ~same)
    # a ray between two mechs is cast from the lower index: about one in a hundred differs in the other direction
    assert len(unequal) <= 0.1 * fair.sum(), f"environments {unequal.tolist()} of {fair.sum()} go otherwise"


def test_neither_team_has_a_damage_advantage():
    blue = red = 0.0
    for seed in (4, 5):
        here, there = two_fields(seed)
        begin(here, there, seed)
        random_actions = RandomActions(here.cfg, ENVS, seed)
        for _ in range(8):
            actions = random_actions.draw("duel")
            here.batch.set("actions", actions)
            there.batch.set("actions", swapped(actions))
            for field in (here, there):
                field.run(1)
                blue += float(field["dealt"][:, :5].sum())
                red += float(field["dealt"][:, 5:].sum())
    assert blue + red > 3000 and abs(blue - red) / (blue + red) < 0.03, (blue, red)
