"""Which kernels write an observation row: a list for each layout, with the column at which each block begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import warp as wp

from echelon.config import EnvConfig
from echelon.env.observe import acoustics as observe_scope
from echelon.env.observe import classic as observe_classic
from echelon.env.observe import columns as observe
from echelon.env.observe import contacts as observe_contacts
from echelon.env.observe import ego as observe_self
from echelon.env.observe import kernels as observe_kernels
from echelon.sim.backend import Launch

MECH = "EM"
BOUNDLESS = ("squad", "squad_mask", "ego", "descriptor", "panel", "comms", "acoustic", "hull", "self", "scope")
"""Blocks with columns that are copied or computed from the state, contacts apart."""


def show(cfg: EnvConfig, given: Mapping[str, Any]) -> list[Launch]:
    """Return the launches that write the rows of this configuration's layout; ``given`` names mask and buffers."""
    blocks = observe.blocks(cfg)
    names = {block.name for block in blocks}
    at = {f"{name}_at": observe.offset(name, blocks) for name in names}
    launches = _classic(at) if cfg.obs_layout == "classic" else _suite(at)
    if "comms" in names:
        launches.append(Launch(observe_kernels.show_messages, MECH, {"comms_at": at["comms_at"]}))
    if "local_map" in names:
        low = min(cfg.world.connectivity.clearance_z, cfg.world.size_z)
        layers = wp.uint64((1 << low) - 1)
        places = {"map_at": at["local_map_at"], "low_layers": layers}
        launches.append(Launch(observe_kernels.show_local_map, MECH, places))
    if "telemetry" in names:
        launches.append(Launch(observe_classic.show_telemetry, MECH, {"telemetry_at": at["telemetry_at"]}))
    if "scope" in names:
        launches.append(Launch(observe_scope.show_scope, MECH, {"scope_at": at["scope_at"]}))
    if "target" in names:
        launches.append(Launch(observe_classic.show_target, MECH, {"target_at": at["target_at"]}))
    launches.append(Launch(observe_kernels.mend_row, MECH, _mending(blocks)))
    return [Launch(launch.kernel, launch.dims, {**launch.given, **given}) for launch in launches]


def _mending(blocks: tuple[observe.Block, ...]) -> dict[str, Any]:
    """Return where a row may hold what is not finite: its contacts, and two ranges of columns."""
    spans: list[list[int]] = []
    at = 0
    for block in blocks:
        if block.name in BOUNDLESS and spans and spans[-1][1] == at:
            spans[-1][1] = at + block.width
        elif block.name in BOUNDLESS:
            spans.append([at, at + block.width])
        at += block.width
    spans += [[0, 0]] * (2 - len(spans))
    (a, b), (c, d) = spans
    return {"rows": blocks[0].rows, "spans": wp.vec4i(a, b, c, d)}


def _suite(at: Mapping[str, int]) -> list[Launch]:
    contacts = {"rows": observe.suite.MAX_CONTACTS, "mask_at": at["contact_mask_at"]}
    return [
        Launch(observe_contacts.show_contacts, MECH, contacts),
        Launch(observe_kernels.show_squad, MECH),
        Launch(observe_self.show_senses, MECH),
        Launch(observe_self.show_body, MECH),
        Launch(observe_self.show_display, MECH),
    ]


def _classic(at: Mapping[str, int]) -> list[Launch]:
    return [
        Launch(observe_contacts.show_contacts, MECH, {"rows": observe.CLASSIC_SLOTS, "mask_at": -1}),
        Launch(observe_classic.show_own_senses, MECH, at),
        Launch(observe_classic.show_own_body, MECH, at),
        Launch(observe_classic.show_own_match, MECH, at),
    ]
