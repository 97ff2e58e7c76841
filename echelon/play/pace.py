"""When the ticks of a match are due."""

from __future__ import annotations

from dataclasses import dataclass, field

BEHIND_S = 0.25
"""Delay above which ticks are not caught up with [s]."""


@dataclass
class Pace:
    """Pause, speed, and when the next tick is due."""

    paused: bool = False
    speed: float = 1.0
    due: float = field(default=0.0)

    def delay(self, now: float, tick_s: float) -> float:
        """Return the wait until the next tick [s]; time that was lost is not caught up with beyond ``BEHIND_S``."""
        step = tick_s / self.speed
        self.due = self.due + step if now - self.due < BEHIND_S else now
        return max(0.0, min(self.due, now + step) - now)
