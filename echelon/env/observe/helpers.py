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
    obs = Field(wp.float32, "TND", "observations; of bfloat16 by its strides")


@wp.func
def row_index(rows: ObsRows, e: int, m: int) -> int:
    """Return the observation row of a mech, -1 if it is not observed."""
    if rows.fresh[e] == 0:
        return -1
    return rows.row_of[e, m]


@wp.func_native(
    """
    if (row.strides[0] == sizeof(float))
        row.data[column] = value;
    else
        reinterpret_cast<wp::bfloat16*>(row.data)[column] = wp::bfloat16(value);
    """
)
def put(row: wp.array(dtype=wp.float32), column: int, value: float):
    """Write a column of a row of float32, or of bfloat16, which the stride tells."""
    ...


@wp.func_native(
    """
    if (row.strides[0] == sizeof(float))
        return row.data[column];
    return float(reinterpret_cast<const wp::bfloat16*>(row.data)[column]);
    """
)
def read(row: wp.array(dtype=wp.float32), column: int) -> float: ...


@wp.func_native(
    """
    if (row.strides[0] == sizeof(float))
        for (int i = 0; i < count; ++i)
            row.data[first + i] = 0.0f;
    else
        for (int i = 0; i < count; ++i)
            reinterpret_cast<unsigned short*>(row.data)[first + i] = 0;
    """
)
def clear_columns(row: wp.array(dtype=wp.float32), first: int, count: int):
    """Set ``count`` columns from ``first`` on to 0; native, since Warp's indexing hides that columns are contiguous."""
    ...


@wp.func_native(
    """
    unsigned int largest = 0;
    for (int i = first; i < first + count; ++i) {
        const unsigned int bits = row.strides[0] == sizeof(float)
            ? reinterpret_cast<const unsigned int*>(row.data)[i]
            : reinterpret_cast<const unsigned short*>(row.data)[i] << 16;
        const unsigned int magnitude = bits & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < 0x7f800000u;
    """
)
def all_finite(row: wp.array(dtype=wp.float32), first: int, count: int) -> bool:
    """Whether ``count`` columns from ``first`` on are finite, from their bits; native as ``clear_columns``."""
    ...


def float_rows(array: wp.array) -> wp.array:
    """Return rows of float32 or bfloat16 as the kernels take them: elements of float32, strides of their own."""
    view = wp.array(
        ptr=array.ptr, dtype=wp.float32, shape=array.shape, strides=array.strides, device=array.device, copy=False
    )
    view._ref = array
    return view


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
