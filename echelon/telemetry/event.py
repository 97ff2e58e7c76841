"""Base class of the records of jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all records."""

    kind: ClassVar[str] = ""
    time: float = field(default_factory=time.time)
    """Time of writing [s since the epoch]."""
