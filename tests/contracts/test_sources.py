"""Rules for every file: line length, docstrings, no loose ends, no machine-specific paths."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MAX_LINE_COLUMNS = 120
GENERATED = {"viewer/src/protocol.gen.ts"}

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
STYLED = [p for p in tracked() if p.suffix in {".ts", ".css", ".tcss"}]
"""Files whose line length no linter checks; ruff checks that of Python."""
TEXTS = [p for p in tracked() if p.suffix in TEXT_SUFFIXES]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_viewer_lines_have_at_most_120_columns():
    long = [
        f"{name_of(path)}:{number}"
        for path in STYLED
        if name_of(path) not in GENERATED
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MAX_LINE_COLUMNS
    ]
    assert not long, "\n".join(long)


def test_modules_have_docstrings():
    silent = []
    for path in PYTHON:
        source = path.read_text(encoding="utf-8")
        if source.strip() and not ast.get_docstring(ast.parse(source)):
            silent.append(name_of(path))
    assert silent == []


def test_packages_have_docstrings():
    folders = {path.parent for path in PYTHON if name_of(path).startswith(("echelon/", "echelon_cli/"))}
    silent = []
    for folder in sorted(folders):
        init = folder / "__init__.py"
        if not init.is_file() or not ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))):
            silent.append(name_of(init))
    assert silent == []


def test_files_contain_no_machine_specific_paths():
    found = [name_of(p) for p in TEXTS if FOREIGN.search(p.read_text(encoding="utf-8", errors="replace"))]
    assert found == []


def test_code_has_no_loose_ends():
    found = [name_of(p) for p in PYTHON if LOOSE_ENDS.search(p.read_text(encoding="utf-8"))]
    assert found == []
