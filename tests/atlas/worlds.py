"""Small test worlds: a handmade one with known statistics, and a generated one; and a PNG decoder."""

import zlib
from functools import cache

import numpy as np

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
    """Return the pixels of an 8-bit RGB PNG with filters 0 or 2, after checking all checksums."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, size = 8, b"", (0, 0)
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        content = data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + content) == int.from_bytes(data[at + 8 + length : at + 12 + length], "big")
        if kind == b"IHDR":
            size = int.from_bytes(content[:4], "big"), int.from_bytes(content[4:8], "big")
            assert content[8:] == bytes([8, 2, 0, 0, 0])
        elif kind == b"IDAT":
            body += content
        at += 12 + length
    assert kind == b"IEND"
    width, height = size
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 3 * width)
    pixels = np.zeros((height, 3 * width), np.uint8)
    for y, row in enumerate(rows):
        assert row[0] in (0, 2)
        pixels[y] = row[1:] + (pixels[y - 1] if row[0] == 2 and y else 0)
    return pixels.reshape(height, width, 3)
