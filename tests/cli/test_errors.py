"""Every mistake is one line that names the thing, and an exit code that says what kind it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

from echelon.runs import runs_home
from tests.cli.conftest import parsed

MISTAKES = {
    "unknown command": (("trian",), 2, "trian"),
    "unknown option": (("jobs", "--al"), 2, "--al"),
    "unknown preset": (("train", "--preset", "quickstrt"), 2, "did you mean 'quickstart'"),
    "unknown key": (("train", "--set", "ppo.lrr=1"), 2, "did you mean 'ppo.lr'"),
    "a section": (("config", "show", "--set", "ppo=1"), 2, "section"),
    "no assignment": (("train", "--set", "ppo.lr"), 2, "KEY=VALUE"),
    "wrong type": (("train", "--num-envs", "many"), 2, "num_envs is 'many'"),
    "impossible value": (("train", "--lr", "-1"), 2, "ppo.lr is -1"),
    "impossible map": (("train", "--size", "5"), 2, "size_x is 5, wanted 20 to 400"),
    "missing file": (("train", "--config", "no.toml"), 2, "'no.toml' does not exist"),
    "missing run": (("wait", "nobody"), 3, "run 'nobody' does not exist"),
    "resuming nothing": (("train", "--resume", "nobody"), 3, "nobody"),
    "evaluating nothing": (("eval", "nobody"), 3, "nobody"),
    "stopping nothing": (("stop", "nobody"), 3, "nobody"),
}


@pytest.mark.parametrize(("words", "code", "names"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_and_the_right_exit_code(echelon, words, code, names):
    done, out, err = echelon(*words)
    assert done == code
    assert names in err and err.startswith("error: ") and err.count("\n") == 1
    assert out == ""
    assert not runs_home().exists(), "nothing may be left behind"


@pytest.mark.parametrize(("words", "code", "names"), MISTAKES.values(), ids=MISTAKES.keys())
def test_json_tells_the_mistake_too(echelon, words, code, names):
    if words == ("trian",):
        pytest.skip("an unknown command has no options")
    done, out, _ = echelon(*words, "--json")
    assert done == code
    row = parsed(out)
    assert row["code"] == code and names in row["error"]


def test_debug_shows_the_traceback(repository):
    done = subprocess.run(
        [sys.executable, "-m", "echelon_cli.main", "wait", "nobody", "--debug"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert "Traceback" in done.stderr and "RunNotFoundError" in done.stderr


def test_a_runs_folder_that_cannot_be_written_is_one_line(echelon, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ECHELON_HOME", str(blocked))
    code, _, err = echelon("train")
    assert code == 1 and "cannot be written" in err and err.count("\n") == 1


def test_a_reader_that_leaves_a_pipe_is_no_failure(repository):
    done = subprocess.run(
        f"{sys.executable} -m echelon_cli.main config schema | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_scene_is_named_before_anything_is_measured(echelon):
    code, _, err = echelon("bench", "rayz")
    assert code == 2 and "did you mean 'rays'" in err
