"""What ``echelon sweep`` prints, and the command lines that it refuses."""

import json

from echelon.jobs import launch, observers
from echelon.jobs.observers import Observers
from echelon.jobs.sweeps.trials import TrialRuns
from echelon.machine import cores
from echelon.runs import RunPaths, runs_home
from echelon.telemetry.events import EventTrial
from echelon_cli import sweep_job
from tests.cli.conftest import parsed
from tests.cli.hostile_home import HOSTILE, control_characters
from tests.jobs.canned_sweep import SWEEP, make_plan, make_sweep, variants_of
from tests.tui.support.canned import alive


def test_sweep_show_prints_trials_repeats_importance_and_command(echelon):
    make_sweep(runs_home())
    code, text, _ = echelon("sweep", "show", "brave-otter")
    assert code == 0 and "12" in text and "pruned" in text and "unchanged" in text
    assert "ppo.lr" in text and "echelon train --preset quickstart --set total_steps=9000" in text
    assert echelon("sweep", "show")[1] == text, "the newest sweep without a name"


def test_sweep_show_json_has_estimates(echelon):
    make_sweep(runs_home())
    found = parsed(echelon("sweep", "show", "--json")[1])
    assert found["id"] == SWEEP and found["state"] == "completed" and found["rung_steps"] == [1000, 3000, 9000]
    assert len(found["trials"]) == 12 + 4 * 3 and len(found["repeated"]) == 4
    finalist = next(f for f in found["repeated"] if f["params"])
    assert {"value", "low", "high"} == set(finalist["score"]) and 0 <= finalist["improvement"]["value"] <= 1
    assert found["best_command"].startswith("echelon") and found["best"] in {f["name"] for f in found["repeated"]}
    assert set(found["importance"]) == {"ppo.lr", "ppo.gamma", "model.recurrence"}


def test_sweep_of_variants_has_statistics_over_seeds(echelon):
    make_sweep(runs_home(), **variants_of(seeds=3))
    text = echelon("sweep", "show")[1]
    assert "3 of 3" in text and "44% to 100%" in text and "same seed of unchanged" in text
    assert "no lstm · seed 2" in text
    found = parsed(echelon("sweep", "show", "--json")[1])
    seeds = [(f["name"], len(f["scores"])) for f in found["repeated"]]
    assert seeds == [("high lr", 3), ("unchanged", 3), ("no lstm", 3)]


def test_variants_share_the_cores_and_keep_requested_threads():
    def threads(overrides: dict, **fields) -> int:
        return sweep_job.plan_of(None, "quickstart", overrides, (), {"ablate": ["lstm"], **fields}).base["threads"]

    assert threads({}, at_once=2) == max(1, cores() // 2) and threads({}, at_once=1024) == 1
    assert threads({"threads": 3}, at_once=4) == 3 and threads({}) == 0


def test_sweep_of_variants_plans_them_without_limit_in_minutes(echelon):
    words = ("--ablate", "lstm", "--ablate", "ppo.lr=1e-4,ppo.gamma=0.9", "--preset", "quickstart", "--seeds", "2")
    plan = parsed(echelon("sweep", "start", *words, "--steps", "300", "--plan", "--json")[1])
    assert [each["name"] for each in plan["variants"]] == ["unchanged", "no lstm", "ppo.lr=1e-4,ppo.gamma=0.9"]
    assert plan["given"] == {"max_minutes": 0.0, "total_steps": 300} and plan["planned_steps"] == 3 * 2 * 300
    text = echelon("sweep", "start", *words, "--plan")[1]
    assert "model.memory=False" in text and "3 variants of preset quickstart with 2 seeds each\n" in text


def test_sweep_notifies_and_its_trials_are_mirrored(echelon, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(launch, "launch", lambda *_, **__: None)
    monkeypatch.setattr(sweep_job, "follow", lambda *_, **__: 0)
    words = ("--vary", "ppo.lr=1e-4,1e-3", "--preset", "quickstart", "--notify", "jsons://host/x")
    assert echelon("sweep", "start", *words, "--mirror", "tensorboard=boards", "--mirror", "wandb")[0] == 0
    (sweep,) = (RunPaths(folder) for folder in runs_home().glob("*-sweep-*"))
    assert observers.read_observers(sweep).notify == ("jsons://host/x",)
    assert observers.mirrors_of_trial(sweep, "calm-fox").mirrors == ("tensorboard=boards/calm-fox", "wandb")
    assert observers.mirrors_of_trial(sweep, "calm-fox").notify == (), "the sweep reports its end once"
    monkeypatch.setattr(launch, "launch", lambda paths, *_, **__: started.append(observers.read_observers(paths)))
    started: list[Observers] = []
    plan = make_plan()
    TrialRuns(plan, sweep).start(EventTrial(number=0, run="20260101-000000-quickstart-calm-fox"), plan.last_rung)
    assert [each.mirrors for each in started] == [("tensorboard=boards/20260101-000000-quickstart-calm-fox", "wandb")]


def test_running_sweep_shows_the_states_of_its_trials(echelon):
    paths = make_sweep(runs_home(), most=15, ended=False)
    with alive(paths):
        rows = parsed(echelon("sweep", "show", "--json")[1])["trials"]
    assert {row["state"] for row in rows} == {"stopped", "running", "queued"}


def test_list_of_runs_shows_the_progress_of_a_sweep(echelon):
    make_sweep(runs_home())
    (row,) = parsed(echelon("runs", "list", "--json")[1])
    assert row["preset"] == "sweep" and row["progress"] == 0.5


def test_sweep_plan_starts_nothing(echelon, tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text('[sweep]\nsampler = "grid"\nsteps = 9000\n[vary]\nppo.lr = [1e-4, 1e-3]\n')
    code, text, _ = echelon("sweep", "start", str(file), "--preset", "quickstart", "--plan")
    assert code == 0 and "2 trials (grid)" in text and "1000, 3000, 9000 steps" in text
    assert not list(runs_home().glob("*sweep*"))


def test_sweep_show_prints_no_control_character(echelon):
    paths = make_sweep(runs_home(), most=30)
    text = paths.trials.read_text(encoding="utf-8").replace('"evaluated"', '"failed"')
    paths.trials.write_text(text.replace('"message":""', f'"message":{json.dumps(HOSTILE)}'), encoding="utf-8")
    for flags in ((), ("--json",)):
        code, out, err = echelon("sweep", "show", *flags)
        assert code == 0 and control_characters(out + err) == set() and "x1b" in out + json.dumps("x1b") * bool(flags)


def test_sweep_of_another_kind_is_refused(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    code, _, err = echelon("sweep", "show", "calm-fox")
    assert code == 2 and "expected a sweep" in err
