"""Schedule of a sweep: its next step, as a pure function of the plan and the journal.

A trial trains to a rung, is evaluated, and goes on to the next rung if it is among the best there. With synchronous
rungs (successive halving) the trials of a bracket wait for each other, so the result does not depend on timing;
without (ASHA, Li et al., 2020) a trial goes on as soon as it is among the best so far. Then the best trials, and the
configuration without any varied option, are trained with other seeds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from echelon.jobs.sweeps.plan import BASELINE, MAX_RUNGS, SweepPlan
from echelon.telemetry.event import Event
from echelon.telemetry.events import EventRung, EventTrial

RUN_NAME = re.compile(r"(\w[\w.-]*)?")
"""Run ids in a journal, which name folders beside the sweep's and nothing else."""
STARTED, EVALUATED, FAILED = "started", "evaluated", "failed"
"""States of a rung record."""


@dataclass(kw_only=True)
class Trial:
    """A trial as the journal has it."""

    choice: EventTrial
    started: set[int] = field(default_factory=set)
    """Rungs towards which it has been started."""
    results: dict[int, EventRung] = field(default_factory=dict)
    """Result by rung, evaluated or failed."""

    @property
    def number(self) -> int:
        return self.choice.number

    @property
    def is_final(self) -> bool:
        """Whether it repeats a trial, or the unchanged configuration, with another seed."""
        return self.choice.origin >= 0 or self.choice.name == BASELINE

    @property
    def open_rung(self) -> int | None:
        """Rung that it has been started for and has not reached; None where it is not running."""
        return next(iter(sorted(self.started - self.results.keys())), None)

    @property
    def failed(self) -> bool:
        return any(result.state == FAILED for result in self.results.values())

    @property
    def last(self) -> EventRung | None:
        """Result of the last rung at which it was evaluated."""
        found = [rung for rung, result in self.results.items() if result.state == EVALUATED]
        return self.results[max(found)] if found else None

    def order_at(self, rung: int) -> tuple[float, float, int]:
        """Return the sort key at a rung: best value first, equal ones by hit point margin, then by number."""
        result = self.results[rung]
        value, margin = (x if math.isfinite(x) else -math.inf for x in (result.value, result.hp_margin))
        return -value, -margin, self.number


class Journal:
    """The trials of a sweep by number, from the records of its journal; rungs beyond those of the plan are left out."""

    def __init__(self, events: Iterable[Event] = (), rungs: int = MAX_RUNGS) -> None:
        self.trials: dict[int, Trial] = {}
        self._rungs = range(rungs)
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Add one record; one that is there already changes nothing."""
        if isinstance(event, EventTrial) and RUN_NAME.fullmatch(event.run):
            self.trials.setdefault(event.number, Trial(choice=event))
        elif isinstance(event, EventRung) and event.trial in self.trials and event.rung in self._rungs:
            trial = self.trials[event.trial]
            trial.started.add(event.rung)
            if event.state != STARTED:
                trial.results.setdefault(event.rung, event)

    @property
    def search(self) -> list[Trial]:
        """The trials of the search, in order."""
        return [self.trials[number] for number in sorted(self.trials) if not self.trials[number].is_final]

    @property
    def finals(self) -> list[Trial]:
        """The runs of the final stage, in order."""
        return [self.trials[number] for number in sorted(self.trials) if self.trials[number].is_final]

    @property
    def running(self) -> list[Trial]:
        """Trials that have been started for a rung that they have not reached."""
        return [trial for _, trial in sorted(self.trials.items()) if trial.open_rung is not None]

    def done_steps(self, plan: SweepPlan) -> int:
        """Return the learner agent-steps of the rungs that trials have reached."""
        steps = plan.rung_steps
        return sum(steps[max(trial.results)] for trial in self.trials.values() if trial.results)


@dataclass(frozen=True)
class Start:
    """Start or resume a trial towards a rung."""

    trial: int
    rung: int


@dataclass(frozen=True)
class Choose:
    """Choose the options of the next trial of the search, in a bracket."""

    bracket: int


@dataclass(frozen=True)
class Repeat:
    """Add a final run: a trial of the search, or -1 for the unchanged configuration, with another seed."""

    origin: int
    number: int
    """Number of the seed among the final seeds."""


@dataclass(frozen=True)
class Wait:
    """Nothing can start before a running trial reaches its rung."""


@dataclass(frozen=True)
class Done:
    """The sweep is complete."""


Step = Start | Choose | Repeat | Wait | Done


def next_step(plan: SweepPlan, journal: Journal) -> Step:
    """Return the next step of a sweep."""
    return search_step(plan, journal) or _next_of_finals(plan, journal)


def search_step(plan: SweepPlan, journal: Journal) -> Step | None:
    """Return the next step of the search; None once it has ended."""
    return _next_of_asha(plan, journal) if plan.pruning == "asha" else _next_of_brackets(plan, journal)


def _next_of_brackets(plan: SweepPlan, journal: Journal) -> Step | None:
    """Return the next step of synchronous successive halving, bracket after bracket; None once all have ended."""
    for bracket, size in enumerate(plan.bracket_sizes):
        members = [trial for trial in journal.search if trial.choice.bracket == bracket]
        if len(members) < size:
            return Choose(bracket)
        for rung in range(plan.last_rung + 1):
            if fresh := next((trial for trial in members if rung not in trial.started), None):
                return Start(fresh.number, rung)
            if any(rung not in trial.results for trial in members):
                return Wait()
            members = best(members, rung)[: plan.promoted(len(members))]
    return None


def _next_of_asha(plan: SweepPlan, journal: Journal) -> Step | None:
    """Return the next step of asynchronous successive halving; None once the search has ended.

    A promotion comes first, of the highest rung that has one; else another trial is chosen and started.
    """
    search = journal.search
    if fresh := next((trial for trial in search if not trial.started), None):
        return Start(fresh.number, 0)
    for rung in reversed(range(plan.last_rung)):
        there = [trial for trial in search if rung in trial.results]
        for trial in best(there, rung)[: len(there) // plan.reduction]:
            if rung + 1 not in trial.started:
                return Start(trial.number, rung + 1)
    if len(search) < plan.trials:
        ends = accumulate(plan.bracket_sizes)
        return Choose(next(bracket for bracket, end in enumerate(ends) if len(search) < end))
    return Wait() if any(trial.open_rung is not None for trial in search) else None


def _next_of_finals(plan: SweepPlan, journal: Journal) -> Step:
    """Return the next step of the final stage."""
    finals = journal.finals
    if plan.finalists and not plan.variants:
        origins = [*(trial.number for trial in finalists(plan, journal)), -1]
        expected = [(origin, n) for origin in origins for n in range(plan.final_seeds)] if len(origins) > 1 else []
        existing = {(trial.choice.origin, trial.choice.seed) for trial in finals}
        for origin, number in expected:
            if (origin, plan.final_seed(number)) not in existing:
                return Repeat(origin, number)
    if fresh := next((trial for trial in finals if not trial.started), None):
        return Start(fresh.number, plan.last_rung)
    return Wait() if journal.running else Done()


def best(trials: Sequence[Trial], rung: int) -> list[Trial]:
    """Return the trials evaluated at a rung, best first."""
    there = [trial for trial in trials if rung in trial.results and trial.results[rung].state == EVALUATED]
    return sorted(there, key=lambda trial: trial.order_at(rung))


def finalists(plan: SweepPlan, journal: Journal) -> list[Trial]:
    """Return the trials that the final stage repeats: the best of those that were trained longest."""
    return ranked(journal.search)[: plan.finalists]


def ranked(trials: Iterable[Trial]) -> list[Trial]:
    """Return the evaluated trials, best first: a later rung precedes an earlier one, whatever the values."""
    found = [
        (trial, max(r for r, e in trial.results.items() if e.state == EVALUATED)) for trial in trials if trial.last
    ]
    return [trial for trial, rung in sorted(found, key=lambda pair: (-pair[1], pair[0].order_at(pair[1])))]
