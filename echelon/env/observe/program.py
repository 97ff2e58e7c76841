"""Which kernels write an observation row: a list for each layout, with the column at which each block begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import warp as wp

from echelon.config import EnvConfig
from echelon.env import layout
from echelon.env.observe import acoustics as observe_scope
from echelon.env.observe import classic as observe_classic
from echelon.env.observe import contacts as observe_contacts
from echelon.env.observe import ego as observe_self
from echelon.env.observe import kernels as observe_kernels
from echelon.sim.backend import Launch

MECH = "EM"

def show(cfg: EnvConfig, given: Mapping[str, Any]) -> list[Launch]:
    """Return the launches that write the rows of this configuration's layout; ``given`` names mask and buffers."""
    blocks = layout.blocks(cfg)
    names = {block.name for block in blocks}
    at = {f"{name}_at": layout.offset(name, blocks) for name in names}
    launches = _classic(at) if cfg.obs_layout == "classic" else _suite(at)
    if "comms" in names:
        launches.append(Launch(observe_kernels.write_messages, MECH, {"comms_at": at["comms_at"]}))
    if "local_map" in names:
        low = min(cfg.world.connectivity.clearance_z, cfg.world.size_z)
        layers = wp.uint64((1 << low) - 1)
        places = {"map_at": at["local_map_at"], "low_layers": layers}
        launches.append(Launch(observe_kernels.write_local_map, MECH, places))
    if "telemetry" in names:
        launches.append(Launch(observe_classic.write_telemetry, MECH, {"telemetry_at": at["telemetry_at"]}))
    if "scope" in names:
        launches.append(Launch(observe_scope.write_scope, MECH, {"scope_at": at["scope_at"]}))
    if "target" in names:
        launches.append(Launch(observe_classic.write_target, MECH, {"target_at": at["target_at"]}))
    launches.append(Launch(observe_kernels.replace_nonfinite, MECH, _checked_columns(blocks)))
    return [Launch(launch.kernel, launch.dims, {**launch.given, **given}) for launch in launches]


def _checked_columns(blocks: tuple[layout.Block, ...]) -> dict[str, Any]:
    """Return where a row may hold non-finite entries besides its contacts, as two ranges of columns."""
    spans: list[list[int]] = []
    at = blocks[0].width
    for block in blocks[1:]:
        end = at + block.width
        if block.can_be_nonfinite and spans and (spans[-1][1] == at or len(spans) == 2):
            spans[-1][1] = end
        elif block.can_be_nonfinite:
            spans.append([at, end])
        at = end
    spans += [[0, 0]] * (2 - len(spans))
    (a, b), (c, d) = spans
    return {"rows": blocks[0].rows, "spans": wp.vec4i(a, b, c, d)}


def _suite(at: Mapping[str, int]) -> list[Launch]:
    contacts = {"rows": layout.MAX_CONTACTS, "mask_at": at["contact_mask_at"]}
    return [
        Launch(observe_contacts.write_contacts, MECH, contacts),
        Launch(observe_kernels.write_squad, MECH),
        Launch(observe_self.write_ego_senses, MECH),
        Launch(observe_self.write_ego_state, MECH),
        Launch(observe_self.write_descriptor_and_panel, MECH),
    ]


def _classic(at: Mapping[str, int]) -> list[Launch]:
    return [
        Launch(observe_contacts.write_contacts, MECH, {"rows": layout.CLASSIC_SLOTS, "mask_at": -1}),
        Launch(observe_classic.write_self_senses, MECH, at),
        Launch(observe_classic.write_self_state, MECH, at),
        Launch(observe_classic.write_self_match, MECH, at),
    ]
