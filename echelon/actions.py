"""The action vector of a mech: nine controls, five target preferences, four display controls, then comms.

``action_dim(comm_dim)`` gives the whole width; slices are named here and nowhere else.
"""

from __future__ import annotations

from enum import IntEnum


class ActionIndex(IntEnum):
    """Columns of the base controls; all in [-1, 1], triggers fire above 0."""

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
ACTION_DIM = BASE_ACTION_DIM
EWAR_DIM = 0
"""Electronic warfare has no columns of its own: scouts use SECONDARY."""
TARGET_START = BASE_ACTION_DIM
TARGET_DIM = 5
OBS_CTRL_START = TARGET_START + TARGET_DIM + EWAR_DIM
OBS_SORT_DIM = 3
OBS_CTRL_DIM = OBS_SORT_DIM + 1
HOSTILE_ONLY = OBS_CTRL_START + OBS_SORT_DIM
COMM_START = OBS_CTRL_START + OBS_CTRL_DIM

TRIGGER_NAMES = ("primary", "vent", "secondary", "tertiary", "special")
TRIGGER_COLUMNS = (4, 5, 6, 7, 8)
"""Columns of the triggers; a scout's secondary is its electronic warfare."""
RATED_CONTROLS = {**dict(zip(TRIGGER_NAMES, TRIGGER_COLUMNS, strict=True)), "jets": 2, "hostile_only": HOSTILE_ONLY}
"""Controls that are on above 0 and whose rate of use is reported per class, with their columns."""


def action_names(comm_dim: int = 8) -> tuple[str, ...]:
    """Return a name for every entry of an action."""
    return (
        *(index.name.lower() for index in ActionIndex),
        *(f"target_{slot}" for slot in range(TARGET_DIM)),
        *(f"sort_{order}" for order in ("closest", "biggest", "damaged")),
        "hostile_only",
        *(f"message_{i}" for i in range(comm_dim)),
    )


def action_dim(comm_dim: int = 8) -> int:
    """Return the width of a whole action with ``comm_dim`` message floats."""
    return COMM_START + comm_dim


def size_error(agent: str, got: int, comm_dim: int) -> str:
    """Say what is wrong with an action of width ``got`` and how the width is made up."""
    return (
        f"action of {agent} has {got} values, expected {action_dim(comm_dim)}: base={BASE_ACTION_DIM} "
        f"target={TARGET_DIM} ewar={EWAR_DIM} obs_ctrl={OBS_CTRL_DIM} comm={comm_dim}"
    )
