"""What holds for every file of the project: size, words, and no trace of where it was written."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

PACKAGES = ("echelon", "echelon_cli", "tests")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".ts", ".css", ".tcss", ".json", ".html", ""}

FOREIGN = re.compile(r"(?<![\w./])/(?:work|farm|home|root|opt|Users)/")
"""Absolute paths of somebody's machine."""

LOOSE_ENDS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|NotImplemented" r"Error)\b")
"""Spelled in halves, so that this file does not find itself."""


def tracked() -> list[Path]:
    """Every file that belongs to the project: known to git, or, outside a checkout, in its packages."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True
    )
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


PYTHON = [p for p in tracked() if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in PACKAGES]
TEXTS = [p for p in tracked() if p.suffix in TEXT_SUFFIXES]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_files_and_functions_stay_readable(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_FILE_LINES
    long = [
        f"{node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_every_module_says_what_it_owns(path):
    source = path.read_text(encoding="utf-8")
    if source.strip():
        assert ast.get_docstring(ast.parse(source)), "no module docstring"


def test_no_file_names_a_place_on_somebodys_machine():
    found = [name_of(p) for p in TEXTS if FOREIGN.search(p.read_text(encoding="utf-8", errors="replace"))]
    assert found == []


def test_nothing_is_left_for_later():
    found = [name_of(p) for p in PYTHON if LOOSE_ENDS.search(p.read_text(encoding="utf-8"))]
    assert found == []


def test_there_is_no_folder_of_scripts():
    assert not (ROOT / "scripts").exists()
