"""Benchmarks of ``echelon bench``: scenes that measure simulator, training, league, dashboard and server.

``scenes`` lists all scenes and runs them; the other modules implement them by topic; ``phases`` formats timings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Measure = Callable[[], dict[str, Any]]
"""Runs one measurement of a scene and returns its result: ``per_s``, ``unit`` and details."""
