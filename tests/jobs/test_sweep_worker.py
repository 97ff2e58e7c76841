"""A sweep's process: killed at every write and start, it ends with every trial once and the undisturbed table."""

import itertools
import math
import signal
import time
from dataclasses import replace

import pytest

from echelon.jobs import launch
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.kinds import KINDS
from echelon.jobs.labels import read_labels
from echelon.jobs.process import send_signal
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.status import job_status
from echelon.jobs.sweeps.plan import SweepPlan
from echelon.jobs.sweeps.results import read_results, results
from echelon.jobs.sweeps.schedule import TrialJournal
from echelon.jobs.sweeps.trials import MAX_CRASHES, TrialRuns
from echelon.jobs.sweeps.worker import Sweep
from echelon.runs import RunPaths, create_run, list_runs
from echelon.telemetry.events import EventEval, EventStart, EventTrial
from echelon.telemetry.log import EventLog, read_events
from echelon_cli import sweep_job
from echelon_cli.main import run
from echelon_cli.sweep_job import plan_of
from echelon_cli.tui.format import short_run_id
from tests.jobs.conftest import change_boot_id, kill_all_jobs, kill_job, process_identity, until, wait_for
from tests.jobs.stand_ins import SWEEP, UPDATE_S_VARIABLE, learned
from tests.jobs.test_sweep_schedule import check_once

GRID = ("ppo.lr=1e-5..1e-2:log:points=6",)


def make_plan(**fields) -> SweepPlan:
    given = {"sampler": "grid", "steps": 900, "finalists": 1, "seeds": 2, **fields}
    return plan_of(None, "quickstart", {"device": "cpu"}, GRID, given)


class Killed(BaseException):
    """The process of the sweep is gone."""


class Machine:
    """Runs that outlive the sweep's process: the rung towards which each trains, and its starts."""

    def __init__(self, plan: SweepPlan) -> None:
        self.plan = plan
        self.towards: dict[str, int] = {}
        self.starts: list[tuple[str, int]] = []
        self.sampled = math.nan
        """Win rate of all runs with sampled actions."""


class StandInTrials:
    """Trials of a ``Machine``; one that has been asked about once has ended."""

    def __init__(self, machine: Machine, point) -> None:
        self.machine, self._point = machine, point

    def start(self, trial: EventTrial, rung: int) -> None:
        self._point()
        if self.machine.towards.get(trial.run, -1) < rung:
            self.machine.towards[trial.run] = rung
            self.machine.starts.append((trial.run, rung))
        self._point()

    def outcome(self, trial: EventTrial, rung: int) -> EventEval | None:
        if self.machine.towards.get(trial.run, -1) < rung:
            return self.start(trial, rung)
        steps = self.machine.plan.rung_steps[rung]
        value = learned(trial.params.get("ppo.lr", self.machine.plan.base["ppo"]["lr"]), trial.seed, steps)
        return self._evaluation(update=1, global_step=steps, win_rate=value, mean_hp_margin=0.0)

    def _evaluation(self, **fields) -> EventEval:
        return EventEval(opponent="easy", episodes=8, sampled_win_rate=self.machine.sampled, **fields)

    def untrained(self, trial: EventTrial) -> EventEval:
        return self._evaluation(update=0, global_step=0, win_rate=0.25, win_low=0.1, win_high=0.5)

    def stop(self, trial: EventTrial) -> None: ...

    def is_running(self, trial: EventTrial) -> bool:
        return False


class Link:
    """A link that requests no stop."""

    def __init__(self) -> None:
        self.events: list = []

    def emit(self, event) -> None:
        self.events.append(event)

    def should_stop(self) -> int:
        return 0

    def report(self, *_: object) -> None: ...


def run_sweep(paths: RunPaths, plan: SweepPlan, machine: Machine, kill_at: int, fresh_of=lambda *_: None) -> bool:
    """Run a sweep until its end, or until it has passed ``kill_at`` points; return whether it has ended."""
    passed = itertools.count(1)

    def point() -> None:
        if next(passed) == kill_at:
            raise Killed

    class FragileLog(EventLog):
        def append(self, event) -> None:
            point()
            super().append(event)
            point()

    try:
        with FragileLog(paths.trials) as log:
            trials, fresh = StandInTrials(machine, point), fresh_of(machine, point)
            return Sweep(paths, plan, Link(), log, trials, 0.0, fresh).run()  # pyright: ignore[reportArgumentType]
    except Killed:
        return False


def table(paths: RunPaths, plan: SweepPlan) -> list:
    """Return what must be equal: options, seeds and results of every trial, without run ids and times."""
    journal = TrialJournal(plan, read_events(paths.trials)[0])
    return [
        (t.number, t.choice.params, t.choice.seed, t.choice.name)
        + tuple((rung, e.state, e.value, e.global_step) for rung, e in sorted(t.results.items()))
        for _, t in sorted(journal.trials.items())
    ]


@pytest.fixture(name="undisturbed")
def undisturbed_sweep():
    plan, paths = make_plan(at_once=2), create_run("sweep")
    assert run_sweep(paths, plan, Machine(plan), 0)
    return plan, table(paths, plan)


def test_sweep_killed_at_any_point_ends_with_the_undisturbed_table(undisturbed):
    plan, expected = undisturbed
    for stride in (1, 2, 3, 5, 7):
        paths, machine, kills = create_run("sweep"), Machine(plan), 0
        for kill_at in itertools.cycle(range(stride, 40, stride)):
            if run_sweep(paths, plan, machine, kill_at):
                break
            kills += 1
            assert kills < 500
        assert table(paths, plan) == expected, f"after {kills} kills"
        assert len(machine.starts) == len(set(machine.starts)), "no run is started twice for a rung"
        chosen = [e for e in read_events(paths.trials)[0] if isinstance(e, EventTrial)]
        assert len({e.run for e in chosen}) == len(chosen) == len(expected)


def test_sweep_results_name_the_best_and_its_command():
    plan, paths = make_plan(at_once=2), create_run("sweep")
    assert run_sweep(paths, plan, Machine(plan), 0)
    found = results("x", plan, TrialJournal(plan, read_events(paths.trials)[0]))
    search = [row for row in found.trials if "seed" not in row.name]
    assert [row.state for row in search].count("pruned") == 5 and found.progress == 1.0
    complete = [row for row in search if row.state == "completed"]
    assert complete == [found.trials[0]] and len(table(paths, plan)) == 6 + 2 + 2
    finalist = next(each for each in found.repeated if each.params)
    assert finalist.name == f"trial {complete[0].number}" and len(finalist.scores) == 2
    assert finalist.improvement is not None and finalist.score is not None
    assert f"ppo.lr={finalist.params['ppo.lr']!r}" in finalist.command
    assert found.importance == {"ppo.lr": 1.0}


def test_trial_with_conflicting_options_fails_alone():
    plan, paths, link = make_plan(rungs=1, finalists=0), create_run("sweep"), Link()

    class Refusing(StandInTrials):
        def start(self, trial, rung):
            if trial.number == 2:
                raise ConfigError("ppo.lr does not go with it")
            super().start(trial, rung)

    with EventLog(paths.trials) as log:
        trials = Refusing(Machine(plan), lambda: None)
        assert Sweep(paths, plan, link, log, trials, poll_s=0.0).run()  # pyright: ignore
    states = [row[4][1] for row in table(paths, plan)]
    assert states.count("failed") == 1 and states[2] == "failed"
    assert any("trial 2" in getattr(event, "message", "") for event in link.events)


def test_journal_names_no_folders_but_runs_of_the_sweep():
    plan, sweep, other = make_plan(), create_run("sweep"), create_run("quickstart")
    for name in ("../elsewhere", "a/b", ".hidden", "-rf", "a b"):
        assert not TrialJournal(plan, [EventTrial(number=0, run=name)]).trials
    write_spec(other, JobSpec(kind="train", config=plan.base))
    with pytest.raises(ValueError, match="was not made for the sweep"):
        TrialRuns(plan, sweep).start(EventTrial(number=0, run=other.id, params={"ppo.lr": 1e-3}), 0)
    assert not other.extension.exists()


def test_trial_that_crashes_again_and_again_fails(monkeypatch):
    trials, launched = TrialRuns(make_plan(), create_run("sweep")), []
    trial = EventTrial(number=0, run="20260101-000000-quickstart-calm-fox", params={"ppo.lr": 1e-3})

    def crash(paths, spec, *_: object, **__: object) -> None:
        launched.append(paths.id)
        if len(launched) == 4:
            (paths.checkpoints / "step-100").mkdir(parents=True)
        if not paths.spec.exists():
            write_spec(paths, replace(spec, created=1.0))

    monkeypatch.setattr(launch, "launch", crash)
    found = next(filter(None, (trials.outcome(trial, 0) for _ in range(50))))
    assert isinstance(found, str) and "without a new checkpoint" in found
    assert len(launched) == 1 + 3 + MAX_CRASHES, "a checkpoint in between begins the count again"


@pytest.fixture
def sweeps(monkeypatch):
    """Sweeps whose trials are processes that learn a formula; remaining processes are killed."""
    monkeypatch.setitem(KINDS, "sweep", SWEEP)
    monkeypatch.setenv(UPDATE_S_VARIABLE, "0.02")
    yield
    kill_all_jobs()


def trial_runs(paths: RunPaths) -> list[RunPaths]:
    return [run for run in list_runs() if run.id != paths.id]


@pytest.mark.long
def test_stopped_sweep_leaves_no_trial_running_and_resumes(sweeps):
    paths = sweep_job.start(make_plan(at_once=2)).paths
    wait_for(lambda: sum(getattr(e, "state", "") == "evaluated" for e in read_events(paths.trials)[0]) >= 2, 60.0)
    for stop in ([], ["--now"]):
        assert run(["runs", "stop", *stop, paths.id]) == 0
        assert until(paths, "stopped", limit_s=60.0).exit_code == 4
        runs = trial_runs(paths)
        assert runs and not any(job_status(run).is_alive for run in runs)
        assert {read_labels(run).group for run in runs} == {short_run_id(paths.id)}
        sweep_job.resume(paths.id)
        wait_for(lambda: any(job_status(run).state == "running" for run in trial_runs(paths)), 60.0)
    assert until(paths, "completed", limit_s=60.0).exit_code == 0
    found = read_results(paths)
    assert [row.state for row in found.trials].count("completed") == 1 + 4 and len(found.repeated) == 2


def disturb(paths: RunPaths, kind: str) -> bool:
    """Kill a process of a sweep, or all, as when the machine goes down; return whether there was one."""
    trials = [run for run in trial_runs(paths) if job_status(run).is_alive]
    match kind.split():
        case ["machine"]:
            for run in (paths, *trials):
                kill_job(run)
            for run in (paths, *trials):
                change_boot_id(run)
            return True
        case ["terminal"]:
            return send_signal(process_identity(paths, "supervisor"), signal.SIGHUP, paths)
        case ["sweep", role]:
            return send_signal(process_identity(paths, role), signal.SIGKILL, paths)
        case [_, role] if trials:
            return send_signal(process_identity(trials[0], role), signal.SIGKILL, trials[0])
    return False


def trained_once(paths: RunPaths, plan: SweepPlan) -> None:
    """Every trial has one run, and every run a trial: none was lost or doubled."""
    journal = TrialJournal(plan, read_events(paths.trials)[0])
    runs = trial_runs(paths)
    assert {run.id for run in runs} == {t.choice.run for t in journal.trials.values()}
    assert all(any(isinstance(event, EventStart) for event in read_events(run.metrics)[0]) for run in runs)


@pytest.mark.long
def test_sweep_whose_processes_are_killed_has_the_undisturbed_table(sweeps, undisturbed, monkeypatch):
    monkeypatch.setenv(UPDATE_S_VARIABLE, "0.1")
    plan, expected = undisturbed
    paths = sweep_job.start(plan).paths
    kinds = ["machine", "terminal", "trial supervisor", "trial worker", "sweep supervisor", "sweep worker"]

    def is_complete() -> bool:
        time.sleep(0.5)
        if not job_status(paths).is_alive and job_status(paths).state != "completed":
            sweep_job.resume(paths.id)
        elif kinds and disturb(paths, kinds[-1]):
            kinds.pop()
        return job_status(paths).state == "completed"

    wait_for(is_complete, 150.0)
    assert not kinds and table(paths, plan) == expected
    trained_once(paths, plan)
    check_once(plan, read_events(paths.trials)[0])
