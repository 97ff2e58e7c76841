# type: ignore
"""Reset of episodes: draw seed and map, copy the map from the bank, place the mechs.

``fresh`` masks the environments to reset. A reset copies a prepared map and never generates one.
"""

import warp as wp

from echelon.config import EVAL_SEED_BASE
from echelon.sim.episode_draws import takes_part
from echelon.sim.geometry import arc_tan2, wrap_angle
from echelon.sim.kernels.motion import clamp_to_map
from echelon.sim.rng import STREAM_MAP, STREAM_RUN, STREAM_VARIANT, below, draw_u32, uniform01
from echelon.sim.state import (
    CLOUDS_PER_MECH,
    PACK,
    ROUNDS_PER_MECH,
    Controls,
    Episode,
    Events,
    MapArrays,
    Mechs,
    Rounds,
    Senses,
    Smoke,
    World,
)
from echelon.sim.tables import NUM_COOLDOWNS, MaterialRow, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SEED_STRIDE = wp.constant(wp.uint32(1000003))
"""Distance between the seed sequences of neighbouring environments, which start at a value drawn from the run seed."""
SEED_MASK = wp.constant(wp.uint32(EVAL_SEED_BASE - 1))
SPAWN = wp.constant(1)
"""Index of the jitter in its random stream; the map generator, which may use the same seed, draws at 0."""


@wp.kernel
def begin_episode(
    episode: Episode,
    bank: MapArrays,
    run_seed: wp.array(dtype=wp.uint32),
    fresh: wp.array(dtype=wp.int32),
    world_out: World,
    episode_out: Episode,
    smoke_out: Smoke,
):
    """Draw the seed and map of the next episode and zero its clock and scores."""
    e = wp.tid()
    if fresh[e] == 0:
        return
    base = draw_u32(run_seed[0], STREAM_RUN, 0, 0, 0)  # hashed, so that runs of neighbouring seeds share no episode
    s = (base + SEED_STRIDE * wp.uint32(episode.env_index[e]) + wp.uint32(episode_out.episode[e])) & SEED_MASK
    if episode.forced_seed[e] >= 0:
        s = wp.uint32(episode.forced_seed[e])
    slot = bank.bank_live[below(draw_u32(s, STREAM_MAP, 0, 0, 0), bank.bank_live_count[0])]
    if episode.forced_slot[e] >= 0:
        slot = episode.forced_slot[e]
    episode_out.seed[e] = s
    episode_out.episode[e] = episode_out.episode[e] + 1
    world_out.map_slot[e] = slot
    episode_out.withheld[e] = episode.withhold[e]
    world_out.zone[e] = bank.bank_zone[slot]
    world_out.size[e] = bank.bank_size[slot]
    episode_out.tick[e] = 0
    episode_out.decision[e] = 0
    episode_out.score[e] = wp.vec2(0.0, 0.0)
    episode_out.zone_tick[e] = wp.vec2(0.0, 0.0)
    episode_out.zone_tonnage[e] = wp.vec2(0.0, 0.0)
    smoke_out.clouds[e] = 0


COPY_PART = """
    const size_t size = target.strides[0];
    const char* from = reinterpret_cast<const char*>(source.data) + slot * size;
    char* to = reinterpret_cast<char*>(target.data) + e * size;
    #ifdef __CUDA_ARCH__
    const bool aligned = ((reinterpret_cast<size_t>(from) | reinterpret_cast<size_t>(to)) & 7) == 0;
    const size_t words = aligned ? size / 8 : 0;
    for (size_t i = part; i < words; i += parts)
        reinterpret_cast<wp::uint64*>(to)[i] = reinterpret_cast<const wp::uint64*>(from)[i];
    for (size_t i = words * 8 + part; i < size; i += parts)
        to[i] = from[i];
    #else
    const size_t first = size * part / parts, end = size * (part + 1) / parts;
    memcpy(to + first, from + first, end - first);
    #endif
"""
"""Copies part ``part`` of ``parts`` of a map of the bank; native, since Warp does not know that maps are contiguous.

On CUDA a part is every ``parts``-th word, so that neighbouring threads use neighbouring words; on a CPU it is a range.
"""
FILL_PART = """
    const size_t size = cells.strides[0];
    const wp::uint8* cell = cells.data + slot * size;
    wp::uint16* left = hp.data + e * size;
    #ifdef __CUDA_ARCH__
    const bool aligned = (reinterpret_cast<size_t>(cell) & 3) == 0 && (reinterpret_cast<size_t>(left) & 7) == 0;
    const size_t words = aligned ? size / 4 : 0;
    for (size_t i = part; i < words; i += parts) {
        const wp::uint32 four = reinterpret_cast<const wp::uint32*>(cell)[i];
        wp::uint64 word = 0;
        for (int k = 0; k < 4; ++k)
            word |= wp::uint64(wp::uint16(materials.data[four >> (8 * k) & 255].hp)) << (16 * k);
        reinterpret_cast<wp::uint64*>(left)[i] = word;
    }
    for (size_t i = words * 4 + part; i < size; i += parts)
        left[i] = wp::uint16(materials.data[cell[i]].hp);
    #else
    const size_t first = size * part / parts, end = size * (part + 1) / parts;
    for (size_t i = first; i < end; ++i)
        left[i] = wp::uint16(materials.data[cell[i]].hp);
    #endif
"""
"""Sets the hit points of a part of the cells; on CUDA a part is every ``parts``-th word of four of them."""


@wp.func_native(COPY_PART)
def copy_part(
    target: wp.array3d(dtype=wp.uint64), e: int, source: wp.array3d(dtype=wp.uint64), slot: int, part: int, parts: int
): ...


@wp.func_native(COPY_PART)
def copy_part(  # noqa: F811
    target: wp.array4d(dtype=wp.uint8), e: int, source: wp.array4d(dtype=wp.uint8), slot: int, part: int, parts: int
): ...


@wp.func_native(FILL_PART)
def fill_hp(
    hp: wp.array4d(dtype=wp.uint16),
    e: int,
    cells: wp.array4d(dtype=wp.uint8),
    slot: int,
    materials: wp.array(dtype=MaterialRow),
    part: int,
    parts: int,
): ...


@wp.kernel
def load_map(rules: Rules, world: World, bank: MapArrays, fresh: wp.array(dtype=wp.int32), world_out: World):
    """Copy a part of the map from the bank, as many as there are rows, with full hit points."""
    e, y = wp.tid()
    if fresh[e] == 0:
        return
    slot = world.map_slot[e]
    parts = world_out.material.shape[2]
    copy_part(world_out.move_plane, e, bank.bank_move, slot, y, parts)
    copy_part(world_out.sight_plane, e, bank.bank_sight, slot, y, parts)
    copy_part(world_out.shot_plane, e, bank.bank_shot, slot, y, parts)
    copy_part(world_out.material, e, bank.bank_material, slot, y, parts)
    fill_hp(world_out.voxel_hp, e, bank.bank_material, slot, rules.materials, y, parts)


@wp.kernel
def place_mechs(
    rules: Rules, world: World, episode: Episode, bank: MapArrays, fresh: wp.array(dtype=wp.int32), mechs_out: Mechs
):
    """Place a mech at its spawn point with jitter, facing the zone."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    team_size = mechs_out.pos.shape[1] // 2
    slot = m % team_size
    c = rules.roster[slot % PACK]
    mechs_out.team[e, m] = m // team_size
    mechs_out.pack[e, m] = slot // PACK
    mechs_out.chassis[e, m] = c
    here = int(0)
    if slot // PACK < wp.min(episode.packs[e], bank.bank_packs[world.map_slot[e]]):
        here = takes_part(rules, episode.seed[e], slot % PACK)
    mechs_out.present[e, m] = here
    mechs_out.alive[e, m] = here
    mechs_out.hp[e, m] = float(here) * rules.chassis[c].hp
    mechs_out.leg_hp[e, m] = float(here) * rules.chassis[c].leg_hp
    jx = 2.0 * uniform01(episode.seed[e], STREAM_VARIANT, SPAWN, m, 0) - 1.0
    jy = 2.0 * uniform01(episode.seed[e], STREAM_VARIANT, SPAWN, m, 1) - 1.0
    jyaw = 2.0 * uniform01(episode.seed[e], STREAM_VARIANT, SPAWN, m, 2) - 1.0
    p = bank.bank_spawn[world.map_slot[e], m] + wp.vec3(jx, jy, 0.0) * rules.spawn_jitter_vox
    p = clamp_to_map(world.size[e], p, rules.chassis[c].half)
    mechs_out.pos[e, m] = p
    mechs_out.vel[e, m] = wp.vec3(0.0, 0.0, 0.0)
    mechs_out.yaw[e, m] = wrap_angle(
        arc_tan2(world.zone[e][1] - p[1], world.zone[e][0] - p[0]) + jyaw * rules.spawn_yaw_jitter_rad
    )


@wp.kernel
def fresh_mechs(
    rules: Rules,
    fresh: wp.array(dtype=wp.int32),
    mechs_out: Mechs,
    rounds_out: Rounds,
    smoke_out: Smoke,
    controls_out: Controls,
    senses_out: Senses,
    events_out: Events,
):
    """Reset a mech's timers, heat, stability and settings for the start of an episode."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    mechs_out.heat[e, m] = 0.0
    mechs_out.stability[e, m] = rules.max_stability
    mechs_out.shutdown[e, m] = 0
    mechs_out.fallen[e, m] = 0
    for k in range(NUM_COOLDOWNS):
        mechs_out.cooldown[e, m, k] = 0
    mechs_out.painted[e, m] = 0
    mechs_out.painter[e, m] = -1
    mechs_out.suppressed[e, m] = 0
    mechs_out.noise[e, m] = 0.0
    for s in range(ROUNDS_PER_MECH):
        rounds_out.round_weapon[e, m, s] = -1
        rounds_out.round_target[e, m, s] = -1
    for q in range(CLOUDS_PER_MECH):
        smoke_out.cloud_ticks[e, m, q] = 0
    controls_out.focus[e, m] = -1
    controls_out.focus_slot[e, m] = -1
    controls_out.ecm[e, m] = 0
    controls_out.eccm[e, m] = 0
    controls_out.sort_mode[e, m] = 0
    controls_out.hostile_only[e, m] = 0
    for n in range(controls_out.contact.shape[2]):
        controls_out.contact[e, m, n] = -1
    for j in range(senses_out.seen.shape[2]):
        senses_out.seen[e, m, j] = -1
    events_out.killer[e, m] = -1
    events_out.dying[e, m] = 0
    events_out.hazard[e, m] = 0
    events_out.shutdown_due[e, m] = 0
    events_out.overflow[e, m] = 0
    events_out.assist_tick[e, m] = 0
    events_out.was_hit[e, m] = 0
    events_out.hit_dir[e, m] = wp.vec3(0.0, 0.0, 0.0)
