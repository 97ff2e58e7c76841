"""Named points at which a test can kill the process, to show that a crash there loses nothing.

``ECHELON_FAULT=name`` kills at that point, ``name:3`` the third time it is passed, ``name:3:TERM`` sends another
signal. The points of an update are ``train.rollout`` (before its first step) and ``train.update`` (after the rollout).
Unset, a point costs a dictionary lookup.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "ECHELON_FAULT"

FAULT_POINTS = (
    "save.begin",
    "save.weights",
    "save.state",
    "save.environment",
    "save.before_manifest",
    "save.half_manifest",
    "save.before_rename",
    "save.moved_away",
    "save.after_rename",
    "save.before_prune",
)
"""Points of a save, in order; ``save.moved_away`` only where the system cannot exchange two folders."""

_passed: dict[str, int] = {}


def fault_point(name: str) -> None:
    """Send this process the signal (KILL by default) that ``ECHELON_FAULT`` sets for point ``name``."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return
    point, _, rest = setting.partition(":")
    count, _, signal_name = rest.partition(":")
    if point != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.Signals[f"SIG{signal_name or 'KILL'}"])
