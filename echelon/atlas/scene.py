"""Scene: voxels, capture zone and spawns of a generated map or of a replay.

``views`` draw a scene, ``statistics`` measure it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import ConnectivityConfig, WorldConfig
from echelon.gen.generate import GeneratedMap
from echelon.replay.reader import Replay, ReplayError
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.sim.world import MATERIALS
from echelon.validation import validated

BLUE, RED = 0, 1


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A world with its zone and M mechs; grids are [Z, Y, X]."""

    material: NDArray[np.uint8]
    """Material ids, shape [Z, Y, X]."""
    zone: tuple[float, float, float]
    """Capture zone (cx, cy, r) [vox]."""
    starts: NDArray[np.float64]
    """Initial box centres of the mechs, shape [M, 3] [vox]."""
    team: NDArray[np.int64]
    """0 blue, 1 red, shape [M]."""
    chassis: NDArray[np.int64]
    """Mech class ids, shape [M]."""
    clearance: int = ConnectivityConfig().clearance_z
    """Headroom of a walkable cell [vox]."""
    recipe: dict[str, Any] = field(default_factory=dict)
    """Recipe of a generated map; empty for the world of a replay."""

    @property
    def size(self) -> tuple[int, int, int]:
        z, y, x = self.material.shape
        return x, y, z

    @property
    def feet(self) -> NDArray[np.float64]:
        """Initial positions of the mechs' feet, shape [M, 3] [vox]."""
        half = np.array([spec.size[2] for spec in CHASSIS])[self.chassis] / 2
        return self.starts - np.stack([half * 0, half * 0, half], axis=1)


def scene_from_map(generated: GeneratedMap) -> Scene:
    mechs = len(generated.spawn)
    world = validated(WorldConfig, generated.recipe["generator"]["world"])
    return Scene(
        material=generated.material,
        zone=generated.zone,
        starts=generated.spawn.astype(np.float64),
        team=np.repeat([BLUE, RED], mechs // 2),
        chassis=np.array([int(ROSTER[m % len(ROSTER)]) for m in range(mechs)]),
        clearance=world.connectivity.clearance_z,
        recipe=generated.recipe,
    )


def scene_from_replay(replay: Replay) -> Scene:
    """Return the scene at the start of a replay; raise ``ReplayError`` for materials or classes of another version."""
    header = replay.header
    material = np.ascontiguousarray(replay.materials().transpose(2, 0, 1))
    present = np.array([mech["present"] for mech in header["roster"]])
    team = np.array([mech["team"] for mech in header["roster"]])
    chassis = np.array([mech["chassis"] for mech in header["roster"]])
    if material.max(initial=0) >= len(MATERIALS) or chassis.max() >= len(CHASSIS):
        raise ReplayError(f"replay {replay.path.name!r} has materials or mech classes that this version does not have")
    x, y, radius = header["zone"]
    starts = _initial_positions(replay)[present]
    return Scene(material=material, zone=(x, y, radius), starts=starts, team=team[present], chassis=chassis[present])


def _initial_positions(replay: Replay) -> NDArray[np.float64]:
    """Return the mechs' positions in the first frame [M, 3] [vox], zero if there is no frame."""
    mechs = int(replay.header["mechs"])
    if not replay.chunks:
        return np.zeros((mechs, 3))
    scale = {str(column["name"]): float(column["scale"]) for column in replay.header["columns"]}
    frames = replay.chunk(0).frames
    return np.stack([frames[axis][0] * scale[axis] for axis in ("x", "y", "z")], axis=1)
