"""Map generation: the pipeline from a seed to a finished map, as a list of steps.

The steps are implemented in the other modules of this package. Each step draws from its own random sub-stream, keyed by
the attempt: a change of one step does not affect the draws of the next, and a map that cannot be connected is generated
again with different draws.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import Fairness, WorldConfig
from echelon.config.seeds import require_seed
from echelon.gen.biomes import BIOMES
from echelon.gen.corridors import Corridor, carve_corridors, plan_corridors
from echelon.gen.fairness import CLASSES, MAX_RATIO, PathCosts, balanced_zone, imbalance, path_costs, straight_costs
from echelon.gen.objective import Zone, clear_zone, distance_ratio, place_zone, quadrant_of, sample_radius
from echelon.gen.recipe import RECIPE_SCHEMA, generator_record, seal
from echelon.gen.shapes import TRANSFORMS, Corner, Grid, Rect, Transform
from echelon.gen.spawn import anchor, boxes_clear, check_world_fits, clear_spawn, corner_square, formations, spawn_clear
from echelon.gen.validator import connect
from echelon.nav.field import ZoneField
from echelon.nav.lanes import navigation_fields, zone_fields
from echelon.sim.random import Stream, StreamId
from echelon.sim.world import BLOCKS_MOVE, Material

SPLIT_JITTER_DIVISOR = 10
"""Maximum distance of the split point from the map's centre is the size divided by this."""


def split_quadrants(size_x: int, size_y: int, stream: Stream) -> tuple[Rect, ...]:
    jitter_x, jitter_y = size_x // SPLIT_JITTER_DIVISOR, size_y // SPLIT_JITTER_DIVISOR
    x = size_x // 2 + stream.integers(-jitter_x, jitter_x)
    y = size_y // 2 + stream.integers(-jitter_y, jitter_y)
    return Rect(0, 0, x, y), Rect(x, 0, size_x, y), Rect(0, y, x, size_y), Rect(x, y, size_x, size_y)


def choose_biomes(stream: Stream) -> tuple[str, ...]:
    names = list(BIOMES)
    return tuple(names[i] for i in stream.permutation(len(names))[: len(Corner)])


def lay_ground(grid: Grid) -> None:
    ground = grid[0]
    ground[ground == Material.AIR] = Material.DIRT


__all__ = ["GeneratedMap", "check_world_fits", "generate"]

MAP_SEEDS = 2**32
"""Largest map seed; keys of the random generator have 32 bits."""
CARVE_EXTRA = 1
"""Layers cleared in corridors above the headroom of a mech."""
MAX_PLACEMENTS = 4
"""Zones that are tried on one terrain until the path costs are fair."""
MAX_UNFAIR = 4
"""Terrains without a fair zone after which the fairest of them is used."""


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
    material: Grid = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.uint8))
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
    fields: tuple[ZoneField, ...] = ()
    """Path costs to the zone that a step computed, for the flow fields."""
    costs: PathCosts | None = None
    """Path costs of both teams, None where they are not measured."""
    bias: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(CLASSES)))
    """Imbalance per class of the measured over the straight path costs at the latest zone, shape [C]."""

    @property
    def ratio(self) -> float:
        return 0.0 if self.costs is None else self.costs.ratio

    @property
    def fair(self) -> bool:
        return self.ratio <= MAX_RATIO

    @property
    def squares(self) -> tuple[Rect, Rect]:
        blue, red = self.corners
        return corner_square(self.world, blue, self.clear), corner_square(self.world, red, self.clear)

    @property
    def spawn(self) -> NDArray[np.float64]:
        """Return the box centres of the mechs in slot order, blue first, shape [M, 3] [vox]."""
        return formations(self.world, self.corners, self.num_packs)

    def stream(self, stream: StreamId, sub_stream: int) -> Stream:
        return Stream(self.map_seed, stream, tick=self.attempt, entity=sub_stream)


def fill_quadrants(draft: Draft) -> None:
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
    lay_ground(draft.material)


def choose_variant(draft: Draft) -> None:
    stream = draft.stream(StreamId.VARIANT, SubStream.VARIANT)
    blue = stream.choice(list(Corner))
    draft.corners = (blue, blue.opposite)
    draft.transform = stream.choice(TRANSFORMS)


def apply_variant(draft: Draft) -> None:
    flip = draft.transform
    draft.material = flip.grid(draft.material)
    draft.corners = (flip.corner(draft.corners[0]), flip.corner(draft.corners[1]))
    draft.biomes = {flip.corner(corner): name for corner, name in draft.biomes.items()}


def clear_spawns(draft: Draft) -> None:
    world = draft.world
    draft.clear = spawn_clear(world, draft.num_packs)
    blue, red = draft.corners
    draft.starts = (anchor(world, blue, draft.clear), anchor(world, red, draft.clear))
    for square in draft.squares:
        clear_spawn(draft.material, square)


def sample_zone(draft: Draft) -> None:
    draft.zone, draft.zone_quadrant = place_zone(
        draft.world,
        draft.material,
        mean_radius=draft.zone_radius_vox,
        spawns=draft.squares,
        starts=draft.starts,
        stream=draft.stream(StreamId.VARIANT, SubStream.OBJECTIVE),
    )


def balance_zone(draft: Draft) -> None:
    """Sample the capture zone where the path costs of both teams are equal."""
    stream = draft.stream(StreamId.VARIANT, SubStream.OBJECTIVE)
    draft.zone = balanced_zone(
        draft.world,
        draft.material,
        radius=sample_radius(draft.world, draft.zone_radius_vox, stream),
        spawn=draft.spawn,
        squares=draft.squares,
        starts=draft.starts,
        bias=draft.bias,
        stream=stream,
    )
    draft.zone_quadrant = quadrant_of(draft.zone, draft.world)


ZONE_STEPS: dict[Fairness, Callable[[Draft], None]] = {"any": sample_zone, "path": balance_zone}
"""Step that places the capture zone, for each fairness of a world."""


def place_objective(draft: Draft) -> None:
    ZONE_STEPS[draft.world.fairness](draft)
    limit = draft.world.max_distance_ratio
    draft.accepted = not limit or distance_ratio(draft.zone, draft.starts) <= limit
    clear_zone(draft.material, draft.zone)


def carve_lanes(draft: Draft) -> None:
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
    draft.attempts, draft.fixups, draft.fields = result.attempts, result.fixups, (result.field,)


def measure_paths(draft: Draft) -> None:
    """Measure the path costs of both teams on a map that must be fair."""
    world = draft.world
    if world.fairness == "any":
        return
    draft.fields = zone_fields(
        draft.material, zone=draft.zone, clearance=world.connectivity.clearance_z, known=draft.fields
    )
    draft.costs = path_costs(draft.fields, draft.spawn)
    if draft.costs.complete:
        straight = straight_costs(np.array([draft.zone[:2]]), draft.zone.r, draft.spawn)[:, :, 0]
        draft.bias = imbalance(draft.costs.mean) - imbalance(straight)


TERRAIN_STEPS: tuple[Callable[[Draft], None], ...] = (
    fill_quadrants,
    fill_ground,
    choose_variant,
    apply_variant,
    clear_spawns,
)
"""Steps that determine the terrain; repeated as the next attempt if no draft of it is accepted."""
OBJECTIVE_STEPS: tuple[Callable[[Draft], None], ...] = (
    place_objective,
    carve_lanes,
    validate,
    fill_ground,
    measure_paths,
)
"""Steps that add the zone and the lanes to it; repeated on the same terrain if the path costs are unfair."""


def generate(
    world: WorldConfig, map_seed: int, *, num_packs: int, zone_radius_vox: float, biome: str = ""
) -> GeneratedMap:
    """Return the map of a seed; the same arguments give the same bytes on every platform.

    ``zone_radius_vox`` is the mean radius of the capture zone [vox]. ``biome`` fills the whole map with one biome;
    matches use four. Raises ``ValueError`` if the world is too small for the spawns of ``num_packs`` packs per team.
    """
    check_world_fits(world, num_packs)
    if biome and biome not in BIOMES:
        raise ValueError(f"biome {biome!r} does not exist, expected one of: {', '.join(BIOMES)}")
    map_seed = require_seed(map_seed, "map_seed", MAP_SEEDS)
    draft = _accepted_draft(world, map_seed, num_packs, zone_radius_vox, biome)
    spawn = draft.spawn
    assert boxes_clear(BLOCKS_MOVE[draft.material], spawn), "a spawn box is blocked or overlaps another"
    spawn = spawn.astype(np.float32)
    zone = (draft.zone.cx, draft.zone.cy, draft.zone.r)
    clearance = world.connectivity.clearance_z
    _, flow = navigation_fields(draft.material, zone=zone, spawn=spawn, clearance=clearance, known=draft.fields)
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
    """Return the first accepted and fair draft, else the fairest accepted one, else a flat open map."""
    last = world.connectivity.max_regenerations + 1
    unfair: list[Draft] = []
    for attempt in range(last + 1):
        if unfair and (len(unfair) == MAX_UNFAIR or attempt == last):
            return min(unfair, key=lambda draft: draft.ratio)
        terrain = Draft(
            world=world,
            map_seed=map_seed,
            num_packs=num_packs,
            zone_radius_vox=zone_radius_vox,
            attempt=attempt,
            open_map=attempt == last,
            biome=biome,
        )
        for step in TERRAIN_STEPS:
            step(terrain)
        draft = _fairest_placement(terrain)
        if draft.accepted and draft.fair:
            break
        unfair += [draft] if draft.accepted else []
    return draft


def _fairest_placement(terrain: Draft) -> Draft:
    """Return a terrain with zone and lanes: the first accepted and fair one, else the fairest of all placements."""
    drafts: list[Draft] = []
    bias = terrain.bias
    while len(drafts) < MAX_PLACEMENTS:
        draft = replace(terrain, material=terrain.material.copy(), bias=bias)
        for step in OBJECTIVE_STEPS:
            step(draft)
        if draft.fair:
            return draft
        drafts.append(draft)
        if draft.costs is None or not draft.costs.complete:
            break
        bias = draft.bias
    return min(drafts, key=lambda draft: (not draft.accepted, draft.ratio))


def _recipe(draft: Draft) -> dict[str, Any]:
    blue, red = draft.corners
    zone = draft.zone
    return {
        "schema_version": RECIPE_SCHEMA,
        "generator": {
            **generator_record(draft.world),
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
        "stats": {
            "checks": list(draft.attempts),
            **({"paths": draft.costs.record()} if draft.costs is not None else {}),
        },
        "fixups": list(draft.fixups),
    }
