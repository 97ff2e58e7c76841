"""Map generation: the pipeline from a seed to a finished map, as a list of steps.

The steps are implemented in the other modules of this package. Each step draws from its own random sub-stream, keyed by
the attempt: a change of one step does not affect the draws of the next, and a map that cannot be connected is generated
again with different draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import WorldConfig
from echelon.gen.biomes import BIOMES
from echelon.gen.corridors import Corridor, carve_corridors, plan_corridors
from echelon.gen.layout import choose_biomes, lay_ground, split_quadrants
from echelon.gen.objective import Zone, clear_zone, distance_ratio, place_zone
from echelon.gen.recipe import GENERATOR_ID, GENERATOR_VERSION, RECIPE_SCHEMA, seal
from echelon.gen.shapes import Grid
from echelon.gen.spawn import anchor, boxes_clear, check_world_fits, clear_spawn, corner_square, formation, spawn_clear
from echelon.gen.transforms import TRANSFORMS, Corner, Transform
from echelon.gen.validator import connect
from echelon.nav.field import ZoneField
from echelon.nav.lanes import navigation_fields
from echelon.sim.random import Stream, StreamId
from echelon.sim.world import BLOCKS_MOVE

__all__ = ["GeneratedMap", "check_world_fits", "generate"]

MAX_SEED = 2**32 - 1
"""Largest map seed; keys of the random generator have 32 bits."""
CARVE_EXTRA = 1
"""Layers cleared in corridors above the headroom of a mech."""


class SubStream(IntEnum):
    """Random sub-stream of each step; quadrant q is filled with ``BRUSH + q``."""

    LAYOUT = 0
    VARIANT = 1
    OBJECTIVE = 2
    CORRIDORS = 3
    BRUSH = 8


@dataclass(frozen=True, kw_only=True)
class GeneratedMap:
    """A generated map; M mechs with blue first, L flow layers, grids [Z, Y, X]."""

    map_seed: int
    material: NDArray[np.uint8]
    """Material ids, shape [Z, Y, X]."""
    zone: tuple[float, float, float]
    """Capture zone (cx, cy, r) [vox]."""
    blue_corner: int
    """``Corner`` of the blue team."""
    red_corner: int
    """``Corner`` of the red team."""
    spawn: NDArray[np.float32]
    """Spawn positions (box centres before jitter) in slot order, blue first, shape [M, 3] [vox]."""
    flow: NDArray[np.uint8]
    """Next-step codes of ``echelon.nav.field`` per radius, then per ``Lane``, shape [L, Z + 1, Y, X]."""
    recipe: dict[str, Any] = field(default_factory=dict)
    """Recipe that identifies the map, as plain data."""
    open_map: bool = False
    """Whether all attempts failed and the map is a flat plain."""
    fixups: tuple[dict[str, Any], ...] = ()
    """Routes that the connectivity check dug."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Size (x, y, z) [vox]."""
        z, y, x = self.material.shape
        return x, y, z

    @property
    def hashes(self) -> dict[str, str]:
        """Hex SHA-256 of ``recipe``, ``solid`` and ``materials``."""
        return self.recipe["hashes"]


@dataclass(kw_only=True)
class Draft:
    """A map during generation; the steps fill its fields from top to bottom."""

    world: WorldConfig
    map_seed: int
    num_packs: int
    zone_radius_vox: float
    attempt: int
    open_map: bool
    biome: str = ""
    """Biome of all quadrants; empty samples four."""
    material: Grid = field(init=False)
    biomes: dict[Corner, str] = field(default_factory=dict)
    transform: Transform = TRANSFORMS[0]
    corners: tuple[Corner, Corner] = (Corner.BL, Corner.TR)
    clear: int = 0
    starts: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    zone: Zone = Zone(0.0, 0.0, 0.0)
    zone_quadrant: Corner = Corner.BL
    corridors: tuple[Corridor, ...] = ()
    accepted: bool = True
    attempts: tuple[dict[str, Any], ...] = ()
    fixups: tuple[dict[str, Any], ...] = ()
    widest: ZoneField | None = None

    def stream(self, stream: StreamId, sub_stream: int) -> Stream:
        """Return the random sub-stream of a step."""
        return Stream(self.map_seed, stream, tick=self.attempt, entity=sub_stream)


def fill_quadrants(draft: Draft) -> None:
    """Split the empty grid into quadrants and fill each with its biome."""
    world = draft.world
    draft.material = np.zeros((world.size_z, world.size_y, world.size_x), dtype=np.uint8)
    if draft.open_map:
        return
    stream = draft.stream(StreamId.TERRAIN, SubStream.LAYOUT)
    quadrants = split_quadrants(world.size_x, world.size_y, stream)
    for corner, rect, name in zip(Corner, quadrants, choose_biomes(stream), strict=True):
        draft.biomes[corner] = name = draft.biome or name
        BIOMES[name](draft.material, rect, draft.stream(StreamId.TERRAIN, SubStream.BRUSH + corner))


def fill_ground(draft: Draft) -> None:
    """Fill empty cells of the lowest layer with dirt."""
    lay_ground(draft.material)


def choose_variant(draft: Draft) -> None:
    """Sample the teams' corners and the flip of the map."""
    stream = draft.stream(StreamId.VARIANT, SubStream.VARIANT)
    blue = stream.choice(list(Corner))
    draft.corners = (blue, blue.opposite)
    draft.transform = stream.choice(TRANSFORMS)


def apply_variant(draft: Draft) -> None:
    """Flip the grid, the teams' corners and the quadrants' labels."""
    flip = draft.transform
    draft.material = flip.grid(draft.material)
    draft.corners = (flip.corner(draft.corners[0]), flip.corner(draft.corners[1]))
    draft.biomes = {flip.corner(corner): name for corner, name in draft.biomes.items()}


def clear_spawns(draft: Draft) -> None:
    """Clear the spawn squares of both teams."""
    world = draft.world
    draft.clear = spawn_clear(world, draft.num_packs)
    blue, red = draft.corners
    draft.starts = (anchor(world, blue, draft.clear), anchor(world, red, draft.clear))
    for corner in draft.corners:
        clear_spawn(draft.material, corner_square(world, corner, draft.clear))


def place_objective(draft: Draft) -> None:
    """Sample the capture zone and clear its columns."""
    blue, red = (corner_square(draft.world, corner, draft.clear) for corner in draft.corners)
    draft.zone, draft.zone_quadrant = place_zone(
        draft.world,
        draft.material,
        mean_radius=draft.zone_radius_vox,
        spawns=(blue, red),
        starts=draft.starts,
        stream=draft.stream(StreamId.VARIANT, SubStream.OBJECTIVE),
    )
    limit = draft.world.max_distance_ratio
    draft.accepted = not limit or distance_ratio(draft.zone, draft.starts) <= limit
    clear_zone(draft.material, draft.zone)


def carve_lanes(draft: Draft) -> None:
    """Carve the ring around the zone and the lanes to it."""
    world = draft.world
    stream = draft.stream(StreamId.VARIANT, SubStream.CORRIDORS)
    draft.corridors = plan_corridors((world.size_x, world.size_y), draft.zone, draft.starts, stream)
    carve_corridors(draft.material, draft.corridors, world.connectivity.clearance_z + CARVE_EXTRA)


def validate(draft: Draft) -> None:
    """Check that both teams can reach the zone, and dig routes open where they cannot."""
    if not draft.world.ensure_connectivity:
        return
    result = connect(draft.material, zone=draft.zone, starts=draft.starts, rules=draft.world.connectivity)
    draft.accepted = draft.accepted and result.connected
    draft.attempts, draft.fixups, draft.widest = result.attempts, result.fixups, result.field


TERRAIN_STEPS: tuple[Callable[[Draft], None], ...] = (
    fill_quadrants,
    fill_ground,
    choose_variant,
    apply_variant,
    clear_spawns,
    place_objective,
    carve_lanes,
    validate,
    fill_ground,
)
"""Steps that determine the voxels; repeated as the next attempt if the draft is not accepted."""


def generate(
    world: WorldConfig,
    map_seed: int,
    *,
    num_packs: int,
    zone_radius_vox: float,
    biome: str = "",
) -> GeneratedMap:
    """Return the map of a seed (0 to 2**32 - 1); the same arguments give the same bytes on every platform.

    ``zone_radius_vox`` is the mean radius of the capture zone [vox]. ``biome`` fills the whole map with one biome;
    matches use four. Raises ``ValueError`` if the world is too small for the spawns of ``num_packs`` packs per team.
    """
    check_world_fits(world, num_packs)
    if biome and biome not in BIOMES:
        raise ValueError(f"biome {biome!r} does not exist, expected one of: {', '.join(BIOMES)}")
    if not 0 <= map_seed <= MAX_SEED:
        raise ValueError(f"map_seed is {map_seed}, expected 0 to {MAX_SEED}")
    draft = _accepted_draft(world, map_seed, num_packs, zone_radius_vox, biome)
    spawn = np.concatenate([formation(world, corner, num_packs) for corner in draft.corners])
    assert boxes_clear(BLOCKS_MOVE[draft.material], spawn), "a spawn box is blocked or overlaps another"
    spawn = spawn.astype(np.float32)
    zone = (draft.zone.cx, draft.zone.cy, draft.zone.r)
    clearance = world.connectivity.clearance_z
    _, flow = navigation_fields(draft.material, zone=zone, spawn=spawn, clearance=clearance, widest=draft.widest)
    return GeneratedMap(
        map_seed=map_seed,
        material=draft.material,
        zone=zone,
        blue_corner=int(draft.corners[0]),
        red_corner=int(draft.corners[1]),
        spawn=spawn,
        flow=flow,
        recipe=seal(_recipe(draft), draft.material),
        open_map=draft.open_map,
        fixups=draft.fixups,
    )


def _accepted_draft(
    world: WorldConfig, map_seed: int, num_packs: int, zone_radius_vox: float, biome: str = ""
) -> Draft:
    """Return the first accepted draft; after the last attempt, a flat open map."""
    last = world.connectivity.max_regenerations + 1
    for attempt in range(last + 1):
        draft = Draft(
            world=world,
            map_seed=map_seed,
            num_packs=num_packs,
            zone_radius_vox=zone_radius_vox,
            attempt=attempt,
            open_map=attempt == last,
            biome=biome,
        )
        for step in TERRAIN_STEPS:
            step(draft)
        if draft.accepted:
            break
    return draft


def _recipe(draft: Draft) -> dict[str, Any]:
    """Return the recipe without its hashes."""
    blue, red = draft.corners
    zone = draft.zone
    return {
        "schema_version": RECIPE_SCHEMA,
        "generator": {
            "id": GENERATOR_ID,
            "version": GENERATOR_VERSION,
            "world": asdict(draft.world),
            "num_packs": draft.num_packs,
            "zone_radius_vox": float(draft.zone_radius_vox),
            **({"biome": draft.biome} if draft.biome else {}),
        },
        "seed": draft.map_seed,
        "variant": {
            "attempt": draft.attempt,
            "open_map": draft.open_map,
            "transform": draft.transform.name,
            "biomes": {corner.name: name for corner, name in draft.biomes.items()},
            "spawn_corners": {"blue": blue.name, "red": red.name},
        },
        "regions": {
            "objective": {
                "shape": "circle",
                "quadrant": draft.zone_quadrant.name,
                "centre": [zone.cx, zone.cy],
                "radius": zone.r,
            },
            "spawns": {
                "blue": {"corner": blue.name, "spawn_clear": draft.clear},
                "red": {"corner": red.name, "spawn_clear": draft.clear},
            },
            "corridors": [corridor.record() for corridor in draft.corridors],
        },
        "stats": {"checks": list(draft.attempts)},
        "fixups": list(draft.fixups),
    }
