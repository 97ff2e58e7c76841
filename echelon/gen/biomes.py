"""Biomes: brushes that fill a quadrant with buildings, vegetation, rock, water, lava or caves, and their table.

Pairs are inclusive ranges of sides and heights [vox]. Heights count cells from the ground: a height of 4 fills layers 0
to 3. Append a new biome to the table and raise ``GENERATOR_VERSION`` in ``echelon.gen.recipe``.
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


def forest_park(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw trees whose canopies block sight but not movement, and some rocks."""
    for _ in range(int(0.05 * rect.area)):
        side = stream.integers(1, 2)
        trunk = sample_box(rect, stream, (side, side), (side, side))
        top = stream.integers(3, 7)
        block(grid, trunk, (0, top), Material.SOLID)
        if top >= 4:
            block(grid, trunk.grown(1), (3, 5), Material.FOLIAGE)
    _boxes(grid, rect, stream, int(0.01 * rect.area), (3, 5), (2, 3))


def barrens(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw low rocks on open ground."""
    _boxes(grid, rect, stream, int(0.02 * rect.area), (2, 4), (1, 2))


def sunken_canal(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a canal of water with blocks on its banks and bridges across it."""
    grid, rect = turned(grid, rect, stream)
    half, bank = stream.integers(8, 13) // 2, 2
    middle = rect.centre[1]
    canal = (max(middle - half, rect.y0), min(middle + half, rect.y1))
    put(grid, rect.x, canal, (0, 1), Material.WATER)
    put(grid, rect.x, canal, (1, grid.shape[0]), Material.AIR)
    for _ in range(stream.integers(10, 19)):
        house = sample_box(rect, stream, (4, 4), (4, 4))
        top = stream.integers(4, 9)
        if abs(house.y0 - middle) > half + bank:
            block(grid, house, (0, top), Material.SOLID)
    for _ in range(stream.integers(2, 3)):
        width, inset = 4, 5
        x = stream.integers(rect.x0 + inset, rect.x1 - inset - width)
        z = stream.integers(4, 7)
        span = (middle - half - bank, middle + half + bank)
        put(grid, (x, x + width), span, (z, z + 1), Material.SOLID)


def geo_front(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a solid mass with a cross of main tunnels, winding side tunnels and lava pools."""
    top = stream.integers(10, grid.shape[0] - 3)
    block(grid, rect, (0, top), Material.SOLID)
    x, y = rect.centre
    worm(grid, (rect.x0, y, 2), (rect.x1 - 1, y, 2), radius=3)
    worm(grid, (x, rect.y0, 2), (x, rect.y1 - 1, 2), radius=3)
    for _ in range(stream.integers(5, 9)):
        ends = [
            (stream.integers(rect.x0, rect.x1 - 1), stream.integers(rect.y0, rect.y1 - 1), stream.integers(1, top - 4))
            for _ in range(2)
        ]
        worm(grid, ends[0], ends[1], radius=2)
    for _ in range(stream.integers(3, 5)):
        pool = sample_box(rect, stream, (4, 4), (4, 4))
        block(grid, pool, (0, 1), Material.LAVA)


def glass_desert(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw glass pillars and low glass walls: cover against movement and shots, not against sight."""
    _boxes(grid, rect, stream, stream.integers(10, 19), (2, 5), (5, 11), Material.GLASS)
    for _ in range(stream.integers(5, 9)):
        wall = sample_box(rect, stream, (1, 8), (1, 8))
        block(grid, wall, (0, 1), Material.GLASS)


def dense_jungle(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw many thin trunks under a closed canopy."""
    for _ in range(int(0.15 * rect.area)):
        trunk = sample_box(rect, stream, (1, 1), (1, 1))
        block(grid, trunk, (0, stream.integers(4, 7)), Material.SOLID)
        block(grid, trunk.grown(2), (3, 6), Material.FOLIAGE)


def mining_pit(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a plateau with a terraced pit in it and stairs down to its floor."""
    rim, terrace = 10, 4
    block(grid, rect, (0, rim), Material.SOLID)
    x, y = rect.centre
    max_radius = min(rect.width, rect.depth) // 2 - 2
    for radius in range(max_radius, terrace, -terrace):
        floor_z = rim - (max_radius - radius) // 2
        for dx, dy in ring(radius, step_deg=5):
            block(grid, centred(x + dx, y + dy, 5, 5), (floor_z, rim + 1), Material.AIR)
    block(grid, centred(x, y, 9, 9), (0, rim + 1), Material.AIR)
    stairs(grid, (x + max_radius, y, rim), (x, y, 0), width=4)


def volcanic_ridge(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a long ridge with strips of lava running out from under it."""
    grid, rect = turned(grid, rect, stream)
    middle = rect.centre[1]
    put(grid, rect.x, (middle - 4, middle + 4), (0, 4), Material.SOLID)
    for _ in range(stream.integers(2, 3)):
        x = stream.integers(rect.x0, rect.x1 - 3)
        put(grid, (x, x + 3), (middle - 6, middle + 6), (0, 1), Material.LAVA)


def urban_residential(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw houses at even coordinates: thick walls around a roofless court with a glass floor."""
    filled = 0.0
    for _ in range(100):
        if filled >= 0.35 * rect.area:
            return
        house = sample_box(rect, stream, (6, 10), (6, 10))
        shift_x, shift_y = house.x0 % 2, house.y0 % 2
        house = Rect(house.x0 - shift_x, house.y0 - shift_y, house.x1 - shift_x, house.y1 - shift_y)
        top = stream.integers(4, 8)
        block(grid, house, (0, top), Material.SOLID)
        court = house.grown(-2)
        if court.width > 0 and court.depth > 0:
            block(grid, court, (0, top), Material.AIR)
            block(grid, court, (0, 1), Material.GLASS)
        filled += 0.75 * house.area


def industrial_refinery(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw towers, some followed by a long low pipe."""
    filled = 0
    for _ in range(200):
        if filled >= 0.25 * rect.area:
            return
        tower = sample_box(rect, stream, (3, 6), (3, 6))
        block(grid, tower, (0, stream.integers(4, 11)), Material.SOLID)
        filled += tower.area
        if stream.coin(0.3):
            pipe = sample_box(rect, stream, (1, 2), (8, 15))
            block(grid, pipe, (0, stream.integers(2, 4)), Material.SOLID)


def civic_government(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw large halls, each inside a low plaza wall."""
    filled = 0
    for _ in range(50):
        if filled >= 0.2 * rect.area:
            return
        hall = sample_box(rect, stream, (8, 15), (8, 15))
        block(grid, hall, (0, stream.integers(6, 9)), Material.SOLID)
        frame(grid, hall.grown(2).clipped(rect), (0, 1), Material.SOLID)
        filled += hall.area


def arcology_spire(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a tall core, platforms joined by stairs from the ground, and tunnels through everything."""
    size_z = grid.shape[0]
    roof = size_z - 2
    core = centred(*rect.centre, rect.width // 3, rect.depth // 3)
    block(grid, core, (0, roof), Material.SOLID)
    foot = (float(rect.x0 + 2), float(rect.y0 + 2), -1.0)
    for _ in range(stream.integers(4, 7)):
        z = stream.choice((5, 10, 15))
        platform = sample_box(rect, stream, (8, 12), (8, 12))
        if z >= roof:
            continue
        block(grid, platform, (z, z + 1), Material.SOLID)
        block(grid, platform, (z + 1, z + 5), Material.AIR)
        x, y = platform.centre
        stairs(grid, foot, (x, y, z), width=3)
        foot = (x, y, z)
    for _ in range(stream.integers(2, 3)):
        z = stream.integers(2, size_z - 6)
        y_in, y_out = (stream.integers(rect.y0, rect.y1 - 1) for _ in range(2))
        worm(grid, (rect.x0, y_in, z), (rect.x1 - 1, y_out, z), radius=2)


def command_outpost(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a low perimeter ring and a reinforced bunker with a solid core and a door toward -x."""
    x, y = rect.centre
    frame(grid, centred(x, y, 28, 28), (0, 1), Material.REINFORCED)
    bunker = centred(x, y, 12, 12)
    block(grid, bunker, (0, 6), Material.REINFORCED)
    block(grid, centred(x, y, 8, 8), (0, 5), Material.SOLID)
    block(grid, Rect(bunker.x0, y - 2, bunker.x0 + 3, y + 2), (0, 3), Material.AIR)


def hydroponic_lab(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw hollow greenhouses: glass shell and roof, reinforced corner posts, rows of plants inside."""
    side = (10, 15)
    if min(rect.width, rect.depth) < side[0]:
        return
    for _ in range(stream.integers(2, 3)):
        house = sample_box(rect, stream, side, side)
        top = stream.integers(5, 7)
        block(grid, house, (0, top), Material.GLASS)
        block(grid, house.grown(-1), (0, top - 1), Material.AIR)
        for x in (house.x0, house.x1 - 1):
            for y in (house.y0, house.y1 - 1):
                put(grid, (x, x + 1), (y, y + 1), (0, top), Material.REINFORCED)
        beds = house.grown(-2)
        for y in range(beds.y0, beds.y1, 3):
            put(grid, beds.x, (y, y + 1), (0, 2), Material.FOLIAGE)


def server_farm(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a grid of reinforced racks, some connected by a glass conduit overhead."""
    pitch = 5
    for y in range(rect.y0 + 1, rect.y1, pitch):
        for x in range(rect.x0 + 1, rect.x1, pitch):
            if not stream.coin(0.7):
                continue
            rack = Rect(x, y, x + 2, y + 2)
            block(grid, rack, (0, stream.integers(6, 11)), Material.REINFORCED)
            if stream.coin(0.5):
                put(grid, (x, x + pitch), (y, y + 1), (4, 5), Material.GLASS)


def orbital_relay(grid: Grid, rect: Rect, stream: Stream) -> None:
    """Draw a ring of reinforced posts, and bridges high above the centre."""
    x, y = rect.centre
    for dx, dy in ring(stream.integers(8, 11), step_deg=10):
        post = centred(x + dx, y + dy, 3, 3)
        block(grid, post, (0, stream.integers(8, 14)), Material.REINFORCED)
    for _ in range(stream.integers(2, 3)):
        z = stream.integers(10, 14)
        view, turned_rect = turned(grid, rect, stream)
        bridge = centred(*turned_rect.centre, 10, 2)
        block(view, bridge, (z, z + 1), Material.SOLID)


BRUSHES: tuple[Brush, ...] = (
    urban_residential, industrial_refinery, civic_government, forest_park, barrens, arcology_spire, sunken_canal,
    geo_front, glass_desert, command_outpost, dense_jungle, mining_pit, volcanic_ridge, hydroponic_lab, server_farm,
    orbital_relay,
)  # fmt: skip
BIOMES = {brush.__name__: brush for brush in BRUSHES}
"""Brush of each biome. The order determines which biomes a seed draws."""
