"""The telemetry map: which of 16 by 16 bins over the whole map hold anything that blocks a mech, at any height.

It is surveyed once when an episode begins. After that only bins are looked at in which a round struck, an explosion
bit or a wreck fell: ``mark_damaged_bins`` marks them while a tick runs, ``update_telemetry_map`` brings them up to date at the end of
the decision. It lies in the map's own axes; ``observe_classic`` turns it to each viewer.
"""

# ruff: noqa: E501
from __future__ import annotations

import warp as wp

from echelon.env import layout
from echelon.sim.backend import Launch, in_phase
from echelon.sim.kernels import terrain
from echelon.sim.state import ROUNDS_PER_MECH, Field
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SIDE = wp.constant(layout.TELEMETRY_SIDE)
BINS = layout.TELEMETRY_SIDE**2

FIELDS: dict[str, Field] = {
    "telemetry": Field(wp.uint8, "EG", "1 if something in the bin blocks mechs; bin x * 16 + y"),
    "bin_stale": Field(wp.uint8, "EG", "1 if voxels of the bin may have changed in this decision"),
    "any_stale": Field(wp.int32, "E", "1 if a bin of this environment is stale"),
    "surveys": Field(wp.int32, "E", "whole surveys made"),
}


@wp.func
def bin_blocked(move_plane: wp.array3d(dtype=wp.uint64), e: int, g: int, size: wp.vec3i) -> wp.uint8:
    """Whether any column of bin g blocks mechs; its edges are whole parts of evenly spaced cuts."""
    i = g // SIDE
    j = g % SIDE
    for y in range(j * size[1] // SIDE, (j + 1) * size[1] // SIDE):
        for x in range(i * size[0] // SIDE, (i + 1) * size[0] // SIDE):
            if move_plane[e, y, x] != wp.uint64(0):
                return wp.uint8(1)
    return wp.uint8(0)


@wp.func
def bin_of(cell: int, length: int) -> int:
    """The bin along an edge that a cell of a map of this length lies in."""
    k = wp.clamp(cell, 0, length - 1) * SIDE // length
    if (k + 1) * length // SIDE <= cell:
        k += 1
    return wp.min(k, SIDE - 1)


@wp.func
def mark(bin_stale: wp.array2d(dtype=wp.uint8), e: int, size: wp.vec3i, low: wp.vec3, high: wp.vec3):
    """Mark every bin that a box reaches."""
    for i in range(bin_of(int(wp.floor(low[0])), size[0]), bin_of(int(wp.floor(high[0])), size[0]) + 1):
        for j in range(bin_of(int(wp.floor(low[1])), size[1]), bin_of(int(wp.floor(high[1])), size[1]) + 1):
            bin_stale[e, i * SIDE + j] = wp.uint8(1)


@wp.kernel
def build_telemetry_map(
    # world
    move_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    fresh: wp.array(dtype=wp.int32),
    # state out
    telemetry: wp.array2d(dtype=wp.uint8), bin_stale: wp.array2d(dtype=wp.uint8), any_stale: wp.array(dtype=wp.int32), surveys: wp.array(dtype=wp.int32),
):
    """Look at one bin of a map that has just been loaded."""
    e, g = wp.tid()
    if fresh[e] == 0:
        return
    telemetry[e, g] = bin_blocked(move_plane, e, g, size[e])
    bin_stale[e, g] = wp.uint8(0)
    if g == 0:
        any_stale[e] = 0
        surveys[e] = surveys[e] + 1


@wp.kernel
def mark_damaged_bins(
    # rules
    rules: Rules,
    # world
    size: wp.array(dtype=wp.vec3i),
    # state in
    impact_mask: wp.array2d(dtype=wp.int32), impact_cell: wp.array3d(dtype=wp.vec3i), blast_mask: wp.array2d(dtype=wp.int32), blast_pos: wp.array3d(dtype=wp.vec3), blast_weapon: wp.array3d(dtype=wp.int32),
    # state out
    bin_stale: wp.array2d(dtype=wp.uint8), any_stale: wp.array(dtype=wp.int32),
):
    """Mark the bins in which rounds struck or exploded in this tick."""
    e = wp.tid()
    for m in range(impact_mask.shape[1]):
        if impact_mask[e, m] != 0 or blast_mask[e, m] != 0:
            any_stale[e] = 1
            for s in range(ROUNDS_PER_MECH):
                if (impact_mask[e, m] & (1 << s)) != 0:
                    cell = impact_cell[e, m, s]
                    at = wp.vec3(float(cell[0]), float(cell[1]), float(cell[2]))
                    mark(bin_stale, e, size[e], at, at)
                if (blast_mask[e, m] & (1 << s)) != 0:
                    r = rules.weapon_splash[blast_weapon[e, m, s]]
                    mark(bin_stale, e, size[e], blast_pos[e, m, s] - wp.vec3(r, r, r), blast_pos[e, m, s] + wp.vec3(r, r, r))


@wp.kernel
def update_telemetry_map(
    # rules
    rules: Rules,
    # world
    move_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    died: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3),
    # state out
    telemetry: wp.array2d(dtype=wp.uint8), bin_stale: wp.array2d(dtype=wp.uint8), any_stale: wp.array(dtype=wp.int32),
):
    """Look again at the bins that a decision's damage and wrecks may have changed."""
    e = wp.tid()
    for m in range(died.shape[1]):
        if died[e, m] == 1:
            h = rules.half[chassis[e, m]]
            mark(bin_stale, e, size[e], pos[e, m] - h, pos[e, m] + h)
            any_stale[e] = 1
    if any_stale[e] == 0:
        return
    any_stale[e] = 0
    for g in range(telemetry.shape[1]):
        if bin_stale[e, g] == wp.uint8(1):
            bin_stale[e, g] = wp.uint8(0)
            telemetry[e, g] = bin_blocked(move_plane, e, g, size[e])


def watched(tick: list[Launch]) -> list[Launch]:
    """Return a tick that also marks where its explosions changed the map."""
    noted: list[Launch] = []
    for launch in tick:
        noted.append(launch)
        if launch.kernel is terrain.erode:
            noted.append(Launch(mark_damaged_bins, "E", phase=launch.phase))
    return noted


def begun(fresh: str) -> list[Launch]:
    """Return the survey of the maps that episodes begin on where array ``fresh`` says so."""
    return in_phase("telemetry", [Launch(build_telemetry_map, "EG", {"fresh": fresh})])


def mended() -> list[Launch]:
    """Return what brings the survey up to date at a decision's end."""
    return in_phase("telemetry", [Launch(update_telemetry_map, "E")])
