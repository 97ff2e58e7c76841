"""Brushes of built-up biomes: districts, industry, outposts and machines.

Keyword arguments are the parameters of a brush: inclusive ranges of sides and heights [vox], fractions of the area,
probabilities. Heights count cells from the ground, so a height of 4 fills layers 0 to 3.
"""

from __future__ import annotations

from echelon.gen.shapes import Grid, Rect, Span, block, centred, frame, put, ring, sample_box, stairs, turned, worm
from echelon.sim.random import Stream
from echelon.sim.world import Material


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
        if house is None:
            return
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
        if tower is None:
            return
        block(grid, tower, (0, stream.integers(*height)), Material.SOLID)
        filled += tower.area
        if stream.coin(pipe_chance):
            pipe = sample_box(rect, stream, pipe_width, pipe_length)
            if pipe is not None:
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
        if hall is None:
            return
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
        if z >= size_z - roof_gap or platform is None:
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
    for _ in range(stream.integers(*houses)):
        house = sample_box(rect, stream, side, side)
        if house is None:
            return
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
