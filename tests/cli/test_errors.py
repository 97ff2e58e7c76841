"""Every mistake is one line that names the thing, and an exit code that says what kind it was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from echelon.runs import runs_home
from tests.cli.conftest import parsed
from tests.replay.golden import SMALL

MISTAKES = {
    "unknown option": (("runs", "list", "--al"), 2, "--al"),
    "unknown preset": (("train", "--preset", "quickstrt"), 2, "did you mean 'quickstart'"),
    "unknown key": (("train", "--set", "ppo.lrr=1"), 2, "did you mean 'ppo.lr'"),
    "a section": (("config", "show", "--set", "ppo=1"), 2, "section"),
    "no assignment": (("train", "--set", "ppo.lr"), 2, "KEY=VALUE"),
    "wrong type": (("train", "--set", "num_envs=many"), 2, "num_envs is 'many'"),
    "impossible value": (("train", "--set", "ppo.lr=-1"), 2, "ppo.lr is -1"),
    "impossible map": (("train", "--set", "env.world.size_x=5"), 2, "size_x is 5 (from --set), expected"),
    "hiding no column": (
        ("train", "--set", "model.hidden_columns=corse"),
        2,
        "model.hidden_columns is 'corse', expected",
    ),
    "missing file": (("train", "--config", "no.toml"), 2, "'no.toml' does not exist"),
    "missing run": (("runs", "wait", "nobody"), 3, "run 'nobody' does not exist"),
    "resuming nothing": (("train", "--resume", "nobody"), 3, "nobody"),
    "evaluating nothing": (("eval", "nobody"), 3, "nobody"),
    "stopping nothing": (("runs", "stop", "nobody"), 3, "nobody"),
    "showing nothing": (("dash", "nobody"), 3, "run 'nobody' does not exist"),
    "starting from nothing": (("train", "--start-from", "nosuch"), 3, "start_from is 'nosuch', expected a checkpoint"),
    "comparing with no preset": (("runs", "compare", "quickstrat", "standard"), 3, "quickstrat"),
    "an unknown layout": (
        ("config", "observation", "--layout", "foo"),
        2,
        "--layout is 'foo', expected suite or classic",
    ),
}


@pytest.mark.parametrize(("words", "code", "names"), MISTAKES.values(), ids=MISTAKES.keys())
def test_usage_error_is_one_line_with_exit_code(echelon, words, code, names):
    done, out, err = echelon(*words)
    assert done == code
    assert names in err and err.startswith("error: ") and err.count("\n") == 1
    assert out == ""
    row = parsed(echelon(*words, "--json")[1])
    assert row["code"] == code and names in row["error"]
    assert not runs_home().exists(), "no folder may remain"


def test_wrong_usage_returns_usage_code(echelon, ended_run, tmp_path):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    paths.replays.mkdir()
    file = shutil.copy(SMALL, paths.replays)
    for words in (
        ("runs", "compare", "fox", "fox", "--chart", "nope"),
        ("runs", "rm", "fox", "--json"),
        ("replay", "export", str(file), "--out", str(tmp_path / "x.txt")),
    ):
        code, _, err = echelon(*words)
        assert code == 2 and err.count("\n") == 1
    assert paths.root.is_dir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("runs", "logs", "fox", "-n", "abc"), "--lines"),
        (("eval", "fox", "--weapon-prob=3"), "--weapon-prob"),
        (("eval", "fox", "--maps", "foo"), "--maps"),
        (("runs", "heat", "fox", "--kind", "x"), "--kind"),
        (("runs", "export", "fox"), "nothing to export, expected one of --csv, --tensorboard, --wandb"),
        (("runs", "lits"), "Did you mean 'list'?"),
        (("trian",), "Did you mean 'train'"),
        (("train", "--qqq"), "--qqq"),
        (("runs", "compare"), "RUN"),
        (("runs", "list", "--filter"), "--filter"),
        (("train", "--set", "num_envs=0"), "num_envs is 0 (from --set), expected"),
        (("train", "--device", "tpu"), "device is 'tpu', expected auto, cpu, cuda or cuda:N"),
        (
            ("train", "--mirror", "nosuch"),
            "mirror 'nosuch' does not exist, expected one of: tensorboard, wandb, trackio",
        ),
        (("runs", "queue", "--launcher", "pbs"), "launcher 'pbs' does not exist, expected one of: ray, slurm"),
        (("eval", "heuristic:easy", "--size", "3"), "world.size_x is 3, expected"),
        (("policy", "pull", "policy"), "repository 'policy' is no OWNER/NAME; try someone/keen-fox"),
    ],
)
def test_unreadable_command_line_is_one_line_that_names_the_word(echelon, words, message):
    code, _, err = echelon(*words)
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and message in err


@pytest.mark.parametrize("words", [(), ("runs",)])
def test_group_without_command_prints_its_help(echelon, words):
    code, out, err = echelon(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"Usage: {' '.join(('echelon', *words))} [OPTIONS] COMMAND") and err.count("\n") > 15


def test_policy_to_start_from_that_cannot_be_read_leaves_no_run(echelon, tmp_path):
    (tmp_path / "noise.safetensors").write_bytes(b"noise" * 30)
    code, _, err = echelon("train", "--start-from", str(tmp_path / "noise.safetensors"))
    assert code == 1 and err.count("\n") == 1
    assert "is not an exported policy: file 'noise.safetensors' is damaged: its header has " in err
    assert not runs_home().exists()


def test_unknown_level_suggests_nearest(echelon):
    code, _, err = echelon("arena", "add", "hards")
    assert code == 3 and err.endswith("it is no level either, did you mean 'hard'?\n")


def test_unencodable_characters_do_not_end_commands(repository, echelon):
    assert echelon("arena", "add", "medium")[0] == 0
    done = subprocess.run(
        [sys.executable, "-m", "echelon_cli.main", "arena", "standings"],
        cwd=repository,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0 and "medium" in done.stdout and done.stderr == ""


def test_debug_option_shows_traceback(repository):
    done = subprocess.run(
        [sys.executable, "-m", "echelon_cli.main", "runs", "wait", "nobody", "--debug"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert "Traceback" in done.stderr and "RunNotFoundError" in done.stderr


def test_internal_error_is_one_line(echelon, monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("speed")

    monkeypatch.setattr("echelon_cli.commands.stop.find_run", broken)
    code, out, err = echelon("runs", "wait", "fox", "--json")
    assert code == 1 and err == "error: internal error: KeyError: 'speed'; try --debug for a traceback\n"
    assert parsed(out)["code"] == 1
    code, _, err = echelon("runs", "wait", "fox", "--debug")
    assert code == 1 and "Traceback" in err and err.endswith("KeyError: 'speed'\n")


def test_huge_numbers_are_one_line_errors(echelon):
    many = "9" * 23
    assert echelon("arena", "matches", "-n", many)[0] == 2
    assert echelon("runs", "logs", "fox", "-n", many)[0] == 2


@pytest.mark.parametrize(("name", "damage"), [("exit.json", '"update"'), ("spec.json", '"created"')])
@pytest.mark.parametrize("number", ["1e999", "-1e999", "1e20", "1" + "0" * 400])
def test_corrupt_number_hides_no_run(echelon, ended_run, name, damage, number):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    row = json.loads((paths.root / name).read_text())
    row.pop(damage.strip('"'))
    (paths.root / name).write_text(json.dumps(row)[:-1] + f", {damage}: {number}}}")
    for words in (("runs", "list"), ("runs", "show", "fox"), ("runs", "wait", "fox")):
        code, out, err = echelon(*words)
        assert (code, err) == (0, "") and "completed" in out


def test_damaged_league_file_is_one_line_error(echelon, tmp_path):
    file = tmp_path / "league.json"
    entry = {"entry_id": "a", "ckpt_path": "", "kind": "heuristic", "rating": 5}
    file.write_text(json.dumps({"schema_version": 1, "entries": [entry]}))
    code, _, err = echelon("arena", "add", str(file))
    assert code == 1 and "league.json' holds no league" in err and err.count("\n") == 1


def test_unwritable_runs_folder_is_one_line_error(echelon, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ECHELON_HOME", str(blocked))
    code, _, err = echelon("train")
    assert code == 1 and "cannot be written" in err and err.count("\n") == 1


def test_closed_pipe_is_no_failure(repository):
    done = subprocess.run(
        f"{sys.executable} -m echelon_cli.main config show | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_bench_scene_fails_before_measuring(echelon):
    code, _, err = echelon("bench", "rayz")
    assert code == 2 and "did you mean 'rays'" in err


def test_error_of_the_system_names_the_file_and_what_helps(echelon, tmp_path):
    replay = tmp_path / "match.ecr"
    shutil.copy(SMALL, replay)
    done, _, err = echelon("replay", "export", str(replay), "--out", str(tmp_path / "none" / "page.html"))
    page = str(tmp_path / "none" / "page.html")
    assert done == 1
    assert err == f"error: {page!r}: no such file or directory; create it, or name another one\n"


def test_replay_whose_name_is_no_utf8_is_exported(echelon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(SMALL, os.fsencode(tmp_path) + b"/a\xff.ecr")
    done, _, err = echelon("replay", "export", os.fsdecode(b"a\xff.ecr"))
    assert (done, err) == (0, "")
    assert b"a\\udcff.ecr" in (tmp_path / os.fsdecode(b"a\xff.html")).read_bytes()
