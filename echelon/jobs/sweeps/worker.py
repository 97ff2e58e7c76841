"""The process of a sweep: ``python -m echelon.jobs.sweeps.worker RUN``, started by a supervisor.

Every choice and every start is in the journal before it takes effect, every result when it is known. Started again
after any end, the process resumes the trials that were started and continues.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from echelon.jobs import worker
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.spec import read_spec
from echelon.jobs.sweeps.plan import BASELINE, RATES, SweepPlan
from echelon.jobs.sweeps.samplers import Sampler, sampler_of
from echelon.jobs.sweeps.schedule import FAILED, STARTED, Choose, Done, Journal, Repeat, Start, Trial, next_step
from echelon.jobs.sweeps.trials import Outcome, TrialRuns, Trials
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventAlert, EventEnd, EventRung, EventStart, EventTrial
from echelon.telemetry.log import EventLog, read_events

POLL_S = 0.5
"""Time between two checks of the running trials [s]."""
PRESET = "sweep"
"""Preset of sweeps in lists of runs."""


class Sweep:
    """A sweep in progress."""

    def __init__(
        self, paths: RunPaths, plan: SweepPlan, link: RunLink, log: EventLog, trials: Trials, poll_s: float
    ) -> None:
        self.paths, self.plan, self.journal = paths, plan, Journal(rungs=len(plan.rung_steps))
        self._link, self._log, self._trials, self._poll_s = link, log, trials, poll_s
        self._sampler: Sampler = sampler_of(plan)
        for event in read_events(paths.trials)[0]:
            self._see(event)

    def run(self) -> bool:
        """Run the trials; return False where a stop was requested first."""
        for trial in self.journal.running:
            self._follow(trial, self._trials.start)
        while not self._link.should_stop():
            for trial in self.journal.running:
                self._follow(trial, self._trials.outcome)
            if self._advance():
                return True
            self._report()
            time.sleep(self._poll_s)
        self._stop_trials()
        return False

    def _advance(self) -> bool:
        """Take every step that is possible now; return whether the sweep is complete."""
        while len(self.journal.running) < self.plan.at_once:
            step = next_step(self.plan, self.journal)
            if isinstance(step, Done):
                return True
            if isinstance(step, Start):
                self._start(self.journal.trials[step.trial], step.rung)
            elif isinstance(step, Choose):
                self._choose(EventTrial(number=self._next_number, bracket=step.bracket, seed=self._seed))
            elif isinstance(step, Repeat):
                self._write(self._final(step))
            else:
                break
        return False

    @property
    def _next_number(self) -> int:
        return len(self.journal.trials)

    @property
    def _seed(self) -> int:
        """Return the training seed of the next trial of the search."""
        variants = self.plan.variants
        return variants[self._next_number].seed if variants else int(self.plan.base["seed"])

    def _choose(self, trial: EventTrial) -> None:
        names = self.plan.variants
        name = names[trial.number].name if names else ""
        self._write(replace(trial, params=self._sampler.choose(), run=self._new_run(), name=name))

    def _final(self, step: Repeat) -> EventTrial:
        """Return the record of a final run."""
        number, origin = self._next_number, self.journal.trials.get(step.origin)
        return EventTrial(
            number=number,
            run=self._new_run(),
            params=origin.choice.params if origin else {},
            seed=self.plan.final_seed(step.number),
            bracket=-1,
            origin=step.origin,
            name="" if origin else BASELINE,
        )

    def _new_run(self) -> str:
        """Return the id of a new run folder; one that a kill leaves without a record has no spec and is no run."""
        return create_run(self.plan.preset or PRESET, self.paths.root.parent).id

    def _start(self, trial: Trial, rung: int) -> None:
        self._write(self._rung(trial, rung, STARTED))
        self._follow(trial, self._trials.start)

    def _follow(self, trial: Trial, action: Callable[[EventTrial, int], Outcome | None]) -> None:
        """Start a trial or look at it, and record its outcome; options that do not go together have failed."""
        rung = trial.open_rung
        assert rung is not None, "only started trials are followed"
        try:
            outcome = action(trial.choice, rung)
        except ConfigError as error:
            outcome = Outcome(state=FAILED, message=str(error))
        if outcome is not None:
            self._record(trial, rung, outcome)

    def _record(self, trial: Trial, rung: int, outcome: Outcome) -> None:
        """Write the result of a trial at a rung."""
        found, metric = outcome.evaluation, self.plan.metric
        event = replace(self._rung(trial, rung, outcome.state), message=outcome.message)
        if found is not None:
            low, high = RATES.get(metric, ("", ""))
            event = replace(
                event,
                global_step=found.global_step,
                value=getattr(found, metric),
                low=getattr(found, low, event.low),
                high=getattr(found, high, event.high),
                hp_margin=found.hp_margin,
                opponent=found.opponent,
            )
        else:
            message = f"trial {trial.number} (run {trial.choice.run}) failed: {outcome.message}"
            self._link.emit(EventAlert(message=message))
        self._write(event)

    def _rung(self, trial: Trial, rung: int, state: str) -> EventRung:
        """Return the record of a rung with the progress of the sweep after it."""
        steps, done = self.plan.rung_steps, self.journal.done_steps(self.plan)
        if state != STARTED:
            done += steps[rung] - (steps[max(trial.results)] if trial.results else 0)
        return EventRung(trial=trial.number, rung=rung, state=state, done=done, planned=self.plan.planned_steps)

    def _write(self, event: EventTrial | EventRung) -> None:
        """Append a record to the journal, to the disk, and to the metrics, and take it."""
        self._log.append(event)
        self._log.sync()
        self._see(event)
        self._link.emit(event)

    def _see(self, event: object) -> None:
        if isinstance(event, (EventTrial, EventRung)):
            self._sampler.see(event)
            self.journal.add(event)

    def _report(self) -> None:
        ended = sum(trial.open_rung is None and bool(trial.results) for trial in self.journal.trials.values())
        self._link.report(ended, len(self.journal.trials), f"trials, {len(self.journal.running)} running")

    def _stop_trials(self) -> None:
        """Stop the running trials and wait for them; a second stop request is passed on to them."""
        level = 0
        while running := [t for t in self.journal.running if self._trials.is_running(t.choice)]:
            if (asked := self._link.should_stop()) > level:
                level = asked
                for trial in running:
                    self._trials.stop(trial.choice)
            time.sleep(self._poll_s)


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    """Run the sweep that the spec asks for."""
    plan = SweepPlan.from_dict(read_spec(paths).config.get("sweep"))
    with EventLog(paths.trials) as log:
        sweep = Sweep(paths, plan, link, log, TrialRuns(plan, paths), POLL_S)
        link.emit(EventStart(device="cpu", seed=plan.seed, preset=PRESET))
        finished = sweep.run()
    link.emit(EventEnd(reason="completed" if finished else "stopped", message="" if finished else "trials are saved"))


if __name__ == "__main__":
    sys.exit(worker.main(work=work, phase="sweeping"))
