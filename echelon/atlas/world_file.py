"""A generated map as one file (.ecw): the records of a replay file under another magic.

A file is ``MAGIC``, a HEADER record with the map's recipe as a msgpack map, and a WORLD record with its voxels as a
replay stores them, both as ``echelon.replay.codec`` frames them: lengths are capped and every record has a checksum.
Zone, corners and configuration are in the recipe; spawns and navigation follow from it and the voxels. The recipe's own
hashes are compared on reading.
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
"""First bytes of a saved map; a transfer as text would break them."""
SUFFIX = ".ecw"


class WorldFileError(ValueError):
    """A file is no saved map, or a damaged one."""


def is_world_file(path: Path) -> bool:
    """Whether a file begins like a saved map."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def save_world(path: Path, made: GeneratedMap) -> None:
    """Write a map so that readers see all of it or none of it."""
    header = codec.pack_record(RecordType.HEADER, codec.pack_map(made.recipe))
    world = codec.pack_record(RecordType.WORLD, world_payload(made.material))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, MAGIC + header + world)


def load_world(path: Path) -> GeneratedMap:
    """Read a saved map; ``WorldFileError`` says in one line what is wrong with the file."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise WorldFileError(f"{path.name!r} is no saved world ({SUFFIX})")
            recipe, at = _record(file, len(MAGIC), RecordType.HEADER)
            payload, _ = _record(file, at, RecordType.WORLD)
        return _rebuilt(codec.unpack_map(recipe), payload)
    except (ReplayError, KeyError, TypeError, ValidationError) as error:
        why = str(error) if isinstance(error, ReplayError) else "its recipe is not complete"
        raise WorldFileError(f"world {path.name!r} cannot be read: {why}") from None
    except ValueError as error:
        if isinstance(error, WorldFileError) and path.name in str(error):
            raise
        raise WorldFileError(f"world {path.name!r} cannot be read: {error}") from None


def _record(file: BinaryIO, at: int, wanted: RecordType) -> tuple[bytes, int]:
    """Return the payload of the record at ``at``, and where the next one begins."""
    head = codec.read_head(file, at)
    if head.kind != wanted:
        raise WorldFileError(f"it has record {head.kind} at byte {at}, wanted {int(wanted)}")
    return codec.unpack_payload(head, codec.read_stored(file, head)), at + head.length


def _rebuilt(recipe: dict[str, Any], payload: bytes) -> GeneratedMap:
    """Return the map of a recipe and its voxels, after comparing their hashes."""
    hashes = recipe["hashes"]
    if len(payload) < WORLD_HEAD.size:
        raise WorldFileError("its voxels are cut short")
    x, y, z, _ = WORLD_HEAD.unpack_from(payload)
    if len(payload) != WORLD_HEAD.size + x * y * z:
        raise WorldFileError("its voxels have another size than they say")
    cells = np.frombuffer(payload, np.uint8, offset=WORLD_HEAD.size).reshape(y, x, z)
    material = np.ascontiguousarray(cells.transpose(2, 0, 1))
    whole = sha256_json({key: value for key, value in recipe.items() if key != "hashes"}) == hashes["recipe"]
    if not whole or materials_hash(material) != hashes["materials"]:
        raise WorldFileError("it is not what its hashes say")
    if material.max(initial=0) >= len(MATERIALS):
        raise WorldFileError("it has materials that this version does not know")
    world = TypeAdapter(WorldConfig).validate_python(recipe["generator"]["world"])
    if (x, y, z) != (world.size_x, world.size_y, world.size_z):
        raise WorldFileError("its voxels have another size than its recipe")
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
