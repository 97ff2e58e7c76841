"""What ``echelon sweep`` prints, and the command lines that it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from echelon.jobs import launch, observers
from echelon.jobs.observers import MirrorKind, Observers
from echelon.jobs.sweeps.trials import TrialRuns
from echelon.runs import RunPaths, list_runs, runs_home
from echelon.telemetry.events import EventTrial
from echelon_cli import sweep_job
from tests.cli.conftest import parsed
from tests.cli.hostile_home import HOSTILE, control_characters
from tests.jobs.canned_sweep import SWEEP, make_plan, make_sweep, variants_of


def test_sweep_show_prints_trials_finalists_importance_and_command(echelon):
    make_sweep(runs_home())
    code, text, _ = echelon("sweep", "show", "brave-otter")
    assert code == 0 and "12" in text and "pruned" in text and "unchanged" in text
    assert "ppo.lr" in text and "echelon train --preset quickstart --set total_steps=9000" in text
    assert echelon("sweep", "show")[1] == text, "the newest sweep without a name"


def test_sweep_show_json_has_estimates_and_profiles(echelon):
    make_sweep(runs_home())
    found = parsed(echelon("sweep", "show", "--json")[1])
    assert found["id"] == SWEEP and found["state"] == "completed" and found["rung_steps"] == [1000, 3000, 9000]
    assert len(found["trials"]) == 12 and len(found["finalists"]) == 4
    finalist = next(f for f in found["finalists"] if f["trial"] >= 0)
    assert {"value", "low", "high"} == set(finalist["score"]) and 0 <= finalist["improvement"]["value"] <= 1
    assert len(finalist["profile"]) == len(found["profile_thresholds"]) and found["best"]["command"].startswith(
        "echelon"
    )
    assert set(found["importance"]) == {"ppo.lr", "ppo.gamma", "model.recurrence"}


def test_sweep_of_listed_variants_has_statistics_over_seeds(echelon):
    make_sweep(runs_home(), **variants_of(seeds=3))
    text = echelon("sweep", "show")[1]
    assert "variant" in text and "3 of 3" in text and "44% to 100%" in text and "same seed of whole" in text
    found = parsed(echelon("sweep", "show", "--json")[1])
    assert [(f["name"], len(f["scores"])) for f in found["finalists"]] == [("high lr", 3), ("whole", 3), ("no lstm", 3)]


def test_sweep_notifies_and_its_trials_are_mirrored(echelon, monkeypatch):
    found = {"tensorboard": MirrorKind(package="json", title="x", extra="x", target="folder")}
    monkeypatch.setattr(observers, "MIRRORS", {**found, "wandb": replace(found["tensorboard"], target="project")})
    monkeypatch.setattr(launch, "launch", lambda *_, **__: None)
    monkeypatch.setattr(sweep_job, "follow", lambda *_, **__: 0)
    words = ("--vary", "ppo.lr=1e-4,1e-3", "--preset", "quickstart", "--notify", "https://host/x")
    assert echelon("sweep", *words, "--mirror", "tensorboard=boards", "--mirror", "wandb")[0] == 0
    (sweep,) = (RunPaths(folder) for folder in runs_home().glob("*-sweep-*"))
    assert observers.read_observers(sweep).notify == ("https://host/x",)
    assert observers.mirrors_of_trial(sweep, "calm-fox").mirrors == ("tensorboard=boards/calm-fox", "wandb")
    assert observers.mirrors_of_trial(sweep, "calm-fox").notify == (), "the sweep reports its end once"
    monkeypatch.setattr(launch, "launch", lambda paths, *_, **__: started.append(observers.read_observers(paths)))
    started: list[Observers] = []
    plan = make_plan()
    TrialRuns(plan, sweep).start(EventTrial(number=0, run="20260101-000000-quickstart-calm-fox"), plan.last_rung)
    assert [each.mirrors for each in started] == [("tensorboard=boards/20260101-000000-quickstart-calm-fox", "wandb")]


def test_sweep_with_an_unusable_url_starts_nothing(echelon):
    code, _, err = echelon("sweep", "--vary", "ppo.lr=1e-4,1e-3", "--notify", "ftp://host/T0P")
    assert code == 2 and "T0P" not in err and list_runs() == []


def test_running_sweep_shows_the_states_of_its_trials(echelon):
    make_sweep(runs_home(), most=15, ended=False)
    rows = parsed(echelon("sweep", "show", "--json")[1])["trials"]
    assert {row["state"] for row in rows} == {"paused", "running", "queued"}


def test_list_of_runs_shows_the_progress_of_a_sweep(echelon):
    make_sweep(runs_home())
    (row,) = parsed(echelon("runs", "list", "--json")[1])
    assert row["preset"] == "sweep" and row["progress"] == 0.5


def test_sweep_plan_starts_nothing(echelon, tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text('[sweep]\nsampler = "grid"\nsteps = 9000\n[vary]\nppo.lr = [1e-4, 1e-3]\n')
    code, text, _ = echelon("sweep", str(file), "--preset", "quickstart", "--plan")
    assert code == 0 and "2 trials (grid)" in text and "1000, 3000, 9000 steps" in text
    assert not list(runs_home().glob("*sweep*"))


def test_sweep_show_prints_no_control_character(echelon):
    paths = make_sweep(runs_home(), most=30)
    text = paths.trials.read_text(encoding="utf-8").replace('"evaluated"', '"failed"')
    paths.trials.write_text(text.replace('"message":""', f'"message":{json.dumps(HOSTILE)}'), encoding="utf-8")
    for flags in ((), ("--json",)):
        code, out, err = echelon("sweep", "show", *flags)
        assert code == 0 and control_characters(out + err) == set() and "x1b" in out + json.dumps("x1b") * bool(flags)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--preset", "quickstart", "--plan"), 2, "varies nothing"),
        (("--vary", "ppo.lrr=1,2", "--plan"), 2, "did you mean 'ppo.lr'"),
        (("missing.toml",), 2, "does not exist"),
        (("--resume", "latest"), 3, "no sweep"),
        (("--resume", "x", "--trials", "3"), 2, "as it was planned"),
        (("show", "nowhere"), 3, "does not exist"),
    ],
)
def test_sweep_refuses_in_one_line(echelon, words, code, message):
    found, _, err = echelon("sweep", *words)
    assert found == code and message in err and err.count("\n") == 1


def test_sweep_of_another_kind_is_refused(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    code, _, err = echelon("sweep", "show", "calm-fox")
    assert code == 2 and "expected a sweep" in err
