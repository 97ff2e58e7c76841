"""Biomes: brushes that fill a quadrant with buildings, vegetation, rock, water, lava or caves, and their table.

Keyword arguments are the parameters of a brush: inclusive ranges of sides and heights [vox], fractions of the area,
probabilities. Heights count cells from the ground, so a height of 4 fills layers 0 to 3. Append a new biome to the
table and raise ``GENERATOR_VERSION`` in ``echelon.gen.recipe``.
"""

from echelon.gen.shapes import (
    Brush,
    Grid,
    Rect,
    Span,
    block,
    centred,
    frame,
    put,
    ring,
    sample_box,
    stairs,
    turned,
    worm,
)
from echelon.sim.random import Stream
from echelon.sim.world import Material


def _boxes(
    grid: Grid, rect: Rect, stream: Stream, count: int, side: Span, height: Span, material: Material = Material.SOLID
) -> None:
    for _ in range(count):
        box = sample_box(rect, stream, side, side)
        block(grid, box, (0, stream.integers(*height)), material)


def forest_park(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    tree_share: float = 0.05,
    trunk_side: Span = (1, 2),
    trunk_height: Span = (3, 7),
    canopy_from: int = 4,
    canopy_z: Span = (3, 5),
    rock_share: float = 0.01,
    rock_side: Span = (3, 5),
    rock_height: Span = (2, 3),
) -> None:
    """Draw trees whose canopies block sight but not movement, and some rocks."""
    for _ in range(int(tree_share * rect.area)):
        side = stream.integers(*trunk_side)
        trunk = sample_box(rect, stream, (side, side), (side, side))
        top = stream.integers(*trunk_height)
        block(grid, trunk, (0, top), Material.SOLID)
        if top >= canopy_from:
            block(grid, trunk.grown(1), canopy_z, Material.FOLIAGE)
    _boxes(grid, rect, stream, int(rock_share * rect.area), rock_side, rock_height)


def barrens(
    grid: Grid, rect: Rect, stream: Stream, *, share: float = 0.02, side: Span = (2, 4), height: Span = (1, 2)
) -> None:
    """Draw low rocks on open ground."""
    _boxes(grid, rect, stream, int(share * rect.area), side, height)


def sunken_canal(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    canal_width: Span = (8, 13),
    bank: int = 2,
    blocks: Span = (10, 19),
    block_side: int = 4,
    block_height: Span = (4, 9),
    bridges: Span = (2, 3),
    bridge_width: int = 4,
    bridge_z: Span = (4, 7),
    bridge_inset: int = 5,
) -> None:
    """Draw a canal of water with blocks on its banks and bridges across it."""
    grid, rect = turned(grid, rect, stream)
    half = stream.integers(*canal_width) // 2
    middle = rect.centre[1]
    canal = (max(middle - half, rect.y0), min(middle + half, rect.y1))
    put(grid, rect.x, canal, (0, 1), Material.WATER)
    put(grid, rect.x, canal, (1, grid.shape[0]), Material.AIR)
    for _ in range(stream.integers(*blocks)):
        house = sample_box(rect, stream, (block_side, block_side), (block_side, block_side))
        top = stream.integers(*block_height)
        if abs(house.y0 - middle) > half + bank:
            block(grid, house, (0, top), Material.SOLID)
    for _ in range(stream.integers(*bridges)):
        x = stream.integers(rect.x0 + bridge_inset, rect.x1 - bridge_inset - bridge_width)
        z = stream.integers(*bridge_z)
        span = (middle - half - bank, middle + half + bank)
        put(grid, (x, x + bridge_width), span, (z, z + 1), Material.SOLID)


def geo_front(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    ceiling: int = 10,
    sky: int = 3,
    main_radius: int = 3,
    main_z: int = 2,
    tunnels: Span = (5, 9),
    tunnel_radius: int = 2,
    tunnel_roof: int = 4,
    pools: Span = (3, 5),
    pool_side: int = 4,
) -> None:
    """Draw a solid mass with a cross of main tunnels, winding side tunnels and lava pools."""
    top = stream.integers(ceiling, grid.shape[0] - sky)
    block(grid, rect, (0, top), Material.SOLID)
    x, y = rect.centre
    worm(grid, (rect.x0, y, main_z), (rect.x1 - 1, y, main_z), main_radius)
    worm(grid, (x, rect.y0, main_z), (x, rect.y1 - 1, main_z), main_radius)
    for _ in range(stream.integers(*tunnels)):
        ends = [
            (
                stream.integers(rect.x0, rect.x1 - 1),
                stream.integers(rect.y0, rect.y1 - 1),
                stream.integers(1, top - tunnel_roof),
            )
            for _ in range(2)
        ]
        worm(grid, ends[0], ends[1], tunnel_radius)
    for _ in range(stream.integers(*pools)):
        pool = sample_box(rect, stream, (pool_side, pool_side), (pool_side, pool_side))
        block(grid, pool, (0, 1), Material.LAVA)


def glass_desert(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    pillars: Span = (10, 19),
    pillar_side: Span = (2, 5),
    pillar_height: Span = (5, 11),
    walls: Span = (5, 9),
    wall_side: Span = (1, 8),
) -> None:
    """Draw glass pillars and low glass walls: cover against movement and shots, not against sight."""
    _boxes(grid, rect, stream, stream.integers(*pillars), pillar_side, pillar_height, Material.GLASS)
    for _ in range(stream.integers(*walls)):
        wall = sample_box(rect, stream, wall_side, wall_side)
        block(grid, wall, (0, 1), Material.GLASS)


def dense_jungle(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    share: float = 0.15,
    height: Span = (4, 7),
    canopy_margin: int = 2,
    canopy_z: Span = (3, 6),
) -> None:
    """Draw many thin trunks under a closed canopy."""
    for _ in range(int(share * rect.area)):
        trunk = sample_box(rect, stream, (1, 1), (1, 1))
        block(grid, trunk, (0, stream.integers(*height)), Material.SOLID)
        block(grid, trunk.grown(canopy_margin), canopy_z, Material.FOLIAGE)


def mining_pit(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    rim: int = 10,
    margin: int = 2,
    terrace: int = 4,
    slope: int = 2,
    step_deg: int = 5,
    clear_side: int = 5,
    floor_side: int = 9,
    stair_width: int = 4,
) -> None:
    """Draw a plateau with a terraced pit in it and stairs down to its floor."""
    block(grid, rect, (0, rim), Material.SOLID)
    x, y = rect.centre
    max_radius = min(rect.width, rect.depth) // 2 - margin
    for radius in range(max_radius, terrace, -terrace):
        floor_z = rim - (max_radius - radius) // slope
        for dx, dy in ring(radius, step_deg):
            block(grid, centred(x + dx, y + dy, clear_side, clear_side), (floor_z, rim + 1), Material.AIR)
    block(grid, centred(x, y, floor_side, floor_side), (0, rim + 1), Material.AIR)
    stairs(grid, (x + max_radius, y, rim), (x, y, 0), stair_width)


def volcanic_ridge(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    spine_width: int = 8,
    spine_height: int = 4,
    strips: Span = (2, 3),
    strip_width: int = 3,
    strip_length: int = 12,
) -> None:
    """Draw a long ridge with strips of lava running out from under it."""
    grid, rect = turned(grid, rect, stream)
    middle = rect.centre[1]
    spine = (middle - spine_width // 2, middle - spine_width // 2 + spine_width)
    put(grid, rect.x, spine, (0, spine_height), Material.SOLID)
    for _ in range(stream.integers(*strips)):
        x = stream.integers(rect.x0, rect.x1 - strip_width)
        y = middle - strip_length // 2
        put(grid, (x, x + strip_width), (y, y + strip_length), (0, 1), Material.LAVA)


def urban_residential(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    cover: float = 0.35,
    counted: float = 0.75,
    tries: int = 100,
    side: Span = (6, 10),
    height: Span = (4, 8),
    wall: int = 2,
) -> None:
    """Draw houses at even coordinates: thick walls around a roofless court with a glass floor."""
    filled = 0.0
    for _ in range(tries):
        if filled >= cover * rect.area:
            return
        house = sample_box(rect, stream, side, side)
        shift_x, shift_y = house.x0 % 2, house.y0 % 2
        house = Rect(house.x0 - shift_x, house.y0 - shift_y, house.x1 - shift_x, house.y1 - shift_y)
        top = stream.integers(*height)
        block(grid, house, (0, top), Material.SOLID)
        court = house.grown(-wall)
        if court.width > 0 and court.depth > 0:
            block(grid, court, (0, top), Material.AIR)
            block(grid, court, (0, 1), Material.GLASS)
        filled += counted * house.area


def industrial_refinery(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    cover: float = 0.25,
    tries: int = 200,
    side: Span = (3, 6),
    height: Span = (4, 11),
    pipe_chance: float = 0.3,
    pipe_width: Span = (1, 2),
    pipe_length: Span = (8, 15),
    pipe_height: Span = (2, 4),
) -> None:
    """Draw towers, some followed by a long low pipe."""
    filled = 0
    for _ in range(tries):
        if filled >= cover * rect.area:
            return
        tower = sample_box(rect, stream, side, side)
        block(grid, tower, (0, stream.integers(*height)), Material.SOLID)
        filled += tower.area
        if stream.coin(pipe_chance):
            pipe = sample_box(rect, stream, pipe_width, pipe_length)
            block(grid, pipe, (0, stream.integers(*pipe_height)), Material.SOLID)


def civic_government(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    cover: float = 0.2,
    tries: int = 50,
    side: Span = (8, 15),
    height: Span = (6, 9),
    plaza: int = 2,
) -> None:
    """Draw large halls, each inside a low plaza wall."""
    filled = 0
    for _ in range(tries):
        if filled >= cover * rect.area:
            return
        hall = sample_box(rect, stream, side, side)
        block(grid, hall, (0, stream.integers(*height)), Material.SOLID)
        frame(grid, hall.grown(plaza).clipped(rect), (0, 1), Material.SOLID)
        filled += hall.area


def arcology_spire(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    core_share: int = 3,
    roof_gap: int = 2,
    platforms: Span = (4, 7),
    levels: tuple[int, ...] = (5, 10, 15),
    platform_side: Span = (8, 12),
    headroom: int = 4,
    stair_width: int = 3,
    tunnels: Span = (2, 3),
    tunnel_radius: int = 2,
    tunnel_z: int = 2,
    tunnel_roof: int = 6,
) -> None:
    """Draw a tall core, platforms joined by stairs from the ground, and tunnels through everything."""
    size_z = grid.shape[0]
    core = centred(*rect.centre, rect.width // core_share, rect.depth // core_share)
    block(grid, core, (0, size_z - roof_gap), Material.SOLID)
    foot = (float(rect.x0 + roof_gap), float(rect.y0 + roof_gap), -1.0)
    for _ in range(stream.integers(*platforms)):
        z = stream.choice(levels)
        platform = sample_box(rect, stream, platform_side, platform_side)
        if z >= size_z - roof_gap:
            continue
        block(grid, platform, (z, z + 1), Material.SOLID)
        block(grid, platform, (z + 1, z + 1 + headroom), Material.AIR)
        x, y = platform.centre
        stairs(grid, foot, (x, y, z), stair_width)
        foot = (x, y, z)
    for _ in range(stream.integers(*tunnels)):
        z = stream.integers(tunnel_z, size_z - tunnel_roof)
        y_in, y_out = (stream.integers(rect.y0, rect.y1 - 1) for _ in range(2))
        worm(grid, (rect.x0, y_in, z), (rect.x1 - 1, y_out, z), tunnel_radius)


def command_outpost(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    ring_side: int = 28,
    shell: Span = (12, 6),
    core: Span = (8, 5),
    door_depth: int = 3,
    door_width: int = 4,
    door_height: int = 3,
) -> None:
    """Draw a low perimeter ring and a reinforced bunker with a solid core and a door toward -x.

    ``shell`` and ``core`` are (side, height).
    """
    x, y = rect.centre
    frame(grid, centred(x, y, ring_side, ring_side), (0, 1), Material.REINFORCED)
    bunker = centred(x, y, shell[0], shell[0])
    block(grid, bunker, (0, shell[1]), Material.REINFORCED)
    block(grid, centred(x, y, core[0], core[0]), (0, core[1]), Material.SOLID)
    y_door = y - door_width // 2
    door = Rect(bunker.x0, y_door, bunker.x0 + door_depth, y_door + door_width)
    block(grid, door, (0, door_height), Material.AIR)


def hydroponic_lab(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    houses: Span = (2, 3),
    side: Span = (10, 15),
    height: Span = (5, 7),
    row_pitch: int = 3,
    row_inset: int = 2,
    row_height: int = 2,
) -> None:
    """Draw hollow greenhouses: glass shell and roof, reinforced corner posts, rows of plants inside."""
    if min(rect.width, rect.depth) < side[0]:
        return
    for _ in range(stream.integers(*houses)):
        house = sample_box(rect, stream, side, side)
        top = stream.integers(*height)
        block(grid, house, (0, top), Material.GLASS)
        block(grid, house.grown(-1), (0, top - 1), Material.AIR)
        for x in (house.x0, house.x1 - 1):
            for y in (house.y0, house.y1 - 1):
                put(grid, (x, x + 1), (y, y + 1), (0, top), Material.REINFORCED)
        beds = house.grown(-row_inset)
        for y in range(beds.y0, beds.y1, row_pitch):
            put(grid, beds.x, (y, y + 1), (0, row_height), Material.FOLIAGE)


def server_farm(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    pitch: int = 5,
    rack_chance: float = 0.7,
    rack_side: int = 2,
    rack_height: Span = (6, 11),
    conduit_chance: float = 0.5,
    conduit_z: int = 4,
) -> None:
    """Draw a grid of reinforced racks, some connected by a glass conduit overhead."""
    for y in range(rect.y0 + 1, rect.y1, pitch):
        for x in range(rect.x0 + 1, rect.x1, pitch):
            if not stream.coin(rack_chance):
                continue
            rack = Rect(x, y, x + rack_side, y + rack_side)
            block(grid, rack, (0, stream.integers(*rack_height)), Material.REINFORCED)
            if stream.coin(conduit_chance):
                put(grid, (x, x + pitch), (y, y + 1), (conduit_z, conduit_z + 1), Material.GLASS)


def orbital_relay(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    radius: Span = (8, 11),
    step_deg: int = 10,
    post_side: int = 3,
    post_height: Span = (8, 14),
    bridges: Span = (2, 3),
    bridge_length: int = 10,
    bridge_width: int = 2,
    bridge_z: Span = (10, 14),
) -> None:
    """Draw a ring of reinforced posts, and bridges high above the centre."""
    x, y = rect.centre
    for dx, dy in ring(stream.integers(*radius), step_deg):
        post = centred(x + dx, y + dy, post_side, post_side)
        block(grid, post, (0, stream.integers(*post_height)), Material.REINFORCED)
    for _ in range(stream.integers(*bridges)):
        z = stream.integers(*bridge_z)
        view, turned_rect = turned(grid, rect, stream)
        bridge = centred(*turned_rect.centre, bridge_length, bridge_width)
        block(view, bridge, (z, z + 1), Material.SOLID)


BRUSHES: tuple[Brush, ...] = (
    urban_residential, industrial_refinery, civic_government, forest_park, barrens, arcology_spire, sunken_canal,
    geo_front, glass_desert, command_outpost, dense_jungle, mining_pit, volcanic_ridge, hydroponic_lab, server_farm,
    orbital_relay,
)  # fmt: skip
BIOMES = {brush.__name__: brush for brush in BRUSHES}
"""Brush of each biome. The order determines which biomes a seed draws."""
