"""What each command prints about runs, dials and this machine."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from echelon import __version__
from echelon.config import RunConfig
from echelon.jobs.process import identify, is_alive
from echelon_cli import output
from echelon_cli.commands import doctor
from echelon_cli.commands.train import ALIASES
from echelon_cli.tui import actions
from tests.cli.conftest import parsed


def test_version_option_prints_version(echelon):
    assert echelon("--version")[:2] == (0, f"{__version__}\n")


def test_jobs_without_runs_suggests_train(echelon):
    code, out, _ = echelon("jobs")
    assert code == 0 and "echelon train" in out
    assert parsed(echelon("jobs", "--json")[1]) == []


def test_jobs_lists_state_and_steps(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    assert "completed" in echelon("jobs")[1]
    (row,) = parsed(echelon("jobs", "--json")[1])
    assert (row["state"], row["update"], row["global_step"]) == ("completed", 4, 400)


def test_damaged_run_does_not_hide_others(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    ended_run("20260102-000000-quickstart-wild-owl").spec.write_text("{")
    code, out, err = echelon("jobs")
    assert code == 0 and "calm-fox" in out and "wild-owl" in out and not err
    assert " -  it has no readable spec.json" in out


def test_runs_list_show_and_compare(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox", lr=1e-3, wins=0.6)
    ended_run("20260102-000000-quickstart-wild-owl", lr=5e-4, wins=0.2)
    rows = parsed(echelon("runs", "list", "--json")[1])
    assert [row["last_win_rate"] for row in rows] == [0.2, 0.6]
    assert "60%" in echelon("runs", "show", "fox")[1]
    assert parsed(echelon("runs", "show", "fox", "--json")[1])["provenance"] == {"ppo.lr": "--set"}
    compared = parsed(echelon("runs", "compare", "fox", "owl", "--json")[1])
    assert compared["differing"] == {"ppo.lr": [1e-3, 5e-4]}
    assert "ppo.lr" in echelon("runs", "compare", "fox", "owl")[1]


def test_commands_use_the_same_json_keys_for_runs(echelon, ended_run, tmp_path):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    who = {"id": paths.id, "folder": str(paths.root)}
    printed = {
        words: parsed(echelon(*words, "--json")[1])
        for words in (
            ("runs", "list"),
            ("runs", "show", "fox"),
            ("dash", "fox"),
            ("jobs",),
            ("wait", "fox"),
            ("stop", "fox"),
            ("export", "fox", "--csv", str(tmp_path / "fox.csv")),
        )
    }
    rows = {words: row[0] if isinstance(row, list) else row for words, row in printed.items()}
    assert [words for words, row in rows.items() if not who.items() <= row.items()] == []
    assert {row["global_step"] for words, row in rows.items() if words[0] != "export"} == {400}
    assert {row["last_win_rate"] for words, row in rows.items() if words[0] in ("runs", "dash")} == {0.6}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("stop calm", {"calm-fox"}),
        ("stop 2026", {"20260101-000000-quickstart-calm-fox"}),
        ("config show --run ca", {"calm-fox"}),
        ("config diff quick", {"quickstart"}),
        ("config diff quickstart calm", {"calm-fox"}),
    ],
)
def test_completion_offers_full_and_short_run_ids(repository, ended_run, typed, offered):
    ended_run("20260101-000000-quickstart-calm-fox")
    words = f"echelon {typed}"
    asked = {"_ECHELON_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "echelon_cli.main"],
        cwd=repository,
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
    )
    assert set(done.stdout.split()) == offered, done.stderr


def test_start_from_accepts_init_from(echelon, tmp_path):
    for flag in ("--start-from", "--init-from"):
        code, _, err = echelon("train", flag, str(tmp_path / "nosuch"))
        assert code == 3 and "start_from is" in err


def test_logs_prints_last_lines(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    out = echelon("logs", "fox", "-n", "1")[1]
    assert "second line" in out and "first line" not in out
    assert parsed(echelon("logs", "fox", "--json")[1]) == {"trainer.log": ["first line", "second line"]}


def test_logs_follow_summarises_ended_run(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    code, out, _ = echelon("logs", "-f", "fox")
    assert code == 0 and "60% wins" in out and "completed" in out


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("train", 0, "echelon eval 2026"),
        ("train", 1, "echelon train --resume 2026"),
        ("arena", 0, "echelon arena standings"),
        ("arena", 4, "echelon arena run --resume 2026"),
        ("eval", 0, "echelon runs show 2026"),
        ("eval", 4, "echelon eval --resume 2026"),
        ("sim", 0, "echelon watch 2026"),
    ],
)
def test_next_steps_depend_on_job_kind_and_state(echelon, ended_run, kind, code, words):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    paths.spec.write_text(json.dumps({**json.loads(paths.spec.read_text()), "kind": kind}))
    paths.exit.write_text(json.dumps({"code": code, "signal": None, "message": ""}))
    out = echelon("logs", "-f", "fox")[1]
    assert words in out and ("echelon train" in out) == (kind == "train")


def test_dashboard_does_not_resume_runs_that_are_no_jobs(ended_run):
    paths = ended_run("20260101-000000-sim-calm-fox")
    paths.spec.write_text(json.dumps({**json.loads(paths.spec.read_text()), "kind": "sim"}))
    assert actions.resume(paths.root) == (f"{paths.id} is of kind 'sim', which cannot be resumed", "warn")


def test_wait_returns_exit_code_of_ended_run(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    assert echelon("wait", "fox")[0] == 0
    paths.exit.write_text('{"code": null, "signal": "SIGKILL", "message": "killed"}')
    assert echelon("wait", "fox")[0] == 5
    paths.exit.write_text('{"code": 4, "signal": null, "message": ""}')
    assert echelon("wait", "fox")[0] == 4


STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"


def test_stop_waits_for_orphaned_trainer(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    paths.exit.unlink()
    argv = [sys.executable, "-c", STUBBORN]
    with (
        open(paths.log_trainer, "ab") as log,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, process_group=0) as left,
    ):
        assert left.stdout and left.stdout.readline()
        trainer = identify(left.pid)
        assert trainer is not None
        gone = replace(trainer, pid=2**22)
        paths.processes.write_text(json.dumps({"supervisor": gone.to_dict(), "trainer": trainer.to_dict()}))
        code, out, _ = echelon("stop", "fox", "--timeout", "0.1")
        assert code == 1 and "its orphaned trainer is still ending" in out and is_alive(trainer)
        assert "its trainer is still ending" in echelon("rm", "fox", "--yes")[2]
        code, out, _ = echelon("stop", "fox", "--now", "--json")
        (row,) = parsed(out)
        assert code == 0 and row["orphan"] and row["was"] == "crashed" and not is_alive(trainer)
    assert "was not running" in echelon("stop", "fox")[1]


def test_stop_names_a_foreign_process_and_leaves_it_alone(echelon, ended_run):
    """A copied run folder may name any process by its true start time; reading the run's log is no work on it."""
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    paths.exit.unlink()
    argv = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", str(paths.root)]
    with (
        open(paths.log_trainer) as reader,
        subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, pass_fds=[reader.fileno()]
        ) as foreign,
    ):
        assert foreign.stdout and foreign.stdout.readline()
        identity = identify(foreign.pid)
        assert identity is not None
        gone = replace(identity, pid=2**22)
        paths.processes.write_text(json.dumps({"supervisor": gone.to_dict(), "trainer": identity.to_dict()}))
        notice = (
            f"proc.json of run {paths.id!r} names process {foreign.pid} as its trainer, expected a process of yours "
            "that works on this run; it is not signalled"
        )
        code, out, _ = echelon("stop", "fox", "--now")
        assert code == 0 and " ".join(out.split()) == f"{paths.id} was not running (crashed) {notice}"
        assert parsed(echelon("stop", "fox", "--now", "--json")[1])[0]["foreign"] == notice
        assert echelon("rm", "fox", "--yes")[0] == 0
        assert foreign.poll() is None
        foreign.communicate(b"")
        assert foreign.returncode == 0


def test_rm_asks_for_confirmation_without_yes(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    assert echelon("rm", "fox", "--json")[0] == 2
    assert paths.root.exists()
    assert parsed(echelon("rm", "fox", "--yes", "--json")[1]) == [paths.id]
    assert not paths.root.exists()


def test_rm_deletes_runs_of_two_homes_with_one_id(echelon, ended_run, tmp_path):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    copy = tmp_path / "copies" / paths.id
    shutil.copytree(paths.root, copy)
    assert parsed(echelon("rm", str(copy), "fox", "--yes", "--json")[1]) == [paths.id, paths.id]
    assert not paths.root.exists() and not copy.exists()


def test_config_show_names_source_of_each_value(echelon, tmp_path):
    file = tmp_path / "my run.toml"
    file.write_text("[ppo]\nlr = 0.002\nvf_coef = 0.7\n")
    shown = parsed(echelon("config", "show", "--config", str(file), "--set", "ppo.lr=0.003", "--json")[1])
    assert (shown["values"]["ppo.lr"], shown["provenance"]["ppo.lr"]) == (0.003, "--set")
    assert (shown["values"]["ppo.vf_coef"], shown["provenance"]["ppo.vf_coef"]) == (0.7, "file")
    assert shown["provenance"]["env.world.size_x"] == "preset"
    assert "keep_checkpoints" not in shown["provenance"]
    assert "ppo.vf_coef" in echelon("config", "show")[1]


def test_config_diff_lists_differing_fields(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox", lr=1e-3)
    ended_run("20260102-000000-quickstart-wild-owl", lr=2e-3)
    assert parsed(echelon("config", "diff", "fox", "owl", "--json")[1]) == {"ppo.lr": [1e-3, 2e-3]}
    assert "do not differ" in echelon("config", "diff", "quickstart", "quickstart")[1]


def test_config_schema_describes_every_field(echelon):
    document = parsed(echelon("config", "schema", "--json")[1])
    assert document["title"] == RunConfig.__name__
    table = echelon("config", "schema")[1]
    assert "Learning rate." in table and "env.world.size_x" in table


def test_doctor_passes_on_this_machine(echelon):
    findings = parsed(echelon("doctor", "--json")[1])
    assert {row["name"] for row in findings} == {check().name for check in doctor.CHECKS}
    assert not [row for row in findings if row["verdict"] == "fault"]


def test_doctor_gives_advice_for_every_fault(echelon, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ECHELON_HOME", str(blocked))
    code, out, _ = echelon("doctor", "--json")
    faults = [row for row in parsed(out) if row["verdict"] == "fault"]
    assert code == 1 and [row["name"] for row in faults] == ["runs"] and "ECHELON_HOME" in faults[0]["advice"]


def test_doctor_reports_failing_checks_as_faults(echelon, monkeypatch):
    def unwritable(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/nowhere/.cache/warp")

    monkeypatch.setattr(doctor, "_start_warp", unwritable)
    monkeypatch.setattr("psutil.virtual_memory", unwritable)
    code, out, _ = echelon("doctor", "--json")
    faults = {row["name"]: row for row in parsed(out) if row["verdict"] == "fault"}
    assert code == 1 and set(faults) == {"warp", "kernel cache", "memory"}
    assert "WARP_CACHE_PATH" in faults["warp"]["advice"] and "PermissionError" in faults["memory"]["found"]


def test_doctor_warns_about_missing_viewer_build(echelon, tmp_path, monkeypatch):
    monkeypatch.setattr("echelon.server.routes.STATIC", tmp_path)
    (row,) = [row for row in parsed(echelon("doctor", "--json")[1]) if row["name"] == "viewer"]
    assert row["verdict"] == "warning" and "pip install" in row["advice"]


@pytest.mark.parametrize("flag", ALIASES)
def test_train_flags_name_existing_config_keys(flag):
    from echelon.jobs.config_layers import default_values

    assert set(ALIASES[flag]) <= default_values().keys()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (9999, "9999"), (12_345, "12.3k"), (4_560_000, "4.56M"), (math.nan, "-")],
)
def test_count_is_at_most_six_characters(value, text):
    assert output.count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.44, "0.4s"), (42, "42s"), (190, "3m10s"), (18_120, "5h02m"), (187_200, "2d04h"), (None, "-")],
)
def test_duration_shows_two_units(seconds, text):
    assert output.duration(seconds) == text


@pytest.mark.parametrize("value", [-1e-9, 3.14159, -123.456, 98765.4, 1e12, 0.0, math.inf])
def test_figure_is_at_most_seven_characters(value):
    assert len(output.figure(value)) <= 8
