"""Source, packages and devices of a run, kept in its folder."""

from __future__ import annotations

import json
import subprocess
from hashlib import sha256

import numpy
import pytest

from echelon.jobs import environment
from echelon.jobs.environment import flat_environment, git_state, read_environment, record_environment, source_diff
from echelon.runs import RunPaths


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
