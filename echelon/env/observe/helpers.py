# type: ignore
"""Device functions shared by the observation kernels."""

import warp as wp

from echelon.sim.state import Controls, Mechs
from echelon.sim.structs import Field, array_struct

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@array_struct
class ObsRows:
    """The observation buffer, and which mechs are observed; a launch may give other arrays for each."""

    fresh = Field(wp.int32, "E", "1 in the environments that are observed")
    row_of = Field(wp.int32, "EM", "observation row of each mech, -1 none")
    obs_row = Field(wp.int32, "1", "first index of ``obs`` that is written")
    obs = Field(wp.float32, "TND", "observations")


@wp.func
def row_index(rows: ObsRows, e: int, m: int) -> int:
    """Return the observation row of a mech, -1 if it is not observed."""
    if rows.fresh[e] == 0:
        return -1
    return rows.row_of[e, m]


@wp.func_native(
    """
    float* columns = row.data + first;
    for (int i = 0; i < count; ++i)
        columns[i] = 0.0f;
    """
)
def clear_columns(row: wp.array(dtype=wp.float32), first: int, count: int):
    """Set ``count`` columns from ``first`` on to 0; native, since Warp's indexing hides that columns are contiguous."""
    ...


@wp.func_native(
    """
    const unsigned int* columns = reinterpret_cast<const unsigned int*>(row.data) + first;
    unsigned int largest = 0;
    for (int i = 0; i < count; ++i) {
        const unsigned int magnitude = columns[i] & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < 0x7f800000u;
    """
)
def all_finite(row: wp.array(dtype=wp.float32), first: int, count: int) -> bool:
    """Whether ``count`` columns from ``first`` on are finite, from their bits; native as ``clear_columns``."""
    ...


@wp.func
def as_flag(condition: bool) -> float:
    if condition:
        return 1.0
    return 0.0


@wp.func
def longest_edge(size: wp.vec3i) -> float:
    """Return the longest edge of a map [vox]."""
    return float(wp.max(size[0], wp.max(size[1], size[2])))


@wp.func
def longest_side(size: wp.vec3i) -> float:
    """Return the longer horizontal edge of a map [vox]."""
    return float(wp.max(size[0], size[1]))


@wp.func
def has_living_target(mechs: Mechs, controls: Controls, e: int, m: int) -> bool:
    j = controls.focus[e, m]
    if j < 0:
        return False
    return mechs.alive[e, j] == 1
