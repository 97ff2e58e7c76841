"""Files of a run beside its records: labels, environment, progress and requests, and rules for what stays."""

import json
import os
import subprocess
from dataclasses import replace
from hashlib import sha256

import numpy
import pytest

from echelon.jobs import environment, retention
from echelon.jobs.control import request_checkpoint
from echelon.jobs.environment import flat_environment, git_state, read_environment, record_environment, source_diff
from echelon.jobs.labels import MAX_TAGS, NO_DIFFERENCE, Labels, change_labels, read_labels, variant_names
from echelon.jobs.retention import Keep, disk_use, parse_keep, prune, removable
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths, create_run, read_json
from echelon.telemetry.events import EventStart
from echelon.telemetry.log import EventLog


def test_labels_are_changed_one_by_one(tmp_path):
    paths = RunPaths(tmp_path)
    assert read_labels(paths) == Labels() and not paths.labels.exists()
    change_labels(paths, group="base", add=["a", "b", "a"], notes="first")
    assert change_labels(paths, add=["c"], remove=["a"]) == Labels(group="base", tags=("b", "c"), notes="first")
    assert change_labels(paths, group="", notes="") == read_labels(paths) == Labels(tags=("b", "c"))


TOO_MANY = [f"t{n}" for n in range(MAX_TAGS + 1)]


@pytest.mark.parametrize("words", [["two words"], ["x" * 61], ["\x1b[31m"], [""], TOO_MANY])
def test_labels_are_some_short_words(tmp_path, words):
    with pytest.raises(ValueError, match=r"label|tags"):
        change_labels(RunPaths(tmp_path), add=words)
    assert not RunPaths(tmp_path).labels.exists()


@pytest.mark.parametrize("text", ["{", "[1]", '{"group": 3, "tags": "a", "notes": []}', '{"tags": [1, null, {}]}'])
def test_damaged_labels_are_left_out(tmp_path, text):
    RunPaths(tmp_path).labels.write_text(text)
    assert read_labels(RunPaths(tmp_path)) == Labels()


def test_variants_are_named_by_what_differs_and_not_by_the_progress_of_a_sweep():
    base = {"ppo.lr": 1e-3, "seed": 1, "env.gamma": 0.9, "ppo.gamma": 0.9}
    assert variant_names([base, {**base, "ppo.lr": 3e-4, "seed": 2}]) == ["lr=0.001 · seed=1", "lr=0.0003 · seed=2"]
    changed = {**base, "env.gamma": None, "ppo.gamma": 0.5}
    assert variant_names([base, changed])[1] == "env.gamma=none · ppo.gamma=0.5"
    assert variant_names([base, base]) == ["-", "-"] and variant_names([]) == []
    assert variant_names([{"seed": 1, "pause_steps": 0}, {"seed": 1, "pause_steps": 900}]) == [NO_DIFFERENCE] * 2


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A package in a git checkout with one uncommitted change."""
    package = tmp_path / "source" / "echelon"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("a = 1\n")

    def git(*arguments: str) -> None:
        named = ("-c", "user.name=t", "-c", "user.email=t@t")
        subprocess.run(["git", *named, *arguments], cwd=package, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    (package / "__init__.py").write_text("a = 2\n")
    monkeypatch.setattr(environment.echelon, "__file__", str(package / "__init__.py"))
    return package


def test_first_session_and_resume_keep_their_own_source(checkout, tmp_path):
    paths = RunPaths(tmp_path / "run")
    paths.root.mkdir()
    record_environment(paths)
    first = paths.source_diff.read_bytes()
    assert b"-a = 1\n+a = 2" in first
    found = read_environment(paths)
    assert found["git"]["dirty"] and found["git"]["diff_sha256"] == sha256(first).hexdigest()
    assert found["packages"]["numpy"] == numpy.__version__ and found["devices"]["cores"] >= 1
    (checkout / "__init__.py").write_text("a = 3\n")
    record_environment(paths)
    assert paths.source_diff.read_bytes() == first and b"+a = 3" in paths.resumed_source_diff.read_bytes()
    assert read_environment(paths)["git"]["diff_sha256"] != found["git"]["diff_sha256"]


def test_long_difference_leaves_its_hash_only(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "MAX_DIFF_BYTES", 10)
    paths = RunPaths(tmp_path)
    record_environment(paths)
    assert not paths.source_diff.exists() and read_environment(paths)["git"]["diff_bytes"] > 10


def test_package_in_a_checkout_of_something_else_has_the_commit_of_its_wheel(checkout, monkeypatch, tmp_path):
    installed = checkout.parent / "venv" / "echelon"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    monkeypatch.setattr(environment.echelon, "__file__", str(installed / "__init__.py"))
    monkeypatch.setattr(environment, "BAKED", tmp_path / "commit.json")
    assert git_state() == {} and source_diff() == b""
    (tmp_path / "commit.json").write_text(json.dumps({"commit": "abc", "dirty": False}))
    assert git_state() == {"commit": "abc", "dirty": False}


def test_environment_is_flat_text_by_dotted_key(tmp_path):
    paths = RunPaths(tmp_path)
    paths.environment.write_text(
        json.dumps({"python": "3.11", "git": {"commit": "abc"}, "devices": {"gpus": ["a", "b"]}})
    )
    flat = flat_environment(read_environment(paths))
    expected = {"python": "3.11", "git.commit": "abc", "devices.gpus": "a, b"}
    assert flat == {f"environment.{name}": value for name, value in expected.items()}


@pytest.fixture
def run() -> RunPaths:
    """An ended run with four checkpoints, the second of which is the best, and three replays."""
    paths = create_run("fake")
    paths.spec.write_text(json.dumps({"kind": "train", "config": {}}))
    paths.exit.write_text(json.dumps({"code": 0}))
    paths.metrics.write_text("{}\n")
    paths.lock.write_text("")
    for step in (1, 2, 3, 4):
        folder = paths.checkpoints / f"step-{step}"
        folder.mkdir()
        (folder / "state.pt").write_bytes(os.urandom(20_000))
    (paths.checkpoints / "best.json").write_text(json.dumps({"checkpoint": "step-2", "id": "x", "eval": {}}))
    paths.replays.mkdir()
    for number in range(3):
        (paths.replays / f"m{number}.ecr").write_bytes(bytes(1000))
        os.utime(paths.replays / f"m{number}.ecr", (number, number))
    return paths


RULES = {
    ("best",): Keep(best=True, latest=0, replays=0),
    ("latest",): Keep(best=False, latest=1, replays=0),
    ("best,latest=2", "replays=20"): Keep(best=True, latest=2, replays=20),
    ("replays",): Keep(best=False, latest=0, replays=None),
}


@pytest.mark.parametrize(("rules", "expected"), RULES.items(), ids=map(str, RULES))
def test_keep_rule_is_parsed(rules, expected):
    assert parse_keep(rules) == expected


@pytest.mark.parametrize("rule", ["beste", "latest=-1", "latest=x", "best=2", "all"])
def test_word_that_is_no_rule_is_refused(rule):
    with pytest.raises(ValueError, match="is no rule, expected best, latest=N or replays=N"):
        parse_keep([rule])


@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        ("best,latest", ["step-3", "step-1", "m2.ecr", "m1.ecr", "m0.ecr"]),
        ("latest=2,replays=1", ["step-2", "step-1", "m1.ecr", "m0.ecr"]),
        ("replays", ["step-4", "step-3", "step-2", "step-1"]),
    ],
)
def test_rule_names_what_goes(run, rule, gone):
    assert [path.name for path in removable(run, parse_keep([rule]))] == gone


def test_disk_use_counts_by_kind_and_hard_links_once(run):
    before = disk_use(run)
    assert before.checkpoints >= 80_000 and before.replays >= 3_000
    os.link(run.checkpoints / "step-1" / "state.pt", run.root / "backup.pt")
    assert disk_use(run).total == before.total


def test_prune_never_deletes_the_newest_checkpoint(run):
    assert prune(run, parse_keep(["replays=1"])) > 50_000
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["best.json", "step-4"]
    assert [path.name for path in run.replays.iterdir()] == ["m2.ecr"]


@pytest.mark.parametrize("state", ["running", "queued"])
def test_run_that_has_not_ended_is_refused(run, state, monkeypatch):
    status = retention.job_status(run)
    monkeypatch.setattr(retention, "job_status", lambda _: replace(status, state=state))
    with pytest.raises(ValueError, match=f"is {state}, expected one that has ended; try: echelon"):
        prune(run, parse_keep(["latest"]))
    assert (run.checkpoints / "step-1").is_dir()


def test_progress_file_reports_preparation_phase(tmp_path, monkeypatch):
    monkeypatch.setattr("echelon.jobs.worker.PROGRESS_S", 0.0)
    paths = RunPaths(tmp_path)
    paths.metrics.touch()
    with EventLog(paths.metrics) as log:
        link = RunLink(paths, log)

        def phase() -> str:
            link.write_progress()
            return (read_json(paths.progress) or {})["phase"]

        assert phase() == "starting"
        link.progress("maps", 3, 64)
        assert phase() == "starting, preparing maps 3/64"
        link.progress("observe_kernels", 12, 40)
        assert phase() == "starting, compiling kernels 12/40"
        link.emit(EventStart(device="cpu"))
        assert phase() == "training"


def test_checkpoint_is_wanted_once_and_only_by_a_file(tmp_path):
    paths = RunPaths(tmp_path)
    paths.metrics.touch()
    with EventLog(paths.metrics) as log:
        link = RunLink(paths, log)
        request_checkpoint(paths)
        assert [link.want_checkpoint(), link.want_checkpoint()] == [True, False]
        paths.checkpoint_now.mkdir()
        assert not link.want_checkpoint()
