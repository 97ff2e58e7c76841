"""The project passes ruff, its formatter and pyright."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


def test_ruff_reports_nothing():  # RL-92
    """Rules and format are one test: a line that is too long breaks both."""
    files = ("echelon", "echelon_cli", "examples", "tests", "hatch_build.py")
    commands = (("check",), ("format", "--check"))
    reports = [done.stdout for command in commands if (done := run("ruff", *command, *files)).returncode]
    assert not reports, "\n".join(reports)


@pytest.mark.long
def test_pyright_reports_no_errors():  # RL-92
    if run("pyright", "--version").returncode:
        pytest.skip("pyright could not be fetched from npm")
    done = run("pyright", "--pythonpath", sys.executable)
    assert done.returncode == 0, done.stdout


def test_pyright_skips_exactly_the_files_with_device_code():
    """Device code is Warp's language: annotations are calls, and arrays are typed by the struct that declares them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    ignored = {ROOT / name for name in settings["ignore"]}
    device = {
        path
        for path in (ROOT / "echelon").rglob("*.py")
        if re.search(r"^@wp\.(kernel|func|struct)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    folders = {path for path in ignored if path.is_dir()}
    covered = {path for path in device if path in ignored or path.parent in folders}
    assert sorted(map(str, device - covered)) == [], "add these files to [tool.pyright] ignore"
    assert sorted(str(path) for path in ignored - folders if path not in device) == [], "remove these from ignore"


def test_formatter_excludes_no_file():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    assert settings.get("format", {}).get("exclude", []) == []
