"""Schedule of a sweep: its next step, as a pure function of the plan and the journal.

A trial trains to a rung, is evaluated, and goes on to the next rung if it is among the best there. The trials of a
batch wait for each other at a rung (synchronous successive halving), so the result does not depend on timing. Then the
best trials, and the configuration without any varied option, are trained with other seeds. A list of variants has no
search. The variants of a red team train to every rung, where the best one is evaluated on fresh seeds. Then the target
plays itself.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from echelon.jobs.sweeps.plan import UNCHANGED, SweepPlan, Variant
from echelon.telemetry.events import Event, EventFresh, EventRung, EventTrial

RUN_NAME = re.compile(r"(\w[\w.-]*)?")
"""Run ids in a journal; they name folders beside the sweep's."""
STARTED, EVALUATED, FAILED = "started", "evaluated", "failed"


@dataclass(kw_only=True)
class Trial:
    """A trial as the journal has it."""

    choice: EventTrial
    started: set[int] = field(default_factory=set)
    results: dict[int, EventRung] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.choice.number

    @property
    def open_rung(self) -> int | None:
        return min(self.started - self.results.keys(), default=None)

    @property
    def failure(self) -> EventRung | None:
        return next((result for result in self.results.values() if result.state != EVALUATED), None)

    @property
    def last(self) -> EventRung | None:
        """Result of the last rung at which it was evaluated."""
        return max((r for r in self.results.values() if r.state == EVALUATED), key=lambda r: r.rung, default=None)

    def order_at(self, rung: int) -> tuple[float, float, int]:
        """Return the sort key at a rung: best value first, equal ones by hit point margin, then by number."""
        result = self.results[rung]
        value, margin = (x if math.isfinite(x) else -math.inf for x in (result.value, result.hp_margin))
        return -value, -margin, self.number


class TrialJournal:
    """The trials of a sweep by number, from the records of its journal; rungs beyond those of the plan are left out."""

    def __init__(self, plan: SweepPlan, events: Iterable[Event] = ()) -> None:
        self.trials: dict[int, Trial] = {}
        self.fresh: dict[int, EventFresh] = {}
        """Newest record of the evaluation on fresh seeds at each rung; that of the target follows the last rung."""
        self._plan = plan
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Add one record; one that is there already changes nothing."""
        if isinstance(event, EventTrial) and RUN_NAME.fullmatch(event.run):
            self.trials.setdefault(event.number, Trial(choice=event))
        elif isinstance(event, EventRung) and event.trial in self.trials and 0 <= event.rung < self._plan.rungs:
            trial = self.trials[event.trial]
            trial.started.add(event.rung)
            if event.state != STARTED:
                trial.results.setdefault(event.rung, event)
        elif isinstance(event, EventFresh) and RUN_NAME.fullmatch(event.run) and event.trial in self.trials:
            if self.fresh.setdefault(event.rung, event).state == STARTED:
                self.fresh[event.rung] = event

    @property
    def in_order(self) -> list[Trial]:
        return [trial for _, trial in sorted(self.trials.items())]

    @property
    def search(self) -> list[Trial]:
        return [trial for trial in self.in_order if not trial.choice.name]

    @property
    def repeats(self) -> list[Trial]:
        """Runs of configurations with other training seeds, in order."""
        return [trial for trial in self.in_order if trial.choice.name]

    @property
    def running(self) -> list[Trial]:
        return [trial for trial in self.in_order if trial.open_rung is not None]

    @property
    def confirming(self) -> EventFresh | None:
        """The evaluation on fresh seeds that has not ended."""
        return next((event for event in self.fresh.values() if event.state == STARTED), None)

    @property
    def done_work(self) -> int:
        """What of the planned work is done."""
        reached = [max(trial.results) for trial in self.trials.values() if trial.results]
        fresh = sum(event.state != STARTED for rung, event in self.fresh.items() if rung < self._plan.rungs)
        steps = sum(self._plan.rung_steps[rung] for rung in reached)
        return self._plan.work(steps, sum(rung + 2 for rung in reached), fresh)


@dataclass(frozen=True)
class TrialStart:
    """Start or resume a trial towards a rung."""

    trial: int
    rung: int


@dataclass(frozen=True)
class FreshStart:
    """Start the evaluation of a trial at a rung on fresh seeds, beyond the last rung that of the target."""

    trial: int
    rung: int


@dataclass(frozen=True)
class Wait:
    """Nothing can start before a running trial reaches its rung."""


Step = EventTrial | TrialStart | FreshStart | Wait
"""A trial without a run, and without options where it is one of the search; or a start; or a wait."""


def next_step(plan: SweepPlan, journal: TrialJournal) -> Step | None:
    return _next_of_search(plan, journal) or _next_of_repeats(plan, journal)


def _next_of_search(plan: SweepPlan, journal: TrialJournal) -> Step | None:
    search = journal.search
    for first in range(0, plan.search_trials, plan.batch):
        members = search[first : first + plan.batch]
        if len(members) < min(plan.batch, plan.search_trials - first):
            return EventTrial(number=len(journal.trials), seed=int(plan.base["seed"]))
        for rung, there in rounds(plan, members):
            if fresh := next((trial for trial in there if rung not in trial.started), None):
                return TrialStart(fresh.number, rung)
            if any(rung not in trial.results for trial in there):
                return Wait()
    return None


def rounds(plan: SweepPlan, members: Sequence[Trial]) -> Iterator[tuple[int, Sequence[Trial]]]:
    """Yield every rung of a batch that is decided, with the trials that train to it."""
    for rung in range(plan.rungs):
        yield rung, members
        if any(rung not in trial.results for trial in members):
            return
        members = best(members, rung)[: plan.promoted(len(members))]


def _next_of_repeats(plan: SweepPlan, journal: TrialJournal) -> Step | None:
    repeats = journal.repeats
    existing = {(trial.choice.name, trial.choice.seed) for trial in repeats}
    for number in range(plan.seeds):
        for variant in plan.variants or finalists(plan, journal):
            if (variant.name, seed := plan.training_seed(number)) not in existing:
                name, params = variant.name, variant.params
                return EventTrial(number=len(journal.trials), seed=seed, name=name, params=params)
    if plan.attack:
        return _next_of_attack(plan, journal)
    if fresh := next((trial for trial in repeats if not trial.started), None):
        return TrialStart(fresh.number, plan.last_rung)
    return Wait() if journal.running else None


def _next_of_attack(plan: SweepPlan, journal: TrialJournal) -> Step | None:
    """Return the next step of attackers, which wait for each other at a rung: the best one is known there.

    Its evaluation begins before any goes on, since the checkpoint of the rung is deleted later.
    """
    members = journal.repeats
    for rung in range(plan.rungs):
        if fresh := next((trial for trial in members if rung not in trial.started), None):
            return TrialStart(fresh.number, rung)
        if any(rung not in trial.results for trial in members):
            return Wait()
        members = best(members, rung)
        if members and rung not in journal.fresh:
            return Wait() if journal.confirming else FreshStart(members[0].number, rung)
    if members and plan.rungs not in journal.fresh:
        return Wait() if journal.confirming else FreshStart(members[0].number, plan.rungs)
    return Wait() if journal.confirming else None


def best(trials: Sequence[Trial], rung: int) -> list[Trial]:
    there = [trial for trial in trials if rung in trial.results and trial.results[rung].state == EVALUATED]
    return sorted(there, key=lambda trial: trial.order_at(rung))


def finalists(plan: SweepPlan, journal: TrialJournal) -> list[Variant]:
    """Return what is repeated after a search: the unchanged configuration and the best of those trained longest."""
    found = ranked(journal.search)[: plan.finalists]
    unchanged = [Variant(name=UNCHANGED)] if found else []
    return unchanged + [Variant(name=f"trial {trial.number}", params=trial.choice.params) for trial in found]


def ranked(trials: Iterable[Trial]) -> list[Trial]:
    """Return the evaluated trials, best first: a later rung precedes an earlier one, whatever the values."""
    found = [(trial, trial.last.rung) for trial in trials if trial.last]
    return [trial for trial, rung in sorted(found, key=lambda pair: (-pair[1], pair[0].order_at(pair[1])))]
