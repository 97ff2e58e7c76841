"""Named points at which a test may kill the process, to show that a crash there loses nothing.

``ECHELON_FAULT=name`` kills at that point, ``name:3`` the third time it is passed, ``name:3:TERM`` sends another signal
there. Unset, a point costs a dictionary lookup.
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
"""Every point of a save, in the order it passes them."""

TRAIN_POINTS = ("train.rollout", "train.update")
"""Points of an update: before its first decision, and between rollout and learning."""

_passed: dict[str, int] = {}


def fault_point(name: str) -> None:
    """Die here, without any clean-up, or take another signal, when the environment says so."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    point, _, rest = wanted.partition(":")
    count, _, sent = rest.partition(":")
    if point != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.Signals[f"SIG{sent or 'KILL'}"])
