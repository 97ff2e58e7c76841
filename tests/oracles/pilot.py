"""Plain-Python rules of action decoding and of stuck detection."""

import numpy as np

from tests.oracles.shared import MECHS, NO_EWAR, SCOUT, WATER, count, hostile, is_legged, is_shut_down, under

PRIMARY, VENT, SECONDARY, TERTIARY, SPECIAL = 4, 5, 6, 7, 8
COLUMN = {0: PRIMARY, 1: SECONDARY, 2: TERTIARY, 3: SPECIAL}


def decode_action(action: np.ndarray) -> np.ndarray:
    """Return an action as applied: non-finite entries are 0, clipped to [-1, 1], in steps of 1/127."""
    finite = np.where(np.isfinite(action), action, 0.0).astype(np.float32)
    return np.rint(np.clip(finite, -1, 1) * np.float32(127)) / np.float32(127)


def read_actions(s, switched: bool = True) -> None:
    """Set the controls of a decision from ``s.actions``; ``switched`` enables the optional features."""
    s.acting[:] = s.alive
    s.bad_actions[:] = (~np.isfinite(s.actions)).sum(axis=1)
    for m in range(count(s)):
        a = decode_action(s.actions[m]) * s.alive[m]
        s.drive[m], s.vent[m] = a[:4], a[VENT] > 0
        s.trigger[m] = sum((a[column] > 0) << bit for bit, column in COLUMN.items())
        s.focus[m], s.focus_slot[m], s.ecm[m], s.eccm[m] = -1, -1, 0, 0
        if not s.alive[m] or not switched:
            continue
        slot = int(np.argmax(a[9:14]))
        target = int(s.contact[m][slot])
        if a[9 + slot] > 0 and target >= 0 and s.alive[target] and hostile(s, m, target):
            s.focus[m], s.focus_slot[m] = target, slot
        if s.chassis[m] == SCOUT and not s.withheld & NO_EWAR:
            half = 64 / 127  # decoded 0.5
            s.eccm[m], s.ecm[m] = a[SECONDARY] > half + 1e-4, 0 < a[SECONDARY] <= half + 1e-4
        s.sort_mode[m], s.hostile_only[m] = int(np.argmax(a[14:17])), a[17] > 0


def is_without_progress(s, m: int, moved: float, throttle: float, dt_act: float) -> bool:
    """Return whether a mech that commanded ``throttle`` and moved ``moved`` [vox] in a decision made no progress."""
    speed = 0.98 * MECHS[s.chassis[m]].speed * min(1.0, throttle)
    speed *= (0.4 if is_legged(s, m) else 1) * (0.6 if under(s, m) == WATER else 1)
    able = throttle >= 0.2 and not s.fallen[m] and not is_shut_down(s, m)
    return bool(able and moved / dt_act < 0.25 * speed)
