# type: ignore
"""The telemetry map: which of 16 by 16 bins over the whole map hold anything that blocks a mech, at any height.

All bins are computed when an episode begins. After that only bins are recomputed in which a round struck, an explosion
eroded voxels or a wreck fell: ``mark_damaged_bins`` marks them during a tick, ``update_telemetry_map`` recomputes them
at the end of the step. The map is in world axes; ``blocks.write_telemetry`` rotates it to each observer.
"""

import warp as wp

from echelon.env import layout
from echelon.sim.backend import Launch, in_phase
from echelon.sim.kernels import terrain
from echelon.sim.state import ROUNDS_PER_MECH, Blasts, Events, Mechs, World
from echelon.sim.structs import Field, array_struct, fields_of
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

BINS_PER_SIDE = wp.constant(layout.TELEMETRY_SIDE)
BINS = layout.TELEMETRY_SIDE**2


@array_struct
class TelemetryMap:
    """Blocked bins of each environment's map; bin x * 16 + y."""

    telemetry = Field(wp.uint8, "EG", "1 if something in the bin blocks mechs")
    bin_stale = Field(wp.uint8, "EG", "1 if voxels of the bin may have changed in this step")
    any_stale = Field(wp.int32, "E", "1 if a bin of this environment is stale")
    surveys = Field(wp.int32, "E", "computations of the whole map")


FIELDS = fields_of(TelemetryMap)


@wp.func
def bin_blocked(move_plane: wp.array3d(dtype=wp.uint64), e: int, g: int, size: wp.vec3i) -> wp.uint8:
    """Return 1 if any column of bin ``g`` blocks mechs; the map is cut into bins of equal size, rounded to voxels."""
    i = g // BINS_PER_SIDE
    j = g % BINS_PER_SIDE
    for y in range(j * size[1] // BINS_PER_SIDE, (j + 1) * size[1] // BINS_PER_SIDE):
        for x in range(i * size[0] // BINS_PER_SIDE, (i + 1) * size[0] // BINS_PER_SIDE):
            if move_plane[e, y, x] != wp.uint64(0):
                return wp.uint8(1)
    return wp.uint8(0)


@wp.func
def bin_of(cell: int, length: int) -> int:
    k = wp.clamp(cell, 0, length - 1) * BINS_PER_SIDE // length
    if (k + 1) * length // BINS_PER_SIDE <= cell:
        k += 1
    return wp.min(k, BINS_PER_SIDE - 1)


@wp.func
def mark_box(e: int, size: wp.vec3i, low: wp.vec3, high: wp.vec3, bin_stale_out: wp.array2d(dtype=wp.uint8)):
    for i in range(bin_of(int(wp.floor(low[0])), size[0]), bin_of(int(wp.floor(high[0])), size[0]) + 1):
        for j in range(bin_of(int(wp.floor(low[1])), size[1]), bin_of(int(wp.floor(high[1])), size[1]) + 1):
            bin_stale_out[e, i * BINS_PER_SIDE + j] = wp.uint8(1)


@wp.kernel
def build_telemetry_map(world: World, fresh: wp.array(dtype=wp.int32), telemetry_map_out: TelemetryMap):
    e, g = wp.tid()
    if fresh[e] == 0:
        return
    telemetry_map_out.telemetry[e, g] = bin_blocked(world.move_plane, e, g, world.size[e])
    telemetry_map_out.bin_stale[e, g] = wp.uint8(0)
    if g == 0:
        telemetry_map_out.any_stale[e] = 0
        telemetry_map_out.surveys[e] = telemetry_map_out.surveys[e] + 1


@wp.kernel
def mark_damaged_bins(rules: Rules, world: World, blasts: Blasts, telemetry_map_out: TelemetryMap):
    e = wp.tid()
    size = world.size[e]
    for m in range(blasts.impact_mask.shape[1]):
        impacts = blasts.impact_mask[e, m]
        explosions = blasts.blast_mask[e, m]
        if impacts != 0 or explosions != 0:
            telemetry_map_out.any_stale[e] = 1
            for s in range(ROUNDS_PER_MECH):
                if (impacts & (1 << s)) != 0:
                    cell = blasts.impact_cell[e, m, s]
                    at = wp.vec3(float(cell[0]), float(cell[1]), float(cell[2]))
                    mark_box(e, size, at, at, telemetry_map_out.bin_stale)
                if (explosions & (1 << s)) != 0:
                    r = rules.weapons[blasts.blast_weapon[e, m, s]].splash_vox
                    reach = wp.vec3(r, r, r)
                    at = blasts.blast_pos[e, m, s]
                    mark_box(e, size, at - reach, at + reach, telemetry_map_out.bin_stale)


@wp.kernel
def update_telemetry_map(rules: Rules, world: World, mechs: Mechs, events: Events, telemetry_map_out: TelemetryMap):
    e = wp.tid()
    for m in range(mechs.alive.shape[1]):
        if events.died[e, m] == 1:
            h = rules.chassis[mechs.chassis[e, m]].half
            pos = mechs.pos[e, m]
            mark_box(e, world.size[e], pos - h, pos + h, telemetry_map_out.bin_stale)
            telemetry_map_out.any_stale[e] = 1
    if telemetry_map_out.any_stale[e] == 0:
        return
    telemetry_map_out.any_stale[e] = 0
    for g in range(telemetry_map_out.telemetry.shape[1]):
        if telemetry_map_out.bin_stale[e, g] == wp.uint8(1):
            telemetry_map_out.bin_stale[e, g] = wp.uint8(0)
            telemetry_map_out.telemetry[e, g] = bin_blocked(world.move_plane, e, g, world.size[e])


def with_damage_marks(tick: list[Launch]) -> list[Launch]:
    marked: list[Launch] = []
    for launch in tick:
        marked.append(launch)
        if launch.kernel is terrain.damage_terrain:
            marked.append(Launch(mark_damaged_bins, "E", phase=launch.phase))
    return marked


def reset_launches(fresh: str) -> list[Launch]:
    return in_phase("telemetry", [Launch(build_telemetry_map, "EG", {"fresh": fresh})])


def update_launches() -> list[Launch]:
    return in_phase("telemetry", [Launch(update_telemetry_map, "E")])
