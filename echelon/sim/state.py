"""Every array of the simulator, with type, shape and unit, grouped into the structs that kernels take.

Adding an array is adding a ``Field`` here: the row allocates it and makes it a member of the struct in every kernel
(see ``echelon.sim.structs``, also for how other packages declare structs). ``X`` and ``X_out`` of a kernel share one
memory, so a kernel reads through ``X_out`` what it writes there.

Shapes are spelled in letters: E environment, M mech, P packs of both teams, X Y Z voxels, K cooldowns, W weapons,
S rounds per mech, Q smoke clouds per mech, N contact slots, D past decisions, B maps of the bank,
J recorded environments. Engines add A action columns, R reward terms, G bins of the telemetry map and O odds of
choices, pilots H past decisions. Launches also have the letters of ``lanes``. Arrays of recordings have letters of
their own: G pages, with F frames, R event rows of V values and T edit rows of U values. Nothing is allocated after
construction, except the journal of recorded environments (``Batch.keep_journal``).
"""

import math
from collections.abc import Iterable, Mapping

import warp as wp
from warp.types import type_size_in_bytes

from echelon.config import PACK_SIZE, EnvConfig, require
from echelon.sim.structs import Field, allocate, array_struct, fields_of
from echelon.sim.tables import NUM_COOLDOWNS, NUM_WEAPONS, STOCK_TABLES, GameTables, max_clouds, max_rounds

__all__ = ["Field", "allocate"]

MIN_ROUNDS_PER_MECH, MIN_CLOUDS_PER_MECH = 4, 3
"""Slots that saved states have even if no class needs as many."""
MASK_BITS = 31
"""Round slots that the masks of ``Blasts`` have bits for."""


def round_slots(tables: GameTables, dt: float) -> int:
    """Return the round slots of one mech: the most rounds that any class can have in flight at once.

    Raises ``ValueError`` for more than ``MASK_BITS``; ``dt`` is the tick length [s].
    """
    slots = max(MIN_ROUNDS_PER_MECH, *(max_rounds(tables, mech, dt) for mech in tables.chassis))
    expected = f"at most {MASK_BITS}: shorter flights or longer cooldowns"
    require(slots <= MASK_BITS, "rounds in flight of one mech", slots, expected)
    return slots


def cloud_slots(tables: GameTables, dt: float) -> int:
    """Return the cloud slots of one mech: the most smoke clouds of any class that can live at once."""
    return max(MIN_CLOUDS_PER_MECH, *(max_clouds(tables, mech, dt) for mech in tables.chassis))


PACK = wp.constant(PACK_SIZE)
"""Mechs of a pack are consecutive: those of pack p of both teams are p * PACK to p * PACK + PACK - 1."""
ROUNDS_PER_MECH = round_slots(STOCK_TABLES, EnvConfig().dt_sim)
CLOUDS_PER_MECH = cloud_slots(STOCK_TABLES, EnvConfig().dt_sim)
CONTACT_SLOTS = 20
JOURNAL_ROWS_PER_MECH = 128
"""Journal rows between two fetches, per mech of a recorded environment."""
JOURNAL_VALUES = 10
"""Integers of a journal row that replays keep: tick, kind, actor, target, weapon, value, flags, x, y, z."""
JOURNAL_DETAIL = 6
"""Further integers that only event logs read: exact position x, y, z, stability, a mech, a mark."""
EDIT_ROWS_PER_MECH = 512
"""Rows of the edit log between two fetches, per mech of a recorded environment."""
EDIT_VALUES = 3
"""Integers of an edit row: tick, cell, material."""

F32, I32, U32, U64, U16, U8, V2, V3, V4 = (
    wp.float32, wp.int32, wp.uint32, wp.uint64, wp.uint16, wp.uint8, wp.vec2, wp.vec3, wp.vec4
)  # fmt: skip


@array_struct
class World:
    """Voxel map of each environment."""

    material = Field(U8, "EZYX", "material id of each voxel")
    voxel_hp = Field(U16, "EZYX", "remaining hit points of each voxel")
    move_plane = Field(U64, "EYX", "bit z set where the column blocks mechs")
    sight_plane = Field(U64, "EYX", "bit z set where the column blocks sight")
    shot_plane = Field(U64, "EYX", "bit z set where the column stops rounds")
    size = Field(wp.vec3i, "E", "size of this environment's map [vox]")
    zone = Field(V3, "E", "capture zone: centre x, centre y, radius [vox]")
    map_slot = Field(I32, "E", "row of the map bank in play")


@array_struct
class Mechs:
    """Every mech slot of each environment."""

    present = Field(I32, "EM", "1 if the slot holds a mech this episode")
    team = Field(I32, "EM", "0 blue, 1 red")
    pack = Field(I32, "EM", "pack index within the team")
    chassis = Field(I32, "EM", "mech class id")
    pos = Field(V3, "EM", "centre of the box [vox]")
    vel = Field(V3, "EM", "velocity [vox/s]")
    yaw = Field(F32, "EM", "heading [rad], counter-clockwise from +x")
    hp = Field(F32, "EM", "body hit points")
    leg_hp = Field(F32, "EM", "leg hit points; may fall below 0")
    heat = Field(F32, "EM", "heat [heat units], no upper bound")
    stability = Field(F32, "EM", "stability, 0 to 100")
    shutdown = Field(I32, "EM", "1 while overheated")
    fallen = Field(I32, "EM", "ticks left on the ground")
    cooldown = Field(I32, "EMK", "ticks until each shared timer allows the next use")
    painted = Field(I32, "EM", "ticks of paint left")
    painter = Field(I32, "EM", "mech that painted last, -1 none")
    suppressed = Field(I32, "EM", "ticks of suppression left")
    noise = Field(F32, "EM", "acoustic level of the last tick")
    alive = Field(I32, "EM", "1 while living")
    order = Field(I32, "EM", "movement order of the tick")


@array_struct
class Episode:
    """Clock, seeds, settings and score of each environment."""

    tick = Field(I32, "E", "ticks since the episode began")
    decision = Field(I32, "E", "decisions since the episode began")
    seed = Field(U32, "E", "episode seed")
    episode = Field(I32, "E", "episodes begun by this environment")
    env_index = Field(I32, "E", "global index of the environment")
    forced_seed = Field(I32, "E", "seed of every next episode, -1 to draw it")
    forced_slot = Field(I32, "E", "map of every next episode, -1 to draw it")
    withheld = Field(I32, "E", "disabled mechanics of this episode: bits 1 heat, 2 missiles, 4 EWAR, 8 paint")
    withhold = Field(I32, "E", "disabled mechanics of the next episodes, the same bits")
    packs = Field(I32, "E", "most packs per team in the next episodes; the map may have fewer")
    score = Field(V2, "E", "zone score of blue and red [s]")
    zone_tick = Field(V2, "E", "zone tick of blue and red in the last decision")
    zone_tonnage = Field(V2, "E", "tonnage of blue and red in the zone")


@array_struct
class Rounds:
    """Rounds in flight, by the mech that fired them."""

    round_weapon = Field(I32, "EMS", "weapon id of each round in flight, -1 none")
    round_pos = Field(V3, "EMS", "position of each round [vox]")
    round_vel = Field(V3, "EMS", "velocity of each round [vox/s]")
    round_age = Field(I32, "EMS", "ticks flown")
    round_target = Field(I32, "EMS", "mech the round was fired at, -1 none; missiles home on it")


@array_struct
class Smoke:
    """Smoke clouds, by the mech that fired them."""

    cloud_ticks = Field(I32, "EMQ", "ticks left of each smoke cloud, 0 free")
    cloud_pos = Field(V3, "EMQ", "centre of each smoke cloud [vox]")
    clouds = Field(I32, "E", "live smoke clouds")


@array_struct
class Controls:
    """Inputs of each mech for the current decision."""

    drive = Field(V4, "EM", "forward, strafe, vertical, yaw rate, each in [-1, 1]")
    trigger = Field(I32, "EM", "bit t set while trigger t is held")
    vent = Field(I32, "EM", "1 while venting")
    focus = Field(I32, "EM", "focus target, -1 none")
    focus_slot = Field(I32, "EM", "contact slot chosen as focus, -1 none")
    ecm = Field(I32, "EM", "1 while ECM is switched on")
    eccm = Field(I32, "EM", "1 while ECCM is switched on")
    sort_mode = Field(I32, "EM", "contact order: 0 closest, 1 biggest, 2 most damaged")
    hostile_only = Field(I32, "EM", "1 to show only hostiles")
    contact = Field(I32, "EMN", "mech in each contact slot, -1 empty")


@array_struct
class Senses:
    """Senses of each mech at the end of an environment step."""

    sight = Field(U8, "EMM", "segment between two centres: 0 terrain blocks it, 1 clear, 2 only smoke blocks it")
    quality = Field(F32, "EM", "sensor quality")
    jam = Field(F32, "EM", "strength of hostile jamming, 0 to 1")
    aid = Field(F32, "EM", "strength of friendly ECCM, 0 to 1")
    visible = Field(U8, "EMM", "1 if the first mech may see the second")
    seen = Field(I32, "EMM", "decision in which the first mech last could see the second, -1 never")


@array_struct
class Tracks:
    """Past states of all mechs, D decisions deep; allocated only where displays need them."""

    trace_pos = Field(V3, "EDM", "where each mech was in the last decisions, a ring of them [vox]")
    trace_vel = Field(V3, "EDM", "its velocity then [vox/s]")
    trace_body = Field(V4, "EDM", "its heading [rad], hit points, heat and stability then")
    trace_marks = Field(I32, "EDM", "bits 1 fallen, 2 legged then; above them its painter plus 1, 0 none")


@array_struct
class Events:
    """Events of each mech, of the current decision unless the field states another time."""

    acting = Field(I32, "EM", "1 if alive when the decision began")
    took = Field(F32, "EM", "damage taken this decision")
    dealt = Field(F32, "EM", "damage dealt to hostiles this decision")
    dealt_friendly = Field(F32, "EM", "damage dealt to friends this decision")
    kills = Field(I32, "EM", "hostile kills this decision")
    assists = Field(I32, "EM", "rewarded paint assists this decision")
    assist_tick = Field(I32, "EM", "last tick at which paint on this mech earned an assist")
    died = Field(I32, "EM", "1 if it died this decision")
    dying = Field(I32, "EM", "1 from death until its wreck is stamped")
    was_hit = Field(I32, "EM", "1 if hit this decision")
    fired = Field(I32, "EM", "bit w set if weapon w was fired this decision")
    hit_dir = Field(V3, "EM", "unit vector toward the last attacker, zero if none")
    aim = Field(I32, "EMW", "target of each weapon this tick, -1 blind, -2 not fired")
    assist_to = Field(I32, "EM", "painter that earns an assist by this mech's damage this phase, -1 none")
    killer = Field(I32, "EM", "mech that killed this one, -1 none or a hazard")
    hazard = Field(I32, "EM", "Hazard that killed it, 0 if none did")
    shutdown_due = Field(I32, "EM", "1 if hits of this phase shut it down, which acts from the next tick")
    landing_speed = Field(F32, "EM", "downward speed that something stopped in this tick [vox/s], else 0")
    intercepts = Field(I32, "EM", "missiles shot down this decision")
    ams_shot = Field(wp.vec4i, "EM", "last shot of point defence: owner of the round, its slot and weapon, 1 if hit")
    bad_actions = Field(I32, "EM", "non-finite action entries replaced by 0 this decision")
    overflow = Field(I32, "EM", "bits of capacity overflows; 1 rounds, 2 smoke clouds")
    knockdowns = Field(I32, "EM", "knockdowns this decision")
    shutdowns = Field(I32, "EM", "shutdowns this decision")


@array_struct
class Hits:
    """Hit records of the current phase, by shooter."""

    hit_mask = Field(I32, "EM", "bit k set if this mech's hit record k is filled this phase")
    hit_target = Field(I32, "EMW", "target of each hit record")
    hit_damage = Field(F32, "EMW", "damage after rear and paint, before the leg split")
    hit_stability = Field(F32, "EMW", "stability damage")
    hit_flags = Field(I32, "EMW", "bits: 1 leg, 2 rear, 4 painted")
    hit_weapon = Field(I32, "EMW", "weapon of each hit record")


@array_struct
class Blasts:
    """Impacts and explosions of the current tick, by the mech that fired the round."""

    impact_mask = Field(I32, "EM", "bit s set if round s struck terrain this tick")
    impact_cell = Field(wp.vec3i, "EMS", "cell struck")
    impact_weapon = Field(I32, "EMS", "weapon of the round that struck")
    blast_mask = Field(I32, "EM", "bit s set if round s exploded this tick")
    blast_pos = Field(V3, "EMS", "centre of the explosion [vox]")
    blast_skip = Field(I32, "EMS", "mech that the explosion spares because the round hit it, -1 none")
    blast_weapon = Field(I32, "EMS", "weapon of the round that exploded")
    splash = Field(V3, "EMM", "by mech 1's explosions on mech 2: damage, stability loss, slot of the last round or -1")


@array_struct
class Paths:
    """Where mechs may go in the current tick."""

    path_reach = Field(V2, "EM", "half edges x, y of the area that a mech's box may enter this tick [vox]")
    path_near = Field(wp.vec2i, "EM", "mechs that it may touch this tick: first index and end, which is 0 for none")


@array_struct
class Journal:
    """Events and voxel edits of recorded environments, one page each, until the host fetches them."""

    journal_env = Field(I32, "J", "recorded environment, counted within its shard")
    journal_page = Field(I32, "J", "its page")
    page_open = Field(I32, "G", "1 until the episode of the page ends")
    journal = Field(I32, "GRV", "event rows: JOURNAL_VALUES integers, then JOURNAL_DETAIL")
    journal_count = Field(I32, "G", "event rows written, dropped ones included")
    edit_page = Field(I32, "E", "page of each environment, -1 not recorded")
    edit_log = Field(I32, "GTU", "tick, cell and new material of each replaced voxel")
    edit_count = Field(I32, "G", "voxels replaced, dropped rows included")


@array_struct
class MapArrays:
    """Prepared maps that episodes draw from."""

    bank_material = Field(U8, "BZYX", "material id of each voxel")
    bank_move = Field(U64, "BYX", "move_plane of each map")
    bank_sight = Field(U64, "BYX", "sight_plane of each map")
    bank_shot = Field(U64, "BYX", "shot_plane of each map")
    bank_size = Field(wp.vec3i, "B", "map size [vox]")
    bank_zone = Field(V3, "B", "capture zone: centre x, centre y, radius [vox]")
    bank_spawn = Field(V3, "BM", "box centre of each mech before jitter [vox]")
    bank_packs = Field(I32, "B", "packs per team that the map has spawns for")
    bank_live = Field(I32, "B", "maps that resets draw from")
    bank_live_count = Field(I32, "1", "how many of them")


WORLD = fields_of(World)
STATE = {**fields_of(Mechs), **fields_of(Episode), **fields_of(Rounds), **fields_of(Smoke)}
CONTROLS = fields_of(Controls)
SENSES = fields_of(Senses)
TRACKS = fields_of(Tracks)
EVENTS = {**fields_of(Events), **fields_of(Hits), **fields_of(Blasts), **fields_of(Paths)}

GROUPS: dict[str, Mapping[str, Field]] = {
    "world": WORLD,
    "state": STATE,
    "controls": CONTROLS,
    "senses": SENSES,
    "events": EVENTS,
}


def all_fields() -> dict[str, Field]:
    merged: dict[str, Field] = {}
    for group in GROUPS.values():
        merged.update(group)
    return merged


VOXEL_LANES = 32
"""Threads of an environment that share the voxel columns on CUDA: the lanes of one warp."""


def lanes(device: str, num_mechs: int) -> dict[str, int]:
    """Return the threads that share a task, by letter: L the columns of an environment, I the pairs of a mech.

    One on a CPU, where threads of a launch run one after the other; the results do not depend on it.
    """
    if device == "cpu":
        return {"L": 1, "I": 1}
    return {"L": VOXEL_LANES, "I": max(1, num_mechs // 2)}


def sizes(cfg: EnvConfig, num_envs: int) -> dict[str, int]:
    world = cfg.world
    return {
        "E": num_envs,
        "M": cfg.num_mechs,
        "P": 2 * cfg.num_packs,
        "X": world.size_x,
        "Y": world.size_y,
        "Z": world.size_z,
        "K": NUM_COOLDOWNS,
        "W": NUM_WEAPONS,
        "S": ROUNDS_PER_MECH,
        "Q": CLOUDS_PER_MECH,
        "N": CONTACT_SLOTS,
    }


def array_bytes(cfg: EnvConfig, num_envs: int, bank_maps: int) -> tuple[int, int]:
    """Return the bytes of the arrays of ``num_envs`` environments, and of a bank of ``bank_maps`` maps."""
    lengths = sizes(cfg, num_envs) | {"B": bank_maps, "1": 1}

    def size(fields: Iterable[Field]) -> int:
        return sum(math.prod(lengths[c] for c in field.shape) * type_size_in_bytes(field.dtype) for field in fields)

    return size(all_fields().values()), size(fields_of(MapArrays).values())
