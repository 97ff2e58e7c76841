# type: ignore
"""Orders of mechs (``echelon.actions.Order``): where they lead, how far they are obeyed, and their observation.

Orders come from outside (``Engine.give_orders``), or at random to mechs that learn (``env.order_rate``). They change
nothing but observations, the reward term ``obey`` and what scripted pilots do.
"""

import warp as wp

from echelon.actions import Order
from echelon.env import layout
from echelon.env.observe.aiming import LEAST, scaled_range
from echelon.env.observe.helpers import ObsRows, clear_columns, put, row_index
from echelon.nav.waypoints import AHEAD, LOOK_AHEAD, FlowFields, shortest_layer, unit2, waypoint
from echelon.sim.backend import Launch, in_phase
from echelon.sim.batch import Batch
from echelon.sim.geometry import clamp_unit, cos_sin, to_heading, xy_length
from echelon.sim.rng import STREAM_AGENT, below, draw_u32, uniform01
from echelon.sim.state import PACK, Episode, MapArrays, Mechs, Senses, World
from echelon.sim.structs import Field, array_struct, fields_of
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

NONE, HOLD, ADVANCE, FLANK_LEFT, FLANK_RIGHT, FOCUS, SCREEN, RETREAT = (wp.constant(int(order)) for order in Order)
COLUMNS = layout.position(layout.ORDERS.features)
WIDTH = wp.constant(layout.ORDERS.width)
NEAR = wp.constant(6.0)
"""Radius of the goal of HOLD, FLANK_LEFT, FLANK_RIGHT, SCREEN and RETREAT [vox]."""
BESIDE = wp.constant(6.0)
"""Distance of the goal of a flank from the edge of the zone [vox]."""
COVER = wp.constant(6.0)
"""Largest distance of the goal of SCREEN from the team mate [vox]."""
REACH = wp.constant(12.0)
"""Radius of the goal of FOCUS, around the hostile [vox]."""
EDGE = wp.constant(3.0)
"""Least distance of a flank's goal from the edge of the map [vox]."""
AIM_COS = wp.constant(0.978)
"""Cosine of the error of the heading up to which a mech aims at its FOCUS, 12 degrees."""
DRAWN_S = wp.constant(10.0)
"""Time between random orders [s]."""
FIRST_DRAW = wp.constant(256)
"""Number of the first random draw for orders; those of scripted pilots come before."""


@array_struct
class Orders:
    """Order of each mech."""

    order_kind = Field(wp.int32, "EM", "order, an ``Order``")
    order_mech = Field(wp.int32, "EM", "mech that it names, -1 none")
    order_place = Field(wp.vec3, "EM", "position of the mech when it got the order [vox]")
    order_since = Field(wp.int32, "EM", "decision at which it got the order, -1 never")
    order_goal = Field(wp.vec3, "EM", "circle that it leads to: x, y and radius [vox]; radius 0 for no place")


FIELDS = fields_of(Orders)
GIVEN = ("order_kind", "order_mech", "order_place", "order_since")
"""Arrays that an order sets; ``order_goal`` follows from them."""


def reset_launches(fresh: str) -> list[Launch]:
    return in_phase("reset", [Launch(reset_orders, "EM", {"fresh": fresh})])


def update_launches(fresh: str) -> list[Launch]:
    return in_phase("display", [Launch(update_orders, "EM", {"fresh": fresh})])


def check_order(batch: Batch, e: int, m: int, order: Order, named: int) -> None:
    """Raise ``ValueError`` for an order that names another mech than it can, -1 none."""
    team, present = batch.row("team", e), batch.row("present", e)
    sides = {Order.FOCUS: 1 - team[m], Order.SCREEN: team[m]}
    fits = named == -1
    if order in sides:
        fits = 0 <= named < len(team) and named != m and present[named] and team[named] == sides[order]
    if not fits:
        expected = {Order.FOCUS: "a hostile", Order.SCREEN: "another mech of its team"}.get(order, "none, -1")
        raise ValueError(f"order {order.name.lower()!r} of mech {m} names mech {named}, expected {expected}")


@wp.kernel
def reset_orders(fresh: wp.array(dtype=wp.int32), orders_out: Orders):
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    orders_out.order_kind[e, m] = NONE
    orders_out.order_mech[e, m] = -1
    orders_out.order_place[e, m] = wp.vec3(0.0, 0.0, 0.0)
    orders_out.order_since[e, m] = -1


@wp.func
def nearest_visible(mechs: Mechs, senses: Senses, e: int, m: int) -> int:
    """Return the nearest living hostile that mech m may see, -1 without one."""
    found = int(-1)
    least = float(1.0e9)
    for j in range(mechs.team.shape[1]):
        if mechs.team[e, j] != mechs.team[e, m] and mechs.alive[e, j] == 1 and senses.visible[e, m, j] == wp.uint8(1):
            d = wp.length(mechs.pos[e, j] - mechs.pos[e, m])
            if d < least:
                least = d
                found = j
    return found


@wp.func
def circle(p: wp.vec3, radius: float) -> wp.vec3:
    return wp.vec3(p[0], p[1], radius)


@wp.func
def goal_of(
    world: World, spawn: wp.vec3, mechs: Mechs, senses: Senses, e: int, m: int, kind: int, named: int, place: wp.vec3
) -> wp.vec3:
    """Return the circle that an order leads to: x, y, radius [vox]; radius 0 for no place.

    A flank leads beside the zone, at a right angle to the line from the own ``spawn``; SCREEN between the team mate and
    its nearest visible hostile; FOCUS to the hostile while the mech sees it.
    """
    zone = world.zone[e]
    size = world.size[e]
    if kind == HOLD:
        return circle(place, NEAR)
    if kind == ADVANCE:
        return zone
    if kind == RETREAT:
        return circle(spawn, NEAR)
    if kind == FLANK_LEFT or kind == FLANK_RIGHT:
        along = unit2(zone[0] - spawn[0], zone[1] - spawn[1]) * wp.where(kind == FLANK_LEFT, 1.0, -1.0)
        x = zone[0] - along[1] * (zone[2] + BESIDE)
        y = zone[1] + along[0] * (zone[2] + BESIDE)
        return wp.vec3(wp.clamp(x, EDGE, float(size[0]) - EDGE), wp.clamp(y, EDGE, float(size[1]) - EDGE), NEAR)
    if named >= 0 and mechs.alive[e, wp.max(0, named)] == 1:
        p = mechs.pos[e, named]
        if kind == FOCUS and senses.visible[e, m, named] == wp.uint8(1):
            return circle(p, REACH)
        if kind == SCREEN:
            j = nearest_visible(mechs, senses, e, named)
            if j >= 0:
                away = mechs.pos[e, j] - p
                u = unit2(away[0], away[1]) * wp.min(COVER, 0.5 * xy_length(away))
                p = p + wp.vec3(u[0], u[1], 0.0)
            return circle(p, NEAR)
    return wp.vec3(0.0, 0.0, 0.0)


@wp.func
def random_order(mechs: Mechs, senses: Senses, rate: float, seed: wp.uint32, now: int, e: int, m: int) -> wp.vec2i:
    """Return the random order of a mech and the mech that it names; ADVANCE where nothing fits the one drawn."""
    if uniform01(seed, STREAM_AGENT, now, m, FIRST_DRAW) >= rate:
        return wp.vec2i(NONE, -1)
    kind = 1 + below(draw_u32(seed, STREAM_AGENT, now, m, FIRST_DRAW + 1), RETREAT)
    named = int(-1)
    if kind == FOCUS:
        named = nearest_visible(mechs, senses, e, m)
    if kind == SCREEN:
        step = 1 + below(draw_u32(seed, STREAM_AGENT, now, m, FIRST_DRAW + 2), PACK - 1)
        mate = m - m % PACK + (m + step) % PACK
        if mechs.alive[e, mate] == 1:
            named = mate
    if named < 0 and (kind == FOCUS or kind == SCREEN):
        kind = ADVANCE
    return wp.vec2i(kind, named)


@wp.kernel
def update_orders(
    rules: Rules,
    bank: MapArrays,
    world: World,
    episode: Episode,
    mechs: Mechs,
    senses: Senses,
    order_rate: wp.array(dtype=wp.float32),
    row_of: wp.array2d(dtype=wp.int32),
    fresh: wp.array(dtype=wp.int32),
    orders_out: Orders,
):
    """Draw the order of a mech that learns when it is time to, and set the goal of the order."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    now = episode.decision[e]
    if order_rate[0] > 0.0 and row_of[e, m] >= 0 and now != orders_out.order_since[e, m]:
        if now % int(DRAWN_S / rules.dt_act + 0.5) == 0:
            drawn = random_order(mechs, senses, order_rate[0], episode.seed[e], now, e, m)
            orders_out.order_kind[e, m] = drawn[0]
            orders_out.order_mech[e, m] = drawn[1]
            orders_out.order_place[e, m] = mechs.pos[e, m]
            orders_out.order_since[e, m] = now
    kind = orders_out.order_kind[e, m]
    goal = wp.vec3(0.0, 0.0, 0.0)
    if kind != NONE:
        spawn = bank.bank_spawn[world.map_slot[e], m]
        named = orders_out.order_mech[e, m]
        goal = goal_of(world, spawn, mechs, senses, e, m, kind, named, orders_out.order_place[e, m])
    orders_out.order_goal[e, m] = goal


@wp.func
def obedience(rules: Rules, flow: FlowFields, world: World, mechs: Mechs, orders: Orders, e: int, m: int) -> float:
    """Return how far a living mech obeys its order, -1 to 1; 0 without an order or a place.

    In its goal 1, for FOCUS only while it aims at the hostile; outside the speed toward the goal, as a share of full
    speed. ADVANCE counts the speed along the path.
    """
    goal = orders.order_goal[e, m]
    if goal[2] == 0.0:
        return 0.0
    c = mechs.chassis[e, m]
    p = mechs.pos[e, m]
    v = mechs.vel[e, m]
    toward = wp.vec2(goal[0] - p[0], goal[1] - p[1])
    u = unit2(toward[0], toward[1])
    if wp.length(toward) < goal[2]:
        cs = cos_sin(mechs.yaw[e, m])
        return wp.where(orders.order_kind[e, m] == FOCUS and wp.dot(u, cs) < AIM_COS, 0.0, 1.0)
    if orders.order_kind[e, m] == ADVANCE:
        foot = p[2] - rules.chassis[c].half[2]
        ahead = waypoint(flow, shortest_layer(world.map_slot[e], c), world.size[e], p, foot, LOOK_AHEAD)
        if ahead[2] == AHEAD:
            u = unit2(ahead[0] - p[0], ahead[1] - p[1])
    return clamp_unit(wp.dot(u, wp.vec2(v[0], v[1])) / rules.chassis[c].max_speed)


@wp.kernel
def write_orders(mechs: Mechs, orders: Orders, orders_at: wp.int32, rows_out: ObsRows):
    """Write the order of a living mech, and direction and distance of the centre of its goal."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    clear_columns(row, orders_at, WIDTH)
    kind = orders.order_kind[e, m]
    if kind == NONE or mechs.alive[e, m] == 0:
        return
    put(row, orders_at + kind - 1, 1.0)
    goal = orders.order_goal[e, m]
    if goal[2] > 0.0:
        p = mechs.pos[e, m]
        rel = to_heading(wp.vec3(goal[0] - p[0], goal[1] - p[1], 0.0), cos_sin(mechs.yaw[e, m]))
        d = wp.max(xy_length(rel), LEAST)
        put(row, orders_at + COLUMNS.sin, clamp_unit(rel[1] / d))
        put(row, orders_at + COLUMNS.cos, clamp_unit(rel[0] / d))
        put(row, orders_at + COLUMNS.range, scaled_range(d))
