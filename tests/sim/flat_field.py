"""A flat field for tests: flat maps, and a batch whose mechs the test places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from echelon.actions import ACTION_DIM, ActionIndex
from echelon.config import PACK_SIZE, EnvConfig, WorldConfig
from echelon.nav.lanes import navigation_fields
from echelon.sim import step
from echelon.sim.arsenal import CHASSIS, WEAPONS, Weapon
from echelon.sim.backend import Launch
from echelon.sim.batch import Batch
from echelon.sim.state import Field
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, STOPS_SHOT, Material, bit_plane

Edit = Callable[[np.ndarray], None]
NEVER_TICKS = 100_000
"""Cooldown of a weapon that a test keeps from firing."""


@dataclass
class FlatMaps:
    """A map bank built by a test."""

    material: Any
    move_plane: Any
    sight_plane: Any
    shot_plane: Any
    size: Any
    zone: Any
    spawn: Any

    @property
    def num_packs(self) -> np.ndarray:
        """Packs per team; every spawn point is used."""
        return np.full(len(self.spawn), self.spawn.shape[1] // (2 * PACK_SIZE), np.int32)

    @cached_property
    def flow(self) -> np.ndarray:
        """Flow fields to the zone, as a map bank has them."""
        zones = np.asarray(self.zone, float).tolist()
        return np.stack(
            [
                navigation_fields(grid, zone=tuple(zone), spawn=spawn, clearance=4)[1]
                for grid, zone, spawn in zip(self.material, zones, self.spawn, strict=True)
            ]
        )


def as_maps(material: np.ndarray, zone: Any, spawn: Any) -> FlatMaps:
    """Return grids ``[B, Z, Y, X]`` with zones ``[B, 3]`` and spawns ``[B, M, 3]`` as a bank."""
    planes = [np.stack([bit_plane(grid, has) for grid in material]) for has in (BLOCKS_MOVE, BLOCKS_SIGHT, STOPS_SHOT)]
    count, z, y, x = material.shape
    size = np.array([[x, y, z]] * count, dtype=np.int32)
    return FlatMaps(material, *planes, size, np.asarray(zone, np.float32), np.asarray(spawn, np.float32))


def flat_maps(cfg: EnvConfig, edit: Edit | None = None, count: int = 1) -> FlatMaps:
    """Return a bank of ``count`` maps of open ground; ``edit(material[z, y, x])`` may build on each."""
    world = cfg.world
    material = np.zeros((count, world.size_z, world.size_y, world.size_x), dtype=np.uint8)
    material[:, 0] = Material.DIRT
    for grid in material if edit else ():
        edit(grid)
    spawn = np.zeros((1, cfg.num_mechs, 3), dtype=np.float32)
    for m in range(cfg.num_mechs):
        spawn[0, m] = (5.0 + 5.0 * (m % cfg.team_size), 5.0 if m < cfg.team_size else world.size_y - 5.0, 2.0)
    zone = (world.size_x / 2, world.size_y / 2, 7.5)
    return as_maps(material, [zone] * count, np.repeat(spawn, count, axis=0))


class Scene:
    """Methods that arrange a batch: overwrite arrays, place mechs, set actions."""

    cfg: EnvConfig
    batch: Batch

    def __getitem__(self, name: str) -> np.ndarray:
        return self.batch.numpy(name)

    def put(self, name: str, value: Any, mech: Any = slice(None), env: Any = slice(None)) -> None:
        values = self.batch.numpy(name).copy()
        values[env, mech] = value
        self.batch.set(name, values)

    def place(
        self, mech: int, chassis: int, x: float, y: float, *, z: float | None = None, yaw: float = 0.0,
        env: Any = slice(None),
    ) -> None:  # fmt: skip
        """Bring mech ``mech`` to life as ``chassis`` with its feet on bedrock or its centre at ``z``."""
        spec = CHASSIS[chassis]
        height = spec.size[2] / 2 if z is None else z
        for name, value in (
            ("chassis", chassis), ("pos", (x, y, height)), ("vel", 0.0), ("yaw", yaw), ("alive", 1), ("present", 1),
            ("hp", spec.hp), ("leg_hp", spec.leg_hp),
        ):  # fmt: skip
            self.put(name, value, mech, env)

    def act(self, mech: int, **columns: float) -> None:
        """Set named action columns of a mech, e.g. ``forward=1``."""
        for name, value in columns.items():
            values = self.batch.numpy("actions").copy()
            values[:, mech, ActionIndex[name.upper()]] = value
            self.batch.set("actions", values)

    def hold(self, mech: int, *weapons: Weapon) -> None:
        """Hold the triggers of a mech that fire ``weapons``, and keep its other weapons on them from being ready."""
        carries = CHASSIS[int(self["chassis"][0, mech])].carries
        triggers = {carries[weapon] for weapon in weapons}
        self.act(mech, **{trigger.name.lower(): 1.0 for trigger in triggers})
        used = {WEAPONS[weapon].cooldown for weapon in weapons}
        timers = self["cooldown"].copy()
        for weapon, trigger in carries.items():
            if trigger in triggers and WEAPONS[weapon].cooldown not in used:
                timers[:, mech, WEAPONS[weapon].cooldown] = NEVER_TICKS
        self.batch.set("cooldown", timers)

    def reload(self, mech: int, weapon: Weapon) -> None:
        timers = self["cooldown"].copy()
        timers[:, mech, WEAPONS[weapon].cooldown] = 0
        self.batch.set("cooldown", timers)

    def put_round(
        self, mech: Any, weapon: int, pos: Any, vel: Any = 0.0, *, target: int = -1, age: int = 0,
        env: Any = slice(None),
    ) -> None:  # fmt: skip
        """Put a round of ``weapon`` into the first slot of mech ``mech``, and empty its other slots."""
        self.put("round_weapon", -1, mech, env)
        for name, value in (
            ("round_weapon", weapon), ("round_pos", pos), ("round_vel", vel), ("round_target", target),
            ("round_age", age),
        ):  # fmt: skip
            values = self[name].copy()
            values[env, mech, 0] = value
            self.batch.set(name, values)

    def play(self, name: str, program: Callable[[], list[Launch]]) -> None:
        """Run a program, captured under ``name`` on first use."""
        programs = self.__dict__.setdefault("_programs", {})
        if name not in programs:
            programs[name] = self.batch.capture(program())
        programs[name]()


class Field5v5(Scene):
    """A batch on a flat map with every mech dead until a test places it."""

    def __init__(
        self, *, envs: int = 1, edit: Edit | None = None, own_maps: bool = False, threads: int = 1, seed: int = 0,
        size: int = 60, height: int = 20, maps: Any = None, physics: Mapping[str, float] | None = None,
        changes: Any = None, **env: Any,
    ) -> None:  # fmt: skip
        """Lay out one map for all environments, or with ``own_maps`` one each; ``edit`` builds on it."""
        self.cfg = replace(EnvConfig(world=WorldConfig(size_x=size, size_y=size, size_z=height)), **env)
        maps = maps or flat_maps(self.cfg, edit, envs if own_maps else 1)
        if physics:
            changes = [{f"physics.{name}": value for name, value in physics.items()}] * envs
        self.batch = Batch(self.cfg, envs, maps, threads=threads, seed=seed, changes=changes)
        self.batch.set("forced_slot", np.arange(envs, dtype=np.int32) * own_maps)
        self.batch.lengths["A"] = ACTION_DIM
        self.batch.add_fields({"actions": Field(wp.float32, "EMA", "actions")})
        self.play("reset", lambda: step.reset("every"))
        self.put("alive", 0)

    def fresh(self) -> Field5v5:
        """Reset the field, with every mech dead and no action held; return it."""
        self.play("reset", list)
        self.put("alive", 0)
        self.batch["actions"].zero_()
        self.decide()
        return self

    def decide(self) -> None:
        self.play("decide", step.read_actions)

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.play("tick", lambda: step.tick(landing=self.cfg.landing))

    def sense(self) -> None:
        self.play("sense", lambda: step.sense("every"))

    def run(self, decisions: int) -> None:
        for _ in range(decisions):
            self.decide()
            self.tick(self.cfg.decision_repeat)
