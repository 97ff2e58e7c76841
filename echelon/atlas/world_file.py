"""World files (.ecw): a generated map in the record format of replay files.

A file is ``MAGIC``, a HEADER record with the map's recipe and a WORLD record with its voxels, both framed by
``echelon.replay.codec`` with length limits and checksums. Spawns and flow fields are computed from recipe and voxels on
reading, after the recipe's hashes were checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic import TypeAdapter, ValidationError

from echelon.config import WorldConfig
from echelon.gen.generate import GeneratedMap
from echelon.gen.recipe import materials_hash, sha256_json
from echelon.gen.spawn import formation
from echelon.gen.transforms import Corner
from echelon.nav.lanes import navigation_fields
from echelon.replay import codec
from echelon.replay.codec import ReplayError
from echelon.replay.schema import WORLD_HEAD, RecordType
from echelon.replay.writer import world_payload
from echelon.runs import atomic_write
from echelon.sim.world import MATERIALS

MAGIC = b"\x89ECW\r\n\x1a\n"
"""First bytes of a world file; a transfer in text mode changes them, which is then detected."""
SUFFIX = ".ecw"


class WorldFileError(ValueError):
    """A file is not a world file, or it is damaged."""


def is_world_file(path: Path) -> bool:
    """Return whether a file starts with the magic of world files."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def save_world(path: Path, generated: GeneratedMap) -> None:
    """Write a map atomically."""
    header = codec.pack_record(RecordType.HEADER, codec.pack_map(generated.recipe))
    world = codec.pack_record(RecordType.WORLD, world_payload(generated.material))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, MAGIC + header + world)


def load_world(path: Path) -> GeneratedMap:
    """Return the map of a world file; raise ``WorldFileError`` for an invalid file."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise WorldFileError(f"{path.name!r} is not a world file ({SUFFIX})")
            recipe, offset = _read_record(file, len(MAGIC), RecordType.HEADER)
            payload, _ = _read_record(file, offset, RecordType.WORLD)
        return _rebuild_map(codec.unpack_map(recipe), payload)
    except (ReplayError, KeyError, TypeError, ValidationError) as error:
        reason = str(error) if isinstance(error, ReplayError) else "its recipe is incomplete"
        raise WorldFileError(f"world {path.name!r} cannot be read: {reason}") from None
    except ValueError as error:
        if isinstance(error, WorldFileError) and path.name in str(error):
            raise
        raise WorldFileError(f"world {path.name!r} cannot be read: {error}") from None


def _read_record(file: BinaryIO, offset: int, expected: RecordType) -> tuple[bytes, int]:
    """Return the payload of the record at ``offset``, and the offset of the next one."""
    head = codec.read_head(file, offset)
    if head.kind != expected:
        raise WorldFileError(f"record at byte {offset} has type {head.kind}, expected {int(expected)}")
    return codec.unpack_payload(head, codec.read_stored(file, head)), offset + head.length


def _rebuild_map(recipe: dict[str, Any], payload: bytes) -> GeneratedMap:
    """Return the map of a recipe and its voxels, after checking their hashes."""
    hashes = recipe["hashes"]
    if len(payload) < WORLD_HEAD.size:
        raise WorldFileError("its voxels are truncated")
    x, y, z, _ = WORLD_HEAD.unpack_from(payload)
    if len(payload) != WORLD_HEAD.size + x * y * z:
        raise WorldFileError("its voxels do not match their size")
    cells = np.frombuffer(payload, np.uint8, offset=WORLD_HEAD.size).reshape(y, x, z)
    material = np.ascontiguousarray(cells.transpose(2, 0, 1))
    recipe_valid = sha256_json({key: value for key, value in recipe.items() if key != "hashes"}) == hashes["recipe"]
    if not recipe_valid or materials_hash(material) != hashes["materials"]:
        raise WorldFileError("its content does not match its hashes")
    if material.max(initial=0) >= len(MATERIALS):
        raise WorldFileError("it has unknown materials")
    world = TypeAdapter(WorldConfig).validate_python(recipe["generator"]["world"])
    if (x, y, z) != (world.size_x, world.size_y, world.size_z):
        raise WorldFileError("the size of its voxels does not match its recipe")
    corners = [Corner[recipe["variant"]["spawn_corners"][team]] for team in ("blue", "red")]
    packs = int(recipe["generator"]["num_packs"])
    zone = recipe["regions"]["objective"]
    circle = (float(zone["centre"][0]), float(zone["centre"][1]), float(zone["radius"]))
    spawn = np.concatenate([formation(world, corner, packs) for corner in corners]).astype(np.float32)
    clearance = world.connectivity.clearance_z
    _, flow = navigation_fields(material, zone=circle, spawn=spawn, clearance=clearance)
    return GeneratedMap(
        map_seed=int(recipe["seed"]),
        material=material,
        zone=circle,
        blue_corner=int(corners[0]),
        red_corner=int(corners[1]),
        spawn=spawn,
        flow=flow,
        recipe=recipe,
        open_map=bool(recipe["variant"]["open_map"]),
        fixups=tuple(recipe["fixups"]),
    )
