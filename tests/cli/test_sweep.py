"""What ``echelon sweep`` prints, and the command lines that it refuses."""

from __future__ import annotations

import json

import pytest

from echelon.runs import runs_home
from tests.cli.conftest import parsed
from tests.cli.hostile_home import HOSTILE, control_characters
from tests.jobs.canned_sweep import SWEEP, make_sweep


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
