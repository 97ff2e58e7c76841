"""Rules for files that no linter checks: line length in the viewer, no machine-specific paths."""

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


def tracked() -> list[Path]:
    """Every file that belongs to the project: known to git, or, outside a checkout, in its packages."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True
    )
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


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


def test_files_contain_no_machine_specific_paths():
    found = [name_of(p) for p in TEXTS if FOREIGN.search(p.read_text(encoding="utf-8", errors="replace"))]
    assert found == []


def test_docstrings_are_no_data():
    """``python -OO`` removes them: ``help_of`` reads those that a command prints from their source."""
    keepers = {"echelon/sim/structs.py", "echelon_cli/help.py"}
    product = [p for p in TEXTS if name_of(p).startswith(PACKAGES[:2]) and p.suffix == ".py"]
    found = {name_of(p) for p in product if re.search(r"__doc__|getdoc", p.read_text(encoding="utf-8"))}
    assert found == keepers
