"""The action vector of a mech: nine controls, five target preferences, four display controls. All offsets are here."""

from enum import IntEnum


class ActionIndex(IntEnum):
    """Columns of the base controls, all in [-1, 1]; triggers fire above 0."""

    FORWARD = 0
    STRAFE = 1
    VERTICAL = 2
    YAW_RATE = 3
    PRIMARY = 4
    VENT = 5
    SECONDARY = 6
    TERTIARY = 7
    SPECIAL = 8


BASE_ACTION_DIM = len(ActionIndex)
EWAR_DIM = 0
"""Columns for electronic warfare: none, scouts use SECONDARY."""
TARGET_START = BASE_ACTION_DIM
TARGET_DIM = 5
OBS_CTRL_START = TARGET_START + TARGET_DIM + EWAR_DIM
OBS_SORT_DIM = 3
OBS_CTRL_DIM = OBS_SORT_DIM + 1
HOSTILE_ONLY = OBS_CTRL_START + OBS_SORT_DIM
ACTION_DIM = OBS_CTRL_START + OBS_CTRL_DIM
QUANTISATION_LEVELS = 127
"""Positive levels to which the simulator rounds an entry."""
ECCM_ABOVE = 64.5 / QUANTISATION_LEVELS
"""A scout's SECONDARY above 0 means ECM up to 0.5, level 64, and ECCM from the next level on."""


class Order(IntEnum):
    """Order to a mech, given from outside; FOCUS names a hostile and SCREEN a team mate."""

    NONE = 0
    HOLD = 1
    ADVANCE = 2
    FLANK_LEFT = 3
    FLANK_RIGHT = 4
    FOCUS = 5
    SCREEN = 6
    RETREAT = 7


ORDER_NAMES = tuple(order.name.lower() for order in Order)

SWITCH_NAMES = ("primary", "vent", "secondary", "tertiary", "special")
CHANCES = (*(f"target_{slot}" for slot in range(TARGET_DIM)), "no_target", *SWITCH_NAMES)
"""Choices whose probabilities policies report: targets, which add up to 1, and switches that are on."""
SWITCH_COLUMNS = (4, 5, 6, 7, 8)
"""Columns of the switches; a scout's secondary trigger is its electronic warfare."""
RATED_CONTROLS = {**dict(zip(SWITCH_NAMES, SWITCH_COLUMNS, strict=True)), "jets": 2, "hostile_only": HOSTILE_ONLY}
"""On/off controls (on above 0) and their columns; their rate of use is reported per class."""

ACTION_NAMES = (
    *(index.name.lower() for index in ActionIndex),
    *(f"target_{slot}" for slot in range(TARGET_DIM)),
    *(f"sort_{order}" for order in ("closest", "biggest", "damaged")),
    "hostile_only",
)
