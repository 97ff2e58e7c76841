"""Every mistake is one line that names the thing, and an exit code that says what kind it was."""

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from echelon.runs import list_runs, runs_home
from tests.cli.conftest import command, parsed
from tests.replay.golden import SMALL

NO_FOLDER = "folder 'none' does not exist; create it, or name another one"
NO_LEAGUE = "create one with: echelon arena add or arena run"

MISTAKES = (
    ("trian", 2, "Did you mean 'train'"),
    ("train --qqq", 2, "--qqq"),
    ("train --preset quickstrt", 2, "did you mean 'quickstart'"),
    ("train --config no.toml", 2, "'no.toml' does not exist"),
    ("train --set ppo.lrr=1", 2, "did you mean 'ppo.lr'"),
    ("train --set ppo.lr", 2, "KEY=VALUE"),
    ("train --set num_envs=many", 2, "num_envs is 'many'"),
    ("train --set num_envs=0", 2, "num_envs is 0 (from --set), expected"),
    ("train --set ppo.lr=-1", 2, "ppo.lr is -1"),
    ("train --set env.world.size_x=5", 2, "size_x is 5 (from --set), expected"),
    ("train --set model.hidden_columns=corse", 2, "model.hidden_columns is 'corse', expected"),
    ("train --set opponents.league.target=main", 2, "is 'main', expected empty where opponents.mix.league is 0"),
    ("train --opponents nobody", 2, "opponents.mix is 'nobody' (from --set), expected one of scripted, self"),
    ("train --device tpu", 2, "device is 'tpu', expected auto, cpu, cuda or cuda:N"),
    ("train --device cuda --detach", 1, "hides every GPU"),
    ("train --mirror nosuch", 2, "mirror 'nosuch' does not exist, expected one of: tensorboard, wandb, trackio"),
    ("train --resume nobody", 3, "nobody"),
    ("train --start-from nosuch", 3, "start_from is 'nosuch', expected a checkpoint"),
    ("config show --set ppo=1", 2, "section"),
    ("config show --set ppo.gamma=1.5", 2, "error: ppo.gamma is 1.5"),
    ("config show --set env.gamma=1.5", 2, "error: env.gamma is 1.5"),
    ("config show --run fox --preset standard", 2, "--preset"),
    ("config observation --layout foo", 2, "--layout is 'foo', expected suite or classic"),
    ("runs lits", 2, "Did you mean 'list'?"),
    ("runs list --al", 2, "--al"),
    ("runs list --filter", 2, "--filter"),
    ("runs logs fox -n abc", 2, "--lines"),
    (f"runs logs fox -n {'9' * 23}", 2, "--lines"),
    ("runs export fox", 2, "nothing to export, expected one of --csv, --tensorboard, --wandb"),
    ("runs export latest --csv none/a", 1, NO_FOLDER),
    ("runs queue --launcher pbs", 2, "launcher 'pbs' does not exist, expected one of: ray, slurm"),
    ("runs compare", 2, "RUN"),
    ("runs compare quickstrat standard", 3, "quickstrat"),
    ("runs wait nobody", 3, "run 'nobody' does not exist"),
    ("runs stop nobody", 3, "nobody"),
    ("dash nobody", 3, "run 'nobody' does not exist"),
    ("bench rayz", 2, "did you mean 'rays'"),
    ("eval nobody", 3, "nobody"),
    ("eval fox --weapon-prob=3", 2, "--weapon-prob"),
    ("eval fox --maps foo", 2, "--maps"),
    ("eval heuristic:easy --size 3", 2, "--size is '3', expected"),
    ("eval latest --device gpu9", 2, "'gpu9'"),
    ("policy export fox", 2, "nothing to export, expected one of --torchscript, --onnx"),
    ("policy export latest --weights none/a", 1, NO_FOLDER),
    ("policy export latest --torchscript none/a", 1, NO_FOLDER),
    ("policy export latest --onnx none/a", 1, NO_FOLDER),
    ("policy pull policy", 2, "repository 'policy' is no OWNER/NAME; try someone/keen-fox"),
    ("play expert --class assault", 2, "class 'assault' does not exist (have: scout, light, medium, heavy)"),
    ("play expert --preset nope", 2, "preset 'nope' does not exist (have: quickstart,"),
    ("play expert --preset dual", 2, "preset 'dual' does not exist, did you mean 'duel'?"),
    ("play expert --speed 99", 2, "play option speed is 99.0, expected at most"),
    ("sim --red mediun", 3, "did you mean 'medium'?"),
    ("sim --record some", 2, "record is 'some', expected a number, all or upsets"),
    ("sim --red easy --matches 3", 2, "matches is 3, expected an even number because sides are swapped; try --no-swap"),
    ("sim --size 5", 2, "world.size_x is 5"),
    ("sim --size 20 --packs 20", 2, "too small to spawn"),
    ("sim --packs 0", 2, "Invalid value for '--packs': Input should be greater than or equal to 1"),
    ("sim --seconds 0", 2, "max_episode_seconds is 0"),
    ("sim --seed -1", 2, "seed is -1, expected an integer from 0 to 18446744073709551615"),
    ("sim --size 40 --device gpu9", 2, "'gpu9'"),
    ("sweep start --preset quickstart --plan", 2, "needs either --vary or --ablate"),
    ("sweep start --vary ppo.lrr=1,2 --plan", 2, "did you mean 'ppo.lr'"),
    ("sweep start --ablate lst --plan", 2, "did you mean 'lstm'"),
    ("sweep start missing.toml", 2, "does not exist"),
    ("sweep start --resume latest", 3, "no sweep"),
    ("sweep start --resume x --trials 3", 2, "as it was planned"),
    ("sweep show nowhere", 3, "does not exist"),
    ("arena add hards", 3, "did you mean 'hard'?"),
    ("arena add commander:c.py+hard", 2, "has a commander, expected a policy or a level"),
    ("arena run --scheme chess", 2, "arena.scheme is 'chess'"),
    ("arena run --rounds 0", 2, "arena.rounds is 0"),
    ("arena run --set ppo.lr=1", 2, "is no option of the game"),
    ("arena run --set env.num_packs=-3", 2, "num_packs"),
    ("arena run --device gpu9", 2, "'gpu9'"),
    ("arena standings", 1, NO_LEAGUE),
    ("arena matches", 1, NO_LEAGUE),
    (f"arena matches -n {'9' * 23}", 2, "-n"),
    ("arena head-to-head", 1, NO_LEAGUE),
    ("arena edit --recompute", 1, NO_LEAGUE),
    ("arena edit --remove x", 1, NO_LEAGUE),
    (f"replay export {SMALL} --out x.txt", 2, "x.txt"),
    (f"replay export {SMALL} --out none/a.html", 1, "no such file or directory; create it, or name another one"),
    (f"replay video {SMALL} --out a.webp", 2, "--out is 'a.webp', expected a name that ends in .mp4"),
    (f"replay video {SMALL} --size 161x160", 2, "--size is '161x160', expected even numbers"),
    (f"replay video {SMALL} --fps 0", 2, "--fps is 0, expected 1 to 60"),
    (f"replay video {SMALL} --from 900", 1, "part is 900 to"),
    ("replay verify latest --device gpu9", 2, "'gpu9'"),
    ("world 1 --size 5", 2, "world.size_x is 5, expected"),
    ("world 1 --size ten", 2, "size is 'ten', expected an edge"),
    ("world 1 --biome barens", 2, "did you mean 'barrens'"),
    ("world 1 --size 30 --packs 9", 2, "too small to spawn 9 packs"),
    ("world 1 --packs 0", 2, "--packs"),
    ("world 1 --nav tank", 2, "class 'tank' does not exist (have: scout"),
    ("world 1 --zone-radius nan", 2, "env.zone_radius_vox is nan, expected"),
    ("world 1 --zone-radius 500", 2, "env.zone_radius_vox is 500.0, expected"),
    ("world 1 --png no/such/a.png", 2, "create it to save the picture"),
    (f"world {2**64}", 2, "map seed is 18446744073709551616, expected an integer from 0 to 18446744073709551615"),
    ("world 1.5", 2, "map seed is '1.5', expected an integer from 0"),
    ("world 1 --heigth", 2, "No such option: --heigth"),
    ("world nobody", 3, "run 'nobody' does not exist"),
)

FOUND_LATER = ("train --device cuda --detach", "arena run --scheme chess", "arena run --rounds 0")
"""Mistakes that are found once there is a runs folder."""


@pytest.mark.parametrize(
    ("line", "code", "names"), MISTAKES, ids=[row[0].replace(str(SMALL), "FILE") for row in MISTAKES]
)
def test_mistake_is_one_line_with_exit_code_and_leaves_no_run(echelon, monkeypatch, tmp_path, line, code, names):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done, out, err = echelon(*line.split())
    assert (done, out) == (code, "")
    assert names in err and err.startswith("error: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [runs_home()] * (line in FOUND_LATER) and list_runs() == []


@pytest.mark.parametrize(
    ("line", "code", "names"),
    [("arena standings", 1, NO_LEAGUE), ("sim --qqq", 2, "--qqq"), ("train --set x", 2, "x"), ("dash fox", 3, "'fox'")],
)
def test_mistake_with_json_is_printed_as_json_too(echelon, line, code, names):
    row = parsed(echelon(*line.split(), "--json")[1])
    assert row["code"] == code and names in row["error"]


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


def test_unencodable_characters_do_not_end_commands(echelon):
    assert echelon("arena", "add", "medium")[0] == 0
    done = command("arena", "standings", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "medium" in done.stdout and done.stderr == ""


def test_debug_option_shows_traceback():
    done = command("runs", "wait", "nobody", "--debug")
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


def test_closed_pipe_is_no_failure():
    line = f"{sys.executable} -m echelon_cli.main config show | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def shell(line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which ``echelon`` is the command of this interpreter."""
    echelon = f'echelon() {{ {sys.executable} -m echelon_cli.main "$@"; }}\n'
    return subprocess.run(["bash", "-c", echelon + line], capture_output=True, text=True, **options)


def test_closed_streams_are_the_null_device(tmp_path):
    for closed in ("<&- >&-", "<&- >&- 2>&-"):
        done = shell(f"echelon replay export {SMALL} --out {tmp_path}/a.html --force {closed}")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "a.html").read_bytes().startswith(b"<!doctype html>")
    done = shell("echelon dash <&-")
    assert done.returncode == 1 and done.stderr.startswith("error: the dashboard needs a terminal")


def test_streams_that_are_none_do_not_keep_the_simulator_from_starting(repository):
    code = (
        "import sys; sys.stdout = sys.stderr = sys.stdin = None; from echelon.sim.backend import start_warp as s; s()"
    )
    done = shell(f'exec {sys.executable} -c "{code}" <&- >&- 2>&-', cwd=repository)
    assert done.returncode == 0


def test_full_output_and_deleted_working_folder_are_one_line(tmp_path):
    full = "error: standard output could not be written: no space left on device\n"
    done = shell("echelon config show --json >/dev/full")
    assert (done.returncode, done.stderr) == (1, full)
    assert shell("echelon runs wait nobody 2>/dev/full").returncode == 3
    (tmp_path / "gone").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = shell("rmdir ../gone; echelon runs list", cwd=tmp_path / "gone", env=environment)
    assert (done.returncode, done.stderr) == (1, "error: the working folder was deleted; change to another one\n")


def test_replay_whose_name_is_no_utf8_is_exported(echelon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(SMALL, os.fsencode(tmp_path) + b"/a\xff.ecr")
    done, _, err = echelon("replay", "export", os.fsdecode(b"a\xff.ecr"))
    assert (done, err) == (0, "")
    assert b"a\\udcff.ecr" in (tmp_path / os.fsdecode(b"a\xff.html")).read_bytes()
