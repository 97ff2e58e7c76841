"""The process of a sweep: ``python -m echelon.jobs.sweeps.worker RUN``, started by a supervisor.

Every choice and every start is in the journal before it takes effect, every result when it is known. Started again
after any end, the process resumes the trials that were started and continues.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from echelon.jobs import worker
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.leave import leave
from echelon.jobs.spec import read_spec
from echelon.jobs.sweeps import schedule
from echelon.jobs.sweeps.fresh import FreshEvaluations
from echelon.jobs.sweeps.page import publish
from echelon.jobs.sweeps.plan import RATES, SweepPlan, plan_from
from echelon.jobs.sweeps.search import choose
from echelon.jobs.sweeps.trials import TrialRuns
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventAlert, EventEnd, EventEval, EventFresh, EventRung, EventStart, EventTrial
from echelon.telemetry.log import EventLog, read_events

POLL_S = 0.5
"""Time between two checks of the running trials [s]."""
PRESET = "sweep"


class Sweep:
    """A sweep in progress."""

    def __init__(
        self,
        paths: RunPaths,
        plan: SweepPlan,
        link: RunLink,
        log: EventLog,
        trials: TrialRuns,
        poll_s: float,
        fresh: FreshEvaluations | None = None,
    ) -> None:
        """``fresh`` evaluates the attackers of a red team."""
        self.paths, self.plan, self.journal = paths, plan, schedule.TrialJournal(plan, read_events(paths.trials)[0])
        self._link, self._log, self._trials, self._poll_s, self._fresh = link, log, trials, poll_s, fresh

    def run(self) -> bool:
        """Run the trials; return False where a stop was requested first."""
        for trial in self.journal.running:
            self._follow(trial, self._trials.start)
        while not self._link.should_stop():
            for trial in self.journal.running:
                self._follow(trial, self._trials.outcome)
            self._follow_fresh()
            if self._advance():
                self._publish()
                return True
            ended = sum(trial.open_rung is None and bool(trial.results) for trial in self.journal.trials.values())
            running = len(self.journal.running) + bool(self.journal.confirming)
            self._link.report(ended, len(self.journal.trials), f"{self.plan.unit}s, {running} running")
            time.sleep(self._poll_s)
        self._stop_trials()
        return False

    def _advance(self) -> bool:
        """Take every step that is possible now; return whether the sweep is complete."""
        while len(self.journal.running) + bool(self.journal.confirming) < self.plan.at_once:
            step = schedule.next_step(self.plan, self.journal)
            if step is None or isinstance(step, schedule.Wait):
                return step is None
            if isinstance(step, schedule.TrialStart):
                trial = self.journal.trials[step.trial]
                self._write(EventRung(trial=step.trial, rung=step.rung, state=schedule.STARTED))
                self._follow(trial, self._trials.start)
            elif isinstance(step, schedule.FreshStart):
                assert self._fresh, "only a red team evaluates on fresh seeds"
                self._write(self._fresh.planned(self.journal.trials[step.trial], step.rung))
                self._follow_fresh()  # copies the attacker before it trains on
            else:
                self._write(self._with_run(step))
        return False

    def _with_run(self, trial: EventTrial) -> EventTrial:
        """Return a trial with the id of a new run, and one of the search with its options.

        A run folder that a kill leaves without a record has no spec and is no run.
        """
        search = self.journal.search
        params = trial.params if trial.name else choose(self.plan, search, len(search))
        return replace(trial, params=params, run=create_run(self.plan.preset or PRESET, self.paths.root.parent).id)

    def _follow(self, trial: schedule.Trial, action: Callable[[EventTrial, int], EventEval | str | None]) -> None:
        rung = trial.open_rung
        assert rung is not None, "only started trials are followed"
        event = EventRung(trial=trial.number, rung=rung, state=schedule.EVALUATED)
        try:
            outcome = action(trial.choice, rung)
        except ConfigError as error:
            outcome = str(error)
        if isinstance(outcome, str):
            text = f"{self.plan.unit} {trial.number} (run {trial.choice.run}) failed: {outcome}"
            self._link.emit(EventAlert(message=text))
            self._write(replace(event, state=schedule.FAILED, message=outcome))
        elif outcome is not None:
            event = self._evaluated(event, outcome)
            if self.plan.attack and (first := self._trials.untrained(trial.choice)):
                event = replace(event, before=_rates(first), rates=_rates(outcome))
            self._write(event)

    def _follow_fresh(self) -> None:
        if not (self._fresh and (event := self.journal.confirming)):
            return
        if ended := self._fresh.outcome(event, self.journal.trials[event.trial]):
            self._write(ended)
            if ended.message:
                self._link.emit(EventAlert(message=f"evaluation on fresh seeds {event.run} failed: {ended.message}"))
            self._publish()

    def _publish(self) -> None:
        """Write the page of a red team."""
        try:
            if self.plan.attack:
                publish(self.paths)
        except (ValueError, OSError) as error:
            self._link.emit(EventAlert(message=f"the page of the red team is incomplete: {error}"))

    def _evaluated(self, event: EventRung, found: EventEval) -> EventRung:
        metric = self.plan.metric
        if self.plan.attack:
            metric = "sampled_win_rate" if found.sampled_win_rate > found.win_rate else "win_rate"
        low, high = RATES.get(metric, ("", ""))
        return replace(
            event, global_step=found.global_step, value=getattr(found, metric), low=getattr(found, low, event.low),
            high=getattr(found, high, event.high), hp_margin=found.mean_hp_margin, opponent=found.opponent,
        )  # fmt: skip

    def _write(self, event: EventTrial | EventRung | EventFresh) -> None:
        if not isinstance(event, EventTrial):
            self.journal.add(event)
            event = replace(event, share=self.plan.share(event.rung) if self.plan.attack else 0.0)
        if isinstance(event, EventRung):
            event = replace(event, done=self.journal.done_work, planned=self.plan.planned_work)
        self._log.append(event)
        self._log.sync()
        self.journal.add(event)
        self._link.emit(event)

    def _stop_trials(self) -> None:
        level = 0
        if self._fresh and (open_one := self.journal.confirming):
            self._fresh.stop(open_one)
        while running := [t for t in self.journal.running if self._trials.is_running(t.choice)]:
            if (asked := self._link.should_stop()) > level:
                level = asked
                for trial in running:
                    self._trials.stop(trial.choice)
            time.sleep(self._poll_s)


def _rates(found: EventEval) -> list[float]:
    return [getattr(found, name) for metric, bounds in RATES.items() for name in (metric, *bounds)]


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    plan = plan_from(read_spec(paths).config.get("sweep"))
    with EventLog(paths.trials) as log:
        sweep = Sweep(paths, plan, link, log, TrialRuns(plan, paths), POLL_S, FreshEvaluations(plan, paths))
        link.emit(EventStart(device="cpu", seed=plan.seed, preset=PRESET))
        finished = sweep.run()
    link.emit(EventEnd(reason="completed" if finished else "stopped", message="" if finished else "trials are saved"))


if __name__ == "__main__":
    leave(worker.main(work=work, phase="sweeping"))
