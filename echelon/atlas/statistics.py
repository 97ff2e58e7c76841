"""Figures of a world: what it is made of, how high it is, how well each class can walk it, how fair it is.

Everything returned is plain values, ready for JSON.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.atlas.scene import BLUE, RED, Scene
from echelon.nav.field import ZoneField, zone_field
from echelon.nav.graph import RADII, RADIUS_OF_CHASSIS, snap, statistics
from echelon.sim.arsenal import CHASSIS
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, MATERIALS

TEAM_NAMES = ("blue", "red")
FEET_FREE = 1
"""Layers over the ground that a mech's feet need free: a column higher than this is an obstacle."""


def zone_fields(scene: Scene) -> list[ZoneField]:
    """Return the way to the zone for each footprint radius in ``RADII``."""
    return [zone_field(scene.material, zone=scene.zone, radius=r, clearance=scene.clearance) for r in RADII]


def world_statistics(scene: Scene, fields: list[ZoneField] | None = None) -> dict[str, Any]:
    """Return the figures of a scene; ``fields`` are those of ``zone_fields``, if at hand."""
    fields = zone_fields(scene) if fields is None else fields
    return {
        "size": list(scene.size),
        **material_statistics(scene.material),
        "heights": height_statistics(scene.material),
        "walk": [walk_statistics(scene, field, radius) for field, radius in zip(fields, RADII, strict=True)],
        "zone": {"centre": list(scene.zone[:2]), "radius": scene.zone[2]},
        "ways": ways_of(scene, fields),
        "spawns": spawn_positions(scene),
    }


def material_statistics(material: NDArray[np.uint8]) -> dict[str, Any]:
    """Return the share of each material by volume and as seen from above, and of what blocks way and sight."""
    names = [spec.material.name.lower() for spec in MATERIALS]
    volume = np.bincount(material.ravel(), minlength=len(names)) / material.size
    above = np.bincount(top_material(material).ravel(), minlength=len(names)) / material[0].size
    return {
        "materials": dict(zip(names, volume.tolist(), strict=True)),
        "seen_from_above": dict(zip(names, above.tolist(), strict=True)),
        "solid_share": float(BLOCKS_MOVE[material].mean()),
        "opaque_share": float(BLOCKS_SIGHT[material].mean()),
    }


def top_height(material: NDArray[np.uint8], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return one more than the highest layer of each column whose material is ``wanted``, 0 for none, [Y, X]."""
    has = wanted[material]
    return np.where(has.any(axis=0), material.shape[0] - has[::-1].argmax(axis=0), 0)


def top_material(material: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return what each column shows from above; air where it is empty, [Y, X]."""
    height = top_height(material, np.arange(len(MATERIALS)) != 0)
    return np.take_along_axis(material, np.maximum(height - 1, 0)[None], axis=0)[0]


def height_statistics(material: NDArray[np.uint8]) -> dict[str, float]:
    """Return figures of the height of what blocks the way [vox]; columns no higher than a step count as open."""
    height = top_height(material, BLOCKS_MOVE)
    built = height[height > FEET_FREE]
    return {
        "open_share": float((height <= FEET_FREE).mean()),
        "mean": float(height.mean()),
        "median_built": float(np.median(built)) if len(built) else 0.0,
        "max": int(height.max()),
    }


def walk_statistics(scene: Scene, field: ZoneField, radius: int) -> dict[str, Any]:
    """Return how well mechs of one footprint radius can walk the map."""
    graph, figures = field.graph, statistics(field.graph)
    columns = len(np.unique(graph.kyx[:, 1:], axis=0)) if graph.num_nodes else 0
    return {
        "radius": radius,
        "classes": [spec.chassis.name.lower() for spec in CHASSIS if RADIUS_OF_CHASSIS[spec.chassis] == radius],
        "cells": figures.nodes,
        "columns_share": columns / scene.material[0].size,
        "edges_per_cell": figures.edges_per_node,
        "largest_component": figures.connectivity,
        "reach_zone": float(np.isfinite(field.cost).mean()) if graph.num_nodes else 0.0,
    }


def ways_of(scene: Scene, fields: list[ZoneField]) -> dict[str, Any]:
    """Return each team's mean way to the zone, walked and straight [vox], and the ratio of the two teams' ways."""
    walked = np.full(len(scene.starts), np.inf)
    for m, (x, y, z) in enumerate(scene.feet.tolist()):
        field = fields[RADII.index(RADIUS_OF_CHASSIS[scene.chassis[m]])]
        node = snap(field.graph, x, y, z)
        walked[m] = field.cost[node] if node >= 0 else np.inf
    straight = np.hypot(*(scene.starts[:, :2] - np.array(scene.zone[:2])).T) - scene.zone[2]
    found: dict[str, Any] = {}
    for side in (BLUE, RED):
        mine = scene.team == side
        reached = mine & np.isfinite(walked)
        found[TEAM_NAMES[side]] = {
            "walked": float(walked[reached].mean()) if reached.any() else None,
            "straight": float(np.maximum(straight[mine], 0.0).mean()) if mine.any() else None,
            "cut_off": int((mine & ~np.isfinite(walked)).sum()),
        }
    ways = [found[name]["walked"] for name in TEAM_NAMES]
    ratio = max(ways) / max(min(ways), 1.0) if None not in ways else None
    return {**found, "ratio": ratio}


def spawn_positions(scene: Scene) -> dict[str, Any]:
    """Return where each team begins: the middle of its mechs and each mech's place [vox]."""
    found: dict[str, Any] = {}
    for side in (BLUE, RED):
        mine = scene.starts[scene.team == side]
        names = [CHASSIS[c].chassis.name.lower() for c in scene.chassis[scene.team == side]]
        found[TEAM_NAMES[side]] = {
            "centre": np.round(mine[:, :2].mean(axis=0), 2).tolist() if len(mine) else None,
            "mechs": [
                {"class": name, "place": np.round(place, 3).tolist()} for name, place in zip(names, mine, strict=True)
            ],
        }
    return found
