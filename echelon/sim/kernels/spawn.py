"""Begins episodes: draws the seed and the map, copies the prepared map, and places fresh mechs.

``fresh`` masks the environments that begin; nothing else is touched. A reset costs a copy, never a generation.
"""

# ruff: noqa: E501
import warp as wp

from echelon.config import EVAL_SEED_BASE, PACK_SIZE
from echelon.sim.geometry import arc_tan2, wrap_angle
from echelon.sim.kernels.motion import clamp_to_map
from echelon.sim.rng import STREAM_MAP, STREAM_RUN, STREAM_VARIANT, below, draw_u32, uniform01
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH
from echelon.sim.tables import NUM_COOLDOWNS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SEED_STRIDE = wp.constant(wp.uint32(1000003))
"""Distance of the seed sequences of neighbouring environments; they begin at a place drawn from the run's seed."""
SEED_MASK = wp.constant(wp.uint32(EVAL_SEED_BASE - 1))
PACK = wp.constant(PACK_SIZE)
SPAWN = wp.constant(1)
"""Place of the jitter in its random stream; the map generator draws at 0, and a battle may have its map's seed."""


@wp.kernel
def begin_episode(
    # world
    bank_zone: wp.array(dtype=wp.vec3), bank_size: wp.array(dtype=wp.vec3i), bank_live: wp.array(dtype=wp.int32), bank_live_count: wp.array(dtype=wp.int32),
    # controls
    run_seed: wp.array(dtype=wp.uint32),
    # state in
    fresh: wp.array(dtype=wp.int32), env_index: wp.array(dtype=wp.int32), forced_seed: wp.array(dtype=wp.int32), forced_slot: wp.array(dtype=wp.int32), withhold: wp.array(dtype=wp.int32),
    # state out
    withheld: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), episode: wp.array(dtype=wp.int32), map_slot: wp.array(dtype=wp.int32), zone: wp.array(dtype=wp.vec3), size: wp.array(dtype=wp.vec3i), tick: wp.array(dtype=wp.int32), decision: wp.array(dtype=wp.int32), score: wp.array(dtype=wp.vec2), zone_tick: wp.array(dtype=wp.vec2), zone_tonnage: wp.array(dtype=wp.vec2), clouds: wp.array(dtype=wp.int32),
):
    """Draw seed and map of the next episode and zero its clock and scores."""
    e = wp.tid()
    if fresh[e] == 0:
        return
    base = draw_u32(run_seed[0], STREAM_RUN, 0, 0, 0)  # drawn, so that runs of neighbouring seeds share no battle
    s = (base + SEED_STRIDE * wp.uint32(env_index[e]) + wp.uint32(episode[e])) & SEED_MASK
    if forced_seed[e] >= 0:
        s = wp.uint32(forced_seed[e])
    slot = bank_live[below(draw_u32(s, STREAM_MAP, 0, 0, 0), bank_live_count[0])]
    if forced_slot[e] >= 0:
        slot = forced_slot[e]
    seed[e] = s
    episode[e] = episode[e] + 1
    map_slot[e] = slot
    withheld[e] = withhold[e]
    zone[e] = bank_zone[slot]
    size[e] = bank_size[slot]
    tick[e] = 0
    decision[e] = 0
    score[e] = wp.vec2(0.0, 0.0)
    zone_tick[e] = wp.vec2(0.0, 0.0)
    zone_tonnage[e] = wp.vec2(0.0, 0.0)
    clouds[e] = 0


@wp.kernel
def load_map(
    # rules
    rules: Rules,
    # world
    bank_material: wp.array4d(dtype=wp.uint8), bank_move: wp.array3d(dtype=wp.uint64), bank_sight: wp.array3d(dtype=wp.uint64), bank_shot: wp.array3d(dtype=wp.uint64),
    # state in
    fresh: wp.array(dtype=wp.int32), map_slot: wp.array(dtype=wp.int32),
    # state out
    material: wp.array4d(dtype=wp.uint8), voxel_hp: wp.array4d(dtype=wp.uint16), move_plane: wp.array3d(dtype=wp.uint64), sight_plane: wp.array3d(dtype=wp.uint64), shot_plane: wp.array3d(dtype=wp.uint64),
):
    """Copy one row of the map from the bank, with full hit points."""
    e, y = wp.tid()
    if fresh[e] == 0:
        return
    slot = map_slot[e]
    for x in range(material.shape[3]):
        move_plane[e, y, x] = bank_move[slot, y, x]
        sight_plane[e, y, x] = bank_sight[slot, y, x]
        shot_plane[e, y, x] = bank_shot[slot, y, x]
    for z in range(material.shape[1]):
        for x in range(material.shape[3]):
            kind = bank_material[slot, z, y, x]
            material[e, z, y, x] = kind
            voxel_hp[e, z, y, x] = rules.material_hp[int(kind)]


@wp.kernel
def place_mechs(
    # rules
    rules: Rules,
    # world
    bank_spawn: wp.array2d(dtype=wp.vec3), bank_packs: wp.array(dtype=wp.int32), zone: wp.array(dtype=wp.vec3), size: wp.array(dtype=wp.vec3i), map_slot: wp.array(dtype=wp.int32),
    # state in
    fresh: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), packs: wp.array(dtype=wp.int32),
    # state out
    present: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), alive: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), leg_hp: wp.array2d(dtype=wp.float32),
):
    """Place a mech at its prepared spot with jitter, facing the zone."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    team_size = pos.shape[1] // 2
    slot = m % team_size
    c = rules.roster[slot % PACK]
    team[e, m] = m // team_size
    pack[e, m] = slot // PACK
    chassis[e, m] = c
    here = int(0)
    if slot // PACK < wp.min(packs[e], bank_packs[map_slot[e]]):
        here = 1
    present[e, m] = here
    alive[e, m] = here
    hp[e, m] = float(here) * rules.max_hp[c]
    leg_hp[e, m] = float(here) * rules.max_leg_hp[c]
    jx = 2.0 * uniform01(seed[e], STREAM_VARIANT, SPAWN, m, 0) - 1.0
    jy = 2.0 * uniform01(seed[e], STREAM_VARIANT, SPAWN, m, 1) - 1.0
    jyaw = 2.0 * uniform01(seed[e], STREAM_VARIANT, SPAWN, m, 2) - 1.0
    p = bank_spawn[map_slot[e], m] + wp.vec3(jx, jy, 0.0) * rules.spawn_jitter
    p = clamp_to_map(size[e], p, rules.half[c])
    pos[e, m] = p
    vel[e, m] = wp.vec3(0.0, 0.0, 0.0)
    yaw[e, m] = wrap_angle(arc_tan2(zone[e][1] - p[1], zone[e][0] - p[0]) + jyaw * rules.spawn_yaw_jitter)


@wp.kernel
def fresh_mechs(
    # rules
    rules: Rules,
    # state in
    fresh: wp.array(dtype=wp.int32),
    # state out
    heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), shutdown: wp.array2d(dtype=wp.int32), fallen: wp.array2d(dtype=wp.int32), cooldown: wp.array3d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), suppressed: wp.array2d(dtype=wp.int32), noise: wp.array2d(dtype=wp.float32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), cloud_ticks: wp.array3d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32), focus_slot: wp.array2d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32), sort_mode: wp.array2d(dtype=wp.int32), hostile_only: wp.array2d(dtype=wp.int32), contact: wp.array3d(dtype=wp.int32), seen: wp.array3d(dtype=wp.int32), message: wp.array3d(dtype=wp.float32),
    # events
    killer: wp.array2d(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), hazard: wp.array2d(dtype=wp.int32), shutdown_due: wp.array2d(dtype=wp.int32), overflow: wp.array2d(dtype=wp.int32), assist_tick: wp.array2d(dtype=wp.int32), was_hit: wp.array2d(dtype=wp.int32), hit_dir: wp.array2d(dtype=wp.vec3),
):
    """Give a mech the timers, pools and settings of an episode's start."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    heat[e, m] = 0.0
    stability[e, m] = rules.max_stability
    shutdown[e, m] = 0
    fallen[e, m] = 0
    for k in range(NUM_COOLDOWNS):
        cooldown[e, m, k] = 0
    painted[e, m] = 0
    painter[e, m] = -1
    suppressed[e, m] = 0
    noise[e, m] = 0.0
    for s in range(ROUNDS_PER_MECH):
        round_weapon[e, m, s] = -1
        round_target[e, m, s] = -1
    for q in range(CLOUDS_PER_MECH):
        cloud_ticks[e, m, q] = 0
    focus[e, m] = -1
    focus_slot[e, m] = -1
    ecm[e, m] = 0
    eccm[e, m] = 0
    sort_mode[e, m] = 0
    hostile_only[e, m] = 0
    for n in range(contact.shape[2]):
        contact[e, m, n] = -1
    for j in range(seen.shape[2]):
        seen[e, m, j] = -1
    for i in range(message.shape[2]):
        message[e, m, i] = 0.0
    killer[e, m] = -1
    dying[e, m] = 0
    hazard[e, m] = 0
    shutdown_due[e, m] = 0
    overflow[e, m] = 0
    assist_tick[e, m] = 0
    was_hit[e, m] = 0
    hit_dir[e, m] = wp.vec3(0.0, 0.0, 0.0)
