"""Small test worlds: a handmade one with known statistics, and a generated one; and a PNG decoder."""

import io
from functools import cache

import numpy as np
from PIL import Image

from echelon.atlas.scene import Scene, scene_from_map
from echelon.config import WorldConfig
from echelon.gen.generate import GeneratedMap, generate
from echelon.sim.arsenal import Chassis
from echelon.sim.world import Material

EDGE, HEIGHT = 24, 12


def handmade() -> Scene:
    """Open ground of 24x24x12 with a wall of height 5, a pond, and a scout of each team beside the central zone."""
    material = np.zeros((HEIGHT, EDGE, EDGE), np.uint8)
    material[0] = Material.DIRT
    material[:5, 4:6, 2:10] = Material.SOLID
    material[0, 18:22, 18:22] = Material.WATER
    return Scene(
        material=material,
        zone=(12.0, 12.0, 3.0),
        starts=np.array([[3.5, 12.5, 1.0], [20.5, 12.5, 1.0]]),
        team=np.array([0, 1]),
        chassis=np.array([Chassis.SCOUT, Chassis.SCOUT]),
    )


@cache
def generated(seed: int = 3, edge: int = 40) -> GeneratedMap:
    """A small generated map."""
    return generate(WorldConfig(size_x=edge, size_y=edge, size_z=12), seed, num_packs=1, zone_radius_vox=5.0)


def scene() -> Scene:
    return scene_from_map(generated())


def decode_png(data: bytes) -> np.ndarray:
    """Return the pixels of an RGB PNG ``uint8 [height, width, 3]``."""
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.mode) == ("PNG", "RGB")
        return np.asarray(picture)
