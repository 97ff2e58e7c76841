"""What there is to look at in a world: voxels, the capture zone and where the mechs begin.

A scene comes from a generated map or from a recorded match. What is drawn of it is decided by ``relief``, what is
counted by ``world_statistics``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import ConnectivityConfig
from echelon.gen.generate import GeneratedMap
from echelon.replay.reader import Replay, ReplayError
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.sim.world import MATERIALS

BLUE, RED = 0, 1


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A world with its zone and its M mechs; grids are [Z, Y, X]."""

    material: NDArray[np.uint8]
    """Material ids, shape [Z, Y, X]."""
    zone: tuple[float, float, float]
    """Capture zone (cx, cy, r) [vox]."""
    starts: NDArray[np.float64]
    """Box centres of the mechs at the beginning, shape [M, 3] [vox]."""
    team: NDArray[np.int64]
    """0 blue, 1 red, shape [M]."""
    chassis: NDArray[np.int64]
    """Class of each mech, shape [M]."""
    clearance: int = ConnectivityConfig().clearance_z
    """Headroom of a place where one can stand [vox]."""
    recipe: dict[str, Any] = field(default_factory=dict)
    """What identifies a generated map; empty for the world of a match."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Size (x, y, z) [vox]."""
        z, y, x = self.material.shape
        return x, y, z

    @property
    def feet(self) -> NDArray[np.float64]:
        """Where the mechs' feet are at the beginning, shape [M, 3] [vox]."""
        half = np.array([spec.size[2] for spec in CHASSIS])[self.chassis] / 2
        return self.starts - np.stack([half * 0, half * 0, half], axis=1)


def scene_from_map(made: GeneratedMap) -> Scene:
    """Return the scene of a generated map."""
    mechs = len(made.spawn)
    return Scene(
        material=made.material,
        zone=made.zone,
        starts=made.spawn.astype(np.float64),
        team=np.repeat([BLUE, RED], mechs // 2),
        chassis=np.array([int(ROSTER[m % len(ROSTER)]) for m in range(mechs)]),
        clearance=int(made.recipe["generator"]["world"]["connectivity"]["clearance_z"]),
        recipe=made.recipe,
    )


def scene_from_replay(replay: Replay) -> Scene:
    """Return the scene in which a recorded match began; ``ReplayError`` if the file does not say it."""
    header = replay.header
    material = np.ascontiguousarray(replay.materials().transpose(2, 0, 1))
    if material.max(initial=0) >= len(MATERIALS):
        raise ReplayError(f"the world of replay {replay.path.name!r} has materials that this version does not know")
    try:
        present = np.array([bool(mech.get("present", True)) for mech in header["roster"]])
        team = np.array([int(mech["team"]) for mech in header["roster"]])
        chassis = np.array([int(mech["chassis"]) for mech in header["roster"]])
        zone = tuple(float(v) for v in header["zone"])
        if len(zone) != 3 or not (0 <= chassis.min() and chassis.max() < len(CHASSIS)):
            raise ValueError("its zone or its mechs are of another kind")
        starts = _first_places(replay)
    except (KeyError, TypeError, ValueError) as error:
        raise ReplayError(f"the header of replay {replay.path.name!r} cannot be shown: {error}") from None
    return Scene(material=material, zone=zone, starts=starts[present], team=team[present], chassis=chassis[present])


def _first_places(replay: Replay) -> NDArray[np.float64]:
    """Return where the mechs were in the first frame; [M, 3], all zero where no frame was written."""
    mechs = int(replay.header["mechs"])
    if not replay.chunks:
        return np.zeros((mechs, 3))
    scale = {str(column["name"]): float(column["scale"]) for column in replay.header["columns"]}
    frames = replay.chunk(0).frames
    return np.stack([frames[axis][0] * scale[axis] for axis in ("x", "y", "z")], axis=1)
