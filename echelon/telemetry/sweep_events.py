"""Records of a sweep: its trials and their rungs, in its journal and among its metrics."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar

from echelon.telemetry.event import Event, record


@record
class EventTrial(Event):
    """A sweep has chosen the options of a trial; written before the trial's run exists."""

    kind: ClassVar[str] = "trial"
    number: int
    """Number of the trial in its sweep, from 0."""
    run: str = ""
    """Id of its run."""
    params: dict[str, Any] = field(default_factory=dict)
    """Value of each changed option by dotted key."""
    seed: int = 0
    """Seed of its training run."""
    name: str = ""
    """Name of the configuration that it repeats with another seed; empty for a trial of the search."""


@record
class EventRung(Event):
    """A trial of a sweep has started towards a rung, or has reached it."""

    kind: ClassVar[str] = "rung"
    trial: int
    """Number of the trial."""
    rung: int
    """Number of the rung, from 0."""
    state: str
    """started, evaluated or failed."""
    global_step: int = 0
    """Learner agent-steps at the evaluation."""
    value: float = math.nan
    """Metric of the sweep; NaN unless evaluated."""
    low: float = math.nan
    """Lower bound of its 95 % confidence interval where the metric is a win rate."""
    high: float = math.nan
    hp_margin: float = math.nan
    """Mean difference of the remaining hit point fractions, which orders equal values."""
    opponent: str = ""
    """Opponent of the evaluation."""
    message: str = ""
    """Cause of a failure."""
    done: int = 0
    """Learner agent-steps of the rungs reached so far by all trials."""
    planned: int = 0
    """The same at the end of the sweep."""

    @property
    def progress(self) -> float:
        """Completed fraction of the sweep, 0 to 1; 0 where its length is unknown."""
        return min(1.0, self.done / self.planned) if self.planned > 0 else 0.0
