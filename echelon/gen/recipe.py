"""Recipe of a map: everything that identifies it, as canonical JSON, and its hashes."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

import numpy as np

from echelon.config import Fairness, WorldConfig
from echelon.gen.shapes import Grid
from echelon.sim.world import BLOCKS_MOVE

RECIPE_SCHEMA = 2
"""Version of the recipe's fields."""
GENERATOR_ID = "echelon.gen"
GENERATOR_VERSION = "1"
"""Version of the generator; raise it when a seed gives a different map. It is part of the cache key."""
FAIR_GENERATOR_VERSION = f"{GENERATOR_VERSION}-path-1"
"""Version of the generator of fair maps; raise its last number when a seed gives a different fair map."""
GENERATOR_VERSIONS: dict[Fairness, str] = {"any": GENERATOR_VERSION, "path": FAIR_GENERATOR_VERSION}
"""Version of the generator for each fairness of a world."""


def generator_record(world: WorldConfig) -> dict[str, Any]:
    """Return the generator of a world's maps and its settings.

    The default fairness is left out, so that maps generated before fair ones existed keep their hash.
    """
    settings = asdict(world)
    if world.fairness == "any":
        del settings["fairness"]
    return {"id": GENERATOR_ID, "version": GENERATOR_VERSIONS[world.fairness], "world": settings}


def canonical_json(data: Any) -> str:
    """Return JSON with sorted keys, without spaces and with non-ASCII characters unescaped."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_json(data: Any) -> str:
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


def solid_hash(grid: Grid) -> str:
    """Return the hex SHA-256 of the movement-blocking mask, packed in bytes (first cell highest) in z, y, x order."""
    return hashlib.sha256(np.packbits(BLOCKS_MOVE[grid].ravel()).tobytes()).hexdigest()


def materials_hash(grid: Grid) -> str:
    return hashlib.sha256(np.ascontiguousarray(grid).tobytes()).hexdigest()


def seal(recipe: dict[str, Any], grid: Grid) -> dict[str, Any]:
    """Return the recipe, normalised through JSON, with hashes of itself and of its grid added."""
    recipe = json.loads(canonical_json(recipe))
    hashes = {"recipe": sha256_json(recipe), "solid": solid_hash(grid), "materials": materials_hash(grid)}
    return {**recipe, "hashes": hashes}
