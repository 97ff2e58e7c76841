"""What a pilot is shown, as a table: every column's block, name, bounds and whether it may be normalised.

``FIELDS`` is the core of the suite layout, 706 columns, with a tail of pack messages, local map and extras;
``classic`` gives the blocks of the classic layout. Offsets, widths and the published table derive from them.
``observe_kernels`` fills what both layouts have, ``observe_self`` and ``observe_classic`` the rest of each. All
relative vectors are in the viewer's heading frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.actions import TARGET_DIM
from echelon.config import PACK_SIZE, EnvConfig
from echelon.env import layout as suite

LOCAL_MAP_R = 5
LOCAL_MAP_SIDE = 2 * LOCAL_MAP_R + 1
TELEMETRY_SIDE = 16
"""Bins of the telemetry map along each edge."""
CLASSIC_SLOTS = TARGET_DIM
"""Contact slots of the classic layout: those that target preferences can name."""
SHORTEST_EDGE = 20
"""Shortest edge that a map may have [vox]; distances in map widths are bounded by it."""
SECTORS = ("ahead", "right", "behind", "left")
"""Sectors of the sound scope, in order; each spans a quarter around its direction."""
ZONE_RADIUS_SPREAD = 1.5
"""Largest zone radius over the mean one."""


class Feature(NamedTuple):
    """One column: name, bounds, and whether running statistics may rescale it."""

    name: str
    low: float = 0.0
    high: float = 1.0
    normalizable: bool = True


class Row(NamedTuple):
    """One column of the published table."""

    index: int
    name: str
    low: float
    high: float
    normalizable: bool


def flags(*names: str) -> tuple[Feature, ...]:
    """Return 0/1 columns, which are never normalised."""
    return tuple(Feature(name, 0.0, 1.0, False) for name in names)


def signed(*names: str) -> tuple[Feature, ...]:
    """Return columns in [-1, 1]."""
    return tuple(Feature(name, -1.0, 1.0) for name in names)


def shares(*names: str) -> tuple[Feature, ...]:
    """Return columns in [0, 1]."""
    return tuple(Feature(name) for name in names)


CONTACT = (
    Feature("ahead", -1.5, 1.5),
    Feature("left", -1.5, 1.5),
    *signed("up", "vel_ahead", "vel_left", "vel_up", "yaw_sin", "yaw_cos"),
    *shares("hull", "heat", "stability"),
    *flags("fallen", "legged", "friendly", "hostile", "neutral"),
    *flags("scout", "light", "medium", "heavy", "painted", "valid"),
    *signed("lead_pitch", "closing"),
    *shares("crossing"),
)
SQUAD = (
    *signed("bearing_sin", "bearing_cos"),
    Feature("distance", 0.0, 1.75),
    *flags("alive"),
    *shares("hull", "heat"),
    *flags("engaged"),
    *shares("class", "stability"),
    *flags("primary_ready"),
)
EGO = (
    *shares("noise_front_left", "noise_front_right", "noise_rear_left", "noise_rear_right"),
    *flags("targeted", "under_fire", "painted"),
    *shares("hull", "heat", "stability_risk"),
    *signed("hit_ahead", "hit_left"),
    *flags("missile_inbound"),
    *shares("sensor_quality", "jam"),
    Feature("ewar", -1.0, 1.0, False),
    *shares("suppressed"),
    *signed("vel_ahead", "vel_left", "vel_up"),
    *shares("laser_cooldown", "missile_cooldown", "kinetic_cooldown", "painter_cooldown"),
    *flags("in_zone"),
    Feature("zone_ahead", -1.5, 1.5),
    Feature("zone_left", -1.5, 1.5),
    *signed("zone_control"),
    *shares("my_score", "enemy_score", "time", "display_mode"),
)
DESCRIPTOR = flags(
    "suite_scout", "suite_light", "suite_medium", "suite_heavy", "suite_pack_command", "suite_command",
    "contact_capacity", "sensor_range", "sensor_fidelity", "squad_detail", "sees_engaged", "issues_orders",
    "receives_reports", "intel_rich",
)  # fmt: skip
PANEL = (
    *shares("contacts", "intel", "orders", "squad", "threat_mass", "friendly_mass"),
    *flags("alert"),
    *shares("detail"),
)


@dataclass(frozen=True)
class Block:
    """A run of columns: ``rows`` times the same features."""

    name: str
    rows: int
    features: tuple[Feature, ...]

    @property
    def width(self) -> int:
        """Columns in the block."""
        return self.rows * len(self.features)


FIELDS: tuple[Block, ...] = (
    Block("contacts", suite.MAX_CONTACTS, CONTACT),
    Block("contact_mask", suite.MAX_CONTACTS, flags("padding")),
    Block("squad", suite.MAX_SQUAD, SQUAD),
    Block("squad_mask", suite.MAX_SQUAD, flags("padding")),
    Block("ego", 1, EGO),
    Block("descriptor", 1, DESCRIPTOR),
    Block("panel", 1, PANEL),
)
"""The core of the suite layout; its width is ``suite.FLAT_OBS_DIM``."""


LOCAL_MAP = Block("local_map", LOCAL_MAP_SIDE**2, flags("blocked"))


TELEMETRY = Block("telemetry", TELEMETRY_SIDE**2, flags("blocked"))
SCOPE = Block("scope", 1, shares(*SECTORS) + signed(*(f"{name}_change" for name in SECTORS)))
TARGET = Block("target", 1, flags(*(f"slot_{i}" for i in range(TARGET_DIM)), "locked"))
EXTRAS = ((TELEMETRY, "observe_telemetry"), (SCOPE, "observe_scope"), (TARGET, "observe_target"))
"""Blocks at the end of the suite layout's tail, each with the switch of ``EnvConfig`` that shows it."""


def _comms(cfg: EnvConfig) -> tuple[Block, ...]:
    words = tuple(Feature(f"word_{i}", -1.0, 1.0, False) for i in range(cfg.comm_dim))
    return (Block("comms", PACK_SIZE, words),) if cfg.comm_dim else ()


def tail(cfg: EnvConfig) -> tuple[Block, ...]:
    """Return the optional blocks after the suite layout's core: messages, local map, then the extras."""
    asked = ((LOCAL_MAP, cfg.observe_local_map), *((block, getattr(cfg, dial)) for block, dial in EXTRAS))
    return (_comms(cfg) if cfg.observe_comms else ()) + tuple(block for block, shown in asked if shown)


def extra_width(cfg: EnvConfig) -> int:
    """Return the columns of the suite layout's extras."""
    return sum(block.width for block, dial in EXTRAS if getattr(cfg, dial))


def _own_scalars(cfg: EnvConfig) -> tuple[Feature, ...]:
    """Return the 39 self scalars of the classic layout."""
    return (
        *flags("targeted", "under_fire", "painted", "shutdown", "critical_heat"),
        *shares("hull", "heat", "heat_headroom", "stability_risk"),
        *signed("hit_ahead", "hit_left", "hit_up"),
        *flags("missile_inbound"),
        *shares("sensor_quality", "jam"),
        *flags("ecm", "eccm"),
        *shares("suppressed", "ams_cooldown"),
        *signed("vel_ahead", "vel_left", "vel_up"),
        *shares("laser_cooldown", "missile_cooldown", "kinetic_cooldown", "painter_cooldown"),
        *flags("in_zone"),
        Feature("zone_ahead", -1.5, 1.5),
        Feature("zone_left", -1.5, 1.5),
        Feature("zone_up", -cfg.world.size_z / SHORTEST_EDGE, 0.0),
        Feature("zone_radius", 0.0, max(1.0, ZONE_RADIUS_SPREAD * cfg.zone_radius_vox / SHORTEST_EDGE)),
        *signed("zone_control"),
        *shares("my_score", "enemy_score", "time"),
        *flags("sort_closest", "sort_biggest", "sort_damaged", "hostile_only"),
    )


def classic(cfg: EnvConfig) -> tuple[Block, ...]:
    """Return the blocks of the classic layout: 589 columns with messages of eight words."""
    return (
        Block("contacts", CLASSIC_SLOTS, CONTACT),
        *_comms(cfg),
        LOCAL_MAP,
        TELEMETRY,
        Block("acoustic", 1, shares("front_left", "front_right", "rear_left", "rear_right")),
        Block("hull", 1, flags("scout", "light", "medium", "heavy")),
        Block("self", 1, _own_scalars(cfg)),
        *((TARGET,) if cfg.observe_target else ()),
    )


def blocks(cfg: EnvConfig) -> tuple[Block, ...]:
    """Return every block of this configuration's layout, in order."""
    return classic(cfg) if cfg.obs_layout == "classic" else FIELDS + tail(cfg)


def offset(name: str, of: tuple[Block, ...] = FIELDS) -> int:
    """Return the first column of block ``name``."""
    at = 0
    for block in of:
        if block.name == name:
            return at
        at += block.width
    raise ValueError(f"observation block {name!r} does not exist (have: {', '.join(b.name for b in of)})")


def obs_dim(cfg: EnvConfig) -> int:
    """Return the width of an observation."""
    return sum(block.width for block in blocks(cfg))


@lru_cache(maxsize=16)
def layout(cfg: EnvConfig) -> tuple[Row, ...]:
    """Return the published table: index, name, low, high, normalizable of every column."""
    rows: list[Row] = []
    for block in blocks(cfg):
        for r in range(block.rows):
            prefix = block.name if block.rows == 1 else f"{block.name}[{r}]"
            for f in block.features:
                rows.append(Row(len(rows), f"{prefix}.{f.name}", f.low, f.high, f.normalizable))
    return tuple(rows)


def bounds(cfg: EnvConfig) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the lowest and highest value of every column ``[D]``."""
    table = layout(cfg)
    return np.array([row.low for row in table], np.float32), np.array([row.high for row in table], np.float32)
