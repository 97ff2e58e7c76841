"""The kernels that write an observation row: ``BLOCK_WRITERS`` has those of each block of ``echelon.env.layout``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import warp as wp

from echelon.config import EnvConfig
from echelon.env import layout
from echelon.env.observe import acoustics, blocks, classic, contacts, ego
from echelon.sim.backend import Launch

MECH = "EM"
BLOCK_WRITERS: dict[str, tuple[Any, ...]] = {
    "contacts": (contacts.write_contacts,),
    "contact_mask": (contacts.write_contacts,),
    "squad": (blocks.write_squad,),
    "squad_mask": (blocks.write_squad,),
    "ego": (ego.write_ego_senses, ego.write_ego_state),
    "descriptor": (ego.write_descriptor_and_panel,),
    "panel": (ego.write_descriptor_and_panel, blocks.write_squad),
    "comms": (blocks.write_messages,),
    "local_map": (blocks.write_local_map,),
    "telemetry": (blocks.write_telemetry,),
    "scope": (acoustics.write_scope,),
    "target": (blocks.write_target,),
    "acoustic": (classic.write_self_senses,),
    "hull": (classic.write_self_senses,),
    "self": (classic.write_self_senses, classic.write_self_state, classic.write_self_match),
}
"""Kernels that write each block, in launch order; a kernel gets the first column of block ``x`` as ``x_at``."""


def observe_launches(cfg: EnvConfig, given: Mapping[str, Any]) -> list[Launch]:
    """Return the launches that write the rows of the configured layout; ``given`` has the mask and the buffers."""
    parts = layout.blocks(cfg)
    low = min(cfg.world.connectivity.clearance_z, cfg.world.size_z)
    constants = {
        "contact_rows": parts[0].rows,
        "low_layers": wp.uint64((1 << low) - 1),
        "checked_columns": checked_columns(parts),
        **{f"{part.name}_at": layout.offset(part.name, parts) for part in parts},
        **given,
    }
    kernels = dict.fromkeys(kernel for part in parts for kernel in BLOCK_WRITERS[part.name])
    return [Launch(kernel, MECH, constants) for kernel in (*kernels, blocks.replace_nonfinite)]


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
