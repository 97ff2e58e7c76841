"""A red team: its schedule, its process across kills, its report, its refusals, and real attackers."""

import contextlib
import itertools
import json
import random
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from echelon import champion
from echelon.config.presets import get_preset
from echelon.jobs import launch
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.evaluations import admit, admits, require_own_folders
from echelon.jobs.launchers import StartError
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.jobs.status import job_status
from echelon.jobs.sweeps.fresh import POLICY, RECORDED, FreshEvaluations
from echelon.jobs.sweeps.plan import SweepPlan
from echelon.jobs.sweeps.redteam import Rates, report_of
from echelon.jobs.sweeps.results import read_report
from echelon.jobs.sweeps.schedule import (
    EVALUATED,
    FAILED,
    STARTED,
    FreshStart,
    Trial,
    TrialJournal,
    TrialStart,
    Wait,
    best,
    next_step,
)
from echelon.jobs.sweeps.trials import TrialRuns
from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
from echelon.runs import RunPaths, create_run, find_run, list_runs
from echelon.statistics import Estimate
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EventEnd, EventFresh, EventRung, EventTrial, EventUpdate
from echelon.telemetry.log import EventLog, read_events
from echelon.telemetry.snapshot import RunSnapshot
from echelon.training.eval_plan import EvalPlan
from echelon_cli import redteam_job, sweep_job
from echelon_cli.arena_job import open_league
from echelon_cli.follow import fresh_line
from echelon_cli.main import run
from tests.arena.policy_files import save
from tests.jobs.conftest import kill_all_jobs, kill_job, until, wait_for
from tests.jobs.test_sweep_worker import Machine, run_sweep, table
from tests.training.runs import battle_run, run_battle

STEPS = 1000


def make_plan(**fields) -> SweepPlan:
    given = {"steps": STEPS, "origins": ["target", "nothing"], "shares": "25,50,100", "seeds": 2, **fields}
    return redteam_job.prepare("champion", Path("x"), **given)[0]


def value_of(number: int, rung: int, salt: int) -> float:
    return random.Random(f"{number}/{rung}/{salt}").randrange(4) / 4


def simulate(plan: SweepPlan, salt: int, order: random.Random) -> list:
    """Return the journal of a red team whose attackers and evaluations end in a random order; kills read it again."""
    events: list = []

    def write(event) -> None:
        events.append(replace(event, time=float(len(events))))

    while True:
        journal = TrialJournal(plan, events)
        busy = len(journal.running) + bool(journal.confirming)
        match next_step(plan, journal) if busy < plan.at_once else Wait():
            case None:
                return events
            case EventTrial() as trial:
                write(trial)
            case TrialStart(trial, rung):
                write(EventRung(trial=trial, rung=rung, state=STARTED))
            case FreshStart(trial, rung):
                write(EventFresh(trial=trial, rung=rung, run=f"eval-{rung}", state=STARTED))
            case Wait():
                choices = [*journal.running, *([journal.confirming] if journal.confirming else [])]
                chosen = order.choice(choices)
                if isinstance(chosen, EventFresh):
                    rates = {"win_rate": 0.5, "win_low": 0.4, "win_high": 0.6, "sampled_win_rate": 0.7}
                    write(replace(chosen, state=EVALUATED, sampled_low=0.6, sampled_high=0.8, **rates))
                    continue
                rung = chosen.open_rung or 0
                state = FAILED if (chosen.number, rung) == (1, 1) else EVALUATED
                rate = value_of(chosen.number, rung, salt)
                rates = [rate / 2, 0.0, 0.5, rate, 0.0, 1.0]  # better with sampled actions
                value = {"value": rate, "rates": rates, "before": [0.0, 0.0, 0.1, 0.2, 0.1, 0.3]}
                write(EventRung(trial=chosen.number, rung=rung, state=state, **value))


def make_redteam(most: int = 10**9) -> RunPaths:
    """Write the folder of a red team against the champion with the first records of its journal."""
    plan, paths = make_plan(), create_run("redteam")
    write_spec(paths, JobSpec(kind="sweep", config={"preset": "redteam", "sweep": asdict(plan)}))
    with EventLog(paths.trials) as log:
        for event in simulate(plan, 0, random.Random(0))[:most]:
            log.append(event)
    return paths


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("salt", range(5))
def test_each_attacker_passes_every_rung_and_the_best_is_evaluated_before_any_trains_on(at_once, salt):
    plan = make_plan(at_once=at_once)
    events = simulate(plan, salt, random.Random(salt))
    journal = TrialJournal(plan, events)
    attackers = [(t.choice.name, t.choice.seed) for t in journal.repeats]
    assert attackers == [("target", 0), ("nothing", 0), ("target", 1), ("nothing", 1)]
    for trial in journal.repeats:
        reached = 2 if trial.number == 1 else plan.rungs
        assert len(trial.results) == reached, "an attacker that has failed does not train on"
    for rung in range(plan.rungs):
        strongest = best(journal.repeats, rung)[0]
        assert journal.fresh[rung].trial == strongest.number and journal.fresh[rung].state == EVALUATED
        fresh = next(e.time for e in events if isinstance(e, EventFresh) and e.rung == rung)
        later = [e.time for e in events if isinstance(e, EventRung) and e.rung > rung]
        assert all(fresh < each for each in later)
    usual = journal.fresh[plan.rungs]
    assert usual.state == EVALUATED and all(e.time < usual.time for e in events if isinstance(e, EventRung))
    keys = [(e.trial, e.rung) for e in events if isinstance(e, EventRung) and e.state == STARTED]
    assert len(keys) == len(set(keys)) == 4 * 3 - 1
    report = report_of("x", plan, journal)
    assert [point.all_steps for point in report.curve] == [1000, 2000, 3500] and plan.planned_steps == 4000
    assert [point.share for point in report.curve] == [0.25, 0.5, 1.0]
    assert [len(each.rates) for each in report.attackers] == [3, 1, 3, 3]
    rates = [max(value_of(n, rung, salt) for n in (0, 2, 3)) for rung in (1, 2)]
    assert [point.choice for point in report.curve[1:]] == rates
    assert {point.added for point in report.curve} == {"training added +50 points"}, "sampled, from 20 to 70 %"
    assert all(each.best.value >= each.mean.value for a in report.attackers for each in a.rates)
    assert {a.before and (a.before.actions, a.before.best.value) for a in report.attackers} == {("sampled", 0.2)}
    assert report.strongest and report.strongest.choice == max(point.choice for point in report.curve)


class StandInFresh:
    """Evaluations of a machine; one that has been asked about once has ended."""

    def __init__(self, machine: Machine, point) -> None:
        self.machine, self._point = machine, point

    def planned(self, trial, rung) -> EventFresh:
        return EventFresh(trial=trial.number, rung=rung, run=create_run("eval").id, state=STARTED)

    def outcome(self, event, trial) -> EventFresh | None:
        self._point()
        if event.run not in self.machine.towards:
            self.machine.towards[event.run] = event.rung
            self.machine.starts.append((event.run, event.rung))
            return None
        return replace(event, state=EVALUATED, win_rate=trial.results[min(event.rung, 2)].value)

    def stop(self, event) -> None: ...


def fresh_table(paths: RunPaths, plan: SweepPlan) -> list:
    found = TrialJournal(plan, read_events(paths.trials)[0]).fresh
    return [(rung, e.trial, e.state, e.win_rate) for rung, e in sorted(found.items())]


def test_red_team_killed_at_any_point_ends_with_the_undisturbed_report():
    plan, paths = make_plan(at_once=2), create_run("redteam")
    assert run_sweep(paths, plan, Machine(plan), 0, StandInFresh)
    expected, expected_fresh = table(paths, plan), fresh_table(paths, plan)
    assert [state for _, _, state, _ in expected_fresh] == [EVALUATED] * 4
    records = [e for e in read_events(paths.trials)[0] if not isinstance(e, EventTrial)]
    assert [e.share for e in records if isinstance(e, EventFresh)] == [x for x in (0.25, 0.5, 1, 1) for _ in range(2)]
    progress = [e.progress for e in records if isinstance(e, EventRung)]
    assert progress == sorted(progress) and progress[-1] < 0.99, "the last evaluation on fresh seeds is still to come"
    before = report_of("x", plan, TrialJournal(plan, read_events(paths.trials)[0])).attackers[0].before
    assert before == Rates(Estimate(0.25, 0.1, 0.5))
    assert TrialJournal(plan, read_events(paths.trials)[0]).done_work == plan.planned_work > 10 * plan.planned_steps
    for stride in (1, 2, 3, 5):
        paths, machine, kills = create_run("redteam"), Machine(plan), 0
        for kill_at in itertools.cycle(range(stride, 40, stride)):
            if run_sweep(paths, plan, machine, kill_at, StandInFresh):
                break
            kills += 1
            assert kills < 500
        assert (table(paths, plan), fresh_table(paths, plan)) == (expected, expected_fresh), f"after {kills} kills"
        assert len(machine.starts) == len(set(machine.starts)), "nothing is started twice"


def test_evaluation_on_fresh_seeds_keeps_its_copy_of_an_attacker_that_trains_on(monkeypatch):
    plan, sweep, attacker = make_plan(), create_run("redteam"), create_run("quickstart")
    export_policy_folder(find_checkpoint(champion.FOLDER), sweep.root / "target")
    save(attacker.checkpoints, 1)
    write_spec(attacker, JobSpec(kind="train", config={}))
    named, _ = redteam_job.prepare("latest", Path("x"), origins=["nothing"])
    assert named.attack and named.attack.target == attacker.id, "latest is another one tomorrow"
    (checkpoint,) = attacker.checkpoints.glob("step-*")
    step = int(checkpoint.name.partition("-")[2])
    trial = Trial(choice=EventTrial(number=0, run=attacker.id), started={0})
    won = [0.2, 0.1, 0.3, 0.78, 0.7, 0.8]
    trial.results[0] = EventRung(trial=0, rung=0, state=EVALUATED, global_step=step, rates=won)
    fresh, launched = FreshEvaluations(plan, sweep), []
    event = fresh.planned(trial, 0)
    refused = fresh.outcome(event, trial)
    assert refused and refused.state == FAILED and "was not made for the red team" in refused.message
    admit(attacker.root, sweep)

    def start(paths, spec, *_: object, **__: object) -> None:
        launched.append(spec.config["eval"])
        if len(launched) == 1:
            raise StartError("the machine is busy")
        write_spec(paths, spec)

    monkeypatch.setattr(launch, "launch", start)
    assert fresh.outcome(event, trial) is None
    shutil.rmtree(checkpoint)
    assert fresh.outcome(event, trial) is None
    assert launched[0]["record_sampled"], "the actions that win are those whose matches are explained"
    assert launched[0] == launched[1] and launched[0]["opponents"] == ("target",)
    monkeypatch.setattr(launch, "ended_status", lambda paths: replace(job_status(paths), state="crashed"))
    assert fresh.outcome(event, trial) is None and launched[2] == launched[0]
    job = RunPaths(sweep.root.parent / event.run)
    assert read_spec(job).parent == sweep.id, "latest names no run of a red team"
    assert find_checkpoint(job.root / "opponent").id == plan.attack.checkpoint  # pyright: ignore
    assert EvalPlan.from_dict(launched[0]).run == str(attacker.root) and admits(attacker.root, job.id)
    usual = fresh.planned(trial, plan.rungs)
    assert fresh.outcome(usual, trial) is None and usual.global_step == plan.attack.steps  # pyright: ignore
    assert fresh_line(replace(usual, state=EVALUATED)).startswith("target against itself  recorded ")
    own = EvalPlan.from_dict(launched[3])
    assert (own.run, own.deterministic, own.seeds, own.recorded) == ("", False, RECORDED, RECORDED)
    for ident, each in ((event.run, EvalPlan.from_dict(launched[0])), (usual.run, own)):
        job = RunPaths(sweep.root.parent / ident)
        require_own_folders(each, job)
        assert each.replays == str(job.replays)
        is_target = find_checkpoint(job.root / POLICY).id == plan.attack.checkpoint  # pyright: ignore
        assert is_target == (each is own)


def test_findings_name_who_wins_untrained_before_what_training_added():
    paths = make_redteam()
    report = read_report(paths)
    strong = Rates(Estimate(1.0, 0.95, 1.0), Estimate(0.9, 0.8, 1.0))
    champion_first = replace(report.attackers[0], name="champion", before=strong, rates=(strong,))
    weak, better = Rates(Estimate(0.0, 0.0, 0.1)), Rates(Estimate(0.1, 0.0, 0.2), Estimate(0.2, 0.1, 0.3))
    trained = replace(report.attackers[1], name="target", before=weak, rates=(better, weak))
    first, second, third = replace(report, attackers=(trained, champion_first)).findings
    assert first == f"wins before training, from champion: 100% (95-100) mean, 90% sampled, {2 * report.seeds} matches"
    assert second.startswith("training added most from target: 0% (mean) to 20% (sampled), +20 points, ")
    assert third.startswith("strongest on fresh seeds, from ") and " steps; training added " in third
    assert not any("before training" in text for text in report.findings), (
        "an attacker that begins at 20 % does not win"
    )


@pytest.mark.parametrize("sampled", [0.0, 1.0])
def test_attacker_plays_the_better_of_mean_and_sampled_actions(sampled):
    plan, paths = make_plan(), create_run("redteam")
    machine = Machine(plan)
    machine.sampled = sampled
    assert run_sweep(paths, plan, machine, 0, StandInFresh)
    found = TrialJournal(plan, read_events(paths.trials)[0])
    for each, trial in zip(report_of("x", plan, found).attackers, found.repeats, strict=True):
        last, chosen = each.rates[-1], trial.results[plan.last_rung]
        assert 0 < last.mean.value < 1 and last.sampled and last.sampled.value == sampled
        assert chosen.value == last.best.value == max(last.mean.value, sampled), "what chooses is what is shown"
        assert last.actions == ("sampled" if sampled else "mean") and each.before
        assert each.before.best.value == max(0.25, sampled), "also before training"
    assert plan.base["eval"]["sampled"], "attackers are evaluated with both"


def test_red_team_takes_game_and_network_of_its_target_and_little_else():
    plan, meta = make_plan(), find_checkpoint(champion.FOLDER).manifest
    base = plan.base
    assert base["env"]["world"]["size_x"] == meta["env_cfg"]["world"]["size_x"] == 100
    assert base["num_envs"] == meta["args"]["num_envs"] and base["model"]["hidden_dim"] == meta["hidden_dim"]
    assert (base["total_steps"], base["start_from"], base["teacher"]["policy"]) == (STEPS, "", "")
    mix = {name: weight for name, weight in base["opponents"]["mix"].items() if weight}
    assert mix == {"champion": 1.0} and base["eval"]["skill"] == "champion"
    assert (base["ppo"]["lr"], base["ppo"]["lr_schedule"], base["ppo"]["kl_lr_target"]) == (3e-4, "none", 0.01)
    assert [each.params for each in plan.variants] == [{"start_from": "x/target"}, redteam_job.NEW_NETWORK]
    assert make_plan(origins=["value"]).variants[0].params == {"start_from": "x/target", "opponents.value_attack": 1.0}
    assert redteam_job.prepare("champion", Path("x"))[0].rung_steps[-1] == meta["global_step"] == plan.attack.steps  # pyright: ignore


def test_learner_of_attackers_is_the_same_whatever_they_attack(tmp_path):
    checkpoint, plain = find_checkpoint(champion.FOLDER), make_plan().base
    args = {**checkpoint.manifest["args"], "preset": "league"}
    args["ppo"] = {**args["ppo"], "rollout_steps": 96, "num_minibatches": 3, "update_epochs": 7}
    export_policy_folder(checkpoint, tmp_path / "hardened", {"args": args})
    plan, _ = redteam_job.prepare(str(tmp_path / "hardened"), Path("x"), steps=STEPS)
    ours = get_preset("quickstart").ppo
    assert (plan.base["ppo"], plan.preset) == (plain["ppo"], "quickstart")
    assert (plan.base["ppo"]["rollout_steps"], plan.base["ppo"]["num_minibatches"]) == (32, ours.num_minibatches)


def test_hardening_prints_the_command_that_repeats_the_attack_whole(monkeypatch, capsys):
    words = ["--steps", "900", "--shares", "30,90", "--from", "nothing", "--from", "value", "--seeds", "3"]
    words += ["--report-seeds", "7", "--set", "eval.seeds=5", "--set", "ppo.lr=0.001"]
    given = {"steps": 900, "shares": "30,90", "origins": ["nothing", "value"], "seeds": 3, "fresh_seeds": 7}
    plan = make_plan(**given, overrides={"eval.seeds": 5, "ppo.lr": 0.001})
    assert run(["redteam", "champion", *words, "--plan", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert run(["redteam", "champion", *(plan.attack and plan.attack.options or ()), "--plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == again
    paths = create_run("redteam")
    write_spec(paths, JobSpec(kind="sweep", config={"preset": "redteam", "sweep": asdict(plan)}))
    with EventLog(paths.trials) as log:
        for event in simulate(plan, 0, random.Random(0))[:-1]:
            log.append(event)
    monkeypatch.setattr("echelon.arena.submit.submit", lambda *_, **__: None)
    monkeypatch.setattr("echelon_cli.arena_job.open_league", lambda **_: contextlib.nullcontext())
    configs: list = []
    monkeypatch.setattr(redteam_job.job, "start", lambda _, spec, **__: configs.append(spec.config) or spec)
    redteam_job.harden(paths.id, 700, {})
    printed = "".join(capsys.readouterr().out.split())
    for option in zip(words[::2], words[1::2], strict=True):
        assert "".join(option) in printed, option
    assert configs[0]["num_envs"] == plan.base["num_envs"], "the size of the game stays, so that curves compare"


def test_attackers_are_not_what_latest_names(monkeypatch):
    plan, sweep, own = make_plan(), create_run("redteam"), create_run("quickstart")
    write_spec(own, JobSpec(kind="train", config={}))
    trial = EventTrial(number=0, run=create_run("quickstart").id, params=plan.variants[1].params)
    monkeypatch.setattr(launch, "launch", lambda paths, spec, *_, **__: write_spec(paths, spec))
    TrialRuns(plan, sweep).start(trial, 0)
    assert [run.id for run in list_runs(kind="train")] == [trial.run, own.id] and find_run("latest").id == own.id


def test_newest_red_team_is_named_and_a_complete_one_does_not_start_again(monkeypatch, capsys):
    assert run(["redteam", "--show", "latest"]) == 3 and "no red team in the runs folder" in capsys.readouterr().err
    paths, sweep = make_redteam(), create_run("sweep")
    write_spec(sweep, JobSpec(kind="sweep", config={"preset": "sweep"}))
    assert redteam_job.find("latest").id == paths.id
    monkeypatch.setattr(sweep_job, "job_status", lambda paths: replace(job_status(paths), state="completed"))
    assert run(["redteam", "--resume", "latest"]) == 2
    error = capsys.readouterr().err
    assert "is complete" in error and f"echelon sweep show {paths.id}" in error and error.count("\n") == 1
    rung = EventRung(trial=0, rung=0, state=EVALUATED, done=85, planned=100)
    assert (RunSnapshot(rung=rung).progress, RunSnapshot(rung=rung, end=EventEnd(reason="completed")).progress) == (
        0.85,
        1.0,
    )


def test_red_team_refusals_are_one_line(tmp_path, capsys):
    checkpoint = find_checkpoint(champion.FOLDER)
    export_policy_folder(checkpoint, tmp_path / "unknown", {"global_step": 0})
    env = {**checkpoint.manifest["env_cfg"], "observe_target": True}
    export_policy_folder(checkpoint, tmp_path / "other", {"env_cfg": env, "obs_dim": 400})
    unknown, other = str(tmp_path / "unknown"), str(tmp_path / "other")
    for words, code, expected in (
        (["nobody"], 3, "target is 'nobody', expected a checkpoint, a run or a league entry, or champion"),
        (["expert"], 2, "target 'expert' is a scripted level, expected a policy"),
        ([unknown], 2, "has no record of its training steps, expected --steps N"),
        (["champion", "--from", other], 2, "plays another game than the target: 400 columns"),
        (["champion", "--from", "medium"], 2, "--from 'medium' is a scripted level"),
        (["champion", "--shares", "10,none"], 2, "--shares is '10,none', expected percentages"),
        (["champion", "--shares", "0,10"], 2, "above 0 (always measured)"),
        (["champion", "--set", "total_steps=5"], 2, "total_steps is decided by the red team"),
        ([], 2, "expected either a policy to attack, --resume ID, --show ID or --harden ID"),
        (["--harden", "some"], 2, "--plan is given without a policy to attack; leave it out"),
        (["--resume", "some", "--steps", "100000"], 2, "--steps is given without a policy to attack; leave it out"),
        (["--show", "nobody"], 3, "'nobody'"),
    ):
        assert run(["redteam", *words, "--plan"]) == code, words
        error = capsys.readouterr().err
        assert expected in error and error.count("\n") == 1, error
    assert not list_runs(), "nothing is left"
    assert run(["redteam", unknown, "--steps", "900", "--plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["planned_steps"] == 2 * 900
    sweep = create_run("sweep")
    plan = sweep_job.plan_of(None, "quickstart", {}, ("ppo.lr=1e-3",), {})
    write_spec(sweep, JobSpec(kind="sweep", config={"sweep": asdict(plan)}))
    assert run(["redteam", "--show", sweep.id]) == 1 and "expected a red team" in capsys.readouterr().err


def test_plan_of_a_red_team_names_rungs_that_do_not_fit():
    plan = make_plan()
    assert plan.attack is not None
    for fields, message in (({"rungs": (5, 5)}, "expected ascending"), ({"rungs": (5, 9)}, "rungs is 3")):
        with pytest.raises(ConfigError, match=message):
            replace(plan, attack=replace(plan.attack, **fields))


@pytest.mark.long
def test_red_team_trains_attackers_across_a_kill_and_reports(tmp_path, capsys):
    config = battle_run(env={"max_episode_seconds": 2.0}, num_envs=2, max_updates=2)
    result, _ = run_battle(config, tmp_path / "target")
    assert result.checkpoint is not None
    words = ["--steps", "600", "--shares", "50,100", "--from", "target", "--report-seeds", "2"]
    small = ["--set", "eval.seeds=1", "--set", "eval.record_seeds=1", "--set", "threads=1", "--set", "device=cpu"]
    assert run(["redteam", str(result.checkpoint), *words, *small, "--detach"]) == 0
    (paths,) = list_runs(kind="sweep")
    try:
        wait_for(lambda: any(isinstance(e, EventFresh) for e in read_events(paths.trials)[0]), 300.0)
        for each in list_runs():
            if job_status(each).is_alive:
                kill_job(each)
        for each in result.checkpoint.parent.iterdir():
            each.rename(tmp_path / f"gone-{each.name}")
        sweep_job.resume(paths.id)
        assert until(paths, "completed", "failed", limit_s=500.0).state == "completed"
    finally:
        kill_all_jobs()
    report = read_report(paths)
    assert [len(each.rates) for each in report.attackers] == [2] and not any(e.message for e in report.attackers)
    assert [point.all_steps for point in report.curve] == [300, 600]
    for point in report.curve:
        attacker = next(each for each in report.attackers if each.number == point.attacker)
        assert point.mean and point.sampled and point.episodes == 4 and point.name == attacker.name
        saved = launch.job_status(RunPaths(paths.root.parent / point.job))
        assert saved.state == "completed" and saved.kind == "eval"
    for each in report.attackers:
        attacker = RunPaths(paths.root.parent / each.run)
        records = read_events(attacker.metrics)[0]
        updates = [e for e in records if isinstance(e, EventUpdate)]
        assert [e.reason for e in records if isinstance(e, EventEnd)] == ["stopped", "completed"], "stops at a rung"
        steps = [e.global_step for e in updates]
        assert steps == sorted(set(steps)) and all(e.opponents == {"champion": 2} for e in updates)
        added = [e.checkpoint for e in read_evaluations(attacker.evals) if e.opponent == "target"]
        assert added == [point.checkpoint for point in report.curve if point.run == each.run]
    capsys.readouterr()
    assert run(["redteam", "--show", paths.id]) == 0
    shown = capsys.readouterr().out
    assert "strongest on fresh seeds, from target at" in shown and "training added" in shown
    assert run(["redteam", "--show", paths.id, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert report.curve[1].mean and row["curve"][1]["mean"] == report.curve[1].mean._asdict()
    assert row["exploit"]["matches"] == {"attacker": 4, "usual": 4}
    assert "Turning points" in paths.page.read_text()
    assert run(["redteam", "--harden", paths.id, "--steps", "700", "--set", "threads=1", "--detach"]) == 0
    out = capsys.readouterr().out
    assert "700 steps against 1 attackers; then attack it alike: echelon redteam" in out and "--report-seeds" in out
    try:
        hardened = next(each for each in list_runs(kind="train") if each.id.split("-")[2] == "league")
        with open_league() as store:
            added = [e for e in store.league().entries.values() if e.kind == "exploiter"]
        assert {e.meta["target"] for e in added} == {hardened.id}
        assert {e.meta["checkpoint"] for e in added} <= {point.checkpoint for point in report.curve}
        config = read_spec(hardened).config
        assert (config["total_steps"], config["threads"]) == (700, 1)
        assert config["start_from"] == str(paths.root / "target") and config["opponents"]["mix"]["exploiters"] > 0
        wait_for(lambda: any(isinstance(e, EventUpdate) for e in read_events(hardened.metrics)[0]), 300.0)
    finally:
        kill_all_jobs()
