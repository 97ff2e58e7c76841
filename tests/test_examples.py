"""The programs of ``examples/`` run, each for a few seconds."""

import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from echelon_cli.main import run as echelon

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {
    "play.py": ("--size", "40"),
    "custom_reward.py": ("--steps", "300", "--num-envs", "2", "--seconds", "5"),
    "own_loop.py": ("--seconds", "0", "--battles", "2", "--rollout", "8"),
    "custom_policy.py": ("--steps", "300", "--num-envs", "2"),
    "cleanrl_ppo.py": (
        *("--total-timesteps", "200", "--num-envs", "10", "--num-steps", "16", "--eval-seeds", "1"),
        *("--opponent", "trivial", "champion", "--agent", "learner.pt"),
    ),
    **dict.fromkeys(
        ("sb3_ppo.py", "torchrl_ppo.py", "rllib_ppo.py", "pufferlib_ppo.py"),
        ("--steps", "300", "--battles", "2", "--rollout", "16", "--eval-seeds", "1"),
    ),
}
NEEDED = {
    "sb3_ppo.py": "stable_baselines3",
    "torchrl_ppo.py": "torchrl",
    "rllib_ppo.py": "ray",
    "pufferlib_ppo.py": "pufferlib",
}
"""Libraries of examples; the last two are in no environment of the tests (`just door`)."""
EXPECTED = {
    "play.py": "winner: ",
    "custom_reward.py": "staying cool",
    "own_loop.py": "agent-steps",
    "custom_policy.py": "updates",
    **dict.fromkeys(("sb3_ppo.py", "torchrl_ppo.py", "rllib_ppo.py", "pufferlib_ppo.py"), "against trivial:"),
    "cleanrl_ppo.py": "champion wins",
    "train.py": "against medium:",
    "league.sh": "medium",
    "commander.py": "+easy as blue",
}
LIMIT_S = 300
TOUR = ROOT / "examples" / "tour.ipynb"


def run(name: str, *arguments: str, folder: Path, **environment: str) -> str:
    """Run an example in ``folder`` and return what it printed."""
    program = ["bash"] if name.endswith(".sh") else [sys.executable]
    done = subprocess.run(
        [*program, str(ROOT / "examples" / name), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_example_runs(name, tmp_path, monkeypatch, capsys):
    if name in NEEDED:
        if importlib.util.find_spec(NEEDED[name]) is None:
            pytest.skip(f"{NEEDED[name]} is not installed")
        printed = run(name, *PROGRAMS[name], folder=tmp_path)
    else:  # without another start, which takes ten seconds of a core
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *PROGRAMS[name]])
        runpy.run_path(str(ROOT / "examples" / name), run_name=Path(name).stem)
        printed = capsys.readouterr().out
    assert EXPECTED[name] in printed


@pytest.mark.long
def test_example_commander_plays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = f"commander:{ROOT}/examples/commander.py+easy"
    options = ("--red", "trivial", "--matches", "2", "--size", "40", "--threads", "1")
    assert echelon(["sim", "--blue", name, *options]) == 0
    printed = capsys.readouterr().out
    assert EXPECTED["commander.py"] in printed and "failed" not in printed


@pytest.mark.slow
def test_example_train_runs(tmp_path):
    arguments = ("--minutes", "0.05", "--num-envs", "4", "--seeds", "1", "--run-dir", "example")
    assert EXPECTED["train.py"] in run("train.py", *arguments, folder=tmp_path)
    assert "hit points left" in run("play.py", "--policy", "example", folder=tmp_path)


@pytest.mark.slow
def test_example_league_runs(tmp_path):
    small = ("--set", "num_envs=4", "--set", "eval.at_start=false", "--set", "eval.seeds=1", "--set", "bank_maps=4")
    league = ("--set", "opponents.league.match_seeds=1", "--set", "opponents.league.match_opponents=1")
    printed = run(
        "league.sh", "0.02", "0.02", "0.02", *small, *league, folder=tmp_path, ECHELON_HOME=str(tmp_path), SEEDS="1"
    )
    assert EXPECTED["league.sh"] in printed


@pytest.mark.long
def test_notebook_tour_runs_and_has_no_outputs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOUR_MINUTES", "0.05")
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = [c for c in json.loads(TOUR.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), TOUR.name, "exec"), names)
    printed = capsys.readouterr().out
    assert "quickstart on CPU, completed" in printed and "against champion: " in printed and "agent-steps" in printed
    assert [len(axis.lines[0].get_xdata()) for axis in names["axes"]] == [names["result"].update] * 3
    assert "<iframe" in names["match"]._repr_html_()


def test_every_example_is_tested():
    programs = {path.name for path in (ROOT / "examples").iterdir() if path.suffix in {".py", ".sh"}}
    assert programs == EXPECTED.keys() | {"league_node.sh"}, "that one by tests/jobs/test_ray_league.py"
