"""Benchmarks of ``echelon bench``: scenes that measure simulator, training and league.

``scenes`` lists all scenes and runs them; the other modules implement them by topic; ``phases`` formats timings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Measure = Callable[[], dict[str, Any]]
"""Runs one measurement of a scene and returns its result: ``per_s``, ``unit`` and details."""


@dataclass(frozen=True)
class Setting:
    """Where a scene runs and how large it is."""

    device: str = "cpu"
    """Warp's name of the device."""
    envs: int = 0
    """Environments; 0 takes the number of the scene."""

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"


ON_CPU = Setting()
