"""Runs of a sweep's trials: started, resumed, followed and stopped as ordinary training runs.

``TrialRuns.start`` is the one place where a trial's run starts.
"""

import time
from collections import Counter

from echelon.jobs import launch, launchers
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.evaluations import admit, admits
from echelon.jobs.kinds import KINDS
from echelon.jobs.labels import change_labels, read_labels
from echelon.jobs.observers import mirrors_of_trial, write_observers
from echelon.jobs.spec import new_spec, read_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.jobs.sweeps.plan import SweepPlan, command_words, configuration, plan_from
from echelon.jobs.sweeps.schedule import TrialJournal
from echelon.runs import RunPaths
from echelon.telemetry.events import EventEval, EventTrial
from echelon.telemetry.log import read_events

MAX_CRASHES = 5
"""Crashes of a trial's run without a new checkpoint after which it is resumed; after one more it has failed."""
MAX_FAILURES = 5
"""Starts of runs that fail one after another before the sweep fails, to be resumed once the cause is removed."""
STOPPED_S = 1.0
"""Time after which a run that was stopped, but not by its sweep, counts as failed [s]: a stop of everything, as at the
shutdown of a machine, reaches the sweep within it."""


def running_trials(sweep: RunPaths) -> list[RunPaths]:
    plan = plan_from(read_spec(sweep).config.get("sweep"))
    running = TrialJournal(plan, read_events(sweep.trials)[0]).running
    runs = [RunPaths(sweep.root.parent / trial.choice.run) for trial in running if trial.choice.run]
    return [run for run in runs if admits(run.root, sweep.id) and run.spec.exists() and job_status(run).is_alive]


class TrialRuns:
    """Trials that are training runs beside the sweep's folder.

    A run is resumed only if it was made for this sweep: a sweep's folder may be a copy from another machine, which must
    not choose runs of this one.
    """

    def __init__(self, plan: SweepPlan, sweep: RunPaths) -> None:
        self._plan, self._sweep = plan, sweep
        self._crashes: Counter[tuple[int, frozenset[str]]] = Counter()
        """Crashes by trial and its checkpoints."""
        self._stopped: dict[int, float] = {}
        """When a run was first seen stopped, by trial [s]."""
        self._failures = 0

    def paths(self, trial: EventTrial) -> RunPaths:
        return RunPaths(self._sweep.root.parent / trial.run)

    def start(self, trial: EventTrial, rung: int) -> None:
        """Start or resume a trial towards a rung, unless it runs or has reached it; ``ConfigError`` for its options."""
        paths, plan = self.paths(trial), self._plan
        is_new = not paths.spec.exists()
        if not is_new and not admits(paths.root, self._sweep.id):
            raise ConfigError(f"run {paths.id!r} was not made for the sweep {self._sweep.id!r}")
        if not is_new and ((status := job_status(paths)).is_alive or self._evaluation(paths, status, rung)):
            return
        pause = 0 if rung == plan.last_rung else plan.rung_steps[rung]
        resolved = configuration(plan, trial.params, seed=trial.seed, pause_steps=pause)
        if is_new:
            admit(paths.root, self._sweep)
            words = command_words(plan, trial.params, trial.seed)
            spec = new_spec("train", resolved.nested(), resolved.provenance, ["echelon", *words], self._sweep.id)
            try:
                launch.require_own_league(paths, spec)
            except ValueError as error:
                raise ConfigError(str(error)) from None
            write_observers(paths, mirrors_of_trial(self._sweep, paths.id))
        else:
            earlier = read_spec(paths)
            spec = new_spec("train", resolved.nested(), earlier.provenance, earlier.argv)
        if plan.group and not read_labels(paths).group:
            change_labels(paths, group=plan.group)
        self._stopped.pop(trial.number, None)
        try:
            arguments = () if is_new else ("--resume", "latest")
            launch.launch(paths, spec, KINDS["train"], arguments, resolved.named, launcher=plan.launcher)
        except launch.LaunchError:
            # a full disk or a busy machine: the next look at the trial starts it again
            self._failures += 1
            if self._failures > MAX_FAILURES:
                raise
        else:
            self._failures = 0

    def is_running(self, trial: EventTrial) -> bool:
        paths = self.paths(trial)
        return paths.spec.exists() and job_status(paths).is_alive

    def outcome(self, trial: EventTrial, rung: int) -> EventEval | str | None:
        """Return a trial's evaluation at a rung, or why it failed; None while it runs. A crashed trial is resumed."""
        paths = self.paths(trial)
        status = launch.ended_status(paths) if paths.spec.exists() else None
        if status is None:
            return None if paths.spec.exists() else self.start(trial, rung)
        if found := self._evaluation(paths, status, rung):
            return found
        if status.state in ("failed", "completed"):
            return status.reason or "ended without an evaluation"
        if status.state == "stopped" and not launchers.is_preempted(paths):
            seen = self._stopped.setdefault(trial.number, time.monotonic())
            return None if time.monotonic() - seen < STOPPED_S else "stopped by hand"
        if status.state != "stopped":
            position = trial.number, frozenset(path.name for path in paths.checkpoints.glob("step-*"))
            self._crashes[position] += 1
            if self._crashes[position] > MAX_CRASHES:
                return f"crashed {self._crashes[position]} times without a new checkpoint: {status.reason}"
        return self.start(trial, rung)

    def untrained(self, trial: EventTrial) -> EventEval | None:
        """Return the evaluation of a trial's run before its training."""
        events = read_events(self.paths(trial).metrics)[0]
        return next((e for e in events if isinstance(e, EventEval) and not e.global_step), None)

    def _evaluation(self, paths: RunPaths, status: JobStatus, rung: int) -> EventEval | None:
        """Return the evaluation of an ended run at a rung, None where it has not reached it or crashed.

        At the end of training the report on other seeds precedes the evaluation that chooses checkpoints.
        """
        if status.state not in ("completed", "stopped"):
            return None
        events = [e for e in read_events(paths.metrics)[0] if isinstance(e, EventEval) and not e.job]
        if status.state == "completed":
            return next((e for e in reversed(events) if e.purpose == "report"), events[-1] if events else None)
        steps = self._plan.rung_steps[rung]
        reached = [e for e in events if e.global_step >= steps and e.purpose == "choice"]
        return reached[0] if reached and status.global_step >= steps and rung < self._plan.last_rung else None

    def stop(self, trial: EventTrial) -> None:
        paths = self.paths(trial)
        if paths.spec.exists():
            launch.stop(paths)
