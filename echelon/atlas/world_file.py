"""World files (.ecw): a generated map in the record format of replay files.

A file is ``MAGIC``, a HEADER record with the map's recipe and a WORLD record with its voxels, both framed by
``echelon.replay.codec`` with length limits and checksums. Spawns and flow fields are computed from recipe and voxels on
reading, after the recipe's hashes were checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import numpy as np
from pydantic import Field

from echelon.config import EnvConfig, WorldConfig
from echelon.config.checks import ranges_of
from echelon.files import atomic_write
from echelon.gen.generate import GeneratedMap
from echelon.gen.recipe import materials_hash, sha256_json
from echelon.gen.shapes import Corner
from echelon.gen.spawn import check_world_fits, formations
from echelon.nav.lanes import navigation_fields
from echelon.replay import codec
from echelon.replay.schema import WORLD_HEAD, RecordType
from echelon.replay.validate import Part
from echelon.replay.writer import world_payload
from echelon.sim.world import MATERIALS
from echelon.state_files import IrregularFileError, open_regular
from echelon.validation import validated

MAGIC = b"\x89ECW\r\n\x1a\n"
"""First bytes of a world file; a transfer in text mode changes them, which is then detected."""
SUFFIX = ".ecw"


MAX_FIXUPS = 1024
MAX_COORDINATE = float(ranges_of(WorldConfig)["size_x"][1])


class _Hashes(Part):
    recipe: str
    materials: str


class _Generator(Part):
    world: WorldConfig
    num_packs: Annotated[int, Field(ge=1, le=int(ranges_of(EnvConfig)["num_packs"][1]))]


class _Corners(Part):
    blue: Literal["BL", "BR", "TL", "TR"]
    red: Literal["BL", "BR", "TL", "TR"]


class _Variant(Part):
    spawn_corners: _Corners
    open_map: bool


class _Objective(Part):
    centre: Annotated[
        tuple[Annotated[float, Field(ge=0, le=MAX_COORDINATE)], Annotated[float, Field(ge=0, le=MAX_COORDINATE)]],
        Field(strict=False),
    ]
    radius: Annotated[float, Field(gt=0, le=MAX_COORDINATE)]


class _Regions(Part):
    objective: _Objective


class _Recipe(Part):
    """What a map is rebuilt from."""

    seed: Annotated[int, Field(ge=0, lt=2**63)]
    hashes: _Hashes
    generator: _Generator
    variant: _Variant
    regions: _Regions
    fixups: Annotated[list[dict[str, Any]], Field(max_length=MAX_FIXUPS)]


class WorldFileError(ValueError):
    """A file is not a world file, or it is damaged."""


def is_world_file(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def save_world(path: Path, generated: GeneratedMap) -> None:
    header = codec.pack_record(RecordType.HEADER, codec.pack_map(generated.recipe))
    world = codec.pack_record(RecordType.WORLD, world_payload(generated.material))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, MAGIC + header + world)


def load_world(path: Path) -> GeneratedMap:
    """Return the map of a world file; raise ``WorldFileError`` for an invalid file."""
    try:
        with open_regular(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise WorldFileError(f"{path.name!r} is not a world file ({SUFFIX})")
            recipe, offset = _read_record(file, len(MAGIC), RecordType.HEADER)
            payload, _ = _read_record(file, offset, RecordType.WORLD)
        return _rebuild_map(codec.unpack_map(recipe), payload)
    except ValueError as error:
        if isinstance(error, WorldFileError) and path.name in str(error):
            raise
        raise WorldFileError(f"world {path.name!r} cannot be read: {error}") from None
    except IrregularFileError as error:
        raise WorldFileError(f"world {path.name!r} cannot be read: {error}") from None


def _read_record(file: BinaryIO, offset: int, expected: RecordType) -> tuple[bytes, int]:
    """Return the payload of the record at ``offset``, and the offset of the next one."""
    head = codec.read_head(file, offset)
    if head.kind != expected:
        raise WorldFileError(f"record at byte {offset} has type {head.kind}, expected {int(expected)}")
    return codec.unpack_payload(head, codec.read_stored(file, head)), offset + head.length


def _rebuild_map(recipe: dict[str, Any], payload: bytes) -> GeneratedMap:
    """Return the map of a recipe and its voxels, after checking their hashes."""
    try:
        parsed = validated(_Recipe, recipe)
    except ValueError as error:
        raise WorldFileError(f"its recipe is damaged: {error}") from None
    size_x, size_y, size_z, _ = WORLD_HEAD.unpack_from(payload.ljust(WORLD_HEAD.size, b"\0"))
    world, packs = parsed.generator.world, parsed.generator.num_packs
    if (size_x, size_y, size_z) != (world.size_x, world.size_y, world.size_z):
        raise WorldFileError("the size of its voxels does not match its recipe")
    if len(payload) != WORLD_HEAD.size + size_x * size_y * size_z:
        raise WorldFileError("its voxels do not match their size")
    check_world_fits(world, packs)
    cells = np.frombuffer(payload, np.uint8, offset=WORLD_HEAD.size).reshape(size_y, size_x, size_z)
    material = np.ascontiguousarray(cells.transpose(2, 0, 1))
    try:
        recipe_hash = sha256_json({key: value for key, value in recipe.items() if key != "hashes"})
    except TypeError:
        raise WorldFileError("its recipe has values without a JSON form") from None
    if recipe_hash != parsed.hashes.recipe or materials_hash(material) != parsed.hashes.materials:
        raise WorldFileError("its content does not match its hashes")
    if material.max(initial=0) >= len(MATERIALS):
        raise WorldFileError("it has unknown materials")
    blue, red = Corner[parsed.variant.spawn_corners.blue], Corner[parsed.variant.spawn_corners.red]
    zone = parsed.regions.objective
    circle = (*zone.centre, zone.radius)
    if not all(0 <= at < size for at, size in zip(zone.centre, (size_x, size_y), strict=True)):
        raise WorldFileError("the centre of its zone lies outside the map")
    spawn = formations(world, (blue, red), packs).astype(np.float32)
    _, flow = navigation_fields(material, zone=circle, spawn=spawn, clearance=world.connectivity.clearance_z)
    return GeneratedMap(
        map_seed=parsed.seed,
        material=material,
        zone=circle,
        blue_corner=int(blue),
        red_corner=int(red),
        spawn=spawn,
        flow=flow,
        recipe=recipe,
        open_map=parsed.variant.open_map,
        fixups=tuple(parsed.fixups),
    )
