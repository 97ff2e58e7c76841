"""Statistics of a world: materials, heights, walkability per footprint, and path lengths of both teams.

All results are JSON values.
"""

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
"""Height of blocking cells above which a column is an obstacle [vox]."""


def zone_fields(scene: Scene) -> list[ZoneField]:
    """Return the path costs to the zone for each footprint radius in ``RADII``."""
    return [zone_field(scene.material, zone=scene.zone, radius=r, clearance=scene.clearance) for r in RADII]


def world_statistics(scene: Scene, fields: list[ZoneField] | None = None) -> dict[str, Any]:
    """Return the statistics of a scene; ``fields`` is the result of ``zone_fields``, computed if None."""
    fields = zone_fields(scene) if fields is None else fields
    return {
        "size": list(scene.size),
        **material_statistics(scene.material),
        "heights": height_statistics(scene.material),
        "walk": [walk_statistics(scene, field, radius) for field, radius in zip(fields, RADII, strict=True)],
        "zone": {"centre": list(scene.zone[:2]), "radius": scene.zone[2]},
        "ways": path_statistics(scene, fields),
        "spawns": spawn_positions(scene),
    }


def material_statistics(material: NDArray[np.uint8]) -> dict[str, Any]:
    """Return the fraction of each material by volume and as seen from above, and of blocking and opaque cells."""
    names = [spec.material.name.lower() for spec in MATERIALS]
    volume = np.bincount(material.ravel(), minlength=len(names)) / material.size
    above = np.bincount(top_material(material).ravel(), minlength=len(names)) / material[0].size
    return {
        "materials": dict(zip(names, volume.tolist(), strict=True)),
        "seen_from_above": dict(zip(names, above.tolist(), strict=True)),
        "solid_share": float(BLOCKS_MOVE[material].mean()),
        "opaque_share": float(BLOCKS_SIGHT[material].mean()),
    }


def top_height(material: NDArray[np.uint8], counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the height [Y, X] of the topmost cell of each column whose material has ``counted`` set, 0 for none."""
    has = counted[material]
    return np.where(has.any(axis=0), material.shape[0] - has[::-1].argmax(axis=0), 0)


def top_material(material: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the topmost material of each column [Y, X], air if it is empty."""
    height = top_height(material, np.arange(len(MATERIALS)) != 0)
    return np.take_along_axis(material, np.maximum(height - 1, 0)[None], axis=0)[0]


def height_statistics(material: NDArray[np.uint8]) -> dict[str, float]:
    """Return statistics of the height of blocking cells [vox]; columns up to ``FEET_FREE`` count as open."""
    height = top_height(material, BLOCKS_MOVE)
    built = height[height > FEET_FREE]
    return {
        "open_share": float((height <= FEET_FREE).mean()),
        "mean": float(height.mean()),
        "median_built": float(np.median(built)) if len(built) else 0.0,
        "max": int(height.max()),
    }


def walk_statistics(scene: Scene, field: ZoneField, radius: int) -> dict[str, Any]:
    graph, totals = field.graph, statistics(field.graph)
    columns = len(np.unique(graph.kyx[:, 1:], axis=0)) if graph.num_nodes else 0
    return {
        "radius": radius,
        "classes": [spec.chassis.name.lower() for spec in CHASSIS if RADIUS_OF_CHASSIS[spec.chassis] == radius],
        "cells": totals.nodes,
        "columns_share": columns / scene.material[0].size,
        "edges_per_cell": totals.edges_per_node,
        "largest_component": totals.connectivity,
        "reach_zone": float(np.isfinite(field.cost).mean()) if graph.num_nodes else 0.0,
    }


def path_statistics(scene: Scene, fields: list[ZoneField]) -> dict[str, Any]:
    """Return each team's mean path length and straight distance to the zone [vox], and the ratio of path lengths."""
    walked = np.full(len(scene.starts), np.inf)
    for m, (x, y, z) in enumerate(scene.feet.tolist()):
        field = fields[RADII.index(RADIUS_OF_CHASSIS[scene.chassis[m]])]
        node = snap(field.graph, x, y, z)
        walked[m] = field.cost[node] if node >= 0 else np.inf
    straight = np.hypot(*(scene.starts[:, :2] - np.array(scene.zone[:2])).T) - scene.zone[2]
    result: dict[str, Any] = {}
    for team in (BLUE, RED):
        members = scene.team == team
        reached = members & np.isfinite(walked)
        result[TEAM_NAMES[team]] = {
            "walked": float(walked[reached].mean()) if reached.any() else None,
            "straight": float(np.maximum(straight[members], 0.0).mean()) if members.any() else None,
            "cut_off": int((members & ~np.isfinite(walked)).sum()),
        }
    lengths = [result[name]["walked"] for name in TEAM_NAMES]
    ratio = max(lengths) / max(min(lengths), 1.0) if None not in lengths else None
    return {**result, "ratio": ratio}


def spawn_positions(scene: Scene) -> dict[str, Any]:
    """Return the spawn of each team: centre of its mechs, and position of each mech [vox]."""
    result: dict[str, Any] = {}
    for team in (BLUE, RED):
        positions = scene.starts[scene.team == team]
        names = [CHASSIS[c].chassis.name.lower() for c in scene.chassis[scene.team == team]]
        result[TEAM_NAMES[team]] = {
            "centre": np.round(positions[:, :2].mean(axis=0), 2).tolist() if len(positions) else None,
            "mechs": [
                {"class": name, "place": np.round(position, 3).tolist()}
                for name, position in zip(names, positions, strict=True)
            ],
        }
    return result
