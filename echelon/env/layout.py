"""Observation layouts: every column by name, with bounds and whether it may be normalized.

This is the one table of what a policy observes. Widths, offsets, the observation space, the published column table
and the constants that kernels write by (``position``) are derived from it; it loads neither torch nor Warp.

- The suite layout is ``SUITE_CORE``, 706 columns that ``CombatSuiteActorCritic`` splits by ``FLAT_BLOCKS``, followed by
  optional blocks (``suite_tail``): the local map, then ``OPTIONAL_BLOCKS``. Every row ends with
  ``END_BLOCKS``.
- The classic layout is ``classic_blocks``, 549 columns: a table of its own, of which ``OPTIONAL_BLOCKS`` are not part,
  except the telemetry map, which it always has, the chosen target (``observe_target``) and orders (``observe_orders``).

All relative vectors are in the heading frame of the observing mech. Distances are in units of the map's longest edge;
those of ``END_BLOCKS`` in units of ``RANGE_VOX``, whatever the map.

To add a column, add a ``Feature`` to a block here and write it in a kernel of the block's ``writers``. To add an
optional block, add a row to ``OPTIONAL_BLOCKS``, its kernel in ``echelon/env/observe``, and its ``config_field`` to
``EnvConfig``. A stored policy reads only rows with the columns that it was trained with.
``tests/env/test_completeness.py`` names what is missing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.actions import ORDER_NAMES, TARGET_DIM
from echelon.config import EnvConfig, RunConfig
from echelon.config.game import require

MAX_CONTACTS = 20
"""Contact rows of the suite layout."""
MAX_SQUAD = 12
"""Squad rows of the suite layout."""
CLASSIC_SLOTS = TARGET_DIM
"""Contact rows of the classic layout: the slots that target preferences can select."""
LOCAL_MAP_R = 5
LOCAL_MAP_SIDE = 2 * LOCAL_MAP_R + 1
TELEMETRY_SIDE = 16
"""Bins of the telemetry map along each edge."""
MIN_MAP_EDGE = 20
"""Shortest edge that a map may have [vox]; it bounds distances in map edges."""
SECTORS = ("ahead", "right", "behind", "left")
"""Sectors of the acoustic scope, in order; each spans a quarter turn around its direction."""
CLASSES = ("scout", "light", "medium", "heavy")
ZONE_RADIUS_SPREAD = 1.5
"""Largest zone radius over the mean one."""

RANGE_VOX = 15.0
"""Distance that reads 1 in the absolute distances of ``END_BLOCKS`` [vox]; about twice the range of a laser."""
MAX_RANGE = 8.0
"""Value at which absolute distances saturate: 120 vox."""


EDGES, FLAG, SHARE, SIGNED, RANGES = "map edges", "flag", "share", "signed share", f"{RANGE_VOX:g} vox"
"""Units of columns."""


class Feature(NamedTuple):
    """One column of a block: name, bounds, whether running statistics may normalize it, and unit."""

    name: str
    low: float = 0.0
    high: float = 1.0
    normalizable: bool = True
    unit: str = SHARE


def flags(*names: str) -> tuple[Feature, ...]:
    """Return 0/1 columns, which are never normalized."""
    return tuple(Feature(name, 0.0, 1.0, False, FLAG) for name in names)


def signed(*names: str) -> tuple[Feature, ...]:
    """Return columns in [-1, 1]."""
    return tuple(Feature(name, -1.0, 1.0, unit=SIGNED) for name in names)


def ranges(*names: str) -> tuple[Feature, ...]:
    return tuple(Feature(name, 0.0, MAX_RANGE, unit=RANGES) for name in names)


def shares(*names: str) -> tuple[Feature, ...]:
    return tuple(Feature(name) for name in names)


@dataclass(frozen=True)
class Block:
    """A run of columns: ``rows`` times the same features."""

    name: str
    rows: int
    features: tuple[Feature, ...]
    writers: tuple[str, ...]
    """Kernels that write the block, in launch order: ``module.kernel`` in ``echelon.env.observe``."""
    can_be_nonfinite: bool = True
    """Whether an entry may be NaN or infinite before ``replace_nonfinite`` checks it; masks and maps cannot."""
    config_field: str = ""
    """Field of ``EnvConfig`` that includes the block; empty where the layout always has it."""

    @property
    def width(self) -> int:
        return self.rows * len(self.features)


CONTACT = (
    Feature("ahead", -1.5, 1.5, unit=EDGES),
    Feature("left", -1.5, 1.5, unit=EDGES),
    Feature("up", -1.0, 1.0, unit=EDGES),
    *signed("vel_ahead", "vel_left", "vel_up", "yaw_sin", "yaw_cos"),
    *shares("hull", "heat", "stability"),
    *flags("fallen", "legged", "friendly", "hostile", "neutral"),
    *flags(*CLASSES, "painted", "valid"),
    *signed("lead_pitch", "closing"),
    *shares("crossing"),
)
SQUAD = (
    *signed("bearing_sin", "bearing_cos"),
    Feature("distance", 0.0, 1.75, unit=EDGES),
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
    Feature("ewar", -1.0, 1.0, False, SIGNED),
    *shares("suppressed"),
    *signed("vel_ahead", "vel_left", "vel_up"),
    *shares("laser_cooldown", "missile_cooldown", "kinetic_cooldown", "painter_cooldown"),
    *flags("in_zone"),
    Feature("zone_ahead", -1.5, 1.5, unit=EDGES),
    Feature("zone_left", -1.5, 1.5, unit=EDGES),
    *signed("zone_control"),
    *shares("my_score", "enemy_score", "time", "display_mode"),
)
"""State of the observing mech.

The cooldown columns are of shared timers (``Cooldown`` in ``echelon/sim/arsenal.py``): each is that of every carried
weapon on its timer, and a new weapon adds none. ``laser_cooldown`` is of LASER, ``missile_cooldown`` of LAUNCHER (1 is
the missile's cooldown), ``kinetic_cooldown`` of KINETIC (1 is the longest cooldown of a carried weapon on it),
``painter_cooldown`` of PAINTER.
"""
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

SUITE_CORE: tuple[Block, ...] = (
    Block("contacts", MAX_CONTACTS, CONTACT, ("contacts.write_contacts",)),
    Block("contact_mask", MAX_CONTACTS, flags("padding"), ("contacts.write_contacts",), can_be_nonfinite=False),
    Block("squad", MAX_SQUAD, SQUAD, ("blocks.write_squad",)),
    Block("squad_mask", MAX_SQUAD, flags("padding"), ("blocks.write_squad",)),
    Block("ego", 1, EGO, ("ego.write_ego_senses", "ego.write_ego_state")),
    Block("descriptor", 1, DESCRIPTOR, ("ego.write_descriptor_and_panel",)),
    Block("panel", 1, PANEL, ("ego.write_descriptor_and_panel", "blocks.write_squad")),
)
"""Blocks of the suite layout that every configuration has; a mask is 1 for padding and 0 for a filled row."""
ENTITY_MASKS = frozenset({"contact_mask", "squad_mask"})
"""Blocks of the core that say which contacts and packmates exist."""
SLOT = re.compile(r"\[\d+\]")
"""Slot in the name of a column."""

LOCAL_MAP = Block(
    "local_map",
    LOCAL_MAP_SIDE**2,
    flags("blocked"),
    ("blocks.write_local_map",),
    can_be_nonfinite=False,
    config_field="observe_local_map",
)
TELEMETRY = Block(
    "telemetry",
    TELEMETRY_SIDE**2,
    flags("blocked"),
    ("blocks.write_telemetry",),
    can_be_nonfinite=False,
    config_field="observe_telemetry",
)
SCOPE = Block(
    "scope",
    1,
    shares(*SECTORS) + signed(*(f"{name}_change" for name in SECTORS)),
    ("acoustics.write_scope",),
    config_field="observe_scope",
)
TARGET = Block(
    "target",
    1,
    flags(*(f"slot_{i}" for i in range(TARGET_DIM)), "locked"),
    ("blocks.write_target",),
    can_be_nonfinite=False,
    config_field="observe_target",
)
ORDERS = Block(
    "orders",
    1,
    flags(*ORDER_NAMES[1:]) + signed("sin", "cos") + ranges("range"),
    ("orders.write_orders",),
    can_be_nonfinite=False,
    config_field="observe_orders",
)
"""Order of the mech, and direction and distance of the centre of its goal; zeros without one."""
OPTIONAL_BLOCKS: tuple[Block, ...] = (TELEMETRY, SCOPE, TARGET, ORDERS)
"""Blocks at the end of the suite layout's tail; each is included by its ``config_field``."""

AIMING = (
    *ranges("range"),
    *shares("near"),
    *signed("bearing_sin", "bearing_cos", "bearing_fine"),
    *flags("in_reach", "own_target"),
    *shares("pack_targets"),
)
"""What a pilot aims by, for each contact row.

``range`` is the absolute distance, ``near`` falls from 1 with it. The bearing is relative to the hull; its fine part is
0 straight ahead, -1 or 1 from 12 degrees on, and 0 for a contact behind. ``in_reach`` marks contacts within the longest
gun range of the mech, ``own_target`` the one that its last action chose; ``pack_targets`` is the fraction of packmates
whose last action chose the contact.
"""
COURSE = (
    *ranges("zone_range"),
    *signed("zone_sin", "zone_cos"),
    *ranges("zone_radius"),
    *signed("path_sin", "path_cos"),
    *ranges("path_length"),
)
"""The zone, and the path to it that scripted pilots walk: its direction a few cells ahead, and its length."""
END_BLOCKS: tuple[Block, ...] = (
    Block("aiming", MAX_CONTACTS, AIMING, ("aiming.write_aiming",), can_be_nonfinite=False),
    Block("course", 1, COURSE, ("aiming.write_course",), can_be_nonfinite=False),
)
"""Blocks at the end of every row of the suite layout, after the optional ones."""
END_WIDTH = sum(block.width for block in END_BLOCKS)

CONTACT_DIM = len(CONTACT)
SQUAD_DIM = len(SQUAD)
EGO_DIM = len(EGO)
SUITE_DESCRIPTOR_DIM = len(DESCRIPTOR)
PANEL_DIM = len(PANEL)

_NETWORK_NAMES = {"ego": "ego_state", "descriptor": "suite_descriptor", "panel": "panel_stats"}
"""Blocks that ``SuiteObservation`` calls by another name."""
FLAT_BLOCKS: tuple[tuple[str, int], ...] = tuple(
    (_NETWORK_NAMES.get(block.name, block.name), block.width) for block in SUITE_CORE
)
"""Name and width of each block of the core as ``SuiteObservation`` calls them, in order."""
FLAT_OBS_DIM = sum(width for _, width in FLAT_BLOCKS)
"""Width of the suite layout's core; the optional tail follows it."""


def flat_offsets() -> dict[str, tuple[int, int]]:
    """Return the first and one-past-last column of every block of the core, by the names of ``FLAT_BLOCKS``."""
    offsets, start = {}, 0
    for name, length in FLAT_BLOCKS:
        offsets[name] = (start, start + length)
        start += length
    return offsets


def _included(cfg: EnvConfig, blocks: Iterable[Block]) -> tuple[Block, ...]:
    return tuple(block for block in blocks if not block.config_field or getattr(cfg, block.config_field, False))


def suite_tail(cfg: EnvConfig) -> tuple[Block, ...]:
    """Return the optional blocks after the suite layout's core: local map, then ``OPTIONAL_BLOCKS``."""
    return _included(cfg, (LOCAL_MAP, *OPTIONAL_BLOCKS))


def extra_width(cfg: EnvConfig) -> int:
    return sum(block.width for block in _included(cfg, OPTIONAL_BLOCKS))


def self_features(max_zone_height: float = 1.0, max_zone_radius: float = 1.0) -> tuple[Feature, ...]:
    """Return the 39 self scalars of the classic layout; the arguments bound two of them, in map edges."""
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
        Feature("zone_ahead", -1.5, 1.5, unit=EDGES),
        Feature("zone_left", -1.5, 1.5, unit=EDGES),
        Feature("zone_up", -max_zone_height, 0.0, unit=EDGES),
        Feature("zone_radius", 0.0, max_zone_radius, unit=EDGES),
        *signed("zone_control"),
        *shares("my_score", "enemy_score", "time"),
        *flags("sort_closest", "sort_biggest", "sort_damaged", "hostile_only"),
    )


ACOUSTIC = shares("front_left", "front_right", "rear_left", "rear_right")
SELF_WRITERS = ("classic.write_self_senses", "classic.write_self_state", "classic.write_self_match")


def classic_blocks(cfg: EnvConfig) -> tuple[Block, ...]:
    """Return the blocks of the classic layout, 549 columns."""
    zone_height = cfg.world.size_z / MIN_MAP_EDGE
    zone_radius = max(1.0, ZONE_RADIUS_SPREAD * cfg.zone_radius_vox / MIN_MAP_EDGE)
    return (
        Block("contacts", CLASSIC_SLOTS, CONTACT, ("contacts.write_contacts",)),
        LOCAL_MAP,
        TELEMETRY,
        Block("acoustic", 1, ACOUSTIC, ("classic.write_self_senses",)),
        Block("hull", 1, flags(*CLASSES), ("classic.write_self_senses",)),
        Block("self", 1, self_features(zone_height, zone_radius), SELF_WRITERS),
        *_included(cfg, (TARGET, ORDERS)),
    )


def blocks(cfg: EnvConfig) -> tuple[Block, ...]:
    if cfg.obs_layout == "classic":
        return classic_blocks(cfg)
    return SUITE_CORE + suite_tail(cfg) + END_BLOCKS


def offset(name: str, of: tuple[Block, ...] = SUITE_CORE) -> int:
    at = 0
    for block in of:
        if block.name == name:
            return at
        at += block.width
    raise ValueError(f"observation block {name!r} does not exist (have: {', '.join(b.name for b in of)})")


def position(features: tuple[Feature, ...], start: int = 0) -> Any:
    """Return a class with the column of each feature as an attribute, counted from ``start``: ``position(EGO).hull``.

    Kernels index rows by it, since Warp takes integer attributes of a class as constants. A Python keyword gets a
    trailing underscore: ``class_``.
    """
    names = (f.name + "_" if iskeyword(f.name) else f.name for f in features)
    return type("Columns", (), {name: start + i for i, name in enumerate(names)})


def obs_dim(cfg: EnvConfig) -> int:
    return sum(block.width for block in blocks(cfg))


class ObservationColumn(NamedTuple):
    """One column of an observation."""

    index: int
    name: str
    low: float
    high: float
    normalizable: bool
    unit: str


@lru_cache(maxsize=16)
def columns(cfg: EnvConfig) -> tuple[ObservationColumn, ...]:
    found: list[ObservationColumn] = []
    for block in blocks(cfg):
        for r in range(block.rows):
            prefix = block.name if block.rows == 1 else f"{block.name}[{r}]"
            for f in block.features:
                found.append(ObservationColumn(len(found), f"{prefix}.{f.name}", *f[1:]))
    return tuple(found)


def hidden_columns(config: RunConfig) -> list[int]:
    """Return the columns of an observation that ``model.hidden_columns`` hides from the network.

    A pattern that matches no column, or a mask of entities, raises ``ValueError``.
    """
    names = np.array([SLOT.sub("", column.name) for column in columns(config.env)])
    hidden = np.zeros(len(names), bool)
    for pattern in config.model.hidden_columns.split():
        found = [fnmatchcase(name, pattern) or fnmatchcase(name.partition(".")[0], pattern) for name in names]
        require(any(found), "model.hidden_columns", pattern, "a name that 'echelon config observation' lists")
        hidden |= found
    for mask in sorted({str(name) for name in names[hidden] if name.partition(".")[0] in ENTITY_MASKS}):
        require(False, "model.hidden_columns", mask, "columns without masks of contacts and packmates")
    return np.flatnonzero(hidden).tolist()


def bounds(cfg: EnvConfig) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the lowest and highest value of every column ``[D]``."""
    table = columns(cfg)
    return np.array([column.low for column in table], np.float32), np.array([c.high for c in table], np.float32)


def tail_widths(config: RunConfig, obs_dim: int) -> tuple[int, int]:
    """Return the columns of local map and extras in a suite row of ``obs_dim``; zeros for another layout."""
    if config.model.kind != "suite":
        return 0, 0
    extras = extra_width(config.env)
    return obs_dim - FLAT_OBS_DIM - extras - END_WIDTH, extras
