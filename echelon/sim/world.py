"""The voxel world: the material table, and the bit planes and hashes derived from a material grid.

Grids are ``uint8 [z, y, x]`` with x fastest; a plane is one 64-bit word per column, bit z set where the
layer has the property. A new material is a row in ``MATERIALS``. Nothing here touches Warp.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Material(IntEnum):
    """Voxel material ids, as stored in grids and replays."""

    AIR = 0
    SOLID = 1
    LAVA = 2
    WATER = 3
    DEBRIS_FIELD = 4
    SOLID_DEBRIS = 5
    DIRT = 6
    GLASS = 7
    REINFORCED = 8
    FOLIAGE = 9


class Hazard(IntEnum):
    """What kills a mech that no mech killed."""

    NONE = 0
    LAVA = 1
    DEBRIS = 2
    CRASH = 3


@dataclass(frozen=True, kw_only=True)
class MaterialSpec:
    """One row of the material table."""

    material: Material
    blocks_move: bool = False
    """Mechs collide with it."""
    blocks_sight: bool = False
    """It ends sight rays."""
    hp: int = 0
    """Hit points of a fresh voxel."""
    destructible: bool = False
    """Weapons can damage it."""
    walk_cost: float = 1.0
    """Factor on the planned cost of walking with the feet in it."""

    @property
    def stops_shot(self) -> bool:
        """Whether projectiles hit it: whatever collides or blocks sight."""
        return self.blocks_move or self.blocks_sight


MATERIALS: tuple[MaterialSpec, ...] = (
    MaterialSpec(material=Material.AIR),
    MaterialSpec(material=Material.SOLID, blocks_move=True, blocks_sight=True, hp=100, destructible=True),
    MaterialSpec(material=Material.LAVA, walk_cost=5.0),
    MaterialSpec(material=Material.WATER, walk_cost=1.67),
    MaterialSpec(material=Material.DEBRIS_FIELD, blocks_move=True, blocks_sight=True, hp=50, destructible=True),
    MaterialSpec(material=Material.SOLID_DEBRIS, blocks_move=True, blocks_sight=True, hp=200, destructible=True),
    MaterialSpec(material=Material.DIRT),
    MaterialSpec(material=Material.GLASS, blocks_move=True, hp=10, destructible=True),
    MaterialSpec(material=Material.REINFORCED, blocks_move=True, blocks_sight=True, hp=1000),
    MaterialSpec(material=Material.FOLIAGE, blocks_sight=True, hp=1, destructible=True),
)

BLOCKS_MOVE = np.array([m.blocks_move for m in MATERIALS], dtype=bool)
BLOCKS_SIGHT = np.array([m.blocks_sight for m in MATERIALS], dtype=bool)
STOPS_SHOT = np.array([m.stops_shot for m in MATERIALS], dtype=bool)
MATERIAL_HP = np.array([m.hp for m in MATERIALS], dtype=np.uint16)
WALK_COST = np.array([m.walk_cost for m in MATERIALS], dtype=np.float64)


def bit_plane(material: NDArray[np.uint8], has_property: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack ``has_property[material]`` of a ``[z, y, x]`` grid into one word per column, ``uint64 [y, x]``."""
    plane = np.zeros(material.shape[1:], dtype=np.uint64)
    for z in range(material.shape[0]):
        plane |= has_property[material[z]].astype(np.uint64) << np.uint64(z)
    return plane
