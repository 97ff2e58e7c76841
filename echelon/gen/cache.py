"""Disk cache of generated maps, one compressed file each.

The folder is ``maps`` in ``$ECHELON_CACHE`` or in the platform's cache folder. The cache is optional: a missing or
damaged file is generated again, and a folder that cannot be written is ignored.
"""

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from echelon.config import WorldConfig
from echelon.gen.generate import GeneratedMap, generate
from echelon.gen.recipe import canonical_json, generator_record, materials_hash, sha256_json
from echelon.gen.shapes import Corner
from echelon.nav.lanes import NAVIGATION_VERSION
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.sim.world import MATERIALS

CACHE_VARIABLE = "ECHELON_CACHE"
"""Environment variable that names the cache folder."""


def cache_dir() -> Path:
    if CACHE_VARIABLE in os.environ:
        return Path(os.environ[CACHE_VARIABLE]) / "maps"
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "echelon" / "maps"


def map_path(world: WorldConfig, map_seed: int, *, num_packs: int, zone_radius_vox: float) -> Path:
    """Return the cache file of a map; its name is a hash of everything that the map depends on."""
    generator = generator_record(world)
    key = sha256_json(
        {
            "generator": [generator["id"], generator["version"]],
            "world": generator["world"],
            "num_packs": num_packs,
            "zone_radius_vox": float(zone_radius_vox),
            "seed": map_seed,
            "sizes": [CHASSIS[chassis].size for chassis in ROSTER],
            "ways": NAVIGATION_VERSION,
            "materials": [[m.blocks_move, m.blocks_sight, m.walk_cost] for m in MATERIALS],
        }
    )
    return cache_dir() / key[:2] / f"{key}.npz"


def cached_map(world: WorldConfig, map_seed: int, *, num_packs: int, zone_radius_vox: float) -> GeneratedMap:
    """Return a map from the cache, or generate and cache it."""
    path = map_path(world, map_seed, num_packs=num_packs, zone_radius_vox=zone_radius_vox)
    cached = load_map(path)
    if cached is not None:
        return cached
    generated = generate(world, map_seed, num_packs=num_packs, zone_radius_vox=zone_radius_vox)
    # a full or read-only disk must not stop a run that already has its map
    with contextlib.suppress(OSError):
        store_map(path, generated)
    return generated


def store_map(path: Path, generated: GeneratedMap) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(
                file,
                material=generated.material,
                spawn=generated.spawn,
                flow=generated.flow,
                recipe=np.frombuffer(canonical_json(generated.recipe).encode(), dtype=np.uint8),
            )
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_map(path: Path) -> GeneratedMap | None:
    """Return a cached map, None if the file is missing, damaged or does not match its hash."""
    # zipfile and numpy raise many kinds of errors for a damaged archive
    try:
        with np.load(path, allow_pickle=False) as data:
            material, spawn, flow = data["material"], data["spawn"], data["flow"]
            recipe = json.loads(data["recipe"].tobytes().decode())
        if recipe["hashes"]["materials"] != materials_hash(material):
            return None
        zone, corners = recipe["regions"]["objective"], recipe["variant"]["spawn_corners"]
        return GeneratedMap(
            map_seed=recipe["seed"],
            material=material,
            zone=(*zone["centre"], zone["radius"]),
            blue_corner=int(Corner[corners["blue"]]),
            red_corner=int(Corner[corners["red"]]),
            spawn=spawn,
            flow=flow,
            recipe=recipe,
            open_map=recipe["variant"]["open_map"],
            fixups=tuple(recipe["fixups"]),
        )
    except Exception:
        return None
