"""Named points at which a test may kill the process, to show that a crash there loses nothing.

``ECHELON_FAULT=name`` kills at that point, ``name:3`` the third time it is passed. Unset, a point costs a
dictionary lookup.
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
    "save.after_rename",
    "save.before_prune",
)
"""Every point, in the order a save passes them."""

_passed: dict[str, int] = {}


def fault_point(name: str) -> None:
    """Die here, without any clean-up, when the environment says so."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    point, _, count = wanted.partition(":")
    if point != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
