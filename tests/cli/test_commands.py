"""What each command prints about runs, dials and this machine."""

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from echelon import __version__
from echelon.config import RunConfig
from echelon.files import atomic_write
from echelon.jobs.process import ProcessIdentity, identify, is_alive
from echelon.jobs.status import JobStatus
from echelon.runs import runs_home
from echelon.telemetry.events import EventCheckpoint
from echelon.telemetry.log import EventLog
from echelon_cli import output
from echelon_cli.commands import doctor, logs, stop
from echelon_cli.tui import actions
from tests.cli.conftest import parsed


def test_version_option_prints_version(echelon):
    assert echelon("--version")[:2] == (0, f"{__version__}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of a process")
def test_command_solves_small_systems_on_one_thread(repository):
    """Two threads took a hundred times as long as one beside other work."""
    solve = "def run(words):\n import os, numpy as np\n np.linalg.solve(np.eye(300), np.ones(300))\n"
    solve += " return len(os.listdir('/proc/self/task'))\n"
    argv = [sys.executable, "-c", f"from echelon_cli import main\n{solve}main.run = run\nmain.main()"]
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    assert subprocess.run(argv, cwd=repository, env=environment).returncode == 1


def test_list_without_runs_suggests_train(echelon):
    runs_home().mkdir(parents=True, exist_ok=True)
    code, out, _ = echelon("runs", "list")
    assert code == 0 and "echelon train" in out
    assert parsed(echelon("runs", "list", "--json")[1]) == []


def test_list_shows_state_steps_and_kind(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    assert "completed" in echelon("runs", "list")[1] and "kind" not in echelon("runs", "list")[1]
    (row,) = parsed(echelon("runs", "list", "--json")[1])
    assert (row["state"], row["kind"], row["update"], row["global_step"]) == ("completed", "train", 4, 400)
    paths = ended_run("20260101-000001-eval-calm-elk")
    paths.spec.write_text(json.dumps({**json.loads(paths.spec.read_text()), "kind": "eval"}))
    header, *lines = echelon("runs", "list")[1].splitlines()
    assert "kind" in header.split() and sorted(line.split()[1] for line in lines) == ["eval", "train"]
    assert [row["id"] for row in parsed(echelon("runs", "list", "--filter", "kind:eval", "--json")[1])] == [paths.id]


def test_damaged_run_does_not_hide_others(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    ended_run("20260102-000000-quickstart-wild-owl").spec.write_text("{")
    code, out, err = echelon("runs", "list")
    assert code == 0 and "calm-fox" in out and "wild-owl" in out and not err
    assert out.count("completed") == 2
    (row,) = (line for line in out.splitlines() if "wild-owl" in line)
    assert row.split()[-1] == "-", "it has no age"


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
    rated = ("runs list", "runs show fox", "dash fox")
    stepped = (*rated, "runs wait fox", "runs stop fox")
    lines = (*stepped, f"runs export fox --csv {tmp_path / 'fox.csv'}")
    printed = {line: parsed(echelon(*line.split(), "--json")[1]) for line in lines}
    rows = {line: row[0] if isinstance(row, list) else row for line, row in printed.items()}
    assert [line for line, row in rows.items() if not who.items() <= row.items()] == []
    assert {rows[line]["global_step"] for line in stepped} == {400}
    assert {rows[line]["last_win_rate"] for line in rated} == {0.6}


def test_logs_prints_last_lines(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    out = echelon("runs", "logs", "fox", "-n", "1")[1]
    assert "second line" in out and "first line" not in out
    assert parsed(echelon("runs", "logs", "fox", "--json")[1]) == {"worker.log": ["first line", "second line"]}


def test_logs_follow_summarises_ended_run(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    code, out, _ = echelon("runs", "logs", "-f", "fox")
    assert code == 0 and "60% against baseline at update 4" in out and "completed" in out


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
    out = echelon("runs", "logs", "-f", "fox")[1]
    assert words in out and ("echelon train" in out) == (kind == "train")


def test_dashboard_does_not_resume_runs_that_are_no_jobs(ended_run):
    paths = ended_run("20260101-000000-sim-calm-fox")
    paths.spec.write_text(json.dumps({**json.loads(paths.spec.read_text()), "kind": "sim"}))
    assert actions.resume(paths.root) == (f"{paths.id} is of kind 'sim', which cannot be resumed", "warn")


def test_wait_returns_exit_code_of_ended_run(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    assert echelon("runs", "wait", "fox")[0] == 0
    paths.exit.write_text('{"code": null, "signal": "SIGKILL", "message": "killed"}')
    assert echelon("runs", "wait", "fox")[0] == 5
    paths.exit.write_text('{"code": 4, "signal": null, "message": ""}')
    assert echelon("runs", "wait", "fox")[0] == 4


def abandon(paths, process: subprocess.Popen) -> ProcessIdentity:
    """Make a run one whose supervisor is gone and whose worker is this process; return its identity."""
    assert process.stdout and process.stdout.readline()
    worker = identify(process.pid)
    assert worker is not None
    gone = replace(worker, pid=2**22)
    paths.processes.write_text(json.dumps({"supervisor": asdict(gone), "worker": asdict(worker)}))
    paths.exit.unlink()
    return worker


STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"


def test_stop_waits_for_orphaned_trainer(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    argv = [sys.executable, "-c", STUBBORN]
    with (
        open(paths.log_worker, "ab") as log,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, process_group=0) as left,
    ):
        worker = abandon(paths, left)
        code, out, _ = echelon("runs", "stop", "fox", "--timeout", "0.1")
        assert code == 1 and "its orphaned worker is still ending" in out and is_alive(worker)
        assert "its worker is still ending" in echelon("runs", "rm", "fox", "--yes")[2]
        code, out, _ = echelon("runs", "stop", "fox", "--now", "--json")
        (row,) = parsed(out)
        assert code == 0 and row["orphan"] and row["was"] == "crashed" and not is_alive(worker)
    assert "was not running" in echelon("runs", "stop", "fox")[1]


@pytest.mark.parametrize(
    ("checkpoint", "text"), [("step-7", ", newest checkpoint step-7"), ("step-9", ", saved step-9"), ("", "")]
)
def test_stop_names_what_it_has_saved(ended_run, checkpoint, text):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    assert stop._newest_checkpoint(paths) == ""
    with EventLog(paths.metrics) as log:
        log.append(EventCheckpoint(update=7, global_step=700, path="step-7"))
    before = JobStatus(id="fox", kind="train", state="running", update=7)
    ended = replace(before, state="stopped", checkpoint=checkpoint)
    assert stop._line(before, ended, stop._newest_checkpoint(paths)) == f"fox stopped at update 7{text}"


def test_stop_names_a_foreign_process_and_leaves_it_alone(echelon, ended_run):
    """A copied run folder may name any process by its true start time; reading the run's log is no work on it."""
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    argv = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", str(paths.root)]
    with (
        open(paths.log_worker) as reader,
        subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, pass_fds=[reader.fileno()]
        ) as foreign,
    ):
        abandon(paths, foreign)
        notice = (
            f"proc.json of run {paths.id!r} names process {foreign.pid} as its worker, expected a process of yours "
            "that works on this run; it is not signalled"
        )
        code, out, _ = echelon("runs", "stop", "fox", "--now")
        assert code == 0 and " ".join(out.split()) == f"{paths.id} was not running (crashed) {notice}"
        assert parsed(echelon("runs", "stop", "fox", "--now", "--json")[1])[0]["foreign"] == notice
        assert echelon("runs", "rm", "fox", "--yes")[0] == 0
        assert foreign.poll() is None
        foreign.communicate(b"")
        assert foreign.returncode == 0


def test_rm_asks_for_confirmation_without_yes(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    assert echelon("runs", "rm", "fox", "--json")[0] == 2
    assert paths.root.exists()
    assert parsed(echelon("runs", "rm", "fox", "--yes", "--json")[1]) == [paths.id]
    assert not paths.root.exists()


def test_rm_deletes_runs_of_two_homes_with_one_id(echelon, ended_run, tmp_path):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    copy = tmp_path / "copies" / paths.id
    shutil.copytree(paths.root, copy)
    assert parsed(echelon("runs", "rm", str(copy), "fox", "--yes", "--json")[1]) == [paths.id, paths.id]
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


def test_compare_lists_differing_fields_of_presets(echelon):
    assert "do not differ" in echelon("runs", "compare", "quickstart", "quickstart")[1]
    assert "env.world.size_x" in echelon("runs", "compare", "quickstart", "standard")[1]


def test_config_schema_describes_every_field(echelon):
    document = parsed(echelon("config", "show", "--schema", "--json")[1])
    assert document["title"] == RunConfig.__name__
    table = echelon("config", "show", "--schema")[1]
    assert "Learning rate." in table and "env.world.size_x" in table


def test_doctor_passes_on_this_machine(echelon):
    findings = parsed(echelon("doctor", "--json")[1])
    assert {row["name"] for row in findings} == set(doctor.CHECKS)
    assert not [row for row in findings if row["verdict"] == "fault"]


def test_doctor_measures_speed_on_request(echelon, monkeypatch):
    monkeypatch.setattr("echelon.bench.scenes.ladder", lambda device: [(16, 12340.0), (64, 56780.0)])
    rows = parsed(echelon("doctor", "--speed", "--json")[1])
    found = {row["name"]: row["found"] for row in rows if row["name"].startswith("speed")}
    assert list(found) == ["speed, 16 environments", "speed, 64 environments"]
    assert found["speed, 16 environments"].startswith("12.3k agent-steps/s, 5v5 on c")


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


def test_counts_and_durations_are_short():
    counts = {0: "0", 950: "950", 9999: "9999", 12_345: "12.3k", 4_560_000: "4.56M", math.nan: "-"}
    assert {value: output.count(value) for value in counts} == counts
    durations = {0: "0s", 0.44: "0.4s", 42: "42s", 190: "3m10s", 18_120: "5h02m", 187_200: "2d04h", None: "-"}
    assert {value: output.duration(value) for value in durations} == durations


def test_logs_read_the_end_of_a_log_only(echelon, ended_run, monkeypatch, tmp_path):
    log = tmp_path / "worker.log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(200_000)))
    assert logs.tail(log, 3) == ["line 199997", "line 199998", "line 199999"]
    monkeypatch.setattr(logs, "MAX_TAIL_BYTES", 30)
    assert logs.tail(log, 1_000_000) == ["line 199998", "line 199999"], "bounded by bytes"
    run = ended_run("20260101-000000-quickstart-calm-fox")
    log.rename(run.log_worker)
    code, out, _ = echelon("runs", "logs", run.id, "-n", "5")
    assert code == 0 and "of the last 0 MiB:" in out and "line 199998" in out and "line 199997" not in out
    short = tmp_path / "short.log"
    short.write_text("a\nb\nc")
    assert logs.tail(short, 2) == ["b", "c"] and logs.tail(short, 0) == []
    short.write_text("x" * 40)
    assert logs.tail(short, 2) == ["x" * 30], "a line without an end"


def test_runs_list_sorts_by_fields_of_the_query(echelon, ended_run):
    for name, wins in (("low", 0.2), ("high", 0.9), ("mid", 0.5)):
        ended_run(f"20260101-000000-quickstart-idle-{name}", wins=wins)
    found = parsed(echelon("runs", "list", "--sort", "eval", "--json")[1])
    assert [row["last_win_rate"] for row in found] == [0.9, 0.5, 0.2]
    found = parsed(echelon("runs", "list", "--sort", "run", "--json")[1])
    assert [row["id"].rpartition("-")[2] for row in found] == ["high", "low", "mid"]
    code, _, err = echelon("runs", "list", "--sort", "laddr")
    assert code == 2 and "did you mean 'ladder'" in err


def test_runs_show_names_evaluation_opponent_and_source(echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-idle-otter")
    state = {"commit": "c0ffee" * 7, "dirty": True, "diff_bytes": 12}
    machine = {"processor": "Z80", "cores": 1, "driver": "570.1", "gpus": ["H100"]}
    write = {"python": "3.12", "git": state, "packages": {"torch": "2.13"}, "devices": machine}
    atomic_write(paths.environment, json.dumps(write))
    _, out, _ = echelon("runs", "show", "otter")
    assert all(text in out for text in ("evaluation, 95 % interval", "baseline", "in training against"))
    assert "c0ffeec0ffee with uncommitted changes (12 B in source.diff)" in out
    assert "torch 2.13" in out and "Z80, 1 cores; H100, driver 570.1" in out
    other = ended_run("20260101-000000-quickstart-idle-heron")
    atomic_write(other.environment, json.dumps({**write, "packages": {"torch": "2.14"}}))
    found = parsed(echelon("runs", "compare", "otter", "heron", "--json")[1])["differing"]
    assert found == {"environment.packages.torch": ["2.13", "2.14"]}


def test_wrong_home_is_an_error_and_no_empty_list(echelon, monkeypatch, tmp_path):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "rnus"))
    lists = (("runs", "list"), ("runs", "queue"), ("replay", "list"))
    for words in (*lists, ("dash", "--once")):
        code, _, err = echelon(*words)
        assert code == 3 and "rnus" in err and "ECHELON_HOME" in err


def test_export_of_a_run_without_measurements_fails(echelon, ended_run, tmp_path):
    ended_run("20260101-000000-quickstart-idle-otter").metrics.write_text("")
    code, _, err = echelon("runs", "export", "otter", "--csv", str(tmp_path / "a.csv"))
    assert code == 1 and "no measurements" in err and not (tmp_path / "a.csv").exists()


def test_runs_list_shows_the_newest_and_says_how_many_there_are(echelon, ended_run):
    for number in range(5):
        ended_run(f"2026112{number}-000000-quickstart-calm-fox{number}", wins=number / 10)
    code, out, _ = echelon("runs", "list", "-n", "2")
    assert code == output.DONE and out.count("calm-fox") == 2 and out.rstrip().endswith("3 more; -n 0 lists all")
    assert "calm-fox4" in out and "more;" not in echelon("runs", "list")[1]
    code, out, _ = echelon("runs", "list", "-n", "1", "--filter", "eval<35%", "--json")
    assert code == output.DONE and [row["id"][-4:] for row in parsed(out)] == ["fox3"]
