"""What a pilot is shown, as a table: every column's block, name, bounds and whether it may be normalised.

``FIELDS`` is the suite layout: the 706-column core and its tail of pack messages and local map. Offsets, widths and
the published table derive from it; the kernels that fill the columns are in ``observe_kernels``. All relative
vectors are in the viewer's heading frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from echelon.config import PACK_SIZE, EnvConfig
from echelon.rl import suite

LOCAL_MAP_R = 5
LOCAL_MAP_SIDE = 2 * LOCAL_MAP_R + 1


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


def tail(cfg: EnvConfig) -> tuple[Block, ...]:
    """Return the optional blocks after the core."""
    blocks: tuple[Block, ...] = ()
    if cfg.observe_comms and cfg.comm_dim:
        comms = tuple(Feature(f"word_{i}", -1.0, 1.0, False) for i in range(cfg.comm_dim))
        blocks += (Block("comms", PACK_SIZE, comms),)
    if cfg.observe_local_map:
        blocks += (Block("local_map", LOCAL_MAP_SIDE**2, flags("blocked")),)
    return blocks


def blocks(cfg: EnvConfig) -> tuple[Block, ...]:
    """Return every block of this configuration's layout, in order."""
    if cfg.obs_layout != "suite":
        raise ValueError(f"env.obs_layout is {cfg.obs_layout!r}, wanted 'suite', the layout this version builds")
    return FIELDS + tail(cfg)


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


def tail_widths(cfg: EnvConfig) -> tuple[int, int]:
    """Return the widths of the message and map tails, 0 where switched off."""
    width = {block.name: block.width for block in tail(cfg)}
    return width.get("comms", 0), width.get("local_map", 0)


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
