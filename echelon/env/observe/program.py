"""The launches that write an observation row: the ``writers`` of each block of ``echelon.env.layout``."""

from collections.abc import Mapping
from typing import Any

import warp as wp

from echelon.config import EnvConfig
from echelon.env import layout
from echelon.env.observe import acoustics, aiming, blocks, classic, contacts, ego, orders
from echelon.sim.backend import Launch

MECH = "EM"
MODULES = {
    "acoustics": acoustics,
    "aiming": aiming,
    "blocks": blocks,
    "classic": classic,
    "contacts": contacts,
    "ego": ego,
    "orders": orders,
}
"""Modules of kernels, as ``Block.writers`` names them."""


def writer(name: str) -> Any:
    module, _, kernel = name.partition(".")
    return getattr(MODULES[module], kernel)


def observe_launches(cfg: EnvConfig, given: Mapping[str, Any]) -> list[Launch]:
    """Return the launches that write the rows of the configured layout; ``given`` has the mask and the buffers.

    Kernels get the first column of block ``x`` as parameter ``x_at``.
    """
    parts = layout.blocks(cfg)
    low = min(cfg.world.connectivity.clearance_z, cfg.world.size_z)
    constants = {
        "contact_rows": parts[0].rows,
        "low_layers": wp.uint64((1 << low) - 1),
        "checked_columns": checked_columns(parts),
        **{f"{part.name}_at": layout.offset(part.name, parts) for part in parts},
        **given,
    }
    writers = dict.fromkeys(name for part in parts for name in part.writers)
    return [Launch(kernel, MECH, constants) for kernel in (*map(writer, writers), blocks.replace_nonfinite)]


def checked_columns(parts: tuple[layout.Block, ...]) -> wp.vec4i:
    """Return two column ranges [start, end) that hold every block that can be non-finite, contacts excepted."""
    ranges: list[list[int]] = []
    at = parts[0].width
    for part in parts[1:]:
        end = at + part.width
        if part.can_be_nonfinite and ranges and (ranges[-1][1] == at or len(ranges) == 2):
            ranges[-1][1] = end
        elif part.can_be_nonfinite:
            ranges.append([at, end])
        at = end
    ranges += [[0, 0]] * (2 - len(ranges))
    (a, b), (c, d) = ranges
    return wp.vec4i(a, b, c, d)
